"""Every map by its definition: the matrix built factor by factor, entry by entry, in the order of its docstring."""

import math
from functools import partial, reduce

import pytest
import torch
from torch import Tensor

from engram.maps import (
    Antisymmetric,
    Fourier,
    Givens,
    Householder,
    Rectangle,
    ScaledCayley,
    Schur,
    SpectralMargin,
    SpectralReflections,
    exp_skew,
    haar,
    skew,
)

F64 = torch.float64
close = partial(torch.testing.assert_close, rtol=0, atol=1e-12)  # a dozen products of 7 x 7 matrices of entries below 3


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=F64)


def eye(n: int) -> Tensor:
    return torch.eye(n, dtype=F64)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_skew_hermitian(n: int) -> None:
    """Real parts above the diagonal, imaginary parts above it, imaginary parts on it, each row by row."""
    entries, expected = random(n * n), torch.zeros(n, n, dtype=torch.complex128)
    numbers, above = iter(entries.tolist()), [(i, j) for i in range(n) for j in range(i + 1, n)]
    for i, j in above:
        expected[i, j] = next(numbers)
        expected[j, i] = -expected[i, j]
    for i, j in above:
        expected[j, i] += (number := next(numbers) * 1j)
        expected[i, j] += number
    for i in range(n):
        expected[i, i] = next(numbers) * 1j
    assert torch.equal(skew(entries, n), expected)


def test_antisymmetric() -> None:
    """W - W^T - gamma I, W strictly upper triangular, row by row."""
    found = Antisymmetric(3, gamma=0.25)(torch.tensor([1.0, 2.0, 3.0]))
    assert found.tolist() == [[-0.25, 1, 2], [-1, -0.25, 3], [-2, -3, -0.25]]
    assert Antisymmetric(3, gamma=0.25).distance(found) == 0
    assert Antisymmetric(3, gamma=0.75).distance(found) == 1.0  # twice 0.5 on the diagonal


@pytest.mark.parametrize("rho", [None, 0, 1, 5])
def test_scaled_cayley(rho: int | None) -> None:
    """(I + A)^-1 (I - A) D: the last rho entries of D are -1, N // 2 of them by default."""
    a = skew(random(10), 5)
    signs = torch.ones(5, dtype=F64)
    for k in range(2 if rho is None else rho):
        signs[4 - k] = -1
    expected = torch.linalg.inv(eye(5) + a) @ (eye(5) - a) @ torch.diag(signs)
    close(ScaledCayley(5, rho)(a[torch.triu(torch.ones(5, 5), 1).bool()]), expected)


def test_complex_scaled_cayley() -> None:
    """D = diag(e^{i theta})."""
    entries, theta = random(25), random(5)
    a = skew(entries, 5)
    expected = torch.linalg.inv(eye(5) + a) @ (eye(5) - a) @ torch.diag(torch.exp(1j * theta))
    close(ScaledCayley(5, complex=True)(entries, theta), expected)


@pytest.mark.parametrize("m", [1, 2, 4, 5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_householder(m: int, sign: float) -> None:
    """H_N(u_N) ... H_{N-m+1}(u_{N-m+1}), H_k = diag(I_{N-k}, I_k - 2 u u^T / |u|^2); H_1 is a sign."""
    map = Householder(5, m).double()
    map.sign.fill_(sign)
    free = random(m * (11 - m) // 2)
    factors, at = [], 0
    for k in range(5, 5 - m, -1):
        u = free[at : at + k]
        at += k
        factor = eye(5)
        factor[5 - k :, 5 - k :] -= 2 * torch.outer(u, u) / (u @ u)
        factors.append(factor)
    if m == 5:
        factors[-1][4, 4] = sign
    expected = reduce(torch.matmul, factors)
    x = random(3, 5)
    close(map(free), expected)
    close(map.operate(x, free), x @ expected.mT)
    close(map.adjoint(x, free), x @ expected)


def pairs(size: int, layers: int | str | None) -> list[list[tuple[int, int]]]:
    """Of each layer: neighbours, from 0 and from 1 in turn; or at distances that are halved (FFT)."""
    if layers != "fft":
        return [[(a, a + 1) for a in range(k % 2, size - 1, 2)] for k in range(size if layers is None else layers)]
    found, distance = [], 1
    while distance < size:
        found.insert(0, [(a, a + distance) for a in range(size - distance) if a // distance % 2 == 0])
        distance *= 2
    return found


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize(("size", "layers"), [(2, None), (5, None), (6, 3), (5, 1), (6, "fft"), (8, "fft"), (1, None)])
def test_givens(size: int, layers: int | str | None, complex: bool) -> None:
    """D F_L ... F_1 of rotations [[cos, -e^{i phi} sin], [sin, e^{i phi} cos]]: all theta, then phi, then omega."""
    map = Givens(size, layers, complex)
    wall = pairs(size, layers)
    count = sum(len(layer) for layer in wall)
    assert (map.rotations, map.free_count) == (count, 2 * count + size if complex else count)
    free = random(map.free_count)
    theta, phi = free[:count], free[count : 2 * count] if complex else torch.zeros(count, dtype=F64)
    expected, number = torch.eye(size, dtype=torch.complex128), 0
    for layer in wall:
        for a, b in layer:
            turn, t, e = torch.eye(size, dtype=torch.complex128), float(theta[number]), phi[number]
            turn[a, a], turn[a, b] = math.cos(t), -torch.exp(1j * e) * math.sin(t)
            turn[b, a], turn[b, b] = math.sin(t), torch.exp(1j * e) * math.cos(t)
            expected, number = turn @ expected, number + 1
    if complex:
        expected = torch.exp(1j * free[2 * count :])[:, None] * expected
    close(map.double()(free), expected if complex else expected.real)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fourier(n: int) -> None:
    """D3 R2 F^-1 D2 Pi R1 F D1, with the unitary Fourier matrix written out."""
    map = Fourier(n)
    (free,) = map.sample_free(torch.Generator().manual_seed(3))
    k = torch.arange(n, dtype=F64)
    f = torch.exp(-2j * math.pi * torch.outer(k, k) / n) / math.sqrt(n)
    d1, d2, d3 = (torch.diag(torch.exp(1j * free[a * n : (a + 1) * n])) for a in range(3))
    parts = [free[a * n : (a + 1) * n] for a in range(3, 7)]
    v1, v2 = torch.complex(parts[0], parts[1]), torch.complex(parts[2], parts[3])
    r1, r2 = (eye(n) - 2 * torch.outer(v, v.conj()) / (v.abs() ** 2).sum() for v in (v1, v2))
    pi = eye(n)[map.permutation].to(torch.complex128)
    close(map(free), d3 @ r2 @ f.mH @ d2 @ pi @ r1 @ f @ d1)


@pytest.mark.parametrize("mask", ["full", "block"])
@pytest.mark.parametrize("gamma", [None, 0.9])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 7])
def test_schur(n: int, gamma: float | None, mask: str) -> None:
    """P (Lambda + T) P^T: blocks gamma [[cos, -sin], [sin, cos]], one more gamma at odd N; T below the diagonal (mask
    block: outside of the blocks), row by row."""
    map = Schur(n, mask, gamma=gamma).double()
    base = haar(n)
    map.basis.free(base)
    places = [(i, j) for i in range(n) for j in range(i) if mask == "full" or i // 2 != j // 2]
    entries, lower, theta, moduli = random(n * (n - 1) // 2), random(len(places)), random(n // 2), random(n - n // 2)
    form = torch.zeros(n, n, dtype=F64)
    for k in range(n - n // 2):
        g = float(moduli[k]) if gamma is None else gamma
        if k == n // 2:
            form[n - 1, n - 1] = g
            continue
        c, s, i = math.cos(float(theta[k])), math.sin(float(theta[k])), 2 * k
        form[i, i], form[i, i + 1], form[i + 1, i], form[i + 1, i + 1] = g * c, -g * s, g * s, g * c
    for (i, j), value in zip(places, lower, strict=True):
        form[i, j] += value
    p = base @ torch.linalg.matrix_exp(skew(entries, n))
    free = (entries, lower, theta, moduli) if gamma is None else (entries, lower, theta)
    close(map(*free), p @ form @ p.mT)


def test_singular_values() -> None:
    """U diag(1 + 2 m (1 / (1 + e^-p) - 1/2)) V^T, with U and V of an exponential or of reflections."""
    p = random(5)
    s = torch.diag(1 + 2 * 0.3 * (1 / (1 + torch.exp(-p)) - 0.5))
    map = SpectralMargin(5, 0.3).double()
    left, right = random(10), random(10)
    close(map(left, right, p), exp_skew(skew(left, 5)) @ s @ exp_skew(skew(right, 5)).mT)
    other = SpectralReflections(5, 0.3, reflections=(2, 3)).double()
    left, right = random(9), random(12)  # m (2 N - m + 1) / 2
    expected = Householder(5, 2)(left) @ s @ Householder(5, 3)(right).mT
    close(other(left, right, p), expected)
    x = random(3, 5)
    close(other.operate(x, left, right, p), x @ expected.mT)


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 5), (5, 5)])
def test_rectangle(rows: int, columns: int) -> None:
    """Q[:rows, :columns]; a matrix is as far away as its columns (rows, if it is wide) are from orthonormal."""
    square = Householder(5)
    map, free, x = Rectangle(square, rows, columns), random(15), random(2, columns)
    expected = square(free)[:rows, :columns]
    assert torch.equal(map(free), expected)
    assert torch.equal(map.operate(x, free), x @ expected.mT)
    assert map.shape == (rows, columns)
    assert map.distance(expected) < 1e-14
    assert map.distance(2 * expected) == pytest.approx(3)
    assert map.has_inverse
    assert not Rectangle(Givens(5, 2), rows, columns).has_inverse

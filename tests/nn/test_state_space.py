"""The mathematics of S4 and S4D, each fast form against dense matrices (Gu et al. 2022)."""

import math

import pytest
import torch
from torch import Tensor

from engram.nn._hippo import diagonal, legs, low_rank, normal_basis
from engram.nn._s4 import LowRankSpace, LowRankSystem
from engram.nn._s4d import DiagonalSpace, DiagonalSystem

SIZES = [(4, 16), (16, 64), (64, 64), (64, 1024), (8, 15)]
OPTIONS = {"n_ssm": None, "channels": 1, "dt_min": 0.001, "dt_max": 0.1, "dt_transform": "exp", "device": None}
METHODS = ("zoh", "bilinear")
EPS = torch.finfo(torch.float64).eps


def both(half: Tensor) -> Tensor:
    """All N numbers of which half is kept."""
    return torch.cat([half, half.conj()], -1)


def low_rank_system(state: int, dt: float = 0.01) -> LowRankSystem:
    space = LowRankSpace(1, state, init="legs", discretization="bilinear", dtype=torch.float64, **OPTIONS)
    with torch.no_grad():
        space.log_step.fill_(math.log(dt))
    return space.discretize()


def dense(system: LowRankSystem) -> tuple[Tensor, Tensor, Tensor]:
    """A, B and C in discrete time by the formula, as complex matrices."""
    p, b, c = (both(part) for part in (system.p[0], system.b[0], system.c[0, 0]))
    a = torch.diag(both(system.rates[0])) - torch.outer(p, p.conj())
    unit, half = torch.eye(len(p), dtype=a.dtype), a * system.dt[0, 0] / 2
    return torch.linalg.solve(unit - half, unit + half), torch.linalg.solve(unit - half, system.dt[0, 0] * b), c


def kernel_by_powers(a: Tensor, b: Tensor, c: Tensor, length: int) -> Tensor:
    found = []
    for _ in range(length):
        found.append((c @ b).real)
        b = a @ b
    return torch.stack(found)


@pytest.mark.parametrize("size", [4, 8, 16, 64])
def test_legs_is_normal_and_low_rank(size: int) -> None:
    a, b = legs(size)
    p = low_rank(size)
    skew = a + torch.outer(p, p) + 0.5 * torch.eye(size, dtype=torch.float64)
    # entries of up to 2 N: a product, a root and a sum round each
    assert float((skew + skew.mT).abs().max()) <= 4 * EPS * 2 * size
    assert a[2, 1] == -math.sqrt(15)
    assert (a[2, 2], a[1, 2], b[1]) == (-3, 0, math.sqrt(3))


@pytest.mark.parametrize("size", [4, 8, 16, 64])
def test_the_basis_gives_the_matrix_back(size: int) -> None:
    """To N eps |S|, the residual r that a symmetric eigensolver may leave in S w = lambda w.

    A vector and the conjugate of another, w of lambda and -mu, are orthogonal only to r / (lambda + mu), and
    W W^* P only as near to P.
    """
    rates, basis = normal_basis(size)
    assert bool((rates.imag < 0).all())
    residual = size * EPS * float(rates.imag.abs().max())
    apart = residual / (2 * float(rates.imag.abs().min()))
    whole, p = both(basis), low_rank(size).to(basis.dtype)
    q = whole.mH @ p
    atol = residual + 2 * apart * float(p.abs().square().sum())  # 3e-14 at N = 4, 1e-7 at N = 64
    rebuilt = whole @ (torch.diag(both(rates)) - torch.outer(q, q.conj())) @ whole.mH
    torch.testing.assert_close(rebuilt, legs(size)[0].to(rebuilt.dtype), atol=atol, rtol=0)
    torch.testing.assert_close(whole.mH @ whole, torch.eye(size, dtype=whole.dtype), atol=apart, rtol=0)


@pytest.mark.parametrize("size", [4, 16, 64])
def test_where_a_low_rank_space_starts(size: int) -> None:
    """lambda, and B and P in the basis of the eigenvectors; imaginary parts of B no larger than 2, as in the source."""
    rates, basis = normal_basis(size)
    space = LowRankSpace(3, size, init="legs", discretization="bilinear", dtype=torch.float64, **OPTIONS)
    b, p = (torch.view_as_complex(weight.detach()) for weight in (space.weight_b, space.weight_p))
    whole = (basis.conj() * legs(size)[1][:, None]).sum(0)
    assert float(whole.imag.abs().max()) > 2
    for row in range(3):
        torch.testing.assert_close(space.rates.detach()[row], rates, atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(p[row], (basis.conj() * low_rank(size)[:, None]).sum(0), atol=1e-12, rtol=0)
        torch.testing.assert_close(b[row].real, whole.real, atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(b[row].imag, whole.imag.clamp(-2, 2), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("state", "length"), SIZES)
@torch.no_grad()
def test_cauchy_kernel_is_the_kernel_by_powers(state: int, length: int) -> None:
    system = low_rank_system(state)
    expected = kernel_by_powers(*dense(system), length)
    torch.testing.assert_close(system.kernel(length)[0, 0], expected, atol=1e-12, rtol=0)


@torch.no_grad()
def test_cauchy_kernel_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    system = low_rank_system(8)
    whole = system.kernel(50)
    monkeypatch.setattr("engram.nn._s4.AT_ONCE", 13)
    torch.testing.assert_close(system.kernel(50), whole, atol=1e-14, rtol=0)  # sums of 8 terms below 1


@pytest.mark.parametrize(("state", "length"), SIZES)
@torch.no_grad()
def test_one_step_is_the_dense_step(state: int, length: int) -> None:
    system = low_rank_system(state)
    a, b, c = dense(system)
    now, whole = torch.zeros(1, 1, state // 2, dtype=torch.complex128), torch.zeros(state, dtype=torch.complex128)
    for u in torch.randn(min(length, 64), dtype=torch.float64):
        now, whole = system.step(u.expand(1, 1), now), a @ whole + b * u
        torch.testing.assert_close(both(now[0, 0]), whole, atol=1e-12, rtol=0)
        torch.testing.assert_close(system.read(now)[0, 0], (c @ whole).real, atol=1e-12, rtol=0)


def diagonal_system(init: str, method: str, state: int = 32) -> DiagonalSystem:
    space = DiagonalSpace(3, state, init=init, discretization=method, dtype=torch.float64, **OPTIONS)
    return space.discretize()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("init", ["legs", "lin", "inv", "real"])
@torch.no_grad()
def test_diagonal_kernel_is_the_kernel_by_powers(init: str, method: str) -> None:
    system = diagonal_system(init, method)
    for h in range(3):
        a, b, c = torch.diag(both(system.a[h])), both(system.b[h]), both(system.c[0, h])
        expected = kernel_by_powers(a, b, c, 100)
        torch.testing.assert_close(system.kernel(100)[0, h], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_diagonal_rules_are_those_of_matrices(method: str) -> None:
    """exp and the bilinear rule of a 2x2 real matrix with eigenvalues lambda and its conjugate."""
    space = DiagonalSpace(1, 2, init="lin", discretization=method, dtype=torch.float64, **OPTIONS)
    space.frequency.fill_(3.0)
    system, dt, rate = space.discretize(), space.step_sizes[0, 0], complex(-0.5, -3.0)
    matrix = torch.tensor([[rate.real, -rate.imag], [rate.imag, rate.real]], dtype=torch.float64)
    unit = torch.eye(2, dtype=torch.float64)
    if method == "zoh":
        expected = torch.linalg.matrix_exp(dt * matrix)
        entering = torch.linalg.solve(matrix, expected - unit)[:, 0]
    else:
        expected = torch.linalg.solve(unit - dt / 2 * matrix, unit + dt / 2 * matrix)
        entering = dt * torch.linalg.inv(unit - dt / 2 * matrix)[:, 0]
    torch.testing.assert_close(torch.view_as_real(system.a[0, 0]), expected[:, 0], atol=1e-14, rtol=0)
    torch.testing.assert_close(torch.view_as_real(system.b[0, 0]), entering, atol=1e-14, rtol=0)


@torch.no_grad()
def test_zero_order_hold_of_a_tiny_step_in_float32() -> None:
    """(exp(z) - 1)/lambda without the loss of digits: 6 of 7 stay."""
    options = {**OPTIONS, "dt_min": 1e-6, "dt_max": 2e-6}
    space = DiagonalSpace(2, 4, init="lin", discretization="zoh", dtype=torch.float32, **options)
    exact = space.discretize().b
    torch.testing.assert_close(exact, space.double().discretize().b.to(exact.dtype), rtol=1e-6, atol=0)


SYSTEMS = {
    "diagonal": lambda: diagonal_system("inv", "zoh", 6),
    "bilinear": lambda: diagonal_system("real", "bilinear", 6),
    "low rank": lambda: LowRankSpace(
        3, 6, init="legs", discretization="bilinear", dtype=torch.float64, **OPTIONS
    ).discretize(),
}


@pytest.mark.parametrize("length", [1, 2, 7, 64, 65, 200])
@pytest.mark.parametrize("name", SYSTEMS)
@torch.no_grad()
def test_whole_sequences_are_steps(name: str, length: int) -> None:
    """What is collected, said and left of a state, against one step after the other; rows of several lengths."""
    system = SYSTEMS[name]()
    input, state = torch.randn(length, 2, 3, dtype=torch.float64), torch.randn(2, 3, 3, dtype=torch.complex128)
    now, left, said, passed = torch.zeros_like(state), state, [], []
    for u in input:
        now, left = system.step(u, now), system.step(torch.zeros_like(u), left)
        said.append(system.read(left))
        passed.append(left)
    torch.testing.assert_close(system.collect(input.flip(0)), now, atol=1e-11, rtol=0)
    torch.testing.assert_close(system.response(state, length), torch.stack(said), atol=1e-11, rtol=0)
    steps = torch.tensor([length, (length + 1) // 2])
    expected = torch.stack([passed[int(n) - 1][row] for row, n in enumerate(steps)])
    torch.testing.assert_close(system.later(state, steps, length), expected, atol=1e-11, rtol=0)


def test_starts_of_the_diagonal() -> None:
    """S4D-Lin, -Inv and -Real as printed, with the imaginary part below zero."""
    lin, inv, real = (diagonal(init, 8) for init in ("lin", "inv", "real"))
    torch.testing.assert_close(lin.imag, -math.pi * torch.arange(4, dtype=torch.float64))
    torch.testing.assert_close(inv.imag[1], torch.tensor(-8 / math.pi * (8 / 3 - 1), dtype=torch.float64))
    assert inv.real.tolist() == [-0.5] * 4
    assert real.tolist() == [-1, -2, -3, -4]


@pytest.mark.parametrize("transform", ["exp", "softplus"])
def test_step_sizes_start_in_their_range(transform: str) -> None:
    options = {**OPTIONS, "dt_transform": transform}
    space = DiagonalSpace(500, 2, init="lin", discretization="zoh", dtype=torch.float64, **options)
    steps = space.step_sizes.detach()
    assert float(steps.min()) >= 0.001 * (1 - 1e-9)
    assert float(steps.max()) <= 0.1 * (1 + 1e-9)
    assert abs(float(steps.log().mean()) - (math.log(0.001) + math.log(0.1)) / 2) < 0.3


def test_copies_are_shared() -> None:
    space = LowRankSpace(6, 4, init="legs", discretization="bilinear", dtype=torch.float64, **{**OPTIONS, "n_ssm": 2})
    with torch.no_grad():
        space.log_decay[1] += 1
    assert space.log_decay.shape == (2, 2)
    assert space.rates.shape == (6, 2)
    assert [bool(row.equal(space.rates[0])) for row in space.rates] == [True] * 3 + [False] * 3  # neighbours share
    assert all(row.equal(space.rates[3]) for row in space.rates[4:])

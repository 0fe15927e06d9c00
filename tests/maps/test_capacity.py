"""How much of the group each map reaches: parameter counts, and ranks of the Jacobian at a random point."""

import pytest
import torch

from engram.maps import (
    Cayley,
    Exponential,
    Fourier,
    Givens,
    Householder,
    Map,
    ScaledCayley,
    Schur,
    SpectralMargin,
    SpectralReflections,
)


def count(map: Map) -> int:
    return sum(f.numel() for f in map.sample_free(None))


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
def test_parameter_counts(n: int) -> None:
    half = n * (n - 1) // 2
    expected = {
        Exponential(n): half,
        Exponential(n, complex=True): n * n,
        Cayley(n): half,
        ScaledCayley(n): half,
        ScaledCayley(n, complex=True): n * n + n,
        Householder(n): n * (n + 1) // 2,
        Householder(n, 2): 2 * n - 1,
        Fourier(n): 7 * n,
        Givens(n, n): half,
        Givens(n, n, complex=True): n * n,
        Schur(n): n * n,
        Schur(n, "block"): n * n - n // 2,
        SpectralMargin(n): n * n,
        SpectralReflections(n, reflections=(2, 1)): (2 * n - 1) + n + n,
    }
    assert {repr(m): count(m) for m in expected} == {repr(m): k for m, k in expected.items()}


@pytest.mark.parametrize("n", [4, 8, 16])
def test_fft_givens_counts(n: int) -> None:
    """N/2 rotations in each of log2 N layers, two angles each, and N phases."""
    layers = n.bit_length() - 1
    assert count(Givens(n, "fft")) == n // 2 * layers
    assert count(Givens(n, "fft", complex=True)) == n * layers + n


def rank(map: Map) -> int:
    """Of the Jacobian of the map at a random point, all free parameters moved at random."""
    torch.manual_seed(1)
    free = tuple(f + torch.randn_like(f) for f in map.sample_free(None))

    def flat(*free: torch.Tensor) -> torch.Tensor:
        w = map.double_forward(*free)
        return torch.view_as_real(w).flatten() if w.is_complex() else w.flatten()

    jacobian = torch.cat(torch.autograd.functional.jacobian(flat, free), -1)
    return int(torch.linalg.matrix_rank(jacobian, rtol=1e-9))


@pytest.mark.parametrize(("n", "expected"), [(5, 25), (6, 35), (7, 42), (8, 49), (10, 63)])
def test_urnn_misses_part_of_the_group_from_six_on(n: int, expected: int) -> None:
    assert rank(Fourier(n)) == expected == min(n * n, 7 * n - 7)


@pytest.mark.parametrize("n", [4, 5, 6])
def test_full_capacities(n: int) -> None:
    assert rank(Givens(n, n, complex=True)) == n * n
    assert rank(Givens(n, n)) == n * (n - 1) // 2
    assert rank(Exponential(n)) == rank(Cayley(n)) == rank(ScaledCayley(n)) == n * (n - 1) // 2
    assert rank(Exponential(n, complex=True)) == rank(ScaledCayley(n, complex=True)) == n * n
    assert rank(Householder(n)) == n * (n - 1) // 2
    assert rank(Schur(n)) == n * n


@pytest.mark.parametrize(("n", "expected"), [(4, 12), (6, 30)])
def test_block_mask_capacity(n: int, expected: int) -> None:
    assert rank(Schur(n, "block")) == expected == n * n - n


def test_phases_belong_on_the_input_side() -> None:
    """With them on the output row they would be redundant with D: 13, 21, 31 in place of 16, 25, 36."""

    def output_side(n: int) -> int:
        map = Givens(n, n, complex=True)
        (free,) = map.sample_free(torch.Generator().manual_seed(0))

        def flat(free: torch.Tensor) -> torch.Tensor:
            x = torch.eye(n, dtype=torch.complex128)
            theta = torch.cat([free[: map.rotations], free.new_zeros(1)])[map.slot]
            phase = torch.cat([free[map.rotations : 2 * map.rotations], free.new_zeros(1)])[map.slot]
            for angle, turn, side, partner in zip(theta, phase, map.side, map.partner, strict=True):
                x = angle.cos() * x + angle.sin() * side * x[..., partner]
                x = torch.polar(torch.ones_like(turn), torch.where(side < 0, turn, 0)) * x
            omega = free[2 * map.rotations :]
            return torch.view_as_real(torch.polar(torch.ones_like(omega), omega) * x).flatten()

        return int(torch.linalg.matrix_rank(torch.autograd.functional.jacobian(flat, free), rtol=1e-9))

    assert [output_side(n) for n in (4, 5, 6)] == [13, 21, 31]

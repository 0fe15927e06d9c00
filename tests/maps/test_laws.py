"""The laws of the start: angles, powers, group."""

import math

import pytest
import torch
from scipy.stats import kstest

from engram.maps import SKEW_LAWS, cayley_transform, delay_matrix, exp_skew, haar, henaff_copy, skew

N = 2000


def angles(matrix: torch.Tensor) -> torch.Tensor:
    """Of the eigenvalues of a direct sum of 2 x 2 rotations, in (0, pi)."""
    first = torch.arange(0, N - 1, 2)
    return torch.atan2(matrix[first, first + 1].abs(), matrix[first, first])


def draw(law: str) -> torch.Tensor:
    return skew(SKEW_LAWS[law](N, torch.Generator().manual_seed(0)), N)


def test_henaff_is_uniform_on_the_circle_under_exp() -> None:
    first = torch.arange(0, N - 1, 2)
    entries = draw("henaff")[first, first + 1]
    assert kstest(entries.numpy(), "uniform", args=(-math.pi, 2 * math.pi)).pvalue > 0.01
    small = skew(SKEW_LAWS["henaff"](6, torch.Generator().manual_seed(0)), 6)
    eigen = torch.linalg.eigvals(exp_skew(small)).angle().sort().values
    blocks = small[[0, 2, 4], [1, 3, 5]].abs()
    assert float((eigen - torch.cat([-blocks, blocks]).sort().values).abs().max()) < 1e-12


def test_cayley_is_uniform_on_the_right_half_under_cay_and_not_under_exp() -> None:
    a = draw("cayley")
    under_cay = angles(cayley_transform(a))
    assert kstest(under_cay.numpy(), "uniform", args=(0, math.pi / 2)).pvalue > 0.01
    first = torch.arange(0, N - 1, 2)
    under_exp = a[first, first + 1]  # the angles of exp are the entries: tan(t/2), within 1
    assert float(under_exp.max()) <= 1.0
    assert kstest(under_exp.numpy(), lambda s: 4 / math.pi * torch.atan(torch.as_tensor(s)).numpy()).pvalue > 0.01
    assert kstest(under_exp.numpy(), "uniform", args=(0, 1)).pvalue < 1e-6


def test_identity_and_odd_sizes() -> None:
    assert not SKEW_LAWS["identity"](5, None).any()
    for law in SKEW_LAWS:
        a = skew(SKEW_LAWS[law](7, None), 7)
        assert not a[6].any()


@pytest.mark.parametrize("complex", [False, True])
def test_haar_is_unitary_and_its_first_entry_is_spread_as_it_should(complex: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([haar(3, generator, complex)[0, 0] for _ in range(2000)])
    assert abs(float(draws.abs().square().mean()) - 1 / 3) < 0.02  # E|W_11|^2 = 1/N
    assert abs(complex_mean(draws)) < 0.03
    w = haar(8, generator, complex)
    assert float((w.mH @ w - torch.eye(8)).abs().max()) < 1e-13


def complex_mean(draws: torch.Tensor) -> complex:
    return complex(draws.mean())


def test_henaff_matrix_returns_after_its_period() -> None:
    v = henaff_copy(20, 210, torch.Generator().manual_seed(0))
    assert float((torch.linalg.matrix_power(v, 210) - torch.eye(20)).abs().max()) < 1e-8
    assert float((torch.linalg.matrix_power(v, 100) - torch.eye(20)).abs().max()) > 0.1


def test_delay_matrix_is_nilpotent() -> None:
    theta = delay_matrix(5, alpha=0.9, beta=0.1)
    assert float(torch.linalg.matrix_power(theta, 4).abs().max()) > 0.1
    assert not torch.linalg.matrix_power(theta, 5).any()
    assert torch.equal(delay_matrix(3, d=0.2).diagonal(), torch.full((3,), 0.2))

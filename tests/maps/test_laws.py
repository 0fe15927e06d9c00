"""The laws of the start: angles, powers, group."""

import math

import pytest
import torch
from scipy.stats import kstest
from table_of_maps import FAMILY

from engram.maps import (
    SKEW_LAWS,
    Antisymmetric,
    Cayley,
    Exponential,
    Fourier,
    Free,
    Givens,
    Householder,
    ScaledCayley,
    Schur,
    SoftOrthogonal,
    SpectralMargin,
    cayley_transform,
    delay_matrix,
    exp_skew,
    haar,
    henaff_copy,
    skew,
)

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


UNIFORM = {  # numbers that a map draws: from where to where
    "phases of the uRNN": (lambda g: Fourier(300).sample_free(g)[0][:900], -math.pi, math.pi),
    "vectors of the uRNN": (lambda g: Fourier(300).sample_free(g)[0][900:], -1, 1),
    "angles of rotations": (lambda g: Givens(300, 4).sample_free(g)[0], -math.pi, math.pi),
    "angles of complex rotations": (lambda g: Givens(300, 4, complex=True).sample_free(g)[0], -math.pi, math.pi),
    "phases of scuRNN": (lambda g: ScaledCayley(900, complex=True).sample_free(g)[1], 0, 2 * math.pi),
    "angles of Schur": (lambda g: Schur(900, init="identity").sample_free(g)[2], 0, 2 * math.pi),
    "free": (lambda g: Free(25).sample_free(g)[0].flatten(), -0.2, 0.2),
    "free, imaginary": (lambda g: Free(25).sample_free(g, complex=True)[0].imag.flatten(), -0.2, 0.2),
}
NORMAL = {  # with what standard deviation
    "vectors of reflections": (lambda g: Householder(30, 20).sample_free(g)[0], 1.0),
    "antisymmetric": (lambda g: Antisymmetric(25, deviation=3.0).sample_free(g)[0], 0.6),  # 3 / sqrt(25)
}


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(name: str) -> None:
    draw, low, high = UNIFORM[name]
    found = draw(torch.Generator().manual_seed(1))
    assert kstest(found.numpy(), "uniform", args=(low, high - low)).pvalue > 0.01
    assert found.dtype == torch.float64


@pytest.mark.parametrize("name", NORMAL)
def test_normal(name: str) -> None:
    draw, deviation = NORMAL[name]
    assert kstest(draw(torch.Generator().manual_seed(1)).numpy(), "norm", args=(0, deviation)).pvalue > 0.01


def test_what_starts_at_a_fixed_place() -> None:
    """T = 0 and gamma = 1 of Schur, s = 1 of singular values, an orthogonal matrix under the penalty, a permutation."""
    _, lower, _, gamma = Schur(7).sample_free(None)
    assert not lower.any()
    assert gamma.tolist() == [1.0] * 4
    assert not SpectralMargin(5).sample_free(None)[2].any()
    for complex in (False, True):
        (soft,) = SoftOrthogonal(5).sample_free(None, complex)
        assert soft.is_complex() == complex
        assert float((soft.mH @ soft - torch.eye(5)).abs().max()) < 1e-13
    one, two = Fourier(50), Fourier(50)
    one.sample_free(torch.Generator().manual_seed(1)), two.sample_free(torch.Generator().manual_seed(2))
    assert sorted(one.permutation.tolist()) == list(range(50))
    assert one.permutation.tolist() != two.permutation.tolist()
    assert one.permutation.tolist() != list(range(50))


@pytest.mark.parametrize("kind", [Exponential, Cayley])
@pytest.mark.parametrize("init", ["haar", "henaff", "cayley", "identity"])
def test_the_base_starts_by_the_law_that_was_asked_for(init: str, kind: type[Exponential]) -> None:
    """f(A) of the law of A, where there is one; a rotation; complex if either the map or the matrix is."""
    for mine, asked in ((False, False), (True, False), (False, True)):
        map = kind(6, init=init, complex=mine)
        (entries,) = map.sample_free(torch.Generator().manual_seed(4), complex=asked)
        assert not entries.any()
        assert map.base.is_complex() == (len(entries) == 36) == (mine or asked)
        if init != "haar":
            a = skew(SKEW_LAWS[init](6, torch.Generator().manual_seed(4)), 6)
            expected = exp_skew(a) if kind is Exponential else cayley_transform(a)
            assert torch.equal(map.base, expected.to(map.base.dtype))
        elif not map.base.is_complex():
            assert float(torch.linalg.det(map.base)) == pytest.approx(1)
        else:
            assert map.base.imag.abs().max() > 0.1


def test_henaffs_turns_are_all_that_come_back() -> None:
    """2 pi l / period for every l from 1 to the period, equally often: 2000 draws of 5 turns, four standard errors."""
    v = henaff_copy(4000, 5, torch.Generator().manual_seed(0))
    first = torch.arange(0, 3999, 2)
    angle = torch.atan2(v[first, first + 1], v[first, first]) / (2 * math.pi) * 5
    counts = torch.bincount(angle.round().long() % 5, minlength=5)
    assert float((angle - angle.round()).abs().max()) < 1e-12
    assert (counts - 400).abs().max() < 4 * math.sqrt(400 * 0.8)
    assert henaff_copy(5, 7)[4].tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("name", [*FAMILY, "fourier"])
def test_a_sample_follows_its_generator_alone(name: str) -> None:
    """Whatever torch's own random numbers are, which stay as they are."""
    make, found = {**FAMILY, "fourier": Fourier}[name], []
    for own in (1, 2):
        torch.manual_seed(own)
        before = torch.get_rng_state()
        made = make(9)
        torch.set_rng_state(before)
        found.append(made.sample(torch.Generator().manual_seed(0)))
        assert torch.equal(torch.get_rng_state(), before)
    assert found[0].equal(found[1])

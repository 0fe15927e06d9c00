"""Spectrum, departure from normality, transient growth, pseudospectrum: cases with a closed form."""

import json
import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from engram.errors import EngramError, NonFiniteError, OptionError, ShapeError
from engram.probe._growth import transient_growth
from engram.probe._pseudospectrum import pseudospectrum
from engram.probe._spectrum import spectrum


def orthogonal(size: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


def unitary(size: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.linalg.qr(rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size)))[0]


def line(size: int, gain: float) -> np.ndarray:
    return np.diag(np.full(size - 1, gain), -1)


@pytest.mark.parametrize("size", [1, 2, 7, 30])
@pytest.mark.parametrize("make", [orthogonal, unitary])
def test_orthogonal(make: object, size: int) -> None:
    """Departure 0, growth 1, all moduli and singular values 1."""
    found = spectrum(torch.from_numpy(make(size)), grid=8)  # type: ignore[operator]
    assert found.departure < 1e-13 * size
    assert found.triangular_share < 1e-20
    assert found.growth.peak == pytest.approx(1)
    assert found.growth.peak_time == 0
    assert found.growth.proven
    np.testing.assert_allclose(np.abs(found.eigenvalues), 1)
    np.testing.assert_allclose(found.singular_values, 1)
    assert "is normal" in found.words()
    assert "neither grows nor decays" in found.words()


@pytest.mark.parametrize(("gain", "time"), [(0.9, 0), (1.05, 24), (3.0, 24)])
def test_delay_line(gain: float, time: int) -> None:
    """All eigenvalues 0, departure g sqrt(N - 1), |W^t| = g^t until N - 1 and 0 from N on, all of it triangle."""
    n = 25
    found = spectrum(line(n, gain), grid=0)
    assert found.radius == 0
    assert found.departure == pytest.approx(gain * math.sqrt(n - 1))
    assert found.triangular_share == pytest.approx(1)
    assert found.abscissa == pytest.approx(gain * math.cos(math.pi / (n + 1)))
    np.testing.assert_allclose(found.singular_values, [*[gain] * (n - 1), 0])
    assert (found.growth.peak, found.growth.peak_time) == (pytest.approx(gain**time), time)
    assert found.growth.proven
    norms = transient_growth(line(n, 1.05)).norms
    np.testing.assert_allclose(norms[:n], 1.05 ** np.arange(n))
    assert not norms[n:].any()
    assert "forgotten after at most N steps" in found.words()


@pytest.mark.parametrize("alpha", [0.3, 1.0, -4.0])
def test_two_by_two(alpha: float) -> None:
    """[[a, c], [0, b]] has the departure |c|, and so has every rotation of it."""
    w = np.array([[0.5, alpha], [0, -0.2]])
    q = orthogonal(2)
    for matrix in (w, q @ w @ q.T):
        found = spectrum(matrix, grid=0)
        assert found.departure == pytest.approx(abs(alpha))
        assert found.triangular_share == pytest.approx(alpha**2 / (alpha**2 + 0.29))
        assert found.diagonal_share == pytest.approx(0.29 / (alpha**2 + 0.29))
        np.testing.assert_allclose(found.eigenvalues, [0.5, -0.2], atol=1e-12)
        assert found.abscissa == pytest.approx(0.15 + math.hypot(0.7, alpha) / 2)


@pytest.mark.parametrize(
    ("w", "abscissa"),
    [
        ([[1 + 5j, 1j], [-1j, 3 - 2j]], 2 + math.sqrt(2)),  # (W + W*) / 2 = [[1, i], [-i, 3]]
        ([[2j, 1 + 1j], [-1 + 1j, -3j]], 0.0),  # skew-Hermitian
        ([[0, 4j], [0, 0]], 2.0),
    ],
)
def test_abscissa_of_a_complex_matrix(w: list[list[complex]], abscissa: float) -> None:
    """By hand; and it is the rate at which |exp(W t)| begins to grow."""
    found = spectrum(np.array(w), grid=0)
    assert found.abscissa == pytest.approx(abscissa, abs=1e-14)
    t = 1e-6
    norm = torch.linalg.matrix_norm(torch.linalg.matrix_exp(t * torch.tensor(w, dtype=torch.complex128)), 2)
    assert (float(norm) - 1) / t == pytest.approx(abscissa, abs=1e-4)  # the next term is |W|^2 t


def test_not_a_rotation_block() -> None:
    """A 2 x 2 Schur block that is no rotation: eigenvalues +-2i and |W|_F^2 = 17, so d^2 = 9."""
    found = spectrum(np.array([[0.0, -4.0], [1.0, 0.0]]), grid=0)
    assert found.departure == pytest.approx(3)
    np.testing.assert_allclose(sorted(found.eigenvalues, key=np.imag), [-2j, 2j], atol=1e-12)


def test_departure_by_frobenius() -> None:
    """d^2 = |W|_F^2 - sum |lambda|^2, with eigenvalues from elsewhere."""
    w = np.random.default_rng(2).normal(size=(12, 12))
    right = math.sqrt(np.linalg.norm(w) ** 2 - (np.abs(np.linalg.eigvals(w)) ** 2).sum())
    assert spectrum(w, grid=0).departure == pytest.approx(right, rel=1e-8)


@pytest.mark.parametrize("value", [0.5, 0.9])
def test_jordan_block(value: float) -> None:
    """|J^t| of a 2 x 2 block [[a, 1], [0, a]]: the norm of [[a^t, t a^(t-1)], [0, a^t]]."""
    growth = transient_growth(np.array([[value, 1.0], [0, value]]))
    t = growth.times.astype(float)
    half = t * value ** (t - 1) / 2
    np.testing.assert_allclose(growth.norms, half + np.sqrt(half**2 + value ** (2 * t)), rtol=1e-12)
    assert growth.proven


@pytest.mark.parametrize(
    ("alpha", "beta", "peak"), [(1.05, 0.005, 68), (1.0, 0.005, 50), (0.95, 0.005, 31), (1.05, 0, 90)]
)
def test_growth_of_the_family(alpha: float, beta: float, peak: int) -> None:
    """Fig. 1(b) of Kerg's thesis: |Theta^t|_F / sqrt(N) is largest at these t, and the 2-norm is at least that."""
    w = np.tril(np.full((100, 100), beta), -2) + line(100, alpha)
    growth = transient_growth(w)
    power = [np.linalg.norm(np.linalg.matrix_power(w, t)) for t in range(101)]
    assert int(np.argmax(power)) == peak
    assert (growth.norms[:101] <= np.array(power) * (1 + 1e-12)).all()
    assert (growth.norms[:101] >= np.array(power) / 10 * (1 - 1e-12)).all()


def test_growth_goes_on() -> None:
    """Past the steps that are followed one by one t doubles, and the claim is dropped."""
    growth = transient_growth(np.array([[0.999, 1.0], [0, 0.999]]), steps=20)
    assert growth.times[21:].tolist() == [20 * 2**k for k in range(1, len(growth.times) - 20)]
    assert growth.norms[-1] < 1 < growth.peak
    assert not growth.proven
    assert growth.norms[21] == pytest.approx(np.linalg.norm(np.linalg.matrix_power([[0.999, 1.0], [0, 0.999]], 40), 2))


def test_growth_without_bound() -> None:
    found = spectrum(np.array([[1.1, 1.0], [0, 0.9]]), grid=0)
    assert not found.growth.proven
    assert "doubles every 7.27 steps" in found.words()


@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize("kind", ["real", "complex", "triangle"])
def test_pseudospectrum(size: int, kind: str) -> None:
    """Every value against a dense singular value decomposition; an odd grid has a row on the axis."""
    rng = np.random.default_rng(size)
    w = rng.normal(size=(size, size)) / math.sqrt(size)
    w = w + 1j * rng.normal(size=w.shape) if kind == "complex" else np.triu(w) if kind == "triangle" else w
    for points in (6, 7):
        found = pseudospectrum(w, points=points, reach=1.5)
        z = found.real + 1j * found.imag[:, None]
        right = np.linalg.svd(z[..., None, None] * np.eye(size) - w, compute_uv=False)[..., -1]
        np.testing.assert_allclose(found.smallest, right, rtol=1e-4, atol=1e-15 * size)


def test_pseudospectrum_of_a_normal_matrix() -> None:
    """The distance to the nearest eigenvalue."""
    w = 0.8 * orthogonal(20)
    for change in (0.0, 1e-9):  # the second one goes the long way
        found = pseudospectrum(w + change * line(20, 1.0), points=9)
        z = found.real + 1j * found.imag[:, None]
        right = np.abs(z[..., None] - np.linalg.eigvals(w)).min(-1)
        np.testing.assert_allclose(found.smallest, right, rtol=1e-4)
        assert found.kreiss == pytest.approx(1)


def test_pseudospectrum_at_an_eigenvalue() -> None:
    """Exactly 0 there, and 0 where it is below float64: a delay line of 300 units near the origin."""
    found = pseudospectrum(np.diag([1.0, -1.0]), points=3, reach=1)
    assert found.smallest[1].tolist() == [0, pytest.approx(1), 0]
    assert pseudospectrum(line(300, 1.0), points=2, reach=0.01).smallest.max() == 0


@pytest.mark.parametrize(("radius", "reach"), [(0.3, 1.25), (1.0, 1.25), (-4.0, 5.0)])
def test_the_grid_covers_circle_and_eigenvalues(radius: float, reach: float) -> None:
    found = pseudospectrum(np.diag([radius, 0.1]), points=3)
    assert found.real.tolist() == found.imag.tolist() == pytest.approx([-reach, 0, reach])


def test_kreiss() -> None:
    """The bound of the pseudospectrum is below the growth that is really there, and not trivial."""
    found = spectrum(np.tril(np.full((60, 60), 0.005), -2) + line(60, 1.05), grid=40)
    assert found.pseudo is not None
    assert 3 < found.pseudo.kreiss < found.growth.peak


@pytest.mark.parametrize(
    ("w", "options", "error", "match"),
    [
        (np.ones((2, 3)), {}, ShapeError, "square matrix"),
        (np.ones((0, 0)), {}, ShapeError, "N >= 1"),
        (np.full((2, 2), np.inf), {}, NonFiniteError, "W holds NaN or infinity"),
        (np.eye(2), {"grid": -1}, OptionError, "grid must be at least 0"),
        (np.eye(2), {"grid": 1}, OptionError, "points must be at least 2"),
        (np.eye(2), {"steps": 0}, OptionError, "steps must be at least 1"),
    ],
)
def test_refused(w: np.ndarray, options: dict[str, int], error: type[EngramError], match: str) -> None:
    with pytest.raises(error, match=match):
        spectrum(w, **options)


@pytest.mark.parametrize(
    ("w", "said"),
    [
        (line(8, 1.1), "grows 1.95 times, by step 7"),
        (line(8, 0.5), "but no state ever grows"),
        (np.zeros((3, 3)), "is normal"),
        (np.diag([0.5, 0.25]), "halved every 1 steps"),
        (np.diag([1e-12, 0.0]), "every state is forgotten"),
    ],
)
def test_words_and_plot(w: np.ndarray, said: str) -> None:
    found = spectrum(w, grid=12)
    assert said in found.words()
    numbers = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert len(numbers["eigenvalues"]) == len(w)
    assert numbers["growth"]["peak"] == found.growth.peak
    assert np.shape(numbers["pseudospectrum"]["smallest"]) == (12, 12)
    figure = Figure()
    axes = figure.subplots(1, 2)
    found.plot(axes[0])
    found.plot_growth(axes[1])
    figure.savefig("/dev/null", format="png")
    assert axes[0].collections
    assert len(axes[0].lines) == 2

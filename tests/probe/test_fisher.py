"""Fisher memory: closed forms, Table 5 of Kerg's thesis (section 3.4), and steps that are not linear."""

import json
import math

import numpy as np
import pytest
import torch
from flint import ctx, fmpq, fmpq_mat
from matplotlib.figure import Figure
from scipy.linalg import solve_discrete_lyapunov

from engram.errors import EngramError, NonFiniteError, OptionError, ShapeError
from engram.probe import FisherMemory, fisher_memory, linearise, sampled_fisher_memory
from engram.probe.fisher._extended import extended


def theta(size: int, alpha: float, beta: float = 0.0, diagonal: float = 0.0) -> np.ndarray:
    """Eq. 3.4.2 of the thesis: alpha below the diagonal, beta further below."""
    return np.tril(np.full((size, size), beta), -2) + np.diag(np.full(size - 1, alpha), -1) + diagonal * np.eye(size)


def first(size: int) -> np.ndarray:
    return np.eye(size)[0]


def stable(rng: np.random.Generator, size: int, radius: float = 0.8) -> np.ndarray:
    w = rng.normal(size=(size, size))
    return w * radius / np.abs(np.linalg.eigvals(w)).max()


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_the_definition(size: int) -> None:
    """Against scipy's Lyapunov equation and plain sums."""
    rng = np.random.default_rng(size)
    w, v, eps = stable(rng, size), rng.normal(size=size), 0.3
    inverse = np.linalg.inv(solve_discrete_lyapunov(w, eps * np.eye(size)))
    powers = [np.linalg.matrix_power(w, k) for k in range(400)]
    found = fisher_memory(w, torch.from_numpy(v), noise=eps, lags=7)
    right = [[v @ powers[k].T @ inverse @ powers[m] @ v for m in range(7)] for k in range(7)]
    np.testing.assert_allclose(found.matrix, right, rtol=1e-9, atol=1e-11)
    spatial = sum(power.T @ inverse @ power for power in powers)
    np.testing.assert_allclose(found.spatial, spatial, rtol=1e-9, atol=1e-11)
    assert found.total == pytest.approx(v @ spatial @ v, rel=1e-10)
    assert found.method == "float64"
    np.testing.assert_allclose(found.growth, [(power @ v) @ (power @ v) for power in powers[:7]], rtol=1e-12)


@pytest.mark.parametrize("eps", [1.0, 0.2])
def test_normal(eps: float) -> None:
    """Normal W: J^(s) = I / eps."""
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 9)))[0]
    for w in (0.9 * q, q @ np.diag(np.linspace(-0.8, 0.9, 9)) @ q.T):
        found = fisher_memory(w, q[0], noise=eps)
        np.testing.assert_allclose(found.spatial, np.eye(9) / eps, atol=1e-12)
        assert found.total == pytest.approx(found.normal_bound) == pytest.approx(1 / eps)


@pytest.mark.parametrize("steps", [None, 6, 37])
def test_trace(steps: int | None) -> None:
    """Tr J^(s) = N / eps for any W, for a finite past too; so J_tot <= N |v|^2 / eps."""
    rng = np.random.default_rng(1)
    for size in (2, 5, 8):
        w, v = stable(rng, size), rng.normal(size=size)
        found = fisher_memory(w, v, noise=0.5, steps=steps)
        assert found.spatial is not None
        assert np.trace(found.spatial) == pytest.approx(2 * size)
        assert 0 < found.total <= found.bound == pytest.approx(2 * size * (v @ v))


@pytest.mark.parametrize(
    ("alpha", "total"), [(0.5, None), (1, None), (2, 10.80), (10, 18.11), (100, 19.81), (1000, 19.981)]
)
def test_delay_line(alpha: float, total: float | None) -> None:
    """J(k) = alpha^k (alpha - 1) / (alpha^(k+1) - 1), and its sum.

    The units differ by up to 10^28 in size and float64 is still exact, for C is diagonal.
    """
    n, alpha = 20, float(alpha)
    found = fisher_memory(theta(n, math.sqrt(alpha)), first(n), lags=25)
    k = np.arange(n)
    right = 1 / (k + 1) if alpha == 1 else alpha**k * (alpha - 1) / (alpha ** (k + 1.0) - 1)
    np.testing.assert_allclose(found.curve, [*right, *[0] * 5], atol=1e-14, rtol=1e-12)
    np.testing.assert_allclose(found.matrix - np.diag(found.curve), 0, atol=1e-13)
    np.testing.assert_allclose(found.delay_bound, found.curve, atol=1e-14, rtol=1e-12)
    assert found.method == "float64"
    if total is not None:
        assert found.total == pytest.approx(total, abs=0.006)


def test_growth_bound() -> None:
    """No W has more than the delay line that grows as it does."""
    rng = np.random.default_rng(2)
    for size in [2, 3, 4, 5, 6, 7] * 20:
        found = fisher_memory(stable(rng, size, rng.uniform(0.1, 0.95)), rng.normal(size=size))
        assert (found.curve <= found.delay_bound * (1 + 1e-9)).all()


def test_rotation_changes_nothing() -> None:
    """J_kl is the same in every orthonormal basis."""
    rng = np.random.default_rng(3)
    q, w, v = np.linalg.qr(rng.normal(size=(6, 6)))[0], stable(rng, 6), rng.normal(size=6)
    np.testing.assert_allclose(
        fisher_memory(q @ w @ q.T, q @ v).matrix, fisher_memory(w, v).matrix, atol=1e-10
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ahead", "back", "total"),
    [(0.9, 0.05, 2.473), (0.9, 0.15, 3.030), (0.9, 0.25, 4.647), (0.8, 0.25, 2.446), (0.8, 0.3, 3.191)],
)
def test_feedback(ahead: float, back: float, total: float) -> None:
    """A delay line with feedback, N = 30; numbers of independent sums."""
    found = fisher_memory(theta(30, ahead) + np.diag(np.full(29, back), 1), first(30))
    assert found.total == pytest.approx(total, abs=6e-4)


TABLE = [
    (0.95, 0, 0, 3.0327, 3.79e-6, 0), (1.0, 0, 0, 5.1874, 0.0100, 0), (1.05, 0, 0, 12.0873, 0.0930, 0),
    (0.95, 0.005, 0, 3.1758, 3.26e-6, 0), (1.0, 0.005, 0, 5.3014, 0.00878, 0), (1.05, 0.005, 0, 12.0865, 0.0921, 0),
    (0.95, 0, 0.2, 11.9394, 0.0722, 0.0721), (1.0, 0, 0.2, 16.2982, 0.1031, 0.1031),
    (1.05, 0, 0.2, 20.8371, 0.1335, 0.1327), (0.95, 0.005, 0.2, 12.0895, 0.0734, 0.0732),
    (1.0, 0.005, 0.2, 16.3910, 0.1039, 0.1038), (1.05, 0.005, 0.2, 20.8847, 0.1342, 0.1331),
]  # fmt: skip


@pytest.mark.parametrize(
    ("alpha", "beta", "diagonal", "total", "at_99", "at_100"),
    [pytest.param(*row, marks=pytest.mark.slow if row[2] and row[0] != 1.0 else []) for row in TABLE],
)
def test_table_5(alpha: float, beta: float, diagonal: float, total: float, at_99: float, at_100: float) -> None:
    """N = 100, eps = 1, v = e_1; the six rows with d = 0.2 are printed wrong, and need extended precision."""
    found = fisher_memory(theta(100, alpha, beta, diagonal), first(100), lags=101)
    assert found.total == pytest.approx(total, abs=6e-5)
    assert found.curve[99] == pytest.approx(at_99, rel=6e-3)
    assert found.curve[100] == pytest.approx(at_100, abs=6e-5)
    assert found.error < 1e-8 * found.total
    assert found.method.startswith("extended") == (diagonal > 0)


def test_float64_knows_that_it_fails() -> None:
    """Either the error it tells covers what is wrong, or it refuses."""
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    for w, v in ((theta(50, 1.0, 0, 0.3), first(50)), (q @ theta(30, 0.9, 0, 0.4) @ q.T, q[:, 0])):
        found, right = fisher_memory(w, v, precision="float64"), fisher_memory(w, v)
        assert right.method.startswith("extended")
        assert 1e-5 < abs(found.total - right.total) <= found.error
    assert "not certain" in fisher_memory(theta(50, 1.0, 0, 0.3), first(50), precision="float64").words()
    with pytest.raises(OptionError, match=r"float64 fails .* precision='extended'"):
        fisher_memory(theta(100, 1.0, 0, 0.2), first(100), precision="float64")


@pytest.mark.parametrize("steps", [None, 1, 9])
def test_extended_is_the_same(steps: int | None) -> None:
    rng = np.random.default_rng(4)
    w, v = stable(rng, 5), rng.normal(size=5)
    double, exact = (fisher_memory(w, v, steps=steps, precision=name) for name in ("float64", "extended"))
    np.testing.assert_allclose(exact.matrix, double.matrix, atol=1e-11)
    np.testing.assert_allclose(exact.spatial, double.spatial, atol=1e-11)
    assert exact.total == pytest.approx(double.total, rel=1e-11)
    assert exact.error < 1e-15


@pytest.mark.parametrize("steps", [1, 2, 3, 6, 11])
def test_extended_against_fractions(steps: int) -> None:
    """A finite past in exact fractions: the proven error holds."""
    rng = np.random.default_rng(steps)
    entries, signal = rng.integers(-8, 9, (4, 4)), rng.integers(-3, 4, 4)
    w, v = fmpq_mat(4, 4, [fmpq(int(x), 4) for x in entries.flat]), fmpq_mat(4, 1, [int(x) for x in signal])
    powers = [fmpq_mat(4, 4, [int(i == j) for i in range(4) for j in range(4)])]
    for _ in range(steps - 1):
        powers.append(w * powers[-1])
    inverse = sum((p * p.transpose() for p in powers[1:]), powers[0]).inv()
    curve = [((p * v).transpose() * inverse * p * v)[0, 0] for p in powers]
    found = extended(entries / 4, signal.astype(float), steps, steps, 1e-8)
    assert abs(found.total - float(sum(curve, fmpq(0)))) <= found.error + 1e-15 * found.total
    np.testing.assert_allclose(found.matrix.diagonal(), [float(x) for x in curve], rtol=1e-13)


@pytest.mark.parametrize("past", [1, 7, 50])
def test_orthogonal_with_a_beginning(past: int) -> None:
    """No stationary state, but T steps ago everything began: J(k) = 1 / (eps T)."""
    q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0]
    found = fisher_memory(q, q[0], noise=0.5, steps=past, lags=100)
    np.testing.assert_allclose(found.curve, np.full(past, 2 / past), rtol=1e-11)
    assert found.total == pytest.approx(2)


def test_complex_is_its_real_form() -> None:
    """z -> W z on (Re z, Im z)."""
    rng = np.random.default_rng(5)
    w, v = (rng.normal(size=(2, 3, 3)) / 4, rng.normal(size=(2, 3)))
    real = np.block([[w[0], -w[1]], [w[1], w[0]]])
    right = fisher_memory(real, v.flatten(), lags=4)
    found = fisher_memory(torch.complex(*torch.from_numpy(w)), torch.complex(*torch.from_numpy(v)), lags=4)
    np.testing.assert_array_equal(found.matrix, right.matrix)
    assert found.size == 6


def test_lower_bound_of_the_triangle() -> None:
    """Proposition 3.4.1 of the thesis in a sharper form, attained by the delay line."""
    rng = np.random.default_rng(6)
    least = math.inf
    for size in [2, 3, 5, 8] * 10:
        alpha, scale = rng.uniform(0.3, 3), rng.choice([0.0, 0.3])
        w = theta(size, math.sqrt(alpha)) + scale * np.tril(rng.normal(size=(size, size)), -2)
        a = np.vstack([w[1:] / math.sqrt(alpha), np.eye(size)[-1]])
        sigma = np.linalg.norm(a, 2)
        k = np.arange(size)
        bound = alpha**k / np.cumsum((alpha * sigma**2) ** k)
        least = min(least, (fisher_memory(w, first(size), lags=size).curve / bound).min())
    assert least == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("w", "v", "options", "error", "match"),
    [
        (np.eye(3), np.ones(3), {}, OptionError, r"spectral radius of W below 1, got 1: .*give steps=T"),
        (np.ones((2, 3)), np.ones(2), {}, ShapeError, r"square matrix .* got the shape \(2, 3\)"),
        (np.zeros((3, 3)), np.ones(2), {}, ShapeError, r"v must have the shape \(3,\)"),
        (np.zeros((3, 3)), np.zeros(3), {}, OptionError, "v is 0"),
        (np.full((2, 2), np.nan), np.ones(2), {}, NonFiniteError, "W holds NaN"),
        (np.zeros((2, 2)), np.ones(2), {"noise": 0.0}, OptionError, "noise must lie between"),
        (np.zeros((2, 2)), np.ones(2), {"lags": 0}, OptionError, "lags must be at least 1"),
        (np.zeros((2, 2)), np.ones(2), {"precision": "exact"}, OptionError, "unknown precision 'exact'"),
        (2 * np.eye(2), np.ones(2), {"precision": "extended"}, OptionError, "not certain even with"),
    ],
)
def test_refused(
    w: np.ndarray, v: np.ndarray, options: dict[str, object], error: type[EngramError], match: str
) -> None:
    with pytest.raises(error, match=match):
        fisher_memory(w, v, **options)  # type: ignore[arg-type]


def test_linearise() -> None:
    """tanh: W and v times 1 - h^2 of the next state."""
    w, u, b = torch.randn(5, 5).double(), torch.randn(5, 2).double(), torch.randn(5).double()
    state, x, along = torch.randn(5).double(), torch.randn(2).double(), torch.tensor([0.6, 0.8]).double()
    slope = (1 - torch.tanh(w @ state + u @ x + b) ** 2)[:, None]
    found, into = linearise(lambda h, x: torch.tanh(h @ w.T + x @ u.T + b), state, x, along)
    torch.testing.assert_close(found, slope * w)
    torch.testing.assert_close(into, (slope * u) @ along)
    with pytest.raises(ShapeError, match="direction must have the shape of one input"):
        linearise(lambda h, x: h, state, x, along[:1])


def sampled(slope: float, noise: float) -> tuple[FisherMemory, FisherMemory]:
    """A linear net with a tanh of the given slope on top, and the linear net itself."""
    rng = np.random.default_rng(7)
    w, u = torch.from_numpy(stable(rng, 4)), torch.from_numpy(rng.normal(size=(4, 1)))
    squash = (lambda x: x) if slope == 0 else (lambda x: torch.tanh(slope * x) / slope)
    exact = fisher_memory(w, u[:, 0], noise=noise, steps=8, lags=8)
    generator = torch.Generator().manual_seed(0)
    return exact, sampled_fisher_memory(
        lambda h, x: squash(h @ w.T + x @ u.T), torch.zeros(4).double(), torch.zeros(8, 1).double(),
        noise=noise, paths=4000, generator=generator,
    )  # fmt: skip


def test_sampled_linear() -> None:
    """Of a linear step the linear Fisher information is all; within four standard errors at every lag."""
    exact, found = sampled(0, 0.5)
    assert abs(found.total - exact.total) < 4 * found.error
    np.testing.assert_allclose(found.curve, exact.curve, rtol=4 * math.sqrt(2 / 3990))
    np.testing.assert_allclose(found.growth, exact.growth, rtol=1e-12)
    assert found.spatial is None
    assert found.method == "sampled (4000 paths)"


def test_few_paths_are_corrected_for() -> None:
    """The mean of many estimates from 14 paths of 2 units; without its factor of 10 / 13 it is 1.3 times J_tot."""
    w, u = torch.tensor([[0.5, 0.2], [0.0, -0.3]]).double(), torch.tensor([[1.0], [0.5]]).double()
    exact = fisher_memory(w, u[:, 0], steps=3).total
    start, quiet, generator = torch.zeros(2).double(), torch.zeros(3, 1).double(), torch.Generator().manual_seed(0)
    totals = [
        sampled_fisher_memory(lambda h, x: h @ w.T + x @ u.T, start, quiet, paths=14, generator=generator).total
        for _ in range(200)
    ]
    # An inverse Wishart matrix of 13 degrees of freedom: relative deviation sqrt(2 / 8) of one estimate.
    assert np.mean(totals) == pytest.approx(exact, rel=4 * math.sqrt(2 / 8 / 200))


def test_sampled_tanh() -> None:
    """Weak noise: as the linear net. Strong noise saturates the units, and less is left than the linear net keeps."""
    exact, found = sampled(1.0, 1e-6)
    np.testing.assert_allclose(found.curve, exact.curve, rtol=4 * math.sqrt(2 / 3990))
    exact, found = sampled(3.0, 1.0)
    assert found.total < exact.total - 4 * found.error
    with pytest.raises(OptionError, match="paths must be at least 2 N"):
        sampled_fisher_memory(lambda h, x: h, torch.zeros(4), torch.zeros(8, 1), paths=5)


@pytest.mark.parametrize(
    ("w", "said"),
    [
        (theta(10, 1.2), "more than any normal matrix"),
        (0.9 * np.eye(10), "what every normal"),
        (theta(10, 1.2).T, "less than"),
    ],
)
def test_words_and_plot(w: np.ndarray, said: str) -> None:
    found = fisher_memory(w, first(10), noise=0.1)
    assert said in found.words()
    numbers = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert numbers["total"] == found.total
    assert len(numbers["curve"]) == 20
    axes = Figure().subplots()
    found.plot(axes)
    heights = [line.get_ydata()[0] for line in axes.lines]
    assert found.normal_bound in heights
    assert found.bound in heights
    assert len(axes.lines) == 5


def test_horizon() -> None:
    """A delay line of 10 units has J(9) = 1 / 10 and nothing after; its first 5 lags all count."""
    assert fisher_memory(theta(10, 1.0), first(10)).horizon == 10
    assert fisher_memory(theta(10, 1.0), first(10), lags=5).horizon is None


def test_the_bits_of_others_are_left_alone() -> None:
    """Also where it gives up."""
    before, ctx.prec = ctx.prec, 77
    try:
        fisher_memory(theta(3, 0.5), first(3), precision="extended")
        assert ctx.prec == 77
        with pytest.raises(OptionError, match="not certain"):
            fisher_memory(2 * np.eye(1), np.ones(1), precision="extended")
        assert ctx.prec == 77
    finally:
        ctx.prec = before


def test_a_signal_along_all_inputs_has_length_one() -> None:
    """Of h = x over four inputs: v = (1, 1, 1, 1) / 2, and a state or input with an axis too many is refused."""
    zero = torch.zeros(4, dtype=torch.float64)
    _, into = linearise(lambda h, x: 0 * h + x, zero, zero)
    assert into.tolist() == [0.5] * 4
    for state, x in ((zero[None], zero), (zero, zero[None])):
        with pytest.raises(ShapeError, match=r"one state \(N,\) and one input \(D,\) are needed"):
            linearise(lambda h, x: h, state, x)

"""Lyapunov exponents of systems whose exponents are known."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from engram.errors import EngramError, NonFiniteError, OptionError, ShapeError
from engram.nn import ExpRNN
from engram.probe._lyapunov import Lyapunov, _estimate, lyapunov
from engram.probe._tangents import step_with_tangents


def none(batch: int, length: int) -> Tensor:
    """Inputs that say nothing."""
    return torch.zeros(batch, length, 1, dtype=torch.float64)


def matrix_step(w: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda h, x: h @ w.T


@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("count", [None, 2])
def test_diagonal(interval: int, count: int | None) -> None:
    """The logarithms of the entries, in falling order whatever theirs, without scatter."""
    w = torch.diag(torch.tensor([0.5, 1.5, -0.9], dtype=torch.float64))
    found = lyapunov(matrix_step(w), torch.ones(2, 3).double(), none(2, 300), count=count, interval=interval)
    right = np.log([1.5, 0.9, 0.5])[:count]
    np.testing.assert_allclose(found.exponents, right, atol=1e-12)
    np.testing.assert_allclose(found.errors, 0, atol=1e-12)
    assert found.steps == 270
    assert (found.total is None) == (count == 2)


def test_triangle() -> None:
    """Not normal: still the logarithms of the eigenvalues, for in the end only they count."""
    w = torch.tensor([[0.9, 5.0, -3.0], [0, 0.5, 2.0], [0, 0, 0.2]], dtype=torch.float64)
    found = lyapunov(matrix_step(w), torch.zeros(1, 3).double(), none(1, 400), burn_in=100)
    np.testing.assert_allclose(found.exponents, np.log([0.9, 0.5, 0.2]), atol=1e-10)


def test_rotation() -> None:
    """0 to N eps, which is 1e-15, and said in words; for an orthogonal network too."""
    turn = torch.linalg.qr(torch.randn(5, 5).double())[0]
    found = lyapunov(matrix_step(turn), torch.randn(3, 5).double(), none(3, 60))
    np.testing.assert_allclose(found.exponents, 0, atol=1e-13)
    assert "neutral" in found.words()
    layer = ExpRNN(1, 6, batch_first=True, activation="identity", dtype=torch.float64)
    found = lyapunov(lambda h, x: layer(x[:, None], h[None])[1][0], torch.zeros(1, 6).double(), none(1, 30))
    np.testing.assert_allclose(found.exponents, 0, atol=1e-13)


def test_logistic() -> None:
    """x -> 4 x (1 - x): ln 2, within four of its own standard errors, which are small."""
    start = torch.rand(50, 1, dtype=torch.float64) * 0.8 + 0.1
    found = lyapunov(lambda h, x: 4 * h * (1 - h), start, none(50, 400))
    assert abs(found.exponents[0] - math.log(2)) < 4 * found.errors[0] + 1e-3
    assert 0 < found.errors[0] < 0.01
    assert "unstable" in found.words()
    assert found.dimension == 1


def henon(h: Tensor, x: Tensor) -> Tensor:
    return torch.stack([1 - 1.4 * h[:, 0] ** 2 + h[:, 1], 0.3 * h[:, 0]], 1)


def henon_jacobian(h: Tensor, x: Tensor) -> Tensor:
    one = torch.ones(len(h), dtype=h.dtype)
    return torch.stack([-2.8 * h[:, 0], one, 0.3 * one, 0 * one], 1).reshape(-1, 2, 2)


@pytest.mark.parametrize("jacobian", [None, henon_jacobian])
@pytest.mark.parametrize("interval", [1, 4])
def test_henon(jacobian: Callable[[Tensor, Tensor], Tensor] | None, interval: int) -> None:
    """The sum is log 0.3 exactly; the largest 0.419 and the dimension 1.26 are in every book."""
    start = torch.rand(40, 2, dtype=torch.float64) * 0.1
    found = lyapunov(henon, start, none(40, 320), interval=interval, jacobian=jacobian)
    assert found.total == pytest.approx(math.log(0.3), abs=1e-12)
    assert found.exponents[0] == pytest.approx(0.419, abs=4 * found.errors[0] + 0.002)
    assert found.dimension == pytest.approx(1.26, abs=0.03)


def test_cat_map_driven() -> None:
    """A skew product: Arnold's cat drives a contraction by the input; the exponents are those of both, by hand."""
    cat = torch.tensor([[2.0, 1.0], [1.0, 1.0]]).double()
    golden = math.log((3 + math.sqrt(5)) / 2)

    def step(h: Tensor, x: Tensor) -> Tensor:
        turned = (h[:, :2] @ cat.T) % 1
        return torch.cat([turned, x * h[:, 2:] + torch.sin(turned[:, :1])], 1)

    inputs = torch.rand(2, 400, 1, dtype=torch.float64) + 0.1
    found = lyapunov(step, torch.rand(2, 3, dtype=torch.float64), inputs, burn_in=50)
    mean = float(inputs[:, 50:].log().mean())
    np.testing.assert_allclose(found.exponents, sorted([golden, -golden, mean], reverse=True), atol=2e-2)
    assert found.total == pytest.approx(mean, abs=1e-10)


@pytest.mark.parametrize(("interval", "burn_in"), [(1, 0), (2, 7), (3, 20)])
def test_tanh_network(interval: int, burn_in: int) -> None:
    """Along random data the sum is the mean of log |det J_t|, to eps times the condition of the product of 3 steps.

    Saturated units have 1 - h^2 down to 1e-4 and less: 1e-6 allows a condition of 1e9.
    """
    w, u = torch.randn(6, 6).double() * 0.7, torch.randn(6, 2).double()
    inputs, state = torch.randn(3, 120, 2).double(), torch.randn(3, 6).double()
    found = lyapunov(
        lambda h, x: torch.tanh(h @ w.T + x @ u.T), state, inputs, interval=interval, burn_in=burn_in
    )  # fmt: skip
    logs = []
    for t in range(burn_in + found.steps):
        state = torch.tanh(state @ w.T + inputs[:, t] @ u.T)
        logs.append((1 - state**2).log().sum(1) + torch.linalg.slogdet(w)[1])
    assert found.total == pytest.approx(float(torch.stack(logs[burn_in:]).mean()), abs=1e-6)
    assert (np.diff(found.exponents) <= 0).all()
    np.testing.assert_allclose(found.running[-1], found.exponents, rtol=1e-12)


def test_error_bar() -> None:
    """Steps that scale by e^x, x normal with variance s^2: the error is s / sqrt(B T), and it covers."""
    inputs = 0.5 * torch.randn(50, 400, 1, dtype=torch.float64)
    found = lyapunov(lambda h, x: h * x.exp(), torch.ones(50, 1).double(), inputs, burn_in=0)
    assert found.errors[0] == pytest.approx(0.5 / math.sqrt(20000), rel=0.25)
    assert found.exponents[0] == pytest.approx(float(inputs.mean()), abs=1e-12)


def test_dead_directions() -> None:
    """A step that forgets at once: minus infinity, None in JSON."""
    found = lyapunov(lambda h, x: 0 * h + x, torch.ones(1, 2).double(), none(1, 20))
    assert (found.exponents == -math.inf).all()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["exponents"] == [None, None]
    assert "dies after some steps" in found.words()


@pytest.mark.parametrize("count", [1, 12])
def test_delay_line(count: int) -> None:
    """Nilpotent: all is lost after N steps, and rounding must not revive it; beside a mode that lives, it may."""
    w = torch.diag(torch.ones(11, dtype=torch.float64), -1)
    found = lyapunov(matrix_step(w), torch.zeros(2, 12).double(), none(2, 60), count=count)
    assert found.dead == count
    w[0, 0] = 0.5
    found = lyapunov(matrix_step(w), torch.zeros(2, 12).double(), none(2, 120), burn_in=60, count=count)
    assert found.exponents[0] == pytest.approx(math.log(0.5), abs=1e-9)
    assert (found.exponents[1:] < -2.5).all()


def test_one_dead_direction() -> None:
    w = torch.diag(torch.tensor([0.5, 0.0, 2.0], dtype=torch.float64))
    found = lyapunov(matrix_step(w), torch.zeros(1, 3).double(), none(1, 60))
    np.testing.assert_allclose(found.exponents, [math.log(2), -math.log(2), -math.inf], atol=1e-12)
    assert "1 of 3 directions die at once" in found.words()
    assert found.total == -math.inf


def test_reverse_mode_where_there_is_no_forward_mode() -> None:
    """torch's LSTM in float32 has no forward mode on this processor; either way the tangents are those of float64."""
    layer = torch.nn.LSTM(2, 3, batch_first=True)

    def step(h: Tensor, x: Tensor) -> Tensor:
        _, (hidden, cell) = layer(x[:, None], tuple(part[None].contiguous() for part in h.chunk(2, 1)))
        return torch.cat([hidden[0], cell[0]], 1)

    state, x = torch.randn(4, 6), torch.randn(4, 2)
    frame, inner = torch.randn(4, 6, 5), torch.randn(4, 2, 5)
    following, moved = step_with_tangents(step, state, x, frame, inner)
    layer.double()
    right = [step(state.double() + e * frame[..., 2], x.double() + e * inner[..., 2]) for e in (1e-6, -1e-6)]
    torch.testing.assert_close(moved[..., 2].double(), (right[0] - right[1]).detach() / 2e-6, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(following.double(), step(state.double(), x.double()).detach(), rtol=1e-5, atol=1e-6)


class Opaque(torch.autograd.Function):
    """A square that has a backward pass and nothing else."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * ctx.saved_tensors[0] * grad  # type: ignore[attr-defined]


def test_only_a_backward_pass() -> None:
    """The same frame from a step without forward mode and from one with it."""
    w, u = torch.randn(3, 3).double(), torch.randn(3, 2).double()
    state, x = torch.randn(4, 3).double(), torch.randn(4, 2).double()
    frames = (torch.randn(4, 3, 5).double(), torch.randn(4, 2, 5).double())
    opaque = step_with_tangents(lambda h, x: Opaque.apply(h @ w.T + x @ u.T), state, x, *frames)
    open_ = step_with_tangents(lambda h, x: (h @ w.T + x @ u.T) ** 2, state, x, *frames)
    torch.testing.assert_close(opaque, open_, rtol=1e-12, atol=1e-12)


def test_the_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    lyapunov(matrix_step(torch.eye(3).double()), torch.zeros(1, 3).double(), none(1, 20))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"count": 4}, OptionError, "count must be at most N = 3"),
        ({"interval": 0}, OptionError, "interval must be at least 1"),
        ({"burn_in": 19}, OptionError, "at least two intervals of 1 must follow the burn-in of 19, got 20 steps"),
        ({"state": torch.zeros(3)}, ShapeError, r"state \(B, N\) and inputs \(B, T, D\) are needed"),
        ({"step": lambda h, x: h[:, :2]}, ShapeError, "a step must keep the shape of the state"),
        ({"step": lambda h, x: h / 0}, NonFiniteError, "no longer finite"),
    ],
)
def test_refused(options: dict[str, object], error: type[EngramError], match: str) -> None:
    given: dict[str, object] = {"step": lambda h, x: h, "state": torch.ones(2, 3).double(), "inputs": none(2, 20)}
    with pytest.raises(error, match=match):
        lyapunov(**given | options)  # type: ignore[arg-type]


def test_a_slow_loss_is_not_called_a_kept_past() -> None:
    """0.95 a step over 36 steps leaves 16 %: exact, and not 0; what all the followed directions do is a lower bound."""
    words = [
        lyapunov(matrix_step(g * torch.eye(3).double()), torch.ones(1, 3).double(), none(1, 40), count=2).words()
        for g in (0.95, 1.0, 1.1)
    ]
    assert "stable, a small difference of the state is halved every 13.5 steps" in words[0]
    assert "neutral" in words[1]
    assert "At least 2 of 3 directions grow" in words[2]


def test_words_and_plot() -> None:
    w = torch.diag(torch.tensor([0.5, 0.25])).double()
    found = lyapunov(matrix_step(w), torch.ones(1, 2).double(), none(1, 100))
    assert "halved every 1 steps" in found.words()
    numbers = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert numbers["exponents"] == found.exponents.tolist()
    assert numbers["dimension"] == 0
    axes = Figure().subplots()
    found.plot(axes)
    assert axes.containers


@pytest.mark.parametrize(
    ("exponents", "size", "dimension"),
    [
        ([0.4, -1.6], 2, 1.25),
        ([0.5, 0.0, -2.0], 3, 2.25),
        ([-1.0, -2.0], 2, 0.0),
        ([0.2, 0.1], 2, 2.0),
        ([0.2], 3, None),
    ],
)
def test_dimension(exponents: list[float], size: int, dimension: float | None) -> None:
    """Kaplan and Yorke by hand."""
    values = np.array(exponents)
    assert Lyapunov(values, 0 * values, values[None], 10, 0, 1, size).dimension == pytest.approx(dimension)


@pytest.mark.parametrize(
    ("exponent", "error", "steps", "word"),
    [
        (0.019, 0.01, 1000, "neutral"),  # two standard errors
        (0.021, 0.01, 1000, "unstable"),
        (-0.021, 0.01, 1000, "stable"),
        (0.068, 0.0, 10, "neutral"),  # e^0.68 < 2 over all steps
        (0.070, 0.0, 10, "unstable"),
    ],
)
def test_what_counts_as_zero(exponent: float, error: float, steps: int, word: str) -> None:
    values = np.array([exponent])
    found = Lyapunov(values, np.array([error]), values[None], steps, 0, 1, 1)
    assert found.headline().startswith(f"{word}, ")


def test_errors_stay_with_their_exponents() -> None:
    """Two directions, the second one faster and noisier: 16 pieces in 8 blocks, one sequence."""
    quiet, loud = np.linspace(-0.1, 0.1, 16), np.linspace(-1.0, 3.0, 16)
    found = _estimate(np.stack([quiet, loud], -1)[None], burn_in=3, interval=2, size=2)
    blocks = [column.reshape(8, 2).mean(1).std(ddof=1) / math.sqrt(8) for column in (loud, quiet)]
    assert found.exponents == pytest.approx([1.0, 0.0])
    assert found.errors == pytest.approx(blocks)
    assert found.running[1] == pytest.approx([loud[:2].mean(), quiet[:2].mean()])
    assert (found.steps, found.burn_in, found.interval, found.size) == (32, 3, 2, 2)


def test_directions_that_were_not_followed_die_with_the_last_that_was() -> None:
    """One of ten lives; of the four followed three die, so the six below them do."""
    w = torch.zeros(10, 10, dtype=torch.float64)
    w[0, 0] = 0.5
    found = lyapunov(matrix_step(w), torch.zeros(1, 10).double(), none(1, 20), count=4)
    assert (found.dead, found.size) == (3, 10)
    assert "9 of 10 directions die at once" in found.words()


def test_a_step_that_forgets_everything() -> None:
    """It depends on neither state nor input: every direction dies at once."""
    found = lyapunov(lambda h, x: torch.ones_like(h), torch.ones(1, 3).double(), none(1, 20))
    assert found.exponents.tolist() == [-math.inf] * 3
    assert (found.dead, found.dimension) == (3, 0.0)
    assert "every small difference of the state dies after some steps" in found.words()

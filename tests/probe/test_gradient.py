"""Gradient reach against what is known in closed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import engram
from engram.probe import Decay, fit_decay, gradient_reach
from engram.probe._decay import expected_horizon, horizon


def orthogonal(size: int) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]


@pytest.mark.parametrize(("c", "kind", "verdict"), [(0.9, "exponential", "vanishes"), (1.1, "exponential", "explodes")])
def test_scaled_rotation(linear: Any, c: float, kind: str, verdict: str) -> None:
    """|d h_T / d x_{T-k}| = c^k |u| for W = c Q."""
    u = torch.randn(6, 2, dtype=torch.float64)
    found = gradient_reach(linear(c * orthogonal(6), u), length=80)
    expected = c ** np.arange(80) * float(u.norm())
    np.testing.assert_allclose(found.norms, expected, rtol=1e-10)
    assert found.exact
    assert found.decay.kind == kind
    assert found.decay.rate == pytest.approx(np.log(c), rel=1e-9)
    assert found.verdict == verdict
    assert found.horizon == (44 if c < 1 else None)  # 0.9^43 > 1 % > 0.9^44
    assert verdict in found.words()


def test_a_slow_decay_is_extrapolated(linear: Any) -> None:
    """0.99^k has not come to 1 % after 100 steps, and will at 458.2."""
    found = gradient_reach(linear(0.99 * orthogonal(4), torch.ones(4, 1)), length=100)
    assert found.horizon is None
    assert found.expected == pytest.approx(np.log(0.01) / np.log(0.99), rel=1e-6)
    assert found.verdict == "keeps"


def test_identity_is_flat(linear: Any) -> None:
    found = gradient_reach(linear(torch.eye(3), torch.ones(3, 1)), length=50)
    np.testing.assert_allclose(found.norms, 3**0.5)
    assert (found.decay.kind, found.verdict, found.horizon) == ("flat", "keeps", None)


def test_delay_line(linear: Any) -> None:
    """Read at its end only, a delay line is deaf to all but one lag: zero, one, zero."""
    n = 7
    line = linear(torch.diag(torch.ones(n - 1), -1), torch.eye(n)[:, :1])

    class End(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.input_size = line, 1

        def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
            output, state = self.line(x, state)
            return output[..., -1:], state

    found = gradient_reach(End(), length=20)
    np.testing.assert_array_equal(found.norms, np.eye(20)[n - 1])
    assert (found.decay.kind, found.horizon) == ("none", n)


def test_polynomial() -> None:
    """A convolution with the kernel (1 + k)^-2 has that gradient."""

    class Power(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = (1 + torch.arange(x.shape[1]).flip(0)).to(x) ** -2
            return (weights[:, None] * x).cumsum(1)  # exact at the last step

    found = gradient_reach(engram.probe.Subject(Power(), 1, batch_first=True), length=300)
    np.testing.assert_allclose(found.norms, (1.0 + np.arange(300)) ** -2, rtol=1e-5)
    assert found.decay.kind == "polynomial"
    assert found.decay.rate == pytest.approx(-2, abs=1e-4)


def test_states(linear: Any) -> None:
    """L = |h_T|^2 / 2 has dL/dh_{T-k} = (c Q^T)^k h_T: norms c^k |h_T| for every sequence."""
    layer = linear(0.8 * orthogonal(5), torch.randn(5, 2))
    x = torch.randn(30, 4, 2, dtype=torch.float64)
    found = gradient_reach(layer, inputs=x)
    last = layer(x)[0][-1].detach().norm(dim=-1).square().mean().sqrt()
    assert found.states[0] is None
    np.testing.assert_allclose(found.states[1:], 0.8 ** np.arange(1, 30) * float(last), rtol=1e-10)  # type: ignore[arg-type]


def test_states_with_a_loss_of_every_step(linear: Any) -> None:
    """L = sum_t c . h_t: dL/dh_{T-k} through the steps after it is sum_{j=1..k} (W^T)^j c."""
    matrix, c = torch.randn(4, 4, dtype=torch.float64) / 2, torch.randn(4, dtype=torch.float64)
    found = gradient_reach(
        linear(matrix, torch.ones(4, 1)), length=10, batch=1, loss=lambda outputs: (outputs @ c).sum()
    )
    expected, row = [], torch.zeros(4, dtype=torch.float64)
    for _ in range(9):
        row = matrix.mT @ (row + c)
        expected.append(float(row.norm()))
    np.testing.assert_allclose(found.states[1:], expected, rtol=1e-10)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [lambda: nn.LSTM(3, 5), lambda: nn.GRU(3, 5, batch_first=True), lambda: nn.RNN(3, 5)])
def test_against_the_plain_jacobian(make: Callable[[], nn.Module]) -> None:
    module: Any = make().double()
    x = torch.randn(8, 1, 3, dtype=torch.float64)

    def last(x: Tensor) -> Tensor:
        return module(x.transpose(0, 1))[0][:, -1] if module.batch_first else module(x)[0][-1]

    jacobian = torch.autograd.functional.jacobian(last, x)  # (1, 5, 8, 1, 3)
    expected = jacobian.square().sum((0, 1, 3, 4)).sqrt().flip(0)
    np.testing.assert_allclose(gradient_reach(module, inputs=x).norms, expected, rtol=1e-9)


def test_up_to_64_outputs_are_exact_and_averaged_over_sequences(linear: Any) -> None:
    """h = tanh(u x): the slope 1 - h^2 differs from sequence to sequence; the norm is the root of the mean square."""
    u = torch.randn(64, 2, dtype=torch.float64)
    layer = nn.RNN(2, 64, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()
        layer.weight_ih_l0.copy_(u)
    x = torch.randn(5, 3, 2, dtype=torch.float64)
    found = gradient_reach(layer, inputs=x)
    slopes = (1 - torch.tanh(x[-1] @ u.T) ** 2)[..., None] * u  # (3, 64, 2)
    assert found.exact
    assert found.norms == pytest.approx([float(slopes.square().sum((1, 2)).mean().sqrt()), 0, 0, 0, 0])
    assert "from 1 step back on" in found.words()
    assert not gradient_reach(nn.RNN(2, 65), length=5).exact


def test_many_outputs_are_sampled(linear: Any) -> None:
    """More than 64 outputs: E |J^T v|^2 = |J|^2, near the exact one, and it says so."""
    layer = linear(0.9 * orthogonal(80), torch.randn(80, 3))
    found = gradient_reach(layer, length=20, probes=400)
    expected = 0.9 ** np.arange(20) * float(layer.weight_ih_l0.detach().norm())
    np.testing.assert_allclose(found.norms, expected, rtol=0.1)
    assert not found.exact
    assert "Sampled with 32 random vectors" in found.words()


def test_no_gradient_at_all() -> None:
    found = gradient_reach(engram.probe.Subject(nn.Threshold(100.0, 0.0), 2, batch_first=True), length=10)
    assert (found.verdict, found.horizon) == ("vanishes", 0)
    assert "zero everywhere" in found.words()
    assert found.states == "it returns none"


@pytest.mark.parametrize("rate", [-3.0, -0.5, 0.01, 2.0])
def test_rates_are_found(rate: float) -> None:
    assert fit_decay(np.exp(rate * np.arange(200) / 10)).rate == pytest.approx(rate / 10, rel=1e-6)
    law = fit_decay((1 + np.arange(400.0)) ** rate)
    assert law.rate == pytest.approx(rate, rel=1e-6) or law.kind == "flat"


def test_noise_is_irregular() -> None:
    """Of 40 noisy curves without a trend none counts as a decay: weak noise is flat, strong noise often irregular."""
    kinds = {
        size: [fit_decay(np.exp(size * np.random.default_rng(seed).normal(size=400))).kind for seed in range(40)]
        for size in (0.1, 5)
    }
    assert set(kinds[0.1]) == {"flat"}
    assert set(kinds[5]) == {"irregular", "flat"}
    assert kinds[5].count("irregular") >= 10


def test_horizon() -> None:
    assert horizon(np.array([1.0, 0.5, 0.009, 0.02, 0.001])) == 4
    assert horizon(np.array([1.0, 0.5])) is None


def test_overflow_is_said(linear: Any) -> None:
    found = gradient_reach(linear(1e20 * torch.eye(2), torch.ones(2, 1)), length=30)
    assert found.verdict == "explodes"
    assert "from lag 8 on it is too large for floating point numbers" in found.words()


@pytest.mark.parametrize(
    ("end", "kind"), [(0.51, "flat"), (0.49, "exponential"), (1.99, "flat"), (2.01, "exponential")]
)
def test_less_than_a_factor_of_two_is_flat(end: float, kind: str) -> None:
    """From lag 1 to the last lag; lag 0 does not count."""
    law = fit_decay(np.r_[77.0, end ** np.linspace(0, 1, 40)])
    assert law.kind == kind
    assert law.change == pytest.approx(end)


def test_half_of_the_variance() -> None:
    """A line plus zigzag: r^2 = a^2 / (a^2 + b^2) of the variances, irregular below one half."""
    lags = np.arange(400)
    slope = (lags - lags.mean()) / lags.std()
    for zigzag, kind in ((0.9, "exponential"), (1.1, "irregular")):
        law = fit_decay(np.exp(-slope + zigzag * (-1.0) ** lags))
        assert law.kind == kind
        assert law.r2 == pytest.approx(1 / (1 + zigzag**2), abs=0.01)


@pytest.mark.parametrize(
    ("law", "lag"),
    [
        (Decay("exponential", -0.1, 0.5, 1.0), np.log(100) / 0.1),
        (Decay("polynomial", -2.0, 0.5, 1.0), 9.0),  # (1 + 9)^-2 = 1 %
        (Decay("exponential", 0.1, 2.0, 1.0), None),
        (Decay("flat", -0.1, 0.9, 1.0), None),
        (Decay("polynomial", -0.001, 0.9, 1.0), None),  # e^4605 steps
    ],
)
def test_where_a_law_reaches_one_percent(law: Decay, lag: float | None) -> None:
    assert expected_horizon(law) == (None if lag is None else pytest.approx(lag))

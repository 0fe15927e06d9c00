"""LinearRNN and DepthRNN: contract, starts, blocks of time against the loop, the delay line, wrong calls."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from engram import loops
from engram.checks import check_contract
from engram.errors import OptionError
from engram.loops import _linear_scan
from engram.nn import RNN, DepthRNN, LinearCell, LinearRNN, Recurrent
from tiers import slow, slow_but


@pytest.mark.parametrize("kind", [LinearRNN, slow(DepthRNN)])
def test_contract(kind: type[RNN]) -> None:
    assert len(check_contract(kind)) == 11


def randn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


def test_the_recurrence_written_out() -> None:
    """h_t = V h_{t-1} + U x_t + b, from a trained start; two layers."""
    layer, x = LinearRNN(2, 3, 2, initial_state="trained", dtype=torch.float64), randn(6, 4, 2)
    with torch.no_grad():
        for cell in layer.cells:
            cell.start.normal_()
    signal = x
    for cell in layer.cells:
        h, states = cell.start.expand(4, -1), []
        for u in signal:
            h = h @ cell.weight_hh.T + u @ cell.weight_ih.T + cell.bias
            states.append(h)
        signal = torch.stack(states)
    torch.testing.assert_close(layer(x)[0], signal, atol=1e-12, rtol=0)


def test_affine_in_its_input() -> None:
    """F(x) - F(0) is linear (Lizaire et al. 2026, Proposition 2, corrected); F itself is not, with a bias."""
    layer, x, y = LinearRNN(2, 3, 2, dtype=torch.float64), randn(6, 4, 2), randn(6, 4, 2)

    def moved(input: Tensor) -> Tensor:
        result: Tensor = layer(input)[0] - layer(torch.zeros_like(input))[0]
        return result

    torch.testing.assert_close(moved(2 * x - 3 * y), 2 * moved(x) - 3 * moved(y), atol=1e-12, rtol=0)
    assert not layer(2 * x)[0].allclose(2 * layer(x)[0])


def test_depth_rnn_is_the_rnn_activated_in_depth() -> None:
    depth = DepthRNN(2, 3, 2, activation="sigmoid", dtype=torch.float64)
    rnn = RNN(2, 3, 2, activation="sigmoid", activation_in="depth", dtype=torch.float64)
    rnn.load_state_dict(depth.state_dict())
    x = randn(6, 4, 2)
    for found, expected in zip(depth(x), rnn(x), strict=True):
        torch.testing.assert_close(
            found, expected, atol=1e-12, rtol=0
        )  # 2 layers, 6 steps of sums of 5: 60 eps = 1e-14
    assert not depth(x)[0][-1].equal(depth(x)[1][-1])  # the state is the pre-activation


@pytest.mark.parametrize("kind", [LinearRNN, DepthRNN])
def test_starts(kind: type[RNN]) -> None:
    """Spectral radius near 0.58 by the stated law, near 1 by Xavier's, whose biases are zero."""
    uniform, xavier = kind(5, 200), kind(5, 200, init="xavier")
    radius = [float(torch.linalg.eigvals(layer.cells[0].weight_hh.detach()).abs().max()) for layer in (uniform, xavier)]
    assert 0.5 < radius[0] < 0.66
    assert 0.9 < radius[1] < 1.15
    assert uniform.cells[0].weight_ih.abs().max() <= 200**-0.5
    assert uniform.cells[0].bias.any()
    assert not xavier.cells[0].bias.any()
    xavier.cells[0].bias.data.fill_(1)
    xavier.reset_parameters()
    assert not xavier.cells[0].bias.any()


def test_counts() -> None:
    """(2L - 1) n^2 + (L + d) n."""
    for n, depth, d in ((4, 1, 1), (7, 3, 2), (5, 8, 5)):
        assert sum(p.numel() for p in LinearRNN(d, n, depth).parameters()) == (2 * depth - 1) * n * n + (depth + d) * n


@torch.no_grad()
def test_a_delay_line_is_exact() -> None:
    """A shift of n units holds n - 1 steps, to the last bit, in blocks as in the loop."""
    layer = LinearRNN(1, 5, bias=False)
    cell = layer.cells[0]
    cell.weight_hh.copy_(torch.diag(torch.ones(4), -1))
    cell.weight_ih.copy_(torch.eye(5)[:, :1])
    x = torch.randn(2000, 1, 1)
    for kernel in ("auto", "torch", "plain"):
        with loops.use(kernel):
            assert layer(x)[0][4:, :, 4:].equal(x[:-4])


def gradients(call: Callable[..., tuple[Tensor, ...]], arguments: list[Tensor]) -> list[Tensor]:
    leaves = [a.detach().clone().requires_grad_() for a in arguments]
    values = call(*leaves)
    parts = [torch.view_as_real(v) if v.is_complex() else v for v in values]
    loss = sum((p * torch.linspace(-1, 2, p.numel(), dtype=p.dtype).view_as(p)).sum() for p in parts)
    return [*values, *torch.autograd.grad(loss, leaves)]  # type: ignore[arg-type]


BLOCKS = [*product([1024, 1025, 1100], [torch.float64, torch.complex128], [False, True])]
QUICK = [(1024, torch.float64, False), (1024, torch.complex128, True), (1025, torch.complex128, False)]
QUICK += [(1100, torch.float64, True)]


@pytest.mark.parametrize(("steps", "dtype", "reverse"), slow_but(BLOCKS, QUICK))
def test_blocks_are_the_loop(steps: int, dtype: torch.dtype, reverse: bool) -> None:
    """Values and gradients to 1e-10, at lengths that the block divides and that it does not."""
    arguments = [randn(steps, 2, 3, dtype=dtype) / 30, randn(2, 4, dtype=dtype)]
    arguments += [randn(4, 3, dtype=dtype), randn(4, dtype=dtype) / 30]
    arguments += [torch.linalg.qr(randn(4, 4, dtype=dtype))[0] * 0.99]
    layer = LinearRNN(3, 4, dtype=dtype)

    def cell(*weights: Tensor) -> Any:
        view = layer.cells[0].with_built_weights()
        copied = type(view).__new__(type(view))
        copied.__dict__.update(view.__dict__, _parameters={"start": None, "mod_bias": None})
        copied.__dict__.update(zip(("weight_ih", "bias", "weight_hh"), weights, strict=True))
        return copied

    def whole(x: Tensor, start: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = cell(*weights).run(x, start, None, reverse)
        return found

    def last(x: Tensor, start: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return (cell(*weights).last(x, start, None, reverse),)

    with loops.use("torch"):
        assert _linear_scan.in_blocks(arguments[0], arguments[4], None)
        found = [gradients(call, arguments) for call in (whole, last)]
    with loops.use("plain"):
        truth = [gradients(call, arguments) for call in (whole, last)]
    for ours, theirs in zip([*found[0], *found[1]], [*truth[0], *truth[1]], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_a_layer_of_ones_own_with_this_cell_is_linear() -> None:
    """It had the defaults of RNNCell, a tanh in the recurrence, which blocks of time left out."""

    class Own(Recurrent):
        cell = LinearCell

    layer = Own(3, 4, dtype=torch.float64)
    x = randn(1024, 1, 3)
    with loops.use("torch"):
        found = layer(x)[0]
    with loops.use("plain"):
        torch.testing.assert_close(found, layer(x)[0], atol=1e-10, rtol=0)
    torch.testing.assert_close(layer(2 * x)[0] - found, found - layer(0 * x)[0], atol=1e-10, rtol=0)


def test_where_blocks_run() -> None:
    """Never beside a compiled loop, never for packed rows, only where they were measured to be faster."""
    x, w = torch.zeros(1024, 2, 3), torch.zeros(4, 4)
    with loops.use("torch"):
        assert _linear_scan.in_blocks(x, w, None)
        assert not _linear_scan.in_blocks(x[:1023], w, None)
        assert not _linear_scan.in_blocks(x, torch.zeros(257, 257), None)
        assert not _linear_scan.in_blocks(x.view(2048, 3), w, torch.full((1024,), 2))
    with loops.use("plain"):
        assert not _linear_scan.in_blocks(x, w, None)
    if loops.status()["float32"].startswith("compiled"):
        assert not _linear_scan.in_blocks(x, w, None)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "activation": (lambda: LinearRNN(2, 3, activation="tanh"), "LinearRNN has no activation, got activation='tanh'"),
    "place": (lambda: DepthRNN(2, 3, activation_in="recurrence"), "DepthRNN has a linear recurrence"),
    "place of a cell": (lambda: LinearCell(2, 3, activation_in="recurrence"), "LinearCell has a linear recurrence"),
    "init": (lambda: LinearRNN(2, 3, init="xaver"), "unknown init 'xaver': expected one of uniform, xavier"),
    "option": (lambda: DepthRNN(2, 3, inits="xavier"), "Did you mean 'init'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(OptionError, match=message):
        call()

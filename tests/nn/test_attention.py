"""Attention in the recurrence: equal to the truth in lists, in outputs, gradients and chosen states."""

from typing import Any

import pytest
import torch
from torch import Tensor

import attention_truth as truth
from engram.nn import MemLSTM, MemRNN, RelLSTM, RelRNN

SIZES = [(5, 3), (1, 2), (10, 10), (4, 1), (3, 0)]
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "dot": {"align": "dot"},
    "uniform, normed": {"align": "uniform", "screen": "beta_norm"},
    "concat": {"combine": "concat"},
    "mean, shows s": {"combine": "mean", "readout": "s"},
    "two heads": {"heads": 2, "screen": "beta_norm"},
    "dot, two heads": {"heads": 2, "align": "dot"},
    "learned": {"screen": "learned"},
    "first": {"screen": "first"},
    "recency": {"screen": "recency"},
    "own": {"screen": lambda beta, h: beta * h[:, 0]},
}
SCORES: dict[str, Any] = {
    "learned": lambda cell: lambda beta, h, i: cell.weight_screen @ h,
    "first": lambda cell: lambda beta, h, i: beta.new_zeros(()),
    "recency": lambda cell: lambda beta, h, i: beta.new_tensor(float(i)),
    "own": lambda cell: lambda beta, h, i: (beta * h[0]).detach(),
}


@pytest.mark.parametrize("steps", [2, 37])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("nu", "rho"), SIZES)
@pytest.mark.parametrize("kind", [RelRNN, RelLSTM])
def test_relevancy_screening(kind: Any, nu: int, rho: int, options: str, steps: int) -> None:
    layer = kind(3, 4, nu=nu, rho=rho, **OPTIONS[options], dtype=torch.float64)
    cell, x = layer.cells[0], torch.randn(steps, 3, 3, dtype=torch.float64)
    inner = (truth.rnn_step if kind is RelRNN else truth.lstm_step)(cell)
    score = SCORES[options](cell) if options in SCORES and rho else None
    found = [truth.relevant(cell, inner, x[:, row], score) for row in range(3)]
    output, state = layer(x)
    check_equal(layer, output, found)
    for row, alone in enumerate(found):
        made = state.made[0, row].tolist()
        assert sorted(i for i in made[:nu] if i) == alone.buffers[-1]
        assert made[nu:] == alone.relevant[-1] + [0] * (rho - len(alone.relevant[-1]))
        torch.testing.assert_close(state.s[0, row], alone.s, atol=1e-12, rtol=0)


@pytest.mark.parametrize("options", [name for name, given in OPTIONS.items() if "screen" not in given])
@pytest.mark.parametrize("kind", [MemRNN, MemLSTM])
def test_all_past_states(kind: Any, options: str) -> None:
    layer = kind(3, 4, **OPTIONS[options], dtype=torch.float64)
    cell, x = layer.cells[0], torch.randn(17, 3, 3, dtype=torch.float64)
    inner = (truth.rnn_step if kind is MemRNN else truth.lstm_step)(cell)
    check_equal(layer, layer(x)[0], [truth.all_past(cell, inner, x[:, row]) for row in range(3)])


def check_equal(layer: Any, output: Tensor, found: list[truth.Found]) -> None:
    """Outputs to 1e-12, gradients of all weights to 1e-10."""
    expected = torch.stack([torch.stack(alone.outputs) for alone in found], 1)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    factors = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    weights = list(layer.parameters())
    ours = torch.autograd.grad((output * factors).sum(), weights, allow_unused=True)
    theirs = torch.autograd.grad((expected * factors).sum(), weights, allow_unused=True)
    for mine, true, weight in zip(ours, theirs, weights, strict=True):
        zero = torch.zeros_like(weight)
        torch.testing.assert_close(
            zero if mine is None else mine, zero if true is None else true, atol=1e-10, rtol=1e-10
        )

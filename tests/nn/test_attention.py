"""Attention in the recurrence: equal to the truth in lists, in outputs, gradients and chosen states."""

from typing import Any

import pytest
import torch
from torch import Tensor

import attention_truth as truth
from engram.checks import check_contract, explain
from engram.loops import use
from engram.nn import MemLSTM, MemRNN, RelLSTM, RelRNN
from tiers import slow, slow_but

SIZES = [(5, 3), (1, 2), (10, 10), (4, 1), (3, 0)]
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "dot": {"align": "dot"},
    "uniform": {"align": "uniform"},
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


@pytest.mark.parametrize("steps", [slow(2), 37])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("nu", "rho"), slow_but(SIZES, [(5, 3), (1, 2)]))
@pytest.mark.parametrize("kind", [RelRNN, RelLSTM])
def test_relevancy_screening(kind: Any, nu: int, rho: int, options: str, steps: int) -> None:
    layer = kind(3, 4, nu=nu, rho=rho, **OPTIONS[options], dtype=torch.float64)
    cell, x = layer.cells[0], torch.randn(steps, 3, 3, dtype=torch.float64)
    inner = (truth.rnn_step if kind is RelRNN else truth.lstm_step)(cell)
    score = SCORES[options](cell) if options in SCORES and rho else None
    found = [truth.relevant(cell, inner, x[:, row], score) for row in range(3)]
    with use("plain"):  # which the compiled loop equals: below
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


COMPILED = {
    "defaults": {},
    "all of it": {"align": "dot", "heads": 2, "combine": "concat", "readout": "s", "screen": "learned"},
    "uniform": {"align": "uniform", "combine": "mean"},  # beta_norm would make all scores equal but for rounding
    "beta_norm": {"screen": "beta_norm"},
    "reservoir": {"screen": "reservoir"},
    "recency": {"rho": 0},
    "one slot each": {"nu": 1, "rho": 1},
    "own": OPTIONS["own"],
}
CASES = [(kind, name) for kind in (RelRNN, RelLSTM) for name in COMPILED]


@pytest.mark.parametrize("executor", ["torch", "compiled"])
@pytest.mark.parametrize(("kind", "options"), slow_but(CASES, [(RelRNN, "defaults"), (RelLSTM, "all of it")]))
def test_the_loop_equals_the_plain_one(kind: Any, options: str, executor: str) -> None:
    """Outputs, last state and gradients, in two pieces, both ways through time, with all kinds of rows."""
    layer = kind(3, 4, bidirectional=True, dtype=torch.float64, **({"nu": 3, "rho": 2} | COMPILED[options]))
    (found, _) = explain(layer).cells
    assert found.executor == "compiled" or "no compiler" in found.reason.lower(), found.reason
    for batch in (2, 9):
        x = torch.randn(22, batch, 3, dtype=torch.float64, requires_grad=True)
        found = {}
        for name in ("plain", executor):
            with use(name):
                torch.manual_seed(0)
                first, middle = layer(x[:9])
                second, last = layer(x[9:], middle)
                real = [part for part in (first, second, *last) if part.is_floating_point() and part.requires_grad]
                loss = sum((part * torch.linspace(-1, 2, part.numel()).double().view_as(part)).sum() for part in real)
                grads = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True)
                found[name] = [first, second, *last, *(torch.zeros(1) if g is None else g for g in grads)]
        for ours, plain in zip(found[executor], found["plain"], strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("kind", [slow(RelRNN), slow(RelLSTM), slow(MemRNN), MemLSTM])
def test_the_contract(kind: Any) -> None:
    assert len(check_contract(kind)) == 11


@pytest.mark.parametrize("kind", [MemRNN, MemLSTM])
def test_memory_of_all_steps_equals_the_plain_loop(kind: Any) -> None:
    """In two pieces, with gradients through the memory between them, both ways, from a trained start."""
    layer = kind(3, 4, bidirectional=True, initial_state="trained", combine="concat", dtype=torch.float64)
    x = torch.randn(9, 2, 3, dtype=torch.float64, requires_grad=True)
    found = {}
    for name in ("plain", "auto"):
        with use(name):
            first, middle = layer(x[:4])
            second, last = layer(x[4:], middle)
            real = [part for part in (first, second, *last) if part.is_floating_point()]
            loss = sum((part * torch.linspace(-1, 2, part.numel()).double().view_as(part)).sum() for part in real)
            found[name] = [first, second, *last, *torch.autograd.grad(loss, [x, *layer.parameters()])]
    for ours, plain in zip(found["auto"], found["plain"], strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-10, rtol=1e-10)

"""Every fast loop equals the plain one: both outputs and every gradient, in float64, in every combination."""

from collections.abc import Callable
from itertools import chain, combinations, product
from typing import Any

import pytest
import torch
from recurrences import additive
from torch import nn

from engram.loops import ACTIVATIONS, use
from tiers import slow_but

TOLERANCE = 1e-10  # float64: a few hundred roundings of 1e-16, and room to spare

LEAVES = ("input", "weight_ih", "bias", "weight_hh", "start", "mod_bias")
SUBSETS = list(chain.from_iterable(combinations(LEAVES, n) for n in (1, 2, 5)))
GRADED = [("states",), ("final",), ("states", "final")]
BIASED = list(product(ACTIVATIONS, [True, False]))
QUICK = [(activation, bias) for activation, bias in BIASED if bias or activation in ("tanh", "modrelu")]


@pytest.mark.parametrize("graded", GRADED, ids="+".join)
@pytest.mark.parametrize(("activation", "bias"), slow_but(BIASED, QUICK))
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_equals_the_reference(
    executor: str,
    activation: str,
    reverse: bool,
    packed: bool,
    bias: bool,
    graded: tuple[str, ...],
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
) -> None:
    """H = 19 is no multiple of any vector, B = 14 makes two blocks of rows."""
    case = problem(6, 14, 3, 19, activation=activation, reverse=reverse, packed=packed, bias=bias)
    truth = outcome(case, "plain", graded=graded)
    assert ("grad bias" in truth, "grad mod_bias" in truth) == (bias, activation == "modrelu")
    assert_same(outcome(case, executor, graded=graded), truth, TOLERANCE)


@pytest.mark.parametrize("needs", SUBSETS, ids="+".join)
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_any_subset_may_need_a_gradient(
    executor: str,
    packed: bool,
    needs: tuple[str, ...],
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
) -> None:
    """What is left out of a backward pass does not change the rest."""
    case = problem(activation="modrelu", packed=packed)
    found = outcome(case, executor, needs=needs)
    assert len(found) == 2 + len(needs)
    assert_same(found, outcome(case, "plain", needs=needs), TOLERANCE)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_reference_is_the_loop_of_torch(activation: str, problem: Callable[..., Any]) -> None:
    """The truth itself, against torch.nn.RNNCell, step by step."""
    case = problem(6, 3, 2, 5, activation=activation)
    cell = nn.RNNCell(2, 5, nonlinearity=activation, dtype=torch.float64)
    with torch.no_grad():
        cell.weight_ih.copy_(case["weight_ih"])
        cell.weight_hh.copy_(case["weight_hh"])
        cell.bias_ih.copy_(case["bias"])
        cell.bias_hh.zero_()
        with use("plain"):
            states, final = additive(**case)
        h = case["start"]
        for x, state in zip(case["input"], states, strict=True):
            h = cell(x, h)
            # 8 eps |h| for a step, and 2^6 times as much after 6 steps, for |W| is about 2
            torch.testing.assert_close(state, h, rtol=0, atol=1e-12)
    assert torch.equal(final, states[-1])


def test_packed_rows_run_alone(executor: str, problem: Callable[..., Any], outcome: Callable[..., Any]) -> None:
    """Row by row, a packed batch is what each sequence gives by itself, in either direction."""
    for reverse in (False, True):
        case = problem(7, 4, 2, 5, packed=True, reverse=reverse, seed=3)
        sizes, found = case["sizes"], outcome(case, executor)
        assert sizes[-1] < 4, "every row is of full length: not a test of packing"
        for row in range(4):
            picked = [int(sizes[:t].sum()) + row for t in range(7) if sizes[t] > row]
            alone = {**case, "input": case["input"][picked, None], "start": case["start"][[row]], "sizes": None}
            single = outcome(alone, "plain")
            torch.testing.assert_close(found["states"][picked], single["states"][:, 0], rtol=0, atol=TOLERANCE)
            torch.testing.assert_close(found["final"][row], single["final"][0], rtol=0, atol=TOLERANCE)

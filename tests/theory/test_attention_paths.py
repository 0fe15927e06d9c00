"""Gradients as sums over paths, and their closed forms (Kerg 2022, Propositions B.1.7 and B.1.12)."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from engram.certify import AttentionPathsClaim, certify
from engram.certify._attention_paths import compared
from engram.errors import OptionError
from engram.theory import (
    VARIANTS,
    Attentive,
    Autograd,
    ClosedForms,
    Variant,
    by_recursion,
    differentiate,
    sum_over_paths,
)

SIMPLE = Variant("additive", "sum", "tanh", "full")


def test_the_variants() -> None:
    assert len(set(VARIANTS)) == 24
    assert Counter(variant.combine for variant in VARIANTS) == {"sum": 8, "mean": 8, "concat": 8}
    assert SIMPLE.attended(5) == [1, 2, 3, 4, 5]
    sparse = Variant("dot", "sum", "tanh", "sparse")
    assert [sparse.attended(step) for step in (1, 2, 3, 6)] == [[1], [1, 2], [1, 2, 3], [1, 2, 5, 6]]


def test_paths_are_counted() -> None:
    """With every E and F the number 1 there are 2^k paths, by the sum and by the recursion."""
    one = np.ones((1, 1))
    for k in range(8):
        assert sum_over_paths(lambda t, tau: one, lambda tau, sigma: one, 3, 3 + k) == 2**k
        assert by_recursion(lambda t, tau: one, lambda tau, sigma: one, 3, 3 + k)[-1] == 2**k


def test_the_order_of_a_path() -> None:
    """F_{3,2} F_{2,1} E_1: the last factor stands left. Powers of 10 tell which factors were multiplied."""
    E = {(1, tau): np.array([[10.0 ** (tau - 1)]]) for tau in (1, 2, 3)}
    F = {(2, 1): np.array([[7.0]]), (3, 1): np.array([[11.0]]), (3, 2): np.array([[13.0]])}
    expected = 100 + 11 * 1 + 13 * 10 + 13 * 7 * 1
    assert sum_over_paths(lambda *p: E[p], lambda *p: F[p], 1, 3) == expected
    assert by_recursion(lambda *p: E[p], lambda *p: F[p], 1, 3)[-1] == expected
    turn, flip = np.array([[0.0, -1], [1, 0]]), np.diag([1.0, -1])
    assert np.array_equal(sum_over_paths(lambda t, tau: flip * (tau == 1), lambda *p: turn, 1, 2), turn @ flip)


def by_hand(variant: Variant, problem: Any) -> list[torch.Tensor]:
    """s_1, s_2, ... of the definition, written again with softmax and matrices of states."""
    w = [torch.tensor(array) for array in problem.weights]
    V, U, b, W_a, U_a, v_a, A, B, scale = w
    s, states, found = torch.zeros(len(V), dtype=torch.float64), [], []
    for step, x in enumerate(torch.tensor(problem.inputs), 1):
        drive = V @ s + U @ x + b
        states.append(drive.tanh() if variant.activation == "tanh" else drive)
        H = torch.stack([states[i - 1] for i in variant.attended(step)])
        e = (H @ U_a.T + W_a @ s).tanh() @ v_a if variant.align == "additive" else (H @ U_a.T) @ (W_a @ s) * scale
        c = e.softmax(0) @ H
        if variant.combine == "concat":
            s = torch.cat([A, B], 1) @ torch.cat([states[-1], c])
        else:
            s = states[-1] + c if variant.combine == "sum" else torch.stack([states[-1], c]).mean(0)
        found.append(s)
    return found


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v.align}-{v.combine}-{v.activation}-{v.attention}")
def test_closed_forms(variant: Variant) -> None:
    """The program is the definition; paths, E, F and gradients are within 1e-12; and some of them are large."""
    problem = AttentionPathsClaim(3, 6)._float(seed=1, purpose=0)
    how = Autograd()
    true = differentiate(variant, problem, how)
    for s, wanted in zip(true.run.macros[1:], by_hand(variant, problem), strict=True):
        assert np.abs(s - wanted.numpy()).max() < 1e-14
    counts = compared(variant, problem, how, 6)
    assert np.array_equal(counts[:, 0], counts[:, 1])
    assert counts[:, 1].tolist() == [9 * 36, 9 * 42, 27 + 6 + 3 + (3 if variant.align == "additive" else 0)]
    assert np.abs(true.total[1, 6]).max() > 1e-3
    forms = ClosedForms(variant, problem.weights, problem.inputs, true.run, how.values)
    worst = max(np.abs(forms.E(*pair) - E).max() for pair, E in true.partial.items())
    assert worst < 100 * 2.3e-16  # some ten products and sums of numbers of at most 1


def test_total_derivatives_are_those_of_the_program() -> None:
    """Of s_5 by h_2, against finite differences of the definition."""
    problem = AttentionPathsClaim(2, 5)._float(seed=3, purpose=0)
    true, change = differentiate(SIMPLE, problem, Autograd()), 1e-6
    w = [torch.tensor(array) for array in problem.weights]
    model = Attentive(SIMPLE, type(problem.weights)(*w), torch.tensor(problem.inputs), Autograd())
    for place in range(2):
        ends = []
        for sign in (1, -1):
            shifts = torch.zeros(5, 2, dtype=torch.float64)
            shifts[1, place] = sign * change
            run = model.roll_out(torch.zeros(2, dtype=torch.float64), shifts, torch.zeros(5, 2, dtype=torch.float64))
            ends.append(run.macros[-1].numpy())
        slope = (ends[0] - ends[1]) / (2 * change)
        assert np.abs(slope - true.total[2, 5][:, place]).max() < 1e-9  # change^2 and rounding / change


@pytest.mark.parametrize(("hidden", "steps"), [(1, 1), (1, 3), (2, 8)])
def test_the_claim(hidden: int, steps: int) -> None:
    """One step, one unit, and more steps than are summed path by path."""
    found = certify(AttentionPathsClaim(hidden, steps), seed=5)
    assert found.holds
    assert found.found["compared"][0] == 24 * hidden**2 * steps**2


def test_a_small_prime() -> None:
    with pytest.raises(OptionError, match="prime must be above 1,000,000, or numbers are equal by chance; got 101"):
        certify(AttentionPathsClaim(2, 2), prime=101)

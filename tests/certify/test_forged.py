"""What does not hold: every claim is given false numbers, each of them false in one thing only.

A certificate that is found to hold says nothing about ``holds`` itself: it must say no where one number is wrong.
"""

from typing import Any

import numpy as np
import pytest
import torch

from engram.certify import (
    CLAIMS,
    AttentionDecayClaim,
    AttentionPathsClaim,
    Claim,
    DelayClaim,
    ParamsClaim,
    certify,
)
from engram.certify._delay import copies
from engram.exact import PRIME, ExactNetwork
from engram.theory import ClosedForms, NegativeEigenvalue, shift_register

FORGED: dict[str, dict[str, Any]] = {
    # modes 3, rank 2, steps 6: at least 8, at most 18
    "tt-equal-cores": {"too low": {"rank": 7}, "too high": {"rank": 19}},
    "tt-different-cores": {"too low": {"rank": 7}, "too high": {"rank": 19}},
    # modes 4, channels 3, steps 6: exactly 3 at depth 1; 10 to 30 at depth 2; 28 to 48 at depth 3
    "rac-shallow": {"too low": {"rank": 2}, "too high": {"rank": 4}},
    "rac-deep": {"too low": {"rank": 9}, "too high": {"rank": 31}},
    "rac-conjecture": {"too low": {"rank": 27}, "too high": {"rank": 49}},
    "rac-upper": {"too high": {"rank": 49}},
    # hidden 5, depth 3: a lag of 12, a degree of 12
    "delay": {
        "not copied": {"copied_lag": None},
        "a shorter lag copied": {"copied_lag": 11},
        "a longer lag copied": {"copied_lag": 13},
        "a degree too low": {"degree": 11},
        "a degree too high": {"degree": 13},
        "a lag above the largest": {"largest_lag": 11},
    },
    # hidden 3, depth 4, steps 7
    "flat": {
        "the last step differs": {"equal_steps": 6},
        "no step is equal": {"equal_steps": 0},
        "the deep network copies as far": {"deep_lag": 11},
        "the one layer copies less far": {"flat_lag": 8},
    },
    "deepen": {
        "the last step differs": {"equal_steps": 6},
        "the rank of four layers": {"hankel_rank": 12},
        "a rank below that of four layers": {"hankel_rank": 11},
        "a larger rank without the layer": {"most_without": 15},
    },
    # hidden 4, depth 3: 96 parameters, against 120 and 126
    "params": {
        "equal at depth 1": {"shallower": [[1, 10, 96], [2, 6, 126]]},
        "equal at depth 2": {"shallower": [[1, 10, 120], [2, 6, 96]]},
        "fewer at depth 1": {"shallower": [[1, 10, 95], [2, 6, 126]]},
        "more at depth 3": {"parameters": 120},
    },
    # steps 4, depth 3: C(6, 3) = 20 in all; 10, 6, 3, 1 in the inputs
    "degree": {
        "one too low": {"degree": 19},
        "one too high": {"degree": 21},
        "one too low by values": {"evaluated": 19},
        "one too high by values": {"evaluated": 21},
        "both too low": {"degree": 19, "evaluated": 19},
        "in the first step": {"in_each_step": [9, 6, 3, 1]},
        "in the last step": {"in_each_step": [10, 6, 3, 0]},
        "a step is missing": {"in_each_step": [10, 6, 3]},
    },
    # depth 2
    "homogeneous": {
        "no power at depth 2": {"powers": [None, 3]},
        "no power at depth 3": {"powers": [2, None]},
        "the same power": {"powers": [2, 2]},
        "the powers of the next depths": {"powers": [3, 4]},
        "swapped": {"powers": [3, 2]},
    },
    # hidden 5, inputs 2, rank 3
    "cp-rank": {
        "rank 3 spans too little": {"span": [2, 4]},
        "rank 3 spans too much": {"span": [4, 4]},
        "rank 4 spans no more": {"span": [3, 3]},
        "rank 4 spans too much": {"span": [3, 5]},
    },
    # hidden 5: 3 steps of 2 numbers
    "state-tracking": {
        "the state differs": {"state_differs": True},
        "the target does not": {"target_change": [0, 0]},
        "the inputs are the same": {"change": [["0", "0"], ["0", "0"], ["0", "0"]]},
    },
    # states 4
    "automaton": {
        "one word differs": {"equal_words": 15},
        "a rank too low": {"hankel_rank": 3},
        "a rank too high": {"hankel_rank": 5},
        "the rank of two copies is too low": {"rank_of_two_copies": 3},
        "two copies need more states": {"rank_of_two_copies": 8},
    },
    # hidden 2, steps 3: of 24 variants 36 numbers of E and F, 48 of paths, and those of the weights
    "attention-paths": {
        "a number of E or F differs": {"equal_exactly": [863, 1152, 456]},
        "a path differs": {"equal_exactly": [864, 1151, 456]},
        "a gradient differs": {"equal_exactly": [864, 1152, 455]},
        "a number of E or F differs in float64": {"equal_in_float64": [863, 1152, 456]},
        "a path differs in float64": {"equal_in_float64": [864, 1151, 456]},
        "a gradient differs in float64": {"equal_in_float64": [864, 1152, 455]},
        "fewer are compared": {
            "compared": [863, 1152, 456],
            "equal_exactly": [863, 1152, 456],
            "equal_in_float64": [863, 1152, 456],
        },
        "nothing is compared": {"compared": [0] * 3, "equal_exactly": [0] * 3, "equal_in_float64": [0] * 3},
        "a variant is missing": {"variants": 23},
    },
    # t = 5, lambda = -1/2: from T = 14 on
    "attention-decay": {
        "an earlier start": {"start": 13},
        "a later start with the numbers of this one": {"start": 15},
        "a start before the change": {"start": 4},
        "another state at the start": {"base": ["1099670/2471040", "-191141/3706560"]},
        "another distance at the start": {"base": ["1099669/2471040", "-191142/3706560"]},
        "a constant too small": {"upper_constant": "341596/500000"},
        "no lower bound": {"lower_constant": "0"},
        "a lower bound too large": {"lower_constant": "898638/1000000"},
        "another coefficient of the ratio": {"ratio_polynomial": ["3304/81", "28/3", "5/9"]},
        "one coefficient less": {"ratio_polynomial": ["3304/81", "28/3"]},
        "another lower polynomial": {"lower_polynomial": ["167732/27", "182896/81", "7909/27", "49/3", "-1/3"]},
        "another upper polynomial": {"upper_polynomial": ["0"]},
        "no exponent": {"exponents": []},
        "an exponent of another eigenvalue": {"exponents": [["sum", "-0.5", "-1.3333"]] * 16},
    },
    # attended 4, depth 3, gap 6, steps 30
    "attention-sparse": {
        "the printed power of kappa": {"relays": [3, "1/64"]},
        "another power of lambda": {"relays": [2, "1/256"]},
        "another polynomial": {"closed_form": False},
        "the recurrence comes earlier": {"second_power": 8},
        "a gradient below its bound": {"least": "255/256"},
        "fewer gradients": {"gradients_of_depth": [82, 140, 17, 0]},
        "depths above the largest": {"gradients_of_depth": [82, 140, 17, 0, 1]},
    },
    # steps 4, features 3
    "invariance": {
        "a score changed": {"changed_scores": 1},
        "no code changed": {"changed_codes": 0},
        "another matrix": {"is_orthogonal": False},
        "no asymmetric score changed": {"changed_asymmetric_scores": 0},
    },
    # features 4
    "pair-order": {
        "equal norms tell it": {"symmetric_equal_norms": 2},
        "other norms do not": {"symmetric_other_norms": 0},
        "normalised codes tell it": {"asymmetric_normalised": 4},
        "differences do not": {"difference_normalised": 0},
    },
}


def make(name: str) -> Claim:
    return CLAIMS[name](**CLAIMS[name].example)


@pytest.fixture(scope="module")
def true() -> dict[str, Any]:
    """The numbers of every claim at its example."""
    return {name: make(name).find("random", PRIME, 3) for name in CLAIMS}


def test_every_claim_is_forged() -> None:
    assert FORGED.keys() == CLAIMS.keys()


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in FORGED.items() for case in cases])
def test_false_numbers_do_not_hold(name: str, case: str, true: dict[str, Any]) -> None:
    claim, forged = make(name), FORGED[name][case]
    assert claim.holds(true[name])
    assert forged.keys() <= true[name].keys()
    assert all(true[name][key] != value for key, value in forged.items())
    assert not claim.holds({**true[name], **forged})


def test_every_exponent_counts(true: dict[str, Any]) -> None:
    """0.002 from the prediction, at any of the eigenvalues; 0.0005 is allowed."""
    claim, found = make("attention-decay"), true["attention-decay"]
    for place, (combine, value, measured) in enumerate(found["exponents"]):
        for error, holds in ((0.002, False), (-0.002, False), (0.0005, True)):
            rows = list(found["exponents"])
            rows[place] = [combine, value, f"{float(measured) + error:.4f}"]
            assert claim.holds({**found, "exponents": rows}) is holds


def test_a_proof_from_a_later_start_holds(true: dict[str, Any]) -> None:
    """What is checked are the inequalities, not that the start is the least."""
    claim = AttentionDecayClaim()
    proof = NegativeEigenvalue(1, 2)
    m, d = proof.base(5, 40)
    later = {
        "start": 40,
        "base": [str(m), str(d)],
        "upper_constant": str(proof.above(40, m)),
        "lower_constant": str(proof.below(40, m)),
        **{f"{name}_polynomial": [str(x) for x in numbers] for name, numbers in proof.polynomials(40).items()},
    }
    assert claim.holds({**true["attention-decay"], **later})


@pytest.mark.parametrize("name", ["X", "Y"])
def test_wrong_closed_forms_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the arithmetic to the verdict: without X or Y, which the theorems leave out, E, F and paths differ."""
    monkeypatch.setattr(ClosedForms, name, lambda self, i, tau: self.weights.V * 0)
    found = certify(AttentionPathsClaim(2, 3))
    assert not found.holds
    for kind in ("equal_exactly", "equal_in_float64"):
        assert [a < b for a, b in zip(found.found[kind], found.found["compared"], strict=True)] == [True, True, False]


@pytest.mark.parametrize("name", ["tt-equal-cores", "rac-shallow", "rac-deep", "rac-conjecture", "rac-upper"])
def test_both_bounds_themselves_hold(name: str, true: dict[str, Any]) -> None:
    """At least and at most include the bound: neither > for >= nor < for <=."""
    found = true[name]
    claim = make(name)
    assert claim.holds({**found, "rank": found["upper"]})
    assert claim.holds({**found, "rank": found["bound"]})


@pytest.mark.parametrize(
    ("hidden", "depth", "holds"),
    [(2, 2, False), (2, 3, False), (2, 4, False), (2, 5, False), (2, 6, False), (2, 7, True), (2, 8, False),
     (2, 9, True), (3, 2, False), (3, 5, True), (3, 8, True), (4, 2, True)],
)  # fmt: skip
def test_params_with_as_many_parameters(hidden: int, depth: int, holds: bool) -> None:
    """Theorem 2 says more parameters: with as many, at (2, 5) against 1 layer and at (2, 8) against 4, it fails."""
    found = certify(ParamsClaim(hidden, depth))
    assert found.holds is holds
    equal = [row[0] for row in found.found["shallower"] if row[2] == found.found["parameters"]]
    assert equal == {(2, 5): [1], (2, 8): [4]}.get((hidden, depth), [])


def first_answers(layer: Any, value: float) -> Any:
    """The layer, but for what comes before the lag is over."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, None]:
        states = layer(x)[0].clone()
        states[0] = value
        return states, None

    run.input_size = layer.input_size  # type: ignore[attr-defined]
    return run


def test_the_first_steps_of_a_copy_count() -> None:
    """0 until the lag is over: a network that copies, but answers before, is no copy."""
    layer, readout = shift_register(3, 4)
    assert copies(layer, readout, 4, seed=0)
    assert copies(first_answers(layer, 0.0), readout, 4, seed=0)  # the states are 0 there anyway
    assert not copies(first_answers(layer, 1.0), readout, 4, seed=0)


def test_the_last_step_of_a_copy_counts() -> None:
    layer, readout = shift_register(3, 4)

    def late(x: torch.Tensor) -> tuple[torch.Tensor, None]:
        states = layer(x)[0].clone()
        states[-1] = 0
        return states, None

    late.input_size = 1  # type: ignore[attr-defined]
    assert not copies(late, readout, 4, seed=0)  # type: ignore[arg-type]


def test_every_channel_of_a_copy_counts() -> None:
    layer, readout = shift_register(6, 2, 2)
    assert copies(layer, readout, 2, seed=0)
    with torch.no_grad():
        readout.weight[1] = readout.weight[0]  # the first channel twice
    assert not copies(layer, readout, 2, seed=0)


def test_a_network_that_does_not_copy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the arithmetic to the verdict: shift registers of another lag."""
    monkeypatch.setattr(
        "engram.certify._delay.shift_register", lambda hidden, lag, *sizes, **more: shift_register(hidden, lag - 1)
    )
    found = certify(DelayClaim(5, 3))
    assert (found.found["copied_lag"], found.holds) == (None, False)


@pytest.mark.parametrize("name", ["flat", "deepen"])
def test_networks_that_differ_at_one_step_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the arithmetic to the verdict: one number of the second network is wrong at step 5 of 7."""
    states, runs = ExactNetwork.states, 0

    def wrong(self: ExactNetwork, inputs: Any) -> Any:
        nonlocal runs
        runs += 1
        second = runs == 2
        for step, layers in enumerate(states(self, inputs)):
            if second and step == 4:
                layers[-1] = layers[-1] + np.eye(1, len(layers[-1]), dtype=object)[0]
            yield layers

    monkeypatch.setattr(ExactNetwork, "states", wrong)
    found = certify(make(name))
    assert (found.found["equal_steps"], found.holds) == (6, False)

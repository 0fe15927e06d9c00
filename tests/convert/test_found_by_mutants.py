"""The tolerance of ``minimise`` is relative: a fault that was put in by hand (tools/mutants.py) and not seen."""

import numpy as np
import pytest

from engram.convert import WeightedAutomaton


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_tolerance_is_relative(scale: float) -> None:
    """Values of 1e-18 and of 1e18, where rounding is far below and far above the tolerance itself: 4 states of 5."""
    random = np.random.default_rng(0)
    initial, transitions, final = random.normal(size=4), random.normal(size=(2, 4, 4)), random.normal(size=(4, 1))
    wide = np.pad(transitions, ((0, 0), (0, 1), (0, 1)))
    wide[:, 4] = 0.3  # the fifth state is left, and never reached
    automaton = WeightedAutomaton(scale * np.append(initial, 0), wide, scale * np.concatenate([final, np.ones((1, 1))]))
    minimal = automaton.minimise(1e-10)
    assert minimal.states == 4
    right = scale * initial @ transitions[0] @ transitions[1] @ (scale * final)
    np.testing.assert_allclose(minimal.value((0, 1)), right, rtol=1e-9)

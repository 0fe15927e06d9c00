"""Gradients of a tanh network: exponential decay without attention, none such with it (Kerg 2022, Section 4.4)."""

import numpy as np
import pytest

from engram.errors import OptionError
from engram.theory import gradient_norms

LENGTHS = (25, 50, 100, 200)


@pytest.mark.parametrize("seed", [0, 1])
def test_only_attention_reaches_far(seed: int) -> None:
    none, uniform, additive = (gradient_norms(name, LENGTHS, seed=seed) for name in ("none", "uniform", "additive"))
    rates = np.diff(np.log(none)) / np.diff(LENGTHS)  # per step
    assert (rates < np.log(0.9)).all()  # V contracts by 0.9 at least, tanh by more
    assert np.ptp(rates) < 0.1
    for norms in (uniform, additive):
        powers = np.diff(np.log(norms)) / np.diff(np.log(LENGTHS))
        assert (powers > -1.5).all()  # no faster than the slowest power of the linear theory
        assert norms[-1] > 1e10 * none[-1]


def test_the_seed_and_the_lengths() -> None:
    whole = gradient_norms("uniform", (10, 20), seed=3)
    assert gradient_norms("uniform", (10, 20), seed=3) == whole != gradient_norms("uniform", (10, 20), seed=4)
    assert gradient_norms("uniform", (10,), hidden=4) == gradient_norms("uniform", (10,), hidden=4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gradient_norms("dot"), "unknown attention 'dot'"),
        (lambda: gradient_norms("none", (50, 25)), "lengths must rise, the first above step = 5; got"),
        (lambda: gradient_norms("none", ()), "lengths must rise"),
        (lambda: gradient_norms("none", (5, 10)), "the first above step = 5"),
        (lambda: gradient_norms("none", step=0), "step must be at least 1"),
        (lambda: gradient_norms("none", hidden=0), "hidden must be at least 1"),
    ],
)
def test_what_is_refused(call, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        call()

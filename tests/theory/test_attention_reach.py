"""Gradients of a tanh network: exponential decay without attention, none such with it (Kerg 2022, Section 4.4)."""

import numpy as np
import pytest
import torch

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


@pytest.mark.parametrize("attention", ["none", "uniform", "additive"])
def test_the_definition(attention: str) -> None:
    """Written again in numpy, with the same weights and inputs, and differentiated by central differences."""
    n, step, lengths, change = 3, 4, (6, 9), 1e-5
    generator = torch.Generator().manual_seed(7)
    drawn = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in [(n, n)] * 3 + [(n,)] * 2]
    basis, (W, U, v, r) = torch.linalg.qr(drawn[0])[0].numpy(), (array.numpy() for array in drawn[1:])
    V, W, U = basis @ np.diag([-0.9, 0.0, 0.9]) @ basis.T, W / n**0.5, U / n**0.5
    x = 0.3 * torch.randn(lengths[-1], n, generator=generator, dtype=torch.float64).numpy()

    def losses(shift: np.ndarray) -> np.ndarray:
        s, states, found = np.zeros(n), [], []
        for t in range(1, lengths[-1] + 1):
            states.append(np.tanh(V @ s + x[t - 1]) + (shift if t == step else 0))
            H = np.array(states)
            scores = np.exp(np.tanh(W @ s + H @ U.T) @ v)
            context = {"none": 0 * H[0], "uniform": H.mean(0), "additive": scores @ H / scores.sum()}[attention]
            s = states[-1] + context
            found += [r @ s] if t in lengths else []
        return np.array(found)

    slopes = np.array([(losses(change * unit) - losses(-change * unit)) / (2 * change) for unit in np.eye(n)])
    found = gradient_norms(attention, lengths, hidden=n, step=step, seed=7)
    np.testing.assert_allclose(found, np.linalg.norm(slopes, axis=0), rtol=1e-7)  # change^2, and rounding / change


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

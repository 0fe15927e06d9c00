"""The longest lag of a linear RNN: the bound, all weights of small fields (Lizaire et al. 2026, A.3)."""

import re
from itertools import product as words
from typing import Any

import numpy as np
import pytest
import torch

from engram.certify import PRIME, DelayClaim, certify
from engram.certify._deepen import hankel_rank
from engram.certify._delay import copies, transfer_degree
from engram.errors import OptionError
from engram.exact import random_linear_weights
from engram.nn import LinearRNN
from engram.theory import largest_lag, shift_register

WRONG = {
    "depth": (
        lambda: shift_register(5, 13, depth=3),
        "3 layers of 5 units can copy 1 channel with a lag of at most 12",
    ),
    "no layers": (lambda: shift_register(5, 3, depth=0), "depth must be at least 1"),
    "no room": (lambda: shift_register(2, 1, 2), "with a lag of at most 0, got lag 1: use more units$"),
    "too narrow": (lambda: shift_register(1, 0, 2), "hidden must be at least 2"),
    "inputs": (lambda: shift_register(5, 3, 2, inputs=1), "inputs must be at least 2"),
    "lag": (lambda: shift_register(5, -1), "lag must be at least 0"),
    "lag of a claim": (
        lambda: DelayClaim(5, 3, lag=13),
        "with a lag of at most 12, got lag 13: use more units, or more layers",
    ),
    "claim": (lambda: DelayClaim(5, 0), "depth must be at least 1"),
    "prime": (lambda: certify(DelayClaim(5, 3), prime=17), "prime must be above 17, the number of points"),
    "work": (lambda: certify(DelayClaim(5000, 8)), "estimated to need .* choose smaller sizes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str) -> None:
    call, words = WRONG[case]
    with pytest.raises(OptionError, match=words):
        call()


@pytest.mark.parametrize(("hidden", "depth"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (4, 2)])
def test_lemma_3(hidden: int, depth: int) -> None:
    """The degree of the numerator, and the Hankel rank that would not be enough: n L, for five draws."""
    for seed in range(5):
        assert transfer_degree(hidden, depth, 1, 10007, seed) == depth * (hidden - 1)
        assert hankel_rank(hidden, depth, PRIME, seed) == hidden * depth
        numerator_is_a_product(hidden, depth, PRIME, seed)


def numerator_is_a_product(hidden: int, depth: int, prime: int, seed: int) -> None:
    """N = D G by power series: the coefficients of D times the impulse response end at L (n - 1)."""
    from flint import nmod_mat, nmod_poly

    layers, readout = random_linear_weights(hidden, 1, depth, 1, prime, seed)
    denominator = nmod_poly([1], prime)
    for _, back in layers:
        polynomial = nmod_mat([[int(v) for v in row] for row in back], prime).charpoly()
        denominator *= nmod_poly(list(reversed(polynomial.coeffs())), prime)  # det(I - z V)
    terms = hidden * depth + 5
    states = [np.zeros(hidden, dtype=object)] * depth
    response = []
    for step in range(terms):
        below = np.array([int(step == 0)], dtype=object)
        for k, (into, back) in enumerate(layers):
            states[k] = below = (back.astype(object) @ states[k] + into.astype(object) @ below) % prime
        response.append(int(readout[0].astype(object) @ below % prime))
    numerator = (denominator * nmod_poly(response, prime)).coeffs()[:terms]
    assert max(k for k, c in enumerate(numerator) if c != 0) == depth * (hidden - 1)


def test_a_pole_is_named() -> None:
    """In a small field I - z V is often singular at one of the points 0 .. n L + 1."""
    told = set()
    for seed in range(20):
        try:
            transfer_degree(2, 1, 1, 5, seed)
        except OptionError as error:
            told.add(re.sub(r"\d", "#", str(error)))
    assert told == {
        "the transfer function at these weights has a pole at # modulo #: use another seed or a larger prime"
    }


@pytest.mark.parametrize(
    ("hidden", "depth", "channels"), [(3, 1, 2), (3, 2, 2), (4, 1, 2), (4, 2, 2), (4, 1, 3), (4, 2, 3)]
)
def test_the_determinant(hidden: int, depth: int, channels: int) -> None:
    assert transfer_degree(hidden, depth, channels, PRIME, 0) == depth * (hidden - channels)


@pytest.mark.parametrize(
    ("sizes", "lag"),
    [((5, 3), 12), ((1, 4), 0), ((3, 2, 2), 1), ((45, 1, 5), 8), ((25, 2, 5), 8), ((15, 4, 5), 8), ((10, 8, 5), 8)],
)
def test_the_claim(sizes: tuple[int, ...], lag: int) -> None:
    found = certify(DelayClaim(*sizes))
    assert found.holds
    assert found.to_dict()["largest_lag"] == found.to_dict()["copied_lag"] == lag


@pytest.mark.parametrize("wrong", [{"degree": 13}, {"degree": 11}, {"copied_lag": 11}, {"largest_lag": 11}])
def test_what_is_no_proof(wrong: dict[str, int]) -> None:
    """Every number is checked by itself: a lag that was copied says nothing of the longest one."""
    right = {"degree": 12, "largest_lag": 12, "copied_lag": 12}
    assert DelayClaim(5, 3).holds(right)
    assert not DelayClaim(5, 3).holds(right | wrong)


def test_theorem_1() -> None:
    """A lag of (L + 1)(n - 1) is possible with L + 1 layers and not with L."""
    for hidden, depth in [(2, 1), (3, 2), (4, 3)]:
        lag = largest_lag(hidden, depth + 1)
        assert copies(*shift_register(hidden, lag, depth=depth + 1), lag, seed=1)
        assert transfer_degree(hidden, depth, 1, PRIME, 0) < lag


@pytest.mark.parametrize("epsilon", [1e-2, 1e-3])
def test_a_short_sequence_can_be_evaded(epsilon: float) -> None:
    """No exact copy: a ring of p units has an error energy of epsilon^2 up to T = 2 p, and explodes a step later."""
    lag, edge = 8, epsilon ** (-1 / 8)
    assert edge == pytest.approx({1e-2: 1.78, 1e-3: 2.37}[epsilon], abs=5e-3)
    layer = LinearRNN(1, lag, bias=False, dtype=torch.float64)
    with torch.no_grad():
        cell = layer.cells[0]
        cell.weight_hh.copy_(edge * torch.eye(lag).roll(1, 0))
        cell.weight_ih.zero_()[0] = epsilon**0.5
        impulse = torch.eye(1, 2 * lag + 1, dtype=torch.float64).T
        error = layer(impulse)[0][:, 0] * epsilon**0.5
    error[lag] -= 1
    assert error[:-1].square().sum() == pytest.approx(epsilon**2)
    assert error[-1] == pytest.approx(1 / epsilon)


def every(field: int, *shape: int) -> Any:
    """All arrays of this shape over the field."""
    return np.array(list(words(range(field), repeat=int(np.prod(shape)))), dtype=np.int8).reshape(-1, *shape)


@pytest.mark.parametrize(
    ("field", "hidden", "depth"), [(2, 2, 1), (2, 2, 2), (2, 2, 3), (2, 3, 1), (3, 2, 1), (3, 2, 2)]
)
def test_all_weights_of_small_fields(field: int, hidden: int, depth: int) -> None:
    """The largest lag of a first answer, and of an exact copy, over all weights, is L (n - 1).

    Layer by layer, with the set of all responses ``(T, n)`` that the layers below can give. A readout other than e_1
    is e_1 in another basis of the states.
    """
    lag = depth * (hidden - 1)
    steps = 2 * lag + 3
    impulse = np.zeros((1, steps, 1), dtype=np.int8)
    impulse[:, 0] = 1
    responses = impulse
    for _ in range(depth):
        into, back = every(field, hidden, responses.shape[2]), every(field, hidden, hidden)
        driven = np.einsum("uij,rtj->urti", into, responses) % field
        driven = np.unique(driven.reshape(-1, steps * hidden), axis=0).reshape(-1, steps, hidden)
        state = np.zeros((len(back), len(driven), hidden), dtype=np.int8)
        history = []
        for step in range(steps):
            state = (np.einsum("vij,vrj->vri", back, state) + driven[None, :, step]) % field
            history.append(state)
        whole = np.stack(history, 2).reshape(-1, steps * hidden)
        responses = np.unique(whole, axis=0).reshape(-1, steps, hidden)
    answers = np.unique(responses[:, :, 0], axis=0)
    answers = answers[answers.any(1)]
    assert (answers != 0).argmax(1).max() == lag
    exact = [int(answer.argmax()) for answer in answers if answer.sum() == 1 and answer.max() == 1]
    assert max(exact) == lag


def test_no_copy_of_two_channels_in_three_units() -> None:
    """F_2, n = 3, d = 2, L = 1, p = 1: W U = 0 and W V U = I has no solution."""
    outputs, inputs, back = every(2, 2, 3), every(2, 3, 2), every(2, 3, 3)
    silent = [(w, u) for w in outputs for u in inputs if not (w @ u % 2).any()]
    assert len(silent) > 100
    assert not any((w @ back @ u % 2 == np.eye(2)).all((1, 2)).any() for w, u in silent)


def test_a_lag_below_the_largest_is_certified_too() -> None:
    found = certify(DelayClaim(5, 3, lag=7))
    assert (found.found["copied_lag"], found.found["largest_lag"], found.holds) == (7, 12, True)
    assert DelayClaim(5, 3).lag == 12

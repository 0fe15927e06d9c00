"""Linear networks made flat and made deeper compute the same."""

from typing import Any

import numpy as np
import pytest
import torch

from engram.convert import deepen, flat_weights, flatten
from engram.errors import DTypeError, OptionError
from engram.nn import GORU, RNN, DepthRNN, LinearRNN
from engram.theory import shift_register


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).detach().abs().max())


def network(kind: type[RNN] = LinearRNN, depth: int = 3, **options: Any) -> RNN:
    torch.manual_seed(0)
    layer = kind(3, 4, depth, **{"dtype": torch.float64, **options})
    for cell in layer.cells:
        if cell.start is not None:
            torch.nn.init.normal_(cell.start)
    return layer


def sequence(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(9, 5, 3, dtype=dtype)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "trained start": {"initial_state": "trained"},
    "a map": {"map": "cayley"},
    "complex": {"dtype": torch.complex128},
    "one layer": {"depth": 1},
    "RNN": {"kind": RNN, "activation": "identity"},
    "last step": {"return_sequence": False},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_flatten(case: str) -> None:
    deep = network(**OPTIONS[case])
    flat = flatten(deep)
    assert (flat.num_layers, flat.hidden_size) == (1, 4 * deep.num_layers)
    x = sequence(deep.cells[0].weight_ih.dtype)
    assert apart(flat(x)[0][..., -4:], deep(x)[0]) < 1e-10


def test_the_flat_state_is_all_states() -> None:
    """Of every layer, at every step, and handed over from one to the other."""
    deep = network(initial_state="trained", output_all_layers=True)
    flat, x = flatten(deep), sequence()
    layers, state = deep(x)
    output, final = flat(x)
    assert apart(output, torch.cat(layers, -1)) < 1e-10
    assert apart(final, torch.cat(list(state), -1)[None]) < 1e-10
    again = flat(x, torch.cat(list(state), -1)[None])[0]
    assert apart(again, torch.cat(deep(x, state)[0], -1)) < 1e-10


def test_batch_first_stays() -> None:
    deep = network(batch_first=True)
    assert apart(flatten(deep)(sequence())[0][..., -4:], deep(sequence())[0]) < 1e-10


def test_dropout_goes() -> None:
    """Within one layer there is nothing to drop; ``deepen`` keeps it between the layers."""
    deep = network(dropout=0.5)
    assert (flatten(deep).dropout, deepen(deep).dropout) == (0.0, 0.5)
    assert apart(flatten(deep.eval())(sequence())[0][..., -4:], deep(sequence())[0]) < 1e-10


def test_the_spectrum_stays() -> None:
    deep = network()
    flat = torch.linalg.eigvals(flatten(deep).cells[0].weight_hh).abs().sort().values
    parts = torch.cat([torch.linalg.eigvals(cell.weight_hh) for cell in deep.cells]).abs().sort().values
    assert apart(flat, parts) < 1e-6  # eigenvalues of matrices that are not normal


def test_gradients_agree() -> None:
    """Of the input; the flat network is one that can be trained further."""
    deep, x = network(), sequence().requires_grad_()
    grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (deep(x)[0], flatten(deep)(x)[0][..., -4:])]
    assert apart(*grads) < 1e-10
    assert all(p.requires_grad for p in flatten(deep).parameters())


def test_a_shift_register_flat() -> None:
    """Whole numbers stay whole."""
    layer, readout = shift_register(4, 8)
    flat = flatten(layer)
    x = torch.randint(-9, 9, (40, 1)).double()
    assert torch.equal(readout(flat(x)[0][..., -4:])[8:], x[:-8])


def test_integers_of_any_size() -> None:
    """Python's own, where machine words would overflow."""
    large = np.array([[10**30]], dtype=object)
    into, hidden, bias = flat_weights([(large, large, large[0])] * 2)
    assert into.ravel().tolist() == [10**30, 10**60]
    assert hidden.tolist() == [[10**30, 0], [10**60, 10**30]]
    assert bias.tolist() == [10**30, 10**60 + 10**30]


DEEPER: dict[str, dict[str, Any]] = {
    **{name: options for name, options in OPTIONS.items() if name != "last step"},
    "relu": {"kind": RNN, "activation": "relu"},
    "relu in depth": {"kind": DepthRNN, "activation": "relu"},
    "both directions": {"bidirectional": True},
}


@pytest.mark.parametrize("case", DEEPER)
def test_deepen(case: str) -> None:
    """Exactly: the layer added multiplies by 1 and adds 0."""
    shallow = network(**DEEPER[case])
    deeper = deepen(shallow)
    assert deeper.num_layers == shallow.num_layers + 1
    x = sequence(shallow.cells[0].weight_ih.dtype)
    assert torch.equal(deeper(x)[0], shallow(x)[0])
    assert torch.equal(deepen(deeper)(x)[0], shallow(x)[0])


WRONG = {
    "tanh flat": (lambda: flatten(network(RNN)), OptionError, "activation='tanh' cannot be flattened"),
    "relu flat": (lambda: flatten(network(RNN, activation="relu")), OptionError, "it must be identity"),
    "tanh deeper": (lambda: deepen(network(RNN)), OptionError, "it must be identity or relu"),
    "both ways": (lambda: flatten(network(bidirectional=True)), OptionError, "bidirectional"),
    "real part": (
        lambda: flatten(network(dtype=torch.complex128, output="real")), OptionError, "output='real'"
    ),
    "another": (lambda: flatten(GORU(3, 4)), DTypeError, "got GORU"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str) -> None:
    call, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        call()

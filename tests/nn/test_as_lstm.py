"""A layer with the pair of states of nn.LSTM: the same numbers, and zeros are a fresh start."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from engram.errors import DTypeError, OptionError
from engram.nn import GORU, RAC, RNN, S4D, URNN, AsLSTM, ExpRNN, NonNormalRNN

LAYERS: dict[str, Any] = {
    "exprnn": lambda: ExpRNN(3, 5, 2),
    "nnrnn": lambda: NonNormalRNN(3, 5),
    "goru": lambda: GORU(3, 5),
    "rac": lambda: RAC(3, 5, 2),
    "rac, trained start": lambda: RAC(3, 5, initial_state="trained"),
    "both ways, batch first": lambda: RNN(3, 5, batch_first=True, bidirectional=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_numbers(name: str) -> None:
    """As the layer itself, whole and in two halves with the pair carried between."""
    layer = LAYERS[name]()
    wrapped = AsLSTM(layer)
    x = torch.randn(6, 6, 3)
    expected, state = layer(x)
    output, (h, c) = wrapped(x)
    assert output.equal(expected)
    assert (h if isinstance(state, torch.Tensor) else (h, c))[0].equal(state[0])
    if not layer.bidirectional:
        first, pair = wrapped(x[:2])
        assert isinstance(pair, tuple)
        second, (h2, _) = wrapped(x[2:], pair)
        torch.testing.assert_close(torch.cat([first, second]), expected)
        torch.testing.assert_close(h2, h)


@pytest.mark.parametrize("name", LAYERS)
def test_zeros_are_a_fresh_start(name: str) -> None:
    """For every row on its own, as programs clear the rows whose episode ended."""
    layer = LAYERS[name]()
    wrapped, x = AsLSTM(layer), torch.randn(4, 4, 3)
    zeros = torch.zeros_like(wrapped(x)[1][0])
    assert wrapped(x, (zeros, zeros))[0].equal(wrapped(x)[0])
    h, c = wrapped(x)[1]
    h, c = h.clone(), c.clone()
    h[:, 1], c[:, 1] = 0, 0
    mixed = wrapped(x, (h, c))[0]
    fresh, kept = wrapped(x)[0], wrapped(x, wrapped(x)[1])[0]
    rows = 0 if layer.batch_first else 1
    torch.testing.assert_close(mixed.select(rows, 1), fresh.select(rows, 1))
    torch.testing.assert_close(mixed.select(rows, 0), kept.select(rows, 0))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "batch_first": True, "bidirectional": True}])
def test_looks_like_nn_lstm(options: dict[str, Any]) -> None:
    """Attributes, and the shapes of everything, batched and not."""
    ours, theirs = AsLSTM(ExpRNN(3, 5, **options)), nn.LSTM(3, 5, **options)
    for name in ("input_size", "hidden_size", "num_layers", "batch_first", "dropout", "bidirectional", "proj_size"):
        assert getattr(ours, name) == getattr(theirs, name)
    ours.flatten_parameters()
    for x in (torch.randn(4, 2, 3), torch.randn(4, 3)):
        (output, pair), (expected, wanted) = ours(x), theirs(x)
        assert output.shape == expected.shape
        assert [s.shape for s in pair] == [s.shape for s in wanted]
        assert ours(x, pair)[0].shape == expected.shape


def test_trained_and_saved() -> None:
    wrapped = AsLSTM(RAC(3, 5, initial_state="trained"))
    x = torch.randn(4, 2, 3)
    wrapped(x, (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5)))[0].sum().backward()
    assert bool(wrapped.layer.cells[0].start_product.grad.any())
    other = AsLSTM(RAC(3, 5, initial_state="trained"))
    other.load_state_dict(wrapped.state_dict())
    assert copy.deepcopy(other)(x)[0].equal(wrapped(x)[0])


@pytest.mark.parametrize(
    ("layer", "kind", "words"),
    [
        (nn.LSTM(3, 5), DTypeError, "takes a layer of engram.nn, got LSTM"),
        (URNN(3, 5), OptionError, r"a state of URNN\(5\) has the shape \(5,\), and numbers of torch.complex64"),
        (S4D(3, 5, state_size=4), OptionError, r"a state of S4D\(5\) has the shape \(5,\) and \(5, \d+, 2\)"),
    ],
)
def test_what_is_refused(layer: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        AsLSTM(layer)


def test_one_zero_is_no_fresh_start() -> None:
    """A unit of a relu is often 0: only a row of zeros was cleared."""
    wrapped = AsLSTM(RNN(3, 5, activation="relu"))
    x, h = torch.randn(4, 2, 3), torch.rand(1, 2, 5)
    h[..., 0] = 0
    assert wrapped(x, (h, torch.zeros_like(h)))[0].equal(wrapped.layer(x, h)[0])

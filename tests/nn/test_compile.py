"""torch.compile(fullgraph=True): the compiled layer has the values and the gradients of the layer."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.nn import GRU, LEM, LSTM, RNN, S4, S4D, AntisymmetricRNN, Cell, CoRNN, MinGRU, MinLSTM, Recurrent

# torch's own: dynamo makes an object of each autograd.Function that it traces (the maps have some)
pytestmark = pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")

FEATURES, HIDDEN = 3, 4
TOLERANCE = 1e-12  # float64: the same operations, at most fused


class LeakyCell(Cell):
    equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)


class LeakyRNN(Recurrent):
    cell = LeakyCell


LAYERS: dict[str, Callable[..., Recurrent]] = {
    "free": lambda **o: RNN(FEATURES, HIDDEN, **o),
    "exponential": lambda **o: RNN(FEATURES, HIDDEN, map="exponential", **o),
    "cayley": lambda **o: RNN(FEATURES, HIDDEN, map="cayley", **o),
    "bidirectional": lambda **o: RNN(FEATURES, HIDDEN, bidirectional=True, batch_first=True, **o),
    "two layers": lambda **o: RNN(FEATURES, HIDDEN, 2, activation="relu", **o),
    "modrelu": lambda **o: RNN(FEATURES, HIDDEN, activation="modrelu", activation_in="depth", **o),
    "trained start": lambda **o: RNN(FEATURES, HIDDEN, initial_state="trained", **o),
    "in segments": lambda **o: RNN(FEATURES, HIDDEN, checkpoint_every=2, return_sequence=False, **o),
    "own cell": lambda **o: LeakyRNN(FEATURES, HIDDEN, **o),
    "own cell under a map": lambda **o: LeakyRNN(FEATURES, HIDDEN, map="cayley", **o),
}
UNROLLED: dict[str, Callable[..., Recurrent]] = {  # not in test_inductor: 31 s for CoRNN, 50 s for LSTM
    "lstm": lambda **o: LSTM(FEATURES, HIDDEN, 2, proj_size=2, layer_norm=True, **o),
    "gru": lambda **o: GRU(FEATURES, HIDDEN, bidirectional=True, **o),
    "antisymmetric": lambda **o: AntisymmetricRNN(FEATURES, HIDDEN, gated=True, **o),
    "cornn": lambda **o: CoRNN(FEATURES, HIDDEN, **o),
    "lem": lambda **o: LEM(FEATURES, HIDDEN, **o),
    "min-gru in blocks": lambda **o: MinGRU(FEATURES, HIDDEN, parallel=True, **o),
    "min-lstm": lambda **o: MinLSTM(FEATURES, HIDDEN, **o),
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("name", [*LAYERS, *UNROLLED])
def test_same_numbers(name: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = (LAYERS | UNROLLED)[name](dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, FEATURES, dtype=torch.float64)
    agree(measure(layer, x, call=compiled), measure(layer, x), TOLERANCE)


def test_given_state(measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = RNN(FEATURES, HIDDEN, 2, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, FEATURES, dtype=torch.float64)
    state = torch.randn(2, 2, HIDDEN, dtype=torch.float64)
    agree(measure(layer, x, state, call=compiled), measure(layer, x, state), TOLERANCE)


def test_other_lengths_and_batches() -> None:
    """Sizes may change from call to call."""
    layer = RNN(FEATURES, HIDDEN, map="cayley", dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for steps, batch in ((5, 2), (7, 2), (7, 3), (1, 1)):
        x = torch.randn(steps, batch, FEATURES, dtype=torch.float64)
        torch.testing.assert_close(compiled(x)[0], layer(x)[0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_gradients_at_other_lengths(kind: type[S4D], measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = kind(FEATURES, HIDDEN, 2, state_size=4, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for steps in (9, 12, 17):
        x = torch.randn(steps, 2, FEATURES, dtype=torch.float64)
        agree(measure(layer, x, call=compiled), measure(layer, x), TOLERANCE)


def test_autocast() -> None:
    layer = RNN(FEATURES, HIDDEN, map="cayley")
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, FEATURES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = compiled(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, layer(x)[0], atol=1e-6, rtol=0)  # float32, not bfloat16's 1e-2


def test_the_gradient_has_the_strides_that_the_compiler_was_told() -> None:
    """Contiguous, whatever the strides of the input; inductor's code reads it so."""
    layer = RNN(FEATURES, HIDDEN, dtype=torch.float64)
    x = torch.randn(FEATURES, 5, 2, dtype=torch.float64, requires_grad=True).permute(1, 2, 0)
    (grad,) = torch.autograd.grad(layer(x)[0].sum(), x)
    assert not x.is_contiguous()
    assert grad.is_contiguous()


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="inductor needs a C++ compiler")
@pytest.mark.parametrize("name", LAYERS)
def test_inductor(name: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    """torch's default backend, which generates code; the input with strides of its own."""
    layer = LAYERS[name](dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True)
    x = torch.randn(FEATURES, 5, 2, dtype=torch.float64).permute(1, 2, 0)
    assert not x.is_contiguous()
    agree(measure(layer, x, call=compiled), measure(layer, x), TOLERANCE)

"""Own cells: a step is enough to get the whole layer, and the contract is checked by a function."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram.checks import ContractError, check_contract
from engram.errors import EngramError, OptionError
from engram.maps import Cayley
from engram.nn import RNN, Cell, Recurrent
from engram.state import Field
from tiers import slow

TOLERANCE = 1e-10  # float64: sums in another order


class LeakyCell(Cell):
    equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)


class LSTMState(NamedTuple):
    h: Any
    c: Any


class LSTMCell(Cell):
    equation = "c_t = f c_{t-1} + i g,  h_t = o tanh(c_t);  i, f, g, o = W_hh h_{t-1} + W_ih x_t + b"
    gates = 4

    def fields(self) -> Any:
        return LSTMState(Field(self.hidden_size), Field(self.hidden_size))

    def step(self, drive: Tensor, state: LSTMState) -> LSTMState:
        i, f, g, o = (drive + state.h @ self.weight_hh.mT).chunk(4, -1)
        c = f.sigmoid() * state.c + i.sigmoid() * g.tanh()
        return LSTMState(o.sigmoid() * c.tanh(), c)


class LeakyRNN(Recurrent):
    cell = LeakyCell


class LSTM(Recurrent):
    cell = LSTMCell


@pytest.mark.parametrize("form", ["dense", "packed"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_in_ten_lines(layers: int, bidirectional: bool, form: str) -> None:
    """Value for value and gradient for gradient the LSTM of torch."""
    theirs = nn.LSTM(3, 4, layers, bidirectional=bidirectional, dtype=torch.float64)
    ours = LSTM(3, 4, layers, bidirectional=bidirectional, dtype=torch.float64)
    with torch.no_grad():
        for suffix, cell in ours.named_cells():
            cell.weight_ih.copy_(getattr(theirs, f"weight_ih{suffix}"))
            cell.weight_hh.copy_(getattr(theirs, f"weight_hh{suffix}"))
            cell.bias.copy_(getattr(theirs, f"bias_ih{suffix}") + getattr(theirs, f"bias_hh{suffix}"))
    x = torch.randn(6, 3, 3, dtype=torch.float64)
    state = tuple(torch.randn(len(ours.cells), 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = []
    for layer in (ours, theirs):
        leaf = x.clone().requires_grad_()
        lengths = torch.tensor([4, 6, 1])
        input = leaf if form == "dense" else pack_padded_sequence(leaf, lengths, enforce_sorted=False)
        output, (h, c) = layer(input, state)
        output = output if form == "dense" else pad_packed_sequence(output)[0]
        loss = sum((y * torch.linspace(-1, 2, y.numel()).view_as(y)).sum() for y in (output, h, c))
        weights = [getattr(layer, f"{w}{s}") for s, _ in ours.named_cells() for w in ("weight_ih", "weight_hh")]
        biases = [getattr(layer, f"{'bias' if layer is ours else 'bias_ih'}{s}") for s, _ in ours.named_cells()]
        found.append((output, h, c, *torch.autograd.grad(loss, [leaf, *state, *weights, *biases])))
    for value, right in zip(*found, strict=True):
        torch.testing.assert_close(value, right, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("make", [LeakyRNN, slow(LSTM), slow(RNN)])
def test_the_contract_holds(make: type[Recurrent]) -> None:
    before = torch.random.get_rng_state()
    checked = check_contract(make)
    assert len(checked) == 11
    assert all(len(test) > 20 for test in checked)
    assert torch.equal(torch.random.get_rng_state(), before)


class MixingCell(Cell):
    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(drive + state.mean(0, keepdim=True) @ self.weight_hh.mT)


class AmnesicCell(LeakyCell):
    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        return super().run(input, torch.zeros_like(state), sizes, reverse)


class DetachedCell(Cell):
    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(drive + state.detach() @ self.weight_hh.mT)


class NotANumberCell(LeakyCell):
    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        output, final = super().run(input, state, sizes, reverse)
        return (output if sizes is None else output * float("nan")), final


class WideCell(LeakyCell):  # says nothing of its output_size
    def output(self, state: Tensor) -> Tensor:
        return torch.cat([state, state], -1)


BROKEN: list[tuple[type[Cell], str]] = [
    (MixingCell, "A packed batch equals each row alone"),
    (AmnesicCell, "A sequence in two pieces, the state handed over, equals the whole"),
    (DetachedCell, "The gradients of the input and of every weight are those of finite differences"),
    (NotANumberCell, "A packed batch equals each row alone"),
    (WideCell, "Output and state have the shapes of torch.nn.RNN"),
]


@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_a_broken_cell_is_told_which_test(broken: type[Cell], test: str) -> None:
    class Broken(Recurrent):
        cell = broken

    Broken.__qualname__ = "Broken"
    globals()["Broken"] = Broken  # where pickle looks for it
    with pytest.raises(ContractError, match=f"Broken with num_layers=1, .* breaks the contract: {test}") as caught:
        check_contract(Broken)
    assert isinstance(caught.value, EngramError)
    assert isinstance(caught.value, AssertionError)


class CountingMap(Cayley):
    built = 0

    def forward(self, free: Tensor) -> Tensor:
        type(self).built += 1
        return super().forward(free)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("options", [{}, {"checkpoint_every": 2}, {"checkpoint_every": 3, "return_sequence": False}])
@pytest.mark.parametrize("make", [LeakyRNN, RNN])
def test_a_matrix_is_built_once_a_call(make: Callable[..., Recurrent], options: dict[str, Any]) -> None:
    """Not once a step, nor again when segments are recomputed; and every cell builds its own."""
    layer = make(3, 4, 2, bidirectional=True, map=CountingMap, **options)
    CountingMap.built = 0
    output, state = layer(torch.randn(7, 2, 3))
    (output.sum() + state.sum()).backward()
    assert CountingMap.built == len(layer.cells) == 4
    assert all(p.grad is not None for p in layer.parameters())


def test_a_map_wants_a_square_matrix() -> None:
    with pytest.raises(OptionError, match="a map needs a square matrix, but weight_hh of LSTMCell is 16 x 4"):
        LSTM(3, 4, map="cayley")


def test_a_cell_without_a_step_is_refused() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Cell(3, 4)

"""States of more than (B, H): buffers, integers, scores of -inf, masks, memories that grow; random drives."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram.checks import check_contract
from engram.errors import DTypeError, OptionError, ShapeError
from engram.nn import S4D, AsLSTM, BareCell, Cell, Recurrent
from engram.state import Field
from tiers import slow

SLOTS = 5


class Ring(NamedTuple):
    h: Any
    buffer: Any
    age: Any
    score: Any
    seen: Any


class RingCell(Cell):
    """The last five states in a ring, read by a softmax over their scores."""

    equation = "h_t = tanh(W_hh (h_{t-1} + sum_k a_k m_k) + W_ih x_t + b), a = softmax(scores)"

    def fields(self) -> Ring:
        return Ring(
            self.start_field(self.hidden_size),
            Field(SLOTS, self.hidden_size),
            Field(SLOTS, dtype=torch.int64, initial=-1),
            Field(SLOTS, initial=-math.inf),
            Field(SLOTS, dtype=torch.bool),
        )

    def step(self, drive: Tensor, state: Ring) -> Ring:
        weights = torch.where(state.seen.any(-1, keepdim=True), state.score, 0.0).softmax(-1) * state.seen
        h = torch.tanh(drive + (state.h + (weights[..., None] * state.buffer).sum(1)) @ self.weight_hh.mT)
        slot = ((state.age + 1).amax(-1) % SLOTS)[:, None] == torch.arange(SLOTS)
        slot = torch.where(state.seen.all(-1, keepdim=True), state.age == state.age.amin(-1, keepdim=True), slot)
        return Ring(
            h,
            torch.where(slot[..., None], h[:, None], state.buffer),
            torch.where(slot, state.age.amax(-1, keepdim=True) + 1, state.age),
            torch.where(slot, h.mean(-1, keepdim=True), state.score),
            state.seen | slot,
        )


class Memory(NamedTuple):
    h: Any
    past: Any
    score: Any


class MemoryCell(Cell):
    """Attention over all past states."""

    equation = "h_t = tanh(W_hh (h_{t-1} + sum_s a_s h_s) + W_ih x_t + b), a = softmax(scores)"

    def fields(self) -> Memory:
        size = self.hidden_size
        return Memory(Field(size), Field(size, grows=True), Field(grows=True, initial=-math.inf))

    def step(self, drive: Tensor, state: Memory) -> Memory:
        any_past = (
            (state.score > -math.inf).any(-1, keepdim=True) if state.score.shape[1] else drive.new_zeros(1, 1) > 0
        )
        weights = torch.where(any_past, state.score, 0.0).softmax(-1) * any_past
        h = torch.tanh(drive + (state.h + (weights[..., None] * state.past).sum(1)) @ self.weight_hh.mT)
        return Memory(h, torch.cat([state.past, h[:, None]], 1), torch.cat([state.score, h.sum(-1, keepdim=True)], 1))


class RingRNN(Recurrent):
    cell = RingCell


class MemoryRNN(Recurrent):
    cell = MemoryCell


class DecayCell(BareCell):
    equation = "h_t = a h_{t-1} + W x_t, a = sigmoid(decay)"

    def __init__(self, input_size: int, hidden_size: int, **options: Any) -> None:
        super().__init__(input_size, hidden_size, **options)
        self.declare("decay", hidden_size)
        self.declare("weight", hidden_size, input_size)

    def drive(self, input: Tensor) -> Tensor:
        return input @ self.weight.mT

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.sigmoid(self.decay) * state + drive


class DecayRNN(Recurrent):
    cell = DecayCell


class ZoneoutCell(Cell):
    """A unit keeps its old state with a chance of 0.3 while training (Krueger et al. 2017)."""

    equation = "h_t = k h_{t-1} + (1 - k) tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def drive(self, input: Tensor) -> tuple[Tensor, Tensor]:
        projected = super().drive(input)
        kept = torch.full_like(projected, 0.3)
        return projected, torch.bernoulli(kept) if self.training else kept

    def step(self, drive: tuple[Tensor, Tensor], state: Tensor) -> Tensor:
        projected, kept = drive
        return kept * state + (1 - kept) * torch.tanh(projected + state @ self.weight_hh.mT)


class ZoneoutRNN(Recurrent):
    cell = ZoneoutCell


@pytest.mark.parametrize("kind", [slow(RingRNN), MemoryRNN, DecayRNN])
def test_the_contract(kind: type[Recurrent]) -> None:
    assert len(check_contract(kind)) == 11


def test_the_contract_of_a_random_drive() -> None:
    assert len(check_contract(lambda *args, **options: ZoneoutRNN(*args, **options).eval())) == 11


def test_what_is_in_a_ring() -> None:
    layer = RingRNN(3, 4)
    _, state = layer(torch.randn(7, 2, 3))
    assert [tuple(part.shape) for part in state] == [(1, 2, 4), (1, 2, 5, 4), (1, 2, 5), (1, 2, 5), (1, 2, 5)]
    assert [part.dtype for part in state[2:]] == [torch.int64, torch.float32, torch.bool]
    assert state.age.sort(-1).values.tolist() == [[[2, 3, 4, 5, 6]] * 2]
    begin = layer.initial_state(2)
    assert begin.score.eq(-math.inf).all()
    assert begin.age.eq(-1).all()
    assert not begin.seen.any()


def test_a_memory_grows_and_rows_that_ended_are_filled_up() -> None:
    layer, x = MemoryRNN(3, 4), torch.randn(6, 3, 3)
    output, state = layer(pack_padded_sequence(x, torch.tensor([2, 6, 4]), enforce_sorted=False))
    assert state.past.shape == (1, 3, 6, 4)
    assert (state.score > -math.inf).sum(-1).tolist() == [[2, 6, 4]]
    assert state.past[0, 0, 2:].eq(0).all()
    # what came after a row that was filled up: the same as after the row alone
    more = torch.randn(3, 3, 3)
    after, grown = layer(more, state)
    assert grown.past.shape == (1, 3, 9, 4)
    for row, length in enumerate((2, 6, 4)):
        alone = layer(torch.cat([x[:length, row], more[:, row]]))[0]
        torch.testing.assert_close(after[:, row], alone[length:], atol=1e-6, rtol=0)
    assert pad_packed_sequence(output)[0].shape == (6, 3, 4)


def test_what_is_carried_on() -> None:
    layer, x = MemoryRNN(3, 4, 2), torch.randn(6, 2, 3)
    carried = layer.carry(layer(x)[1])
    assert carried.past.shape == (2, 2, 0, 4)
    assert carried.h.shape == (2, 2, 4)
    assert not carried.h.requires_grad
    ring = RingRNN(3, 4)
    state = ring(x)[1]
    for mine, theirs in zip(ring.carry(state), state, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("kind", [RingRNN, MemoryRNN, ZoneoutRNN])
def test_segments_give_the_gradients_of_the_whole(kind: type[Recurrent]) -> None:
    layer = kind(3, 4, 2, bidirectional=True, dtype=torch.float64).eval()
    x = torch.randn(7, 2, 3, dtype=torch.float64)
    found = []
    for every in (None, 3):
        layer.checkpoint_every = every
        layer.zero_grad()
        layer(x)[0].square().sum().backward()
        found.append([p.grad.clone() for p in layer.parameters() if p.grad is not None])
    for whole, pieces in zip(*found, strict=True):
        torch.testing.assert_close(pieces, whole, atol=1e-10, rtol=0)


def test_random_numbers_of_a_step_come_from_the_generator() -> None:
    layer, x = ZoneoutRNN(3, 4), torch.randn(9, 2, 3)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(x)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_random_numbers_are_the_same_when_segments_run_again() -> None:
    """Else the gradients would be of another function than the values."""
    layer, x = ZoneoutRNN(3, 4, checkpoint_every=3, dtype=torch.float64), torch.randn(7, 2, 3, dtype=torch.float64)

    def loss(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return layer(x)[0].square().sum()

    assert torch.autograd.gradcheck(loss, x.requires_grad_())


def test_trained_starts_of_several_fields() -> None:
    class Pair(NamedTuple):
        h: Any
        c: Any

    class PairCell(Cell):
        def fields(self) -> Pair:
            return Pair(Field(self.hidden_size, trained=True), Field(2, self.hidden_size, initial=3.0, trained=True))

        def step(self, drive: Tensor, state: Pair) -> Pair:
            return Pair(torch.tanh(drive + state.h @ self.weight_hh.mT + state.c.sum(1)), state.c)

    class PairRNN(Recurrent):
        cell = PairCell

    layer = PairRNN(3, 4)
    assert dict(layer.named_parameters())["start_c_l0"].eq(3.0).all()
    layer(torch.randn(5, 2, 3))[0].sum().backward()
    assert layer.start_c_l0.grad.shape == (2, 4)
    layer.start_c_l0.data.zero_()
    layer.reset_parameters()
    assert layer.start_c_l0.eq(3.0).all()


def test_refusals() -> None:
    layer, x = RingRNN(3, 4), torch.randn(5, 2, 3)
    state = layer(x)[1]
    with pytest.raises(DTypeError, match=r"the field age of .* is torch.float32 and must be torch.int64"):
        layer(x, state._replace(age=state.age.float()))
    with pytest.raises(ShapeError, match=r"the field buffer .* must have the shape \(1, 2, 5, 4\).*got \(1, 2, 4, 5\)"):
        layer(x, state._replace(buffer=state.buffer.mT))
    memory = MemoryRNN(3, 4)
    state = memory(x)[1]
    with pytest.raises(ShapeError, match=r"the field past .* must have the shape \(1, 2, 4, 4\).*got \(1, 2, 5, 4\)"):
        memory(x, state._replace(score=state.score[:, :, :-1]))
    with pytest.raises(OptionError, match="AsLSTM needs a layer with one or two real states"):
        AsLSTM(layer)
    with pytest.raises(DTypeError, match="a trained field has the dtype of the weights"):
        Field(3, dtype=torch.int64, trained=True)
    with pytest.raises(OptionError, match="DecayRNN has no bias that could be left out"):
        DecayRNN(3, 4, bias=False)


@pytest.mark.parametrize("kind", [RingRNN, MemoryRNN])
def test_within_a_module_and_in_double(kind: type[Recurrent]) -> None:
    model = nn.ModuleDict({"memory": kind(3, 4)}).double()
    output, state = model["memory"](torch.randn(5, 2, 3, dtype=torch.float64))
    assert output.dtype == state.score.dtype == torch.float64


def test_one_sequence_with_a_memory_of_single_numbers() -> None:
    class SumCell(BareCell):
        def fields(self) -> Memory:
            return Memory(Field(self.hidden_size), Field(grows=True), Field(grows=True))

        def drive(self, input: Tensor) -> Tensor:
            return input

        def step(self, drive: Tensor, state: Memory) -> Memory:
            h = drive + state.past.sum(1, keepdim=True)
            grown = (torch.cat([part, h.mean(1, keepdim=True)], 1) for part in state[1:])
            return Memory(h, *grown)

    class SumRNN(Recurrent):
        cell = SumCell

    layer, x = SumRNN(4, 4), torch.randn(6, 4)
    _, state = layer(x[:3])
    torch.testing.assert_close(layer(x[3:], state)[0], layer(x)[0][3:])


def test_a_folded_layer_without_a_map_can_be_replaced() -> None:
    assert S4D(3, 4, state_size=4).fold().replace(batch_first=True).batch_first

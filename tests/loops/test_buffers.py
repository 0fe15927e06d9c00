"""States of several fields: buffers that are rebuilt backwards, fields that become each other."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from engram.checks import explain
from engram.loops import _run, compiled_cell, use
from engram.loops._slots import record_bytes, records
from engram.nn import Cell, Recurrent
from engram.state import Field, parts

SLOTS = 5


class RingState(NamedTuple):
    h: Any
    ring: Any
    age: Any


class RingCell(Cell):
    """Attends to its last SLOTS states, kept in a ring."""

    def fields(self) -> RingState:
        return RingState(Field(self.hidden_size), Field(SLOTS, self.hidden_size), Field(1, dtype=torch.int64))

    def step(self, drive: Tensor, state: RingState) -> RingState:
        weights = torch.softmax((state.ring * state.h[:, None]).sum(-1), -1)
        h = torch.tanh(drive + state.h @ self.weight_hh.mT + (weights[:, :, None] * state.ring).sum(1))
        slot = torch.arange(SLOTS) == state.age % SLOTS
        return RingState(h, torch.where(slot[:, :, None], h[:, None], state.ring), state.age + 1)


class ShiftCell(RingCell):
    """The same with a buffer whose slots all change at every step."""

    def step(self, drive: Tensor, state: RingState) -> RingState:
        weights = torch.softmax((state.ring * state.h[:, None]).sum(-1), -1)
        h = torch.tanh(drive + state.h @ self.weight_hh.mT + (weights[:, :, None] * state.ring).sum(1))
        return RingState(h, torch.cat([h[:, None], state.ring[:, :-1]], 1), state.age)


class SlotCell(RingCell):
    """Writes two slots by their numbers, and reads the buffer afterwards."""

    def step(self, drive: Tensor, state: RingState) -> RingState:
        h = torch.tanh(drive + state.h @ self.weight_hh.mT)
        slot, other = state.age % SLOTS, (state.age * 2) % SLOTS  # at times the same
        moved = state.ring.gather(1, slot[:, :, None].expand(-1, 1, self.hidden_size))
        ring = state.ring.scatter(1, other[:, :, None].expand(-1, 1, self.hidden_size), 0.9 * moved)
        ring = ring.scatter(1, slot[:, :, None].expand(-1, 1, self.hidden_size), h[:, None])
        weights = torch.softmax((ring * state.h[:, None]).sum(-1), -1)
        return RingState(h + (weights[:, :, None] * ring).sum(1), ring, state.age + 1)


class SeenTwiceCell(SlotCell):
    """The same, and reads the buffer before the step too: it is taken back at the start."""

    def step(self, drive: Tensor, state: RingState) -> RingState:
        seen = torch.tanh(state.ring).mean(1)
        new = super().step(drive + 0.1 * seen, state)
        return new._replace(h=new.h + seen * new.h)


class SwapCell(RingCell):
    """Fields that become each other, and a buffer that is turned over."""

    def fields(self) -> RingState:
        return RingState(Field(self.hidden_size), Field(self.hidden_size, self.hidden_size), Field(self.hidden_size))

    def step(self, drive: Tensor, state: RingState) -> RingState:
        new = torch.tanh(drive + state.h @ self.weight_hh.mT + state.ring.sum(-1))
        return RingState(state.age, state.ring.mT, new)


class PartCell(RingCell):
    """Reads, writes and adds to a corner of a slot of two axes: what lies beside it in memory is not the corner."""

    def fields(self) -> RingState:
        return super().fields()._replace(ring=Field(SLOTS, 3, self.hidden_size))

    def step(self, drive: Tensor, state: RingState) -> RingState:
        corner = (state.age % SLOTS)[:, :, None, None].expand(-1, 1, 2, self.hidden_size - 1)
        read = state.ring.gather(1, corner)
        h = torch.tanh(drive + state.h @ self.weight_hh.mT + 0.5 * state.ring.sum((1, 2)))
        ring = state.ring.scatter(1, corner, 0.5 * read + h[:, None, None, 1:])
        return RingState(h, 0.9 * ring, state.age + 2)


class AddedCell(RingCell):
    """Adds to one slot of what is zero, and of what is not, before all of it is added to the buffer."""

    def step(self, drive: Tensor, state: RingState) -> RingState:
        h = torch.tanh(drive + state.h @ self.weight_hh.mT + 0.3 * state.ring.sum(1))
        slot = (state.age % SLOTS)[:, :, None].expand(-1, 1, self.hidden_size)
        first = torch.zeros_like(state.ring).scatter_add(1, slot, h[:, None])
        second = torch.full_like(state.ring, 0.25).scatter_add(1, slot, 0.5 * h[:, None])
        return RingState(h, 0.5 * (state.ring + first) + (second + 0.1 * state.ring), state.age + 1)


class NeighbourCell(RingCell):
    """Every slot reads the first one as it was before, and the last one: no slot may be overwritten too early. Its
    gradient does not need the buffer, which is therefore not kept."""

    def step(self, drive: Tensor, state: RingState) -> RingState:
        h = torch.tanh(drive + state.h @ self.weight_hh.mT + state.ring.sum(1))
        ring = 0.5 * state.ring + 0.2 * state.ring[:, :1] - 0.2 * state.ring[:, -1:] + h[:, None]
        return RingState(h, ring, state.age)


@pytest.mark.parametrize("executor", ["torch", "compiled"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [2, 9])
@pytest.mark.parametrize(
    "kind", [RingCell, ShiftCell, SlotCell, SeenTwiceCell, SwapCell, PartCell, AddedCell, NeighbourCell]
)
def test_equals_the_plain_loop(kind: type[Cell], batch: int, packed: bool, executor: str) -> None:
    check(kind, batch, packed, executor)


@pytest.mark.parametrize("executor", ["torch", "compiled"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [RingCell, ShiftCell, SlotCell])
def test_in_chunks(kind: type[Cell], packed: bool, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one step, or of a few: each chunk puts back the slots that its own steps have changed."""
    for chunk_bytes in (1, 5000):
        for name in ("CHUNK_BYTES", "TORCH_CHUNK_BYTES"):
            monkeypatch.setattr(_run, name, chunk_bytes)
        check(kind, 9, packed, executor)


def check(kind: type[Cell], batch: int, packed: bool, executor: str) -> None:
    """Outputs, last state and gradients, both ways through time."""
    layer = type("Layer", (Recurrent,), {"cell": kind})(3, 4, bidirectional=True, dtype=torch.float64)
    x: Any = torch.randn(17, batch, 3, dtype=torch.float64)
    if packed:
        x = pack_padded_sequence(x, [17, *range(batch, 1, -1)])
    fields = layer.cells[0].fields()
    start = RingState(*(_start(field, batch) for field in fields))
    results = {}
    for name in ("plain", executor):
        with use(name):
            output, final = layer(x, start)
            output = output if isinstance(output, Tensor) else output.data
            shown = [output, *(f for f in parts(final) if f.is_floating_point())]
            loss = torch.stack([(s * torch.linspace(-1, 2, s.numel(), dtype=s.dtype).view_as(s)).sum() for s in shown])
            leaves = [*(s for s in start if s.requires_grad), *layer.parameters()]
            results[name] = [*shown, *torch.autograd.grad(loss.sum(), leaves)]
    for ours, truth in zip(results[executor], results["plain"], strict=True):
        torch.testing.assert_close(ours, truth, atol=1e-10, rtol=1e-10)


def _start(field: Field, batch: int) -> Tensor:
    shape = (2, batch, *field.shape)
    if field.dtype is not None:
        return torch.zeros(shape, dtype=field.dtype)
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_a_ring_keeps_one_slot_per_step() -> None:
    """Kept are the output, what products gave, and of the ring what was overwritten: not all slots of all steps."""
    cell = RingCell(3, 4)
    plan = compiled_cell(cell).choose(cell.reference_weight, 8).plan
    assert set(plan.forward.changes) == {1}
    assert set(plan.gradient_loop.rebuilt) == {1}
    assert "state1" not in plan.kept
    whole = compiled_cell(cell).variant(hoist=True, rebuild=False).plan
    assert "state1" in whole.kept


def test_slots_that_are_written_by_number() -> None:
    """Two are noted per step, not all of them, and the backward loop reads the buffer as it is after a step."""
    cell = SlotCell(3, 4)
    plan = compiled_cell(cell).choose(cell.reference_weight, 8).plan
    assert list(plan.forward.puts.values()) == [(1, 0), (1, 1)]
    assert records(plan, 1) == 2
    assert record_bytes(plan) == 2 * 4 * 4
    assert plan.gradient_loop.late == {1}
    twice = SeenTwiceCell(3, 4)
    plan = compiled_cell(twice).choose(twice.reference_weight, 8).plan
    assert set(plan.gradient_loop.rebuilt) == {1}
    assert not plan.gradient_loop.late


def test_what_is_kept_grows_with_the_steps_alone() -> None:
    """A ring of 50 x 16 numbers, of which a step writes two slots: 128 bytes per row and step, 3200 if kept whole."""

    class Wide(SlotCell):
        def fields(self) -> RingState:
            return RingState(Field(self.hidden_size), Field(50, self.hidden_size), Field(1, dtype=torch.int64))

    layer = type("Layer", (Recurrent,), {"cell": Wide})(3, 16)
    found = []
    for steps in (100, 200):
        sizes: dict[int, int] = {}
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: _noted(t, s), lambda t: t):
            layer(torch.randn(steps, 8, 3))
        found.append(sum(sizes.values()))
    assert (found[1] - found[0]) / (100 * 8) < 600


def _noted(tensor: Tensor, sizes: dict[int, int]) -> Tensor:
    sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return tensor


def test_it_is_compiled() -> None:
    (found,) = explain(RingCell(3, 4)).cells
    assert found.executor == "compiled" or "no compiler" in found.reason.lower(), found.reason
    assert found.products == (2, 1)

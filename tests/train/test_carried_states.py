"""Truncated training with states of every kind: a run that is stopped goes on bit for bit."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.tasks import PennTreebank
from engram.train import Settings, make_fabric
from engram.train._checkpoint import load, save
from engram.train._loop import Loop

CELLS = '''
import math
from typing import Any, NamedTuple

import torch

import engram
from engram.state import Field


class Ring(NamedTuple):
    h: Any
    buffer: Any
    age: Any
    score: Any
    seen: Any


class RingCell(engram.nn.Cell):
    def fields(self):
        return Ring(
            Field(self.hidden_size),
            Field(3, self.hidden_size),
            Field(3, dtype=torch.int64, initial=-1),
            Field(3, initial=-math.inf),
            Field(3, dtype=torch.bool),
        )

    def step(self, drive, state):
        weights = torch.where(state.seen.any(-1, keepdim=True), state.score, 0.0).softmax(-1) * state.seen
        read = (weights[..., None] * state.buffer).sum(1)
        h = torch.tanh(drive + (state.h + read) @ self.weight_hh.mT)
        oldest = (state.age == state.age.amin(-1, keepdim=True)).long().argmax(-1, keepdim=True)
        slot = oldest == torch.arange(3)
        return Ring(
            h,
            torch.where(slot[..., None], h[:, None], state.buffer),
            torch.where(slot, state.age.amax(-1, keepdim=True) + 1, state.age),
            torch.where(slot, h.mean(-1, keepdim=True), state.score),
            state.seen | slot,
        )


class RingRNN(engram.nn.Recurrent):
    cell = RingCell


class Memory(NamedTuple):
    h: Any
    past: Any


class MemoryCell(engram.nn.Cell):
    def fields(self):
        return Memory(Field(self.hidden_size), Field(self.hidden_size, grows=True))

    def step(self, drive, state):
        h = torch.tanh(drive + (state.h + state.past.sum(1)) @ self.weight_hh.mT)
        return Memory(h, torch.cat([state.past, h[:, None]], 1))


class MemoryRNN(engram.nn.Recurrent):
    cell = MemoryCell


class Alone(NamedTuple):
    h: Any


class AloneCell(MemoryCell):
    """One field, in a NamedTuple."""

    def fields(self):
        return Alone(Field(self.hidden_size))

    def step(self, drive, state):
        return Alone(torch.tanh(drive + state.h @ self.weight_hh.mT))


class AloneRNN(engram.nn.Recurrent):
    cell = AloneCell
'''


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Settings:
    monkeypatch.chdir(tmp_path)
    Path("cells.py").write_text(CELLS)
    options = {"hidden": 5, "batch": 4, "steps": 6, "embedding": 3, "threads": 1, "layers": 2}
    return Settings.of(PennTreebank(bptt=5), f"cells.py:{request.param}", **options)


def after(loop: Loop, steps: int) -> Any:
    for _ in range(steps):
        loop.train_step()
    return loop.state().tensors


@pytest.mark.parametrize("settings", ["RingRNN", "MemoryRNN", "AloneRNN"], indirect=True)
def test_a_carried_state_goes_on_bit_for_bit(settings: Settings, tmp_path: Path) -> None:
    expected = after(Loop(settings, make_fabric(settings)), 6)
    loop = Loop(settings, make_fabric(settings))
    after(loop, 3)
    save(tmp_path, loop.state())
    again = Loop(settings, make_fabric(settings))
    again.restore(load(tmp_path))
    found = after(again, 3)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    carried = [name for name in found if name.startswith("objective.carry.")]
    assert len(carried) == {"RingRNN": 5, "MemoryRNN": 2, "AloneRNN": 1}[settings.model.label]
    if settings.model.label == "MemoryRNN":
        assert sorted(found[name].numel() for name in carried)[0] == 0  # emptied between windows


@pytest.mark.parametrize("settings", ["RingRNN"], indirect=True)
def test_a_state_that_is_another_s_is_refused(settings: Settings) -> None:
    loop = Loop(settings, make_fabric(settings))
    after(loop, 2)
    state = loop.state()
    tensors = copy.copy(state.tensors)
    tensors["objective.carry.2"] = tensors["objective.carry.2"].float()
    with pytest.raises(ValueError, match="the state that is carried on is not one of this network"):
        Loop(settings, make_fabric(settings)).restore(state._replace(tensors=tensors))

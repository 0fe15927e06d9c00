"""What explain says of a loop: products of a step, numbers that are kept, and why there is no loop."""

import linecache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from engram.checks import explain
from engram.errors import DTypeError
from engram.loops import use
from engram.nn import GRU, LSTM, RNN, SAB, Cell, MemLSTM, MemRNN, Recurrent
from engram.relational import ESBN, MNM

H = 5
KEPT = {  # by hand, per row and step: what the equations need again
    "rnn": (RNN, 1, H),  # tanh' = 1 - h^2: the output
    "lstm": (LSTM, 1, 6 * H),  # the output, the memory and four gates
    "gru": (GRU, 2, 4 * H),  # the output, both gates, and the product that the reset gate multiplies
}


@pytest.mark.parametrize("name", KEPT)
def test_products_and_what_is_kept(name: str) -> None:
    """In torch's operations the input's product leaves the loop: one forward. Backward, the chain through time takes
    one for each product that is read by itself: in a GRU the candidate's stands alone."""
    kind, _, kept = KEPT[name]
    with use("torch"):
        (found,) = explain(kind(3, H)).cells
    assert (found.executor, found.reason, found.line) == ("torch", "asked for", "")
    assert (found.products, found.kept) == ((1, 1), kept)
    assert str(found) == (
        f"cells.0 ({kind.__name__}Cell): torch operations (asked for)\n"
        f"    products per step: 1 forward, 1 backward; kept for the backward pass: {kept} numbers per row and step"
    )


@pytest.mark.parametrize("name", KEPT)
def test_in_c(name: str) -> None:
    """With rows enough for a tile the input's product stays in the loop: two forward."""
    kind, backward, kept = KEPT[name]
    (found,) = explain(kind(3, H)).cells
    if found.executor != "compiled":
        pytest.skip("no compiler here")
    assert (found.products, found.kept) == ((2, backward), kept)
    assert str(found).startswith(f"cells.0 ({kind.__name__}Cell): generated C (compiled")


@pytest.mark.parametrize(("kind", "words"), [
    (MemRNN, "torch operations on memory that is allocated once, whose steps run again in the backward pass"),
    (MemLSTM, "torch operations on memory that is allocated once, whose steps run again in the backward pass"),
    (SAB, "torch operations on memory that is allocated once"),
])  # fmt: skip
def test_cells_that_run_in_their_own_way(kind: type[Recurrent], words: str) -> None:
    (found,) = explain(kind(3, H)).cells
    assert (found.executor, found.reason) == ("own", words)
    assert str(found) == f"cells.0 ({found.kind}): {words}"
    with use("plain"):
        assert explain(kind(3, H)).cells[0].executor == "plain"


def test_relational_networks() -> None:
    for kind, executor in ((MNM, "own"), (ESBN, "compiled")):
        (found,) = explain(kind(8, 4, 3)).cells
        assert found.executor == (executor if executor == "own" else explain(LSTM(3, H)).cells[0].executor)


def test_complex_numbers_have_no_loop_in_c() -> None:
    (found,) = explain(RNN(3, H, dtype=torch.complex64)).cells
    assert (found.executor, found.reason) == ("torch", "C has no loop for torch.complex64 on cpu")


class BranchingCell(Cell):
    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return drive if state.sum() > 0 else drive + state


class Branching(Recurrent):
    cell = BranchingCell


class OwnRunCell(Cell):
    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(drive + state @ self.weight_hh.mT)

    def run(self, input: Tensor, state: Any, sizes: Tensor | None, reverse: bool) -> Any:
        return super().run(input, state, sizes, reverse)


def test_a_plain_loop_has_a_reason_and_a_line() -> None:
    (found,) = explain(Branching(3, H)).cells
    file, _, number = found.line.rpartition(":")
    source = linecache.getline(file, int(number)).strip()
    assert (file, source) == (__file__, "return drive if state.sum() > 0 else drive + state")
    assert found.executor == "plain"
    assert found.reason.startswith("the step depends on the values of a tensor")
    assert str(found) == (
        f"cells.0 (BranchingCell): plain Python loop, because {found.reason}\n    {found.line}: {source}"
    )
    assert (found.products, found.kept) == ((0, 0), 0)


def test_what_was_asked_for_and_a_run_of_its_own() -> None:
    with use("plain"):
        assert str(explain(RNN(3, H))).endswith("because it was asked for (engram.loops.use, ENGRAM_LOOP)")
    assert explain(OwnRunCell(3, H)).cells[0].reason.endswith("; by its run() it may take another way")
    assert "run()" not in explain(RNN(3, H)).cells[0].reason


def test_every_cell_of_a_model_in_its_order() -> None:
    """A cell alone has no name; under a parametrization its class is the one that was written."""
    model = nn.ModuleDict({"a": RNN(3, H, 2), "b": GRU(3, H)})
    assert [(cell.name, cell.kind) for cell in explain(model).cells] == [
        ("a.cells.0", "RNNCell"), ("a.cells.1", "RNNCell"), ("b.cells.0", "GRUCell"),
    ]  # fmt: skip
    assert len(str(explain(model)).splitlines()) == 6
    alone = RNN(3, H).cells[0]
    parametrizations.weight_norm(alone, "weight_ih")
    assert [(cell.name, cell.kind) for cell in explain(alone).cells] == [("cell", "RNNCell")]
    with pytest.raises(DTypeError, match=r"explain takes a layer with cells of .*, got Linear"):
        explain(nn.Linear(2, 2))

"""Steps that no loop can take: each runs as the plain loop, with the right result, and the reason names the line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from engram.errors import DTypeError, EngramError, ShapeError, StepError
from engram.loops import compiled_cell, use
from engram.nn import BareCell
from engram.state import Field

HERE = Path(__file__)
Step = Callable[[Any, Tensor, Tensor], Any]


class OwnCell(BareCell):
    """h_t = a given function of the cell, W x_t and h_{t-1}."""

    def __init__(self, step: Step) -> None:
        super().__init__(3, 3, dtype=torch.float64)
        self.declare("weight", 3, 3)
        self.own, self.count = [step], 0

    def drive(self, input: Tensor) -> Tensor:
        return input @ self.weight

    def step(self, drive: Tensor, state: Tensor) -> Any:
        return self.own[0](self, drive, state)


def rows_meet(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(x + h.mean(0))  # here: rows_meet


def rows_shift(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(x + h.roll(1, 0))  # here: rows_shift


def branch(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    if h.sum() > 0:  # here: branch
        return torch.tanh(x + h)
    return torch.tanh(x - h)


def mask_as_index(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(x + h[h > 0].sum())  # here: mask_as_index


def unknown(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(x + torch.sort(h, 1).values)  # here: unknown


def in_place(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    new = x + h
    new.tanh_()  # here: in_place
    return new


def randomness(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(x + h + 0 * torch.rand_like(h))  # here: randomness


def counts(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    cell.__dict__["count"] += 1
    return torch.tanh(x + h) * (1 + cell.count)  # here: counts


REFUSED: dict[str, tuple[Step, str]] = {
    "rows_meet": (rows_meet, "rows of the batch are mixed"),
    "rows_shift": (rows_shift, "rows of the batch are mixed"),
    "branch": (branch, "depends on the values of a tensor"),
    "mask_as_index": (mask_as_index, "changes from call to call"),
    "unknown": (unknown, "aten.sort.default is not known"),
    "in_place": (in_place, "changes a tensor in place"),
    "randomness": (randomness, "samples random numbers"),
    "counts": (counts, "the step sets self.count"),
}


def by_hand(cell: OwnCell, x: Tensor) -> Tensor:
    h, states = torch.zeros(x.shape[1], 3, dtype=torch.float64), []
    for step in x:
        h = cell.step(cell.drive(step), h)
        states.append(h)
    return torch.stack(states)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_plain(name: str) -> None:
    step, reason = REFUSED[name]
    cell, x = OwnCell(step), torch.randn(5, 4, 3, dtype=torch.float64)
    found = compiled_cell(cell)
    assert found.traced is None
    assert reason in found.reason, found.reason
    text = HERE.read_text().splitlines()
    number = next(n for n, line in enumerate(text, 1) if line.endswith(f"# here: {name}"))
    if name == "counts":  # an attribute is set: the line is that of the step
        number = next(n for n, line in enumerate(text, 1) if "def step(" in line)
    assert found.line.startswith(f"{HERE}:{number}"), (found.line, number)
    cell.__dict__["count"] = 0
    output, final = cell.run(x, cell.initial_state(4), None, False)
    cell.__dict__["count"] = 0
    torch.testing.assert_close(output, by_hand(cell, x), rtol=0, atol=1e-12)
    assert final.equal(output[-1])


EYE = torch.eye(3, dtype=torch.float64)
MIXED: dict[str, Step] = {  # rows meet in every kind of operation; all keep the shape (B, 3)
    "sum": lambda cell, x, h: torch.tanh(x + h.sum(0, keepdim=True)),
    "amax": lambda cell, x, h: torch.tanh(x + h.amax(0)),
    "softmax": lambda cell, x, h: x + h.softmax(0),
    "log_softmax": lambda cell, x, h: torch.tanh(x + h.log_softmax(0)),
    "cumsum": lambda cell, x, h: torch.tanh(x + h.cumsum(0)),
    "flip": lambda cell, x, h: torch.tanh(x + h.flip(0)),
    "flatten": lambda cell, x, h: torch.tanh(x + h.flatten().roll(1).view_as(h)),
    "reshape": lambda cell, x, h: torch.tanh(x + h.mT.reshape(len(h), 3)),
    "rows times rows": lambda cell, x, h: torch.tanh((h @ h.mT) @ x),
    "own product": lambda cell, x, h: torch.tanh(x + h @ (x.mT @ h)),
    "slice": lambda cell, x, h: torch.tanh(x + h[:1]),
    "last row": lambda cell, x, h: torch.tanh(x + h[-1]),
    "cat": lambda cell, x, h: torch.tanh(x + torch.cat([h[1:], h[:1]])),
    "gather": lambda cell, x, h: torch.tanh(x + h.gather(0, torch.zeros(len(h), 3, dtype=torch.int64))),
    "index_select": lambda cell, x, h: torch.tanh(x + h.index_select(0, torch.zeros(len(h), dtype=torch.int64))),
    "norm": lambda cell, x, h: torch.tanh(x + h / (1 + h.norm())),
    "all": lambda cell, x, h: torch.tanh(x + h - h.mean()),
    "outer": lambda cell, x, h: torch.tanh(x + (h[:, None] * h[None]).sum(1)),
    "einsum": lambda cell, x, h: torch.tanh(x + torch.einsum("bi,cj->bj", x, h)),
    "batch as number": lambda cell, x, h: torch.tanh(x + h / len(h)),
    "ones of the batch": lambda cell, x, h: torch.tanh(x + h * torch.arange(len(h)).double()[:, None]),
}


@pytest.mark.parametrize("executor", ["auto", "torch"])
@pytest.mark.parametrize("name", MIXED)
def test_rows_that_meet_are_seen(name: str, executor: str) -> None:
    """Whatever brings them together: it runs as it is written, value and gradient, and somebody is told why."""
    cell, x = OwnCell(MIXED[name]), torch.randn(5, 4, 3, dtype=torch.float64, requires_grad=True)
    with use(executor):
        found = compiled_cell(cell)
        output, _ = cell.run(x, cell.initial_state(4), None, False)
    assert found.traced is None
    assert found.reason
    right = by_hand(cell, x)
    torch.testing.assert_close(output, right, rtol=0, atol=1e-12)
    weights = [x, cell.weight]
    got, wanted = (torch.autograd.grad(y.square().sum(), weights) for y in (output, right))
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)


NOT_MIXED: dict[str, Step] = {  # an axis of the batch that comes and goes
    "whole slice": lambda cell, x, h: torch.tanh(x + h[:]),
    "cast to the same": lambda cell, x, h: torch.tanh(x + h.double()),
    "there and back": lambda cell, x, h: torch.tanh((x.mT + h.mT).mT),
    "product on the right": lambda cell, x, h: torch.tanh(x + (EYE.roll(1, 0) @ h.mT).mT),
    "rows of one": lambda cell, x, h: torch.tanh(x + (h[:, None] @ EYE.roll(1, 0))[:, 0]),
    "inner": lambda cell, x, h: torch.tanh(x + (h[:, None] @ x[:, :, None])[:, :, 0]),
    "fold": lambda cell, x, h: torch.tanh(x + h.repeat_interleave(2, 1).view(-1, 3, 2).sum(2)),
    "no batch in the sum": lambda cell, x, h: torch.tanh(x + EYE.sum(0) * h),
}


@pytest.mark.parametrize("executor", ["auto", "torch"])
@pytest.mark.parametrize("name", NOT_MIXED)
def test_rows_that_do_not_meet(name: str, executor: str) -> None:
    """By whichever executor: the same values and gradients, for one row too."""
    for batch in (4, 1):
        cell, x = OwnCell(NOT_MIXED[name]), torch.randn(5, batch, 3, dtype=torch.float64, requires_grad=True)
        with use(executor):
            output, _ = cell.run(x, cell.initial_state(batch), None, False)
            got = torch.autograd.grad(output.square().sum(), [x, cell.weight])
        right = by_hand(cell, x)
        torch.testing.assert_close(output, right, rtol=0, atol=1e-12)
        torch.testing.assert_close(got, torch.autograd.grad(right.square().sum(), [x, cell.weight]), rtol=0, atol=1e-10)


class Growing(BareCell):
    """All drives so far, and their mean."""

    class Fields(NamedTuple):
        h: Any
        past: Any

    def fields(self) -> Any:
        return self.Fields(Field(3), Field(3, grows=True))

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: Any) -> Any:
        past = torch.cat([state.past, drive[:, None]], 1)
        return self.Fields(past.mean(1), past)


def test_a_growing_field() -> None:
    cell, x = Growing(3, 3, dtype=torch.float64), torch.randn(5, 4, 3, dtype=torch.float64)
    assert compiled_cell(cell).reason == "a field of the state grows with time"
    output, _ = cell.run(x, cell.initial_state(4), None, False)
    torch.testing.assert_close(output, x.cumsum(0) / torch.arange(1, 6)[:, None, None], rtol=0, atol=1e-12)


class Pair(NamedTuple):
    a: Any
    b: Any


WRONG: dict[str, tuple[Step, type[EngramError], str]] = {
    "shape": (lambda cell, x, h: torch.cat([x, h], 1), ShapeError, r"field 0 as \(2, 6\).*the state has \(2, 3\)"),
    "dtype": (lambda cell, x, h: (x + h).float(), DTypeError, r"field 0 as .*float32.*the state has .*float64"),
    "number of fields": (lambda cell, x, h: Pair(x, h), ShapeError, r"returns 2 field\(s\), its state has 1"),
    "no tensor": (lambda cell, x, h: None, DTypeError, "field 0 as NoneType"),
}


@pytest.mark.parametrize("executor", ["auto", "torch"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_state_is_an_error(name: str, executor: str) -> None:
    """Not a plain loop that fails later, or does not."""
    step, error, words = WRONG[name]
    cell, x = OwnCell(step), torch.randn(1, 4, 3, dtype=torch.float64)
    with use(executor), pytest.raises(error, match=words):
        cell.run(x, cell.initial_state(4), None, False)


def test_reasons_differ_by_cell() -> None:
    """A step that can be taken is, beside those that cannot."""
    cell = OwnCell(lambda cell, x, h: torch.tanh(x + h))
    assert compiled_cell(cell).reason == ""


def changes_state(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    h += x  # here: changes_state
    return h


def changes_drive(cell: OwnCell, x: Tensor, h: Tensor) -> Tensor:
    x[:, 0] = h[:, 0]  # here: changes_drive
    return x


@pytest.mark.parametrize("step", [changes_state, changes_drive])
def test_a_step_that_changes_what_it_is_given(step: Step) -> None:
    """All earlier outputs would be the last state, and the caller's own state another one."""
    cell, x = OwnCell(step), torch.randn(5, 4, 3, dtype=torch.float64)
    state = torch.zeros(4, 3, dtype=torch.float64)
    number = next(
        n for n, line in enumerate(HERE.read_text().splitlines(), 1) if line.endswith(f"# here: {step.__name__}")
    )
    with torch.no_grad(), pytest.raises(StepError, match=f"in place.*{HERE.name}:{number}. Make a new tensor"):
        cell.run(x, state, None, False)
    assert state.eq(0).all()


class TupleCell(BareCell):
    """A step that returns a tuple where its fields are a NamedTuple, and reads the fields by name."""

    def fields(self) -> Any:
        return Pair(Field(3), Field(3))

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: Any) -> Any:
        return torch.tanh(drive + state.b), state.a

    def output(self, state: Any) -> Tensor:
        return state.a + state.b  # type: ignore[no-any-return]


@pytest.mark.parametrize("executor", ["compiled", "torch", "plain"])
def test_a_tuple_stands_for_the_fields(executor: str) -> None:
    cell, x = TupleCell(3, 3, dtype=torch.float64), torch.randn(5, 4, 3, dtype=torch.float64)
    with use(executor):
        output, final = cell.run(x, cell.initial_state(4), None, False)
    assert isinstance(final, Pair)
    a = b = torch.zeros(4, 3, dtype=torch.float64)
    for step, shown in zip(x, output, strict=True):
        a, b = torch.tanh(step + b), a
        torch.testing.assert_close(shown, a + b, rtol=0, atol=1e-12)

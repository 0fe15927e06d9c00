"""Steps with corners: truth values, whole numbers, padded products, what a cell is known by, single steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from engram.checks import explain
from engram.loops import compiled_cell, use
from engram.nn import RNN, BareCell, Cell
from engram.state import Field, parts
from tiers import slow_but


class State(NamedTuple):
    h: Any
    buffer: Any
    count: Any


class CornerCell(Cell):
    """A state of numbers, a buffer and a count; what a step does with them is given."""

    def __init__(self, input_size: int, hidden_size: int, corner: Callable[..., Tensor], **options: Any) -> None:
        super().__init__(input_size, hidden_size, **options)
        self.corner = corner
        self.declare("key", hidden_size, hidden_size)

    def fields(self) -> State:
        return State(Field(self.hidden_size), Field(3, self.hidden_size), Field(2, dtype=torch.int64, initial=1))

    def step(self, drive: Tensor, state: State) -> State:
        h = torch.tanh(drive + state.h @ self.weight_hh.mT + self.corner(self, drive, state))
        buffer = torch.cat([h[:, None], state.buffer[:, :-1]], 1)
        return State(h, buffer, state.count + 1)


def number(n: Tensor) -> Tensor:
    return n.sum(-1, keepdim=True).double()


CORNERS: dict[str, Callable[..., Tensor]] = {
    "product of truths": lambda c, d, s: ((d > 0) * (s.h > 0)).double(),
    "order of truths": lambda c, d, s: ((d > 0) < (s.h > 0)).double(),
    "truth equals True": lambda c, d, s: ((d > 0) == True).double(),  # noqa: E712
    "sum of truths": lambda c, d, s: ((d > 0) + (s.h > 0)).double(),
    "choice of truths": lambda c, d, s: torch.where(d > 0, s.h > 0, d < -1).double(),
    "truth times number": lambda c, d, s: (d > 0) * d,
    "neither": lambda c, d, s: (~((d > 0) | (s.h > 0))).double(),
    "count below a half": lambda c, d, s: number(s.count < 3.5) * 0.1,
    "both counts": lambda c, d, s: number(torch.logical_and(s.count, s.count - 2)) * 0.1,
    "power of a count": lambda c, d, s: number(s.count**5) * 1e-4,
    "largest count": lambda c, d, s: s.count.amax(-1, keepdim=True).double() * 0.1,
    "count modulo": lambda c, d, s: number(s.count % 2) * 0.1,
    "slots of a product": lambda c, d, s: (s.buffer @ c.key)[:, 1:].sum(1),
    "every second slot of a product": lambda c, d, s: (s.buffer @ c.key)[:, ::2].sum(1),
    "a product of a product": lambda c, d, s: torch.tanh(torch.tanh(s.buffer @ c.key) @ c.key)[:, 2],
    "mean of all slots": lambda c, d, s: s.buffer.mean((1, 2))[:, None],
    "sum of all slots": lambda c, d, s: s.buffer.sum((1, 2))[:, None] * 0.1,
    "largest of all slots": lambda c, d, s: s.buffer.amax((1, 2))[:, None],
    "places of least and largest": lambda c, d, s: (s.h.min(-1).indices + 3 * s.h.max(-1).indices)[:, None] * 0.1,
    "least and its place": lambda c, d, s: s.buffer.min(1).values * s.buffer.min(1).indices,
    "attention": lambda c, d, s: (torch.softmax(s.buffer @ s.h[:, :, None], 1).mT @ s.buffer)[:, 0],
    "a bias with a factor": lambda c, d, s: torch.add(d @ c.key, c.bias, alpha=-0.5),
    "sign of zero": lambda c, d, s: torch.sign(d * 0) + torch.sign(s.h),
}


TRUTHS = [name for name in CORNERS if "truth" in name or name == "neither"]
COUNTS = [name for name in CORNERS if "count" in name]
REDUCTIONS = [name for name in CORNERS if "all slots" in name or "least" in name or "second slot" in name]
TOGETHER: dict[str, Callable[..., Tensor]] = {  # one loop to compile in place of many
    "all of truths": lambda c, d, s: sum(CORNERS[name](c, d, s) for name in TRUTHS),  # type: ignore[return-value]
    "all of counts": lambda c, d, s: sum(CORNERS[name](c, d, s) for name in COUNTS),  # type: ignore[return-value]
    "all of reductions": lambda c, d, s: sum(CORNERS[name](c, d, s) for name in REDUCTIONS),  # type: ignore[return-value]
}
OF_SLOTS = {"slots of a product", "a product of a product", "attention", "sign of zero"}
CASES = [(name, "torch") for name in CORNERS] + [(name, "compiled") for name in CORNERS | TOGETHER]
QUICK = [case for case in CASES if case[1] == "torch" or case[0] in TOGETHER or case[0] in OF_SLOTS]


@pytest.mark.parametrize(("name", "executor"), slow_but(CASES, QUICK))
def test_equals_the_plain_loop(name: str, executor: str) -> None:
    cell = CornerCell(3, 11, (CORNERS | TOGETHER)[name], dtype=torch.float64)
    assert compiled_cell(cell).traced is not None, compiled_cell(cell).reason
    for steps, batch in ((6, 7), (3, 1)):
        x = torch.randn(steps, batch, 3, dtype=torch.float64, requires_grad=True)
        found = {}
        for which in ("plain", executor):
            with use(which):
                output, final = cell.run(x, cell.initial_state(batch), None, False)
                loss = output.square().sum() + sum(f.square().sum() for f in parts(final) if f.is_floating_point())
                gradients = torch.autograd.grad(
                    loss, [x, *cell.parameters()], allow_unused=True, materialize_grads=True
                )
                found[which] = [output, *parts(final), *gradients]
        for ours, truth in zip(found[executor], found["plain"], strict=True):
            torch.testing.assert_close(ours, truth, atol=1e-10, rtol=1e-10)


def test_training_is_an_option() -> None:
    class HalfCell(Cell):
        def step(self, drive: Tensor, state: Tensor) -> Tensor:
            return torch.tanh(drive + state @ self.weight_hh.mT) * (2.0 if self.training else 1.0)

    cell, x = HalfCell(2, 3), torch.randn(4, 7, 2)
    for mode in (True, False, True):
        cell.train(mode)
        same_as_plain(cell, x)


def same_as_plain(cell: BareCell, x: Tensor) -> None:
    found = cell.run(x, cell.initial_state(x.shape[1]), None, False)[0]
    with use("plain"):
        torch.testing.assert_close(found, cell.run(x, cell.initial_state(x.shape[1]), None, False)[0])


def test_tensors_in_a_list_are_constants_of_one_cell() -> None:
    corner = lambda c, d, s: c.kept[0] * d  # noqa: E731
    x = torch.randn(4, 7, 3)
    for value in (2.0, -1.0):
        cell = CornerCell(3, 5, corner)
        cell.kept = [torch.full((5,), value)]
        same_as_plain(cell, x)


OUTSIDE: dict[str, Callable[..., Tensor]] = {
    "values by tolist": lambda c, d, s: d * (2.0 if s.h.detach().tolist()[0][0] > 0 else 1.0),
    "values by numpy": lambda c, d, s: d * (2.0 if s.h.detach().numpy()[0, 0] > 0 else 1.0),
    "few rows": lambda c, d, s: d * (1 if len(d) < 4 else 2),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_branches_that_torch_does_not_see(name: str) -> None:
    cell = CornerCell(3, 5, OUTSIDE[name])
    assert compiled_cell(cell).traced is None
    same_as_plain(cell, torch.randn(4, 7, 3))


def test_a_drive_that_looks_at_other_steps_stays_outside() -> None:
    class SumCell(Cell):
        def drive(self, input: Tensor) -> tuple[Tensor]:
            return (super().drive(input + 1e-3 * input.cumsum(0)),)

        def step(self, drive: tuple[Tensor], state: Tensor) -> Tensor:
            return torch.tanh(drive[0] + state @ self.weight_hh.mT)

    cell = SumCell(2, 3, dtype=torch.float64)
    found = compiled_cell(cell)
    assert found.traced is not None
    assert not found.traced.with_drive
    same_as_plain(cell, torch.randn(9, 7, 2, dtype=torch.float64))
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: cell.run(x, cell.initial_state(2), None, False)[0], (x,))


def test_negative_numbers_of_units() -> None:
    same_as_plain(CornerCell(3, 5, lambda c, d, s: s.h[:, [-1, -2, 0, 1, 2]]), torch.randn(4, 7, 3))


OUT = torch.ones(5)


def test_a_tensor_from_outside_must_not_change_before_the_backward_pass() -> None:
    cell = CornerCell(3, 5, lambda c, d, s: OUT * d)
    output, _ = cell.run(torch.randn(4, 7, 3), cell.initial_state(7), None, False)
    OUT.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place between"):
        output.sum().backward()


REFUSED: dict[str, Callable[..., Tensor]] = {
    "divided by the rows": lambda c, d, s: d / d.shape[0],
    "times the rows": lambda c, d, s: s.h * s.h.size(0),
    "filled with the rows": lambda c, d, s: torch.full_like(d, d.shape[0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_number_of_rows_is_no_number(name: str) -> None:
    found = compiled_cell(CornerCell(3, 5, REFUSED[name]))
    assert found.traced is None
    assert "test_corners.py" in found.line


class SometimesCell(Cell):
    """Counts its steps, and uses the count every fifth time."""

    calls = 0

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        self.calls = self.calls + 1
        new = torch.tanh(drive + state @ self.weight_hh.mT)
        return new * 2 if self.calls % 5 == 0 else new


def test_a_step_that_counts_is_refused() -> None:
    found = compiled_cell(SometimesCell(2, 3))
    assert found.traced is None
    assert found.reason == "the step sets self.calls"


class OptionCell(Cell):
    def __init__(self, input_size: int, hidden_size: int, hooke: Any = 1, inside: nn.Module | None = None) -> None:
        super().__init__(input_size, hidden_size)
        self.hooke = hooke
        if inside is not None:
            self.inside = inside

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        new = drive + state @ self.weight_hh.mT * (2.0 if self.hooke is True else float(self.hooke))
        return self.inside(new) if hasattr(self, "inside") else torch.tanh(new)


def test_cells_are_told_apart_by_every_option() -> None:
    x = torch.randn(4, 7, 2)
    outputs = []
    for value in (1, True, 3):
        torch.manual_seed(0)
        cell = OptionCell(2, 3, value)
        output = cell.run(x, cell.initial_state(7), None, False)[0]
        with use("plain"):
            torch.testing.assert_close(output, cell.run(x, cell.initial_state(7), None, False)[0])
        outputs.append(output)
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])


def test_cells_are_told_apart_by_what_is_in_a_tuple() -> None:
    class FactorsCell(Cell):
        def __init__(self, factors: tuple[float, ...]) -> None:
            super().__init__(2, 3)
            self.factors = factors

        def step(self, drive: Tensor, state: Tensor) -> Tensor:
            return torch.tanh(drive + state @ self.weight_hh.mT) * sum(self.factors)

    x, cells = torch.randn(4, 7, 2), [FactorsCell(factors) for factors in ((1.0, 2.0), (3.0, 4.0), (1.0, 2.0))]
    with use("torch"):
        for cell in cells:
            same_as_plain(cell, x)
    first, second, third = (compiled_cell(cell) for cell in cells)
    assert first is not second
    assert first is third  # equal ones share


def test_changes_inside_a_cell_are_seen() -> None:
    cell, x = OptionCell(2, 3, inside=nn.LeakyReLU(0.1)), torch.randn(4, 7, 2)

    def check() -> None:
        found = cell.run(x, cell.initial_state(7), None, False)[0]
        with use("plain"):
            torch.testing.assert_close(found, cell.run(x, cell.initial_state(7), None, False)[0])

    check()
    cell.inside.negative_slope = 0.7  # type: ignore[assignment]
    check()
    cell.hooke = 2
    check()
    cell.register_parameter("bias", None)
    check()


@pytest.mark.parametrize("executor", ["torch", "compiled"])
@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "modrelu"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_not_finite_inputs_have_the_same_gradients(bad: float, activation: str, executor: str) -> None:
    layer = RNN(3, 8, activation=activation, dtype=torch.float64)
    found = {}
    for which in ("plain", executor):
        x = torch.randn(5, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        x[2, 1, 0] = bad
        x.requires_grad_()
        with use(which):
            output, _ = layer(x)
            found[which] = [output, *torch.autograd.grad(output.sum(), [x, *layer.parameters()])]
    for ours, truth in zip(found[executor], found["plain"], strict=True):
        torch.testing.assert_close(ours, truth, atol=1e-10, rtol=1e-10, equal_nan=True)


@torch.no_grad()
def test_a_single_step_is_checked_too() -> None:
    cell: BareCell = RNN(3, 8).cells[0]
    x, start = torch.randn(1, 2, 3), torch.randn(2, 8)
    lazy = torch.view_as_complex(torch.randn(1, 2, 3, 2)).conj().imag  # negated when it is read
    assert lazy.is_neg()
    for given in (x, lazy):
        found = cell.run(given, start, None, False)[0]
        with use("plain"):
            torch.testing.assert_close(found, cell.run(given, start, None, False)[0])
    for wrong in (start[:, :7], start.double(), torch.randn(3, 8)):
        with pytest.raises((RuntimeError, ValueError)):
            cell.run(x, wrong, None, False)


def test_explain_knows_what_was_asked_for() -> None:
    for executor in ("plain", "torch"):
        with use(executor):
            (cell,) = explain(RNN(2, 3)).cells
            assert cell.executor == executor
            assert "asked for" in cell.reason


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("executor", ["torch", "compiled"])
def test_weights_and_states_of_any_strides(executor: str, steps: int) -> None:
    """A bias that is a column of a matrix, weights that are turned, a state whose numbers lie apart or are negated when
    they are read: also in a single step, which takes weights as they lie."""
    cell = RNN(3, 4, dtype=torch.float64).cells[0]
    cell.bias = nn.Parameter(torch.randn(4, 3, dtype=torch.float64)[:, 1])
    cell.weight_hh = nn.Parameter(torch.randn(4, 4, dtype=torch.float64).mT)
    cell.weight_ih = nn.Parameter(torch.randn(3, 8, dtype=torch.float64)[:, ::2].mT)
    x = torch.randn(steps, 2, 3, dtype=torch.float64)
    apart = torch.randn(2, 4, 2, dtype=torch.float64)[:, :, 0]
    negated = torch.complex(apart, 2 * apart).conj().imag
    assert negated.is_neg()
    for state in (apart, negated, torch.randn(1, 4, dtype=torch.float64).expand(2, 4)):
        given = state.clone()
        with torch.no_grad(), use("plain"):
            right = cell.run(x, state, None, False)
        with torch.no_grad(), use(executor):
            found = cell.run(x, state, None, False)
        assert torch.equal(state, given)
        for one, other in zip(found, right, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


class AnyWidthCell(BareCell):
    """A cell that takes inputs of any width."""

    def fields(self) -> Field:
        return Field(self.hidden_size)

    def drive(self, input: Tensor) -> Tensor:
        return torch.cat([input[..., :1], input.sum(-1, keepdim=True)], -1)

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(drive + 0.5 * state)


@pytest.mark.parametrize("executor", ["torch", "compiled"])
def test_inputs_of_several_widths(executor: str) -> None:
    """Each width has a loop of its own, and the first one is found again."""
    cell = AnyWidthCell(3, 2, dtype=torch.float64)
    for width in (3, 5, 1, 3):
        x, start = torch.randn(4, 7, width, dtype=torch.float64), cell.initial_state(7)
        with use("plain"):
            right = cell.run(x, start, None, False)
        with use(executor):
            found = cell.run(x, start, None, False)
        for one, other in zip(found, right, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
    assert compiled_cell(cell, width=3) is compiled_cell(cell)
    assert compiled_cell(cell, width=5) is not compiled_cell(cell)


@pytest.mark.parametrize("executor", ["plain", "torch", "compiled"])
def test_a_batch_of_no_rows(executor: str) -> None:
    """Empty outputs of the right shape; every weight has a gradient of zero."""
    layer = RNN(3, 4, 2, dtype=torch.float64)
    x = torch.randn(5, 0, 3, dtype=torch.float64, requires_grad=True)
    with use(executor):
        output, state = layer(x)
        (output.sum() + state.sum()).backward()
    assert (output.shape, state.shape, x.grad.shape) == ((5, 0, 4), (2, 0, 4), (5, 0, 3))
    assert not any(parameter.grad.any() for parameter in layer.parameters())


def test_a_trace_leaves_threads_and_random_numbers_alone() -> None:
    """Also a trace that fails."""

    class NewCell(AnyWidthCell):
        pass

    class FailsCell(AnyWidthCell):
        def step(self, drive: Tensor, state: Tensor) -> Tensor:
            return drive if drive.sum() > 0 else state

    threads = torch.get_num_threads()
    try:
        for kind, fails in ((NewCell, False), (FailsCell, True)):
            torch.set_num_threads(3)
            before = torch.random.get_rng_state()
            assert (compiled_cell(kind(3, 2)).traced is None) == fails
            assert torch.get_num_threads() == 3
            assert torch.equal(torch.random.get_rng_state(), before)
    finally:
        torch.set_num_threads(threads)


class InnerCell(BareCell):
    """With modules inside, one within the other."""

    def __init__(self) -> None:
        super().__init__(3, 3, dtype=torch.float64)
        self.inner = nn.Sequential(nn.Linear(3, 3, dtype=torch.float64), nn.Tanh())

    def fields(self) -> Field:
        return Field(3)

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return drive + self.inner(state)


def test_hooks_and_exchanged_modules_inside_a_cell_are_seen() -> None:
    cell, x = InnerCell(), torch.randn(4, 7, 3, dtype=torch.float64)
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: cell.inner[0].register_forward_hook(lambda module, given, found: 2 * found),
        lambda: cell.inner[1].register_forward_pre_hook(lambda module, given: (given[0] + 1,)),
        lambda: cell.inner.__setitem__(1, nn.Sigmoid()),
        lambda: cell.inner.append(nn.Dropout(0.5)).eval(),
        lambda: setattr(cell.inner[0], "bias", None),
    ]
    outputs = []
    for change in changes:
        change()
        for executor in ("plain", "auto"):
            with use(executor), torch.no_grad():
                outputs.append(cell.run(x, cell.initial_state(7), None, False)[0])
        torch.testing.assert_close(outputs[-1], outputs[-2], rtol=0, atol=1e-14)
    different = [not torch.equal(one, two) for one, two in zip(outputs[::2], outputs[2::2], strict=False)]
    assert different == [True, True, True, False, True]


class SharedProductCell(Cell):
    """The product of the input is read with the bias and without: it may not become the sum."""

    def drive(self, input: Tensor) -> Tensor:
        return input @ self.weight_ih.mT

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(drive + self.bias) + 0.1 * drive * state


@pytest.mark.parametrize("batch", [2, 9])
@pytest.mark.parametrize("executor", ["torch", "compiled"])
def test_a_product_that_is_read_with_its_bias_and_without(executor: str, batch: int) -> None:
    cell = SharedProductCell(3, 4, dtype=torch.float64)
    with torch.no_grad():
        cell.bias.normal_()
    x = torch.randn(5, batch, 3, dtype=torch.float64, requires_grad=True)
    found = {}
    for name in ("plain", executor):
        with use(name):
            output, _ = cell.run(x, cell.initial_state(batch), None, False)
            found[name] = [output, *torch.autograd.grad(output.square().sum(), [x, cell.weight_ih, cell.bias])]
    for one, two in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)

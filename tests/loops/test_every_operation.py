"""Single operations in C at the values where they differ from a careless version: kinks, ties, NaN, negative counts.

One cell has them all, so that it is compiled once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engram.loops import compiled_cell, use
from engram.nn import BareCell
from engram.state import Field

NAN, INF = float("nan"), float("inf")
VALUES = [-INF, -25.0, -2.5, -1.0, -0.5, -1e-9, -0.0, 0.0, 1e-9, 0.5, 1.0, 1.0, 2.5, 25.0, INF, NAN, 0.25]
"""Seventeen: one more than the lanes of a sum, and 1 twice, for ties."""

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda x, n: torch.relu(x),
    "leaky relu": lambda x, n: F.leaky_relu(x, 0.1),
    "silu": lambda x, n: F.silu(x),
    "softplus": lambda x, n: F.softplus(x),
    "sigmoid": lambda x, n: torch.sigmoid(x),
    "tanh": lambda x, n: torch.tanh(x),
    "exp": lambda x, n: torch.exp(-x.abs()),
    "absolute value": lambda x, n: x.abs(),
    "sign": lambda x, n: torch.sign(x),
    "floor": lambda x, n: torch.floor(x),
    "square": lambda x, n: x**2,
    "cube": lambda x, n: x**3,
    "inverse": lambda x, n: (x * x + 1) ** -1,
    "clamp": lambda x, n: x.clamp(-1.0, 0.5),
    "clamp from below": lambda x, n: x.clamp(min=-1.0),
    "clamp from above": lambda x, n: x.clamp(max=0.5),
    "maximum": lambda x, n: torch.maximum(x, -x),
    "minimum": lambda x, n: torch.minimum(x, 0.5 * x),
    "a factor of what is added": lambda x, n: torch.add(x, x * x, alpha=3),
    "a factor of what is subtracted": lambda x, n: torch.sub(x, x * x, alpha=3),
    "from a number": lambda x, n: torch.rsub(x, 2.0, alpha=3),
    "lerp": lambda x, n: torch.lerp(x, -x, 0.25),
    "addcmul": lambda x, n: torch.addcmul(x, x, x),
    "where": lambda x, n: torch.where(x >= 1.0, x, 2 * x),
    "masked": lambda x, n: x.masked_fill(x <= -1.0, 7.0),
    "sum": lambda x, n: x.sum(-1, keepdim=True),
    "largest": lambda x, n: x.amax(-1, keepdim=True),
    "smallest": lambda x, n: x.amin(-1, keepdim=True),
    "place of the largest": lambda x, n: x.argmax(-1, keepdim=True).to(x.dtype),
    "place of the smallest": lambda x, n: x.argmin(-1, keepdim=True).to(x.dtype),
    "outer product": lambda x, n: (x[:, :3, None] * x[:, None, :2]).flatten(1),
    "remainder of a count": lambda x, n: (n % 3).to(x.dtype),
    "largest count": lambda x, n: n.amax(-1, keepdim=True).to(x.dtype),
    "chosen by a count": lambda x, n: x.gather(-1, n % 5),
}


class State(NamedTuple):
    x: Any
    count: Any


class EveryOperation(BareCell):
    """The output is every operation on what came in, side by side; counts go from -5 up."""

    def fields(self) -> State:
        return State(Field(self.hidden_size), Field(2, dtype=torch.int64, initial=-5))

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: State) -> State:
        return State(torch.where(state.count[:, :1] > 99, state.x, drive), state.count + 2)

    def output(self, state: State) -> Tensor:
        return torch.cat([operation(state.x, state.count) for operation in OPERATIONS.values()], -1)

    @property
    def output_size(self) -> int:
        with torch.no_grad():
            return self.output(State(torch.zeros(1, self.hidden_size), torch.zeros(1, 2, dtype=torch.int64))).shape[-1]


def rows() -> Tensor:
    """``(T, B, H)``: the values in other orders, rows without NaN or infinity among them."""
    values = torch.tensor(VALUES, dtype=torch.float64)
    tame = values.nan_to_num(0.75).clamp(-2.5, 2.5)
    orders = [values, values.roll(3), values.roll(8), tame, tame.roll(5), tame.flip(0), -tame, tame.sort().values]
    return torch.stack([torch.stack(orders), torch.stack(orders[::-1])])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("executor", ["torch", "compiled"])
def test_equals_the_plain_loop(executor: str, dtype: torch.dtype, compiled: str) -> None:
    """To a few roundings, and NaN where torch has it. Gradients of tame rows: each is a sum of some 30 numbers."""
    cell = EveryOperation(len(VALUES), len(VALUES), dtype=dtype)
    assert compiled_cell(cell).traced is not None, compiled_cell(cell).reason
    found = {}
    for which in ("plain", executor):
        x = rows().to(dtype).requires_grad_()
        with use(which):
            output, _ = cell.run(x, cell.initial_state(x.shape[1]), None, False)
            output.backward(torch.linspace(0.5, 1.5, output.shape[-1], dtype=dtype).expand_as(output))
        found[which] = output.detach(), x.grad
    few = 64 * torch.finfo(dtype).eps
    (output, gradient), (right, right_gradient) = found[executor], found["plain"]
    begin = 0
    for name, operation in OPERATIONS.items():
        width = operation(torch.zeros(1, len(VALUES)), torch.zeros(1, 2, dtype=torch.int64)).shape[-1]
        part = slice(begin, begin + width)
        same = output[..., part].isclose(right[..., part], rtol=few, atol=few, equal_nan=True)
        assert same.all(), f"{name}: {output[..., part][~same]} in place of {right[..., part][~same]}"
        begin += width
    tame = right_gradient.isfinite().all(-1)
    assert int(tame.sum()) == 10  # five of the eight rows, at both steps
    error = (gradient - right_gradient)[tame].abs().max()
    assert error <= 32 * few * right_gradient[tame].abs().max()


def test_all_are_in_c(compiled: str) -> None:
    """Else the test above would compare torch with itself."""
    cell = EveryOperation(len(VALUES), len(VALUES), dtype=torch.float64)
    loops = compiled_cell(cell).variant(hoist=False, rebuild=True).loops
    assert loops is not None
    assert loops.ready(), loops.reason()


class ChosenCell(BareCell):
    """What stands at a place that is given, which may not exist."""

    places = 1

    def fields(self) -> State:
        return State(Field(self.hidden_size), Field(self.places, dtype=torch.int64))

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: State) -> State:
        return State(drive + drive.gather(-1, state.count), state.count)


class ChosenThriceCell(ChosenCell):
    """The same of three places in each row, for which there is another loop."""

    places = 3


@pytest.mark.parametrize("place", [-1, 3])
@pytest.mark.parametrize("kind", [ChosenCell, ChosenThriceCell])
def test_a_place_just_outside_is_refused(kind: type[ChosenCell], place: int, compiled: str) -> None:
    """C would read whatever lies there."""
    cell, x = kind(3, 3, dtype=torch.float64), torch.randn(2, 7, 3, dtype=torch.float64)
    start = cell.initial_state(7)
    with use("compiled"):
        for inside in (0, 2):
            output, _ = cell.run(x, start._replace(count=start.count + inside), None, False)
            assert output.equal(x + x[..., inside, None])
        with pytest.raises(IndexError, match="an index"):
            cell.run(x, start._replace(count=start.count + place), None, False)

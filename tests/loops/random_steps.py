"""Cells with random steps: graphs of every kind of node that a loop knows, over states of several fields.

A step is a list of instructions, each a function of the cell and of the values so far. Numbers stay tame: what could
grow goes through tanh, and every new field is one.
"""

import random
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.nn import BareCell
from engram.nn.laws import Normal
from engram.state import Field

Instruction = Callable[["RandomCell", list[Any]], Tensor]
Shape = tuple[int, ...]

UNARY: list[Callable[[Tensor], Tensor]] = [
    torch.tanh,
    torch.sigmoid,
    torch.sin,
    torch.cos,
    torch.relu,
    torch.abs,
    torch.neg,
    torch.atan,
    torch.erf,
    F.softplus,
    F.silu,
    F.leaky_relu,
    lambda x: (-x * x).exp(),
    lambda x: (x.square() + 1).sqrt(),
    lambda x: (x.square() + 1).rsqrt(),
    lambda x: torch.log1p(x * x),
    lambda x: (x * x + 1).log(),
    lambda x: 1 / (1 + x * x),
    lambda x: x.clamp(-0.4, 0.6),
    lambda x: x.clamp(min=-0.3),
    lambda x: 0.3 * x - 0.1,
    lambda x: 1 - x,
    lambda x: torch.tanh(x**3),
    lambda x: torch.expm1(-x.abs()),
    lambda x: torch.where(x > 0.1, x, 0.5 * x),
    lambda x: x.masked_fill(x < -0.5, 0.25),
    lambda x: x * x.detach(),
    lambda x: x * (x > 0).to(x.dtype),
]
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: torch.where(a > b, a, 0.5 * b),
    lambda a, b: torch.where((a > 0) & (b < 0.3), a, b),
    lambda a, b: torch.lerp(a, b, 0.3),
    lambda a, b: torch.addcmul(a, a, b),
    lambda a, b: torch.atan2(a, b.abs() + 1),
    lambda a, b: torch.sub(a, b, alpha=0.5),
    torch.hypot,
]
ALONG: list[Callable[[Tensor, int], Tensor]] = [  # the same shape
    lambda x, d: x.softmax(d),
    lambda x, d: 0.3 * x.log_softmax(d),
    lambda x, d: x - x.mean(d, keepdim=True),
    lambda x, d: x - x.amax(d, keepdim=True),
    lambda x, d: x / (1 + torch.linalg.vector_norm(x, dim=d, keepdim=True)),
    lambda x, d: x / (1 + x.abs().sum(d, keepdim=True)),
    lambda x, d: x.roll(1, d),
]
ONLY_TORCH: list[Callable[[Tensor, int], Tensor]] = [  # C has no loop for these
    lambda x, d: x.cumsum(d).tanh(),
    lambda x, d: x.flip(d),
    lambda x, d: x - x.logsumexp(d, keepdim=True),
    lambda x, d: x * x.tanh().prod(d, keepdim=True),
]
REDUCE: list[Callable[[Tensor, int], Tensor]] = [
    lambda x, d: x.sum(d).tanh(),
    lambda x, d: x.mean(d),
    lambda x, d: x.amax(d),
    lambda x, d: x.amin(d),
    lambda x, d: x.max(d).values,
    lambda x, d: torch.linalg.vector_norm(x + 0.1, dim=d),
]


class RandomCell(BareCell):
    """A cell whose sizes, fields, drives and step come from ``choose``; ``only_c`` leaves out what C does not have."""

    def __init__(self, choose: random.Random, only_c: bool = False) -> None:
        self.choose, self.only_c = choose, only_c
        size = choose.choice
        hidden, self.slots = size([1, 2, 3, 5, 8, 17]), size([1, 2, 3, 4])
        kinds = [(hidden,), (self.slots, hidden), (), (size([1, 2, 7]),)]
        self.shapes: list[Shape] = [(hidden,), *choose.sample(kinds, choose.randint(0, 3))]
        self.truths = [Field(size([1, 3]), dtype=torch.bool)] * choose.randint(0, 1)
        self.integers = [Field(dtype=torch.int64)] * choose.randint(0, 1)
        fields = [*(Field(*shape) for shape in self.shapes), *self.integers, *self.truths]
        form = namedtuple("RandomState", [f"f{k}" for k in range(len(fields))])  # type: ignore[misc]
        self.form, self.declared_fields = form, form(*fields)
        super().__init__(size([1, 2, 5]), hidden, dtype=torch.float64)
        self.widths = [size([1, 3, hidden]) for _ in range(choose.randint(1, 3))]
        for k, width in enumerate(self.widths):
            self.weight(f"into{k}", width, self.input_size)
        self.program: list[Instruction] = []
        self.values: list[Shape] = [*((width,) for width in self.widths), *self.shapes]
        for _ in range(choose.randint(2, 9)):
            self.grow()
        self.ends = [self.fitted(shape) for shape in self.shapes]
        self.truth_from = [self.fitted(field.shape) for field in self.truths]
        self.slot_from = [self.fitted((self.slots,)) if choose.random() < 0.5 else -1 for _ in self.integers]

    def fields(self) -> Any:
        return self.declared_fields

    def weight(self, name: str, *shape: int) -> str:
        self.declare(name, *shape, law=Normal(0.7 / max(1, shape[-1]) ** 0.5))
        return name

    # The instructions. Values have shapes per row; axis d of a row is axis d + 1 of a batch.

    def add(self, instruction: Instruction, shape: Shape) -> int:
        self.program.append(instruction)
        self.values.append(shape)
        return len(self.values) - 1

    def pick(self, wanted: Callable[[Shape], bool]) -> int | None:
        found = [k for k, shape in enumerate(self.values) if wanted(shape)]
        return self.choose.choice(found) if found else None

    def grow(self) -> None:
        """One more value."""
        kinds = [self.unary, self.binary, self.product, self.along, self.reduce, self.part, self.join, self.reorder]
        self.choose.choice([*kinds, self.per_row, self.chosen, self.ring, self.normal, self.broadcast])()

    def unary(self) -> None:
        k, f = self.pick(lambda _: True), self.choose.choice(UNARY)
        self.add(lambda cell, v: f(v[k]), self.values[k])

    def binary(self) -> None:
        f, a = self.choose.choice(BINARY), self.pick(lambda _: True)
        b = self.pick(lambda shape: shape == self.values[a])
        self.add(lambda cell, v: f(v[a], v[b]), self.values[a])

    def broadcast(self) -> None:
        """A vector beside a buffer of as wide rows, and a weight beside either."""
        a = self.pick(len)
        shape = self.values[a]
        b = self.pick(lambda other: len(shape) == 2 and other == shape[1:])
        if b is None:
            name = self.weight(f"scale{len(self.program)}", shape[-1])
            self.add(lambda cell, v: v[a] * getattr(cell, name) + 0.1, shape)
        else:
            self.add(lambda cell, v: torch.tanh(v[a] * v[b].unsqueeze(1)), shape)

    def product(self) -> int:
        """A product with a weight, sometimes two in a row."""
        k, width = self.pick(len), self.choose.choice([1, 3, self.hidden_size])
        shape = self.values[k]
        name = self.weight(f"w{len(self.program)}", width, shape[-1])
        bias = self.weight(f"b{len(self.program)}", width)
        if self.choose.random() < 0.5:
            between = self.add(lambda cell, v: v[k] @ getattr(cell, name).mT, (*shape[:-1], width))
            second = self.weight(f"v{len(self.program)}", width, width)
            return self.add(lambda cell, v: torch.tanh(v[between] @ getattr(cell, second)), (*shape[:-1], width))
        return self.add(
            lambda cell, v: torch.tanh(F.linear(v[k], getattr(cell, name), getattr(cell, bias))), (*shape[:-1], width)
        )

    def along(self) -> None:
        k = self.pick(len)
        f = self.choose.choice(ALONG if self.only_c else ALONG + ONLY_TORCH)
        d = self.choose.randint(1, len(self.values[k]))
        self.add(lambda cell, v: f(v[k], d), self.values[k])

    def reduce(self) -> None:
        k, f = self.pick(len), self.choose.choice(REDUCE)
        d = self.choose.randrange(len(self.values[k]))
        shape = tuple(size for axis, size in enumerate(self.values[k]) if axis != d)
        self.add(lambda cell, v: f(v[k], d + 1), shape)

    def normal(self) -> None:
        k = self.pick(lambda shape: bool(shape) and shape[-1] > 1)
        if k is not None:
            size = self.values[k][-1]
            name = self.weight(f"n{len(self.program)}", size)
            self.add(
                lambda cell, v: torch.tanh(F.layer_norm(v[k], (size,), getattr(cell, name), None, 0.1)), self.values[k]
            )

    def part(self) -> None:
        k = self.pick(lambda shape: bool(shape) and shape[-1] > 1)
        if k is None:
            return
        shape, kind = self.values[k], self.choose.randrange(4)
        size = shape[-1]
        first = self.choose.randrange(size)
        if kind == 0:
            self.add(lambda cell, v: v[k][..., first:], (*shape[:-1], size - first))
        elif kind == 1:
            self.add(lambda cell, v: v[k][..., first::2], (*shape[:-1], len(range(first, size, 2))))
        elif kind == 2:
            self.add(lambda cell, v: v[k][..., first], shape[:-1])
        else:
            self.add(lambda cell, v: v[k].chunk(2, -1)[0], (*shape[:-1], (size + 1) // 2))

    def join(self) -> None:
        a = self.pick(lambda shape: len(shape) == 1)
        shape = self.values[a]
        b = self.pick(lambda other: len(other) == 1)
        if self.choose.random() < 0.5 and shape[0] + self.values[b][0] < 40:
            self.add(lambda cell, v: torch.cat([v[a], v[b], v[a]], 1), (2 * shape[0] + self.values[b][0],))
        else:
            b = self.pick(lambda other: other == shape)
            self.add(lambda cell, v: torch.stack([v[a], 0.5 * v[b]], 1), (2, *shape))

    def reorder(self) -> None:
        k = self.pick(lambda shape: len(shape) == 2)
        if k is None:
            return
        rows, columns = self.values[k]
        kind = self.choose.randrange(4)
        if kind == 0:
            self.add(lambda cell, v: v[k].flatten(1), (rows * columns,))
        elif kind == 1:
            self.add(lambda cell, v: v[k].transpose(1, 2), (columns, rows))
        elif kind == 2:
            self.add(lambda cell, v: v[k].permute(0, 2, 1).reshape(-1, rows, columns), (rows, columns))
        else:
            self.add(lambda cell, v: v[k][:, :1].expand(-1, 3, -1) * 0.5, (3, columns))

    def per_row(self) -> None:
        """Scores of the rows of a buffer, as attention has them, and what they weigh."""
        k = self.pick(lambda shape: len(shape) == 2)
        if k is None:
            return
        rows, columns = self.values[k]
        q = self.pick(lambda shape: shape == (columns,))
        if q is None:
            self.add(lambda cell, v: torch.tanh(torch.matmul(v[k], v[k].mT)), (rows, rows))
            return
        scores = self.add(lambda cell, v: torch.tanh(torch.bmm(v[k], v[q].unsqueeze(2)).squeeze(2)), (rows,))
        self.add(lambda cell, v: torch.bmm(v[scores].softmax(1).unsqueeze(1), v[k]).squeeze(1), (columns,))

    def chosen(self) -> None:
        """The row of a buffer with the best score."""
        k = self.pick(lambda shape: len(shape) == 2)
        if k is None:
            return
        _, columns = self.values[k]
        best = self.choose.choice([torch.argmax, torch.argmin])

        def gather(cell: "RandomCell", v: list[Any]) -> Tensor:
            index = best(v[k].sum(2), 1)
            return v[k].gather(1, index[:, None, None].expand(-1, 1, columns)).squeeze(1)

        self.add(gather, (columns,))

    def ring(self) -> None:
        """A vector written into a buffer where an integer field says."""
        k = self.pick(lambda shape: len(shape) == 2 and shape[0] == self.slots)
        q = None if k is None else self.pick(lambda shape: shape == self.values[k][1:])
        if q is None or not self.integers:
            return
        place = len(self.shapes)

        def write(cell: "RandomCell", v: list[Any]) -> Tensor:
            here = v[-1][place][:, None] == torch.arange(cell.slots)
            return torch.where(here[:, :, None], v[q].unsqueeze(1), v[k])

        self.add(write, self.values[k])

    def fitted(self, shape: Shape) -> int:
        """A value of this shape: one there is, or one made of another."""
        own = [n for n in range(len(self.widths) + len(self.shapes), len(self.values)) if self.values[n] == shape]
        if own:
            return self.choose.choice(own)
        size = torch.Size(shape).numel()
        k = self.pick(lambda _: True)
        name = self.weight(f"e{len(self.program)}", size, torch.Size(self.values[k]).numel())
        return self.add(
            lambda cell, v: (v[k].reshape(len(v[k]), -1) @ getattr(cell, name).mT).reshape(-1, *shape), shape
        )

    # The recurrence.

    def drive(self, input: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.linear(input, getattr(self, f"into{k}")) for k in range(len(self.widths)))

    def step(self, drive: tuple[Tensor, ...], state: Any) -> Any:
        values: list[Any] = [*drive, *state[: len(self.shapes)], state]
        for instruction in self.program:
            values.insert(-1, instruction(self, values))
        floats = [
            torch.tanh(values[k]) if n % 2 == 0 else 0.5 * (state[n] + torch.sin(values[k]))
            for n, k in enumerate(self.ends)
        ]
        place = len(floats)
        integers = [(state[place] + 1) % self.slots if k < 0 else values[k].argmax(1) for k in self.slot_from]
        truths = [(values[k] > 0.1) ^ state[-1] for k in self.truth_from]
        return self.form(*floats, *integers, *truths)


def random_cell(choose: random.Random, only_c: bool = False) -> RandomCell:
    """A cell, initialised from its own choices."""
    torch.manual_seed(choose.randrange(2**16))
    return RandomCell(choose, only_c)

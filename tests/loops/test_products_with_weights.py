"""Products of a step with its weights, however they are written: heads, transposed, rows last, parts of a row."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.loops import compiled_cell, use
from engram.nn import BareCell
from engram.state import Field

SIZE, ROWS = 15, 7


def table(x: Tensor) -> Tensor:
    return x.view(-1, 3, 5)


PRODUCTS: dict[str, Callable[["WeightsCell", Tensor], Tensor]] = {
    "heads first": lambda c, x: torch.bmm(table(x).transpose(0, 1), c.heads).transpose(0, 1),
    "heads, by letters": lambda c, x: torch.einsum("bhi,hij->bhj", table(x), c.heads),
    "one head": lambda c, x: torch.bmm(x[None], c.wide[None])[0],
    "rows last": lambda c, x: (c.wide.mT @ x.mT).mT,
    "rows in front": lambda c, x: x @ c.wide,
    "turned by hand": lambda c, x: torch.mm(x, c.tall.t()),
    "parts of a row": lambda c, x: F.linear(table(x), c.small, c.shift),
    "columns of a row": lambda c, x: c.small @ table(x).mT,
    "added to a row": lambda c, x: torch.addmm(c.bias, x, c.wide),
    "by letters": lambda c, x: torch.einsum("bi,ij->bj", x, c.wide),
    "all three": lambda c, x: torch.einsum("bhi,ji->bhj", table(x), c.small),
    "a vector": lambda c, x: (x @ c.wide[:, 0])[:, None],
    "of two weights": lambda c, x: x @ (c.wide @ c.wide[:6]),
}


class WeightsCell(BareCell):
    """h' = tanh(product of x + h / 2 with a weight), in as many numbers as fit."""

    product: str

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5)

        self.heads, self.wide, self.tall = weight(3, 5, 4), weight(SIZE, 6), weight(9, SIZE)
        self.small, self.shift, self.bias = weight(4, 5), weight(4), weight(6)

    def fields(self) -> Field:
        return Field(self.hidden_size)

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        found = PRODUCTS[self.product](self, drive + 0.5 * state).flatten(1)
        return torch.tanh(torch.cat([found, drive[:, found.shape[1] :]], 1) + 0.1 * drive)


def outcome(cell: WeightsCell, executor: str) -> list[Tensor]:
    """The states, and the gradients of input, first state and weights."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, ROWS, SIZE, generator=generator, dtype=torch.float64, requires_grad=True)
    first = torch.randn(ROWS, SIZE, generator=generator, dtype=torch.float64, requires_grad=True)
    with use(executor):
        states, _ = cell.run(x, first, None, False)
        slopes = torch.linspace(-1, 1, states.numel(), dtype=torch.float64).view_as(states)
        own = [x, first, *cell.parameters()]
        gradients = torch.autograd.grad(states, own, slopes, allow_unused=True, materialize_grads=True)
    return [states.detach(), *gradients]


@pytest.mark.parametrize("product", PRODUCTS)
def test_equals_the_plain_loop(product: str, compiled: str) -> None:
    """To a few roundings of sums of at most 60 numbers near 1; and the weights of the product have a gradient."""
    cell = WeightsCell(SIZE, SIZE)
    cell.product = product
    right = outcome(cell, "plain")
    assert sum(bool(gradient.any()) for gradient in right[3:]) in (1, 2)
    for executor in ("torch", "compiled"):
        for found, expected in zip(outcome(cell, executor), right, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_they_are_traced() -> None:
    """All but one, for which einsum takes parts of rows as rows of a batch of one."""
    for product in PRODUCTS:
        cell = WeightsCell(SIZE, SIZE)
        cell.product = product
        assert (compiled_cell(cell).traced is not None) == (product != "all three"), compiled_cell(cell).reason

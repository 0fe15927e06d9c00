"""The operations that test_every_operation.py does not have: with options, of several axes, of truth values, of parts.

Of those that C knows several are in one cell, since to compile takes longest. Of the others each has a cell of its own:
it may run in torch's operations or step by step, but never as something else.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engram.loops import compiled_cell, use
from engram.nn import BareCell
from engram.state import Field

SIZE = 15
VALUES = [-2.5, -1.0, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 0.5, 1.0, 1.5, 2.0, 2.0, -1.5, 0.75]
"""Zero of both signs, and ties; seen as 3 x 5 too."""


def table(x: Tensor) -> Tensor:
    return x.view(-1, 3, 5)


def number(truth: Tensor) -> Tensor:
    return truth.to(torch.float64)


IN_C: dict[str, Callable[[Tensor], Tensor]] = {
    "softplus, beta": lambda x: F.softplus(x, beta=3.0, threshold=4.0),
    "softplus, threshold": lambda x: F.softplus(x, threshold=1.0),
    "leaky relu": lambda x: F.leaky_relu(x),
    "log sigmoid": lambda x: F.logsigmoid(3 * x),
    "logarithms": lambda x: torch.log(x * x + 1) + torch.log2(x * x + 2) * torch.log1p(x * x),
    "sums and differences of products": lambda x: torch.cat(
        [x.roll(1, -1) + 2 * x, x.roll(1, -1) - 3 * x, x.roll(2, -1) - x * x.roll(1, -1), x * x.roll(3, -1) - x], -1
    ),
    "expm1": lambda x: torch.expm1(x),
    "roots": lambda x: torch.sqrt(x * x + 1) + 3 * torch.rsqrt(x * x + 2) + torch.reciprocal(x * x + 3),
    "powers": lambda x: (x * x + 1) ** 2.5 + (x * x + 2) ** 0.5 + x**1 + 2 * (x * x + 3) ** -2,
    "a power that is a tensor": lambda x: torch.pow(x * x + 0.5, x),
    "angles": lambda x: torch.sin(x) + 2 * torch.cos(x) + 3 * torch.tan(x / 4) + 5 * torch.atan(x),
    "inverse angles": lambda x: torch.asin(x / 4) + 2 * torch.acos(x / 5),
    "hyperbolic": lambda x: torch.sinh(x) + 2 * torch.cosh(x),
    "erf": lambda x: torch.erf(x),
    "whole numbers": lambda x: torch.ceil(x) + 10 * torch.trunc(x) + 100 * torch.floor(x),
    "not a number": lambda x: number(x.isnan()) + 2 * number(torch.log(x.detach()).isnan()),
    "two numbers": lambda x: torch.hypot(x, x.roll(1, -1) + 3) + 2 * torch.atan2(x.roll(2, -1), x - 0.1),
    "fmod": lambda x: torch.fmod(x, 0.7),
    "limits that are tensors": lambda x: torch.minimum(torch.maximum(x, x.roll(1, -1)), x.roll(4, -1)),
    "equal": lambda x: number(x == 0.5) + 2 * number(x != x.roll(1, -1)),
    "less": lambda x: number(x < 0.5) + 2 * number(x <= 0.5) + 4 * number(x < x.roll(1, -1)),
    "greater": lambda x: number(x > 0.5) + 2 * number(x >= 0.5) + 4 * number(x >= x.roll(1, -1)),
    "and, or": lambda x: number((x > 0) & (x < 1)) + 2 * number((x > 1) | (x < -1)),
    "xor, not": lambda x: number((x > 0) ^ (x > -1)) + 2 * number(~(x > 0.3)) + 4 * number(torch.logical_not(x > 1)),
    "named and": lambda x: number(torch.logical_and(x > 0, x < 1)) + 2 * number(torch.logical_xor(x > 0, x > 1)),
    "where of truths": lambda x: torch.where((x > 0) & (x < 1), 2 * x, torch.where(x > 1, x * x, -x)),
    "sum of truths": lambda x: number((x > 0).sum(-1, keepdim=True)),
    "any": lambda x: number((table(x) > 1.2).any(-1)) + 2 * number((table(x)[:, :, :3] > 1.2).any(1)),
    "all": lambda x: number((table(x) > -1.2).all(-1)) + 2 * number((table(x)[:, :, :3] > -1.2).all(1)),
    "sums": lambda x: torch.cat([table(x).sum(1), table(x).sum(2), table(x).sum((1, 2))[:, None]], -1),
    "means": lambda x: torch.cat([table(x).mean(1), table(x).mean(2), table(x).mean((1, 2))[:, None]], -1),
    "largest and smallest": lambda x: torch.cat([x.amax(-1, keepdim=True), table(x).amin((1, 2))[:, None]], -1),
    "largest of negative numbers": lambda x: torch.cat([(x - 4).amax(-1, keepdim=True), table(x - 4).amax(1)], -1),
    "smallest of positive numbers": lambda x: torch.cat([(x + 4).amin(-1, keepdim=True), table(x + 4).amin(2)], -1),
    "with their places": lambda x: torch.cat(extremes(table(x), 1), -1),
    "variances": lambda x: torch.cat([table(x).var(d, correction=c) for d, c in ((1, 0), (2, 1))], -1),
    "softmax of large numbers": lambda x: (1000 * x).softmax(-1) + (1000 * x + 5000).softmax(-1),
    "layer norm of lines": lambda x: F.layer_norm(table(x), (5,), torch.linspace(1, 2, 5).double(), eps=0.1).flatten(1),
    "norms of order 1": lambda x: torch.linalg.vector_norm(table(x) + 0.1, 1, 2),
    "rolled": lambda x: torch.cat([x.roll(2, -1), x.roll(-3, -1), table(x).roll((1, -2), (1, 2)).flatten(1)], -1),
    "parts": lambda x: torch.cat([x[:, 2:9:3], x[:, -4:], x[:, :-12], table(x)[:, -1], table(x)[:, :, -2]], -1),
    "pieces": lambda x: torch.cat([*x.split(4, -1)[::-1], *x.chunk(3, -1)[1:], *table(x).unbind(1)[::-1]], -1),
    "stacked": lambda x: torch.cat([torch.stack([x, 2 * x], d).flatten(1) for d in (1, 2, -1)], -1),
    "turned": lambda x: torch.cat([table(x).mT.flatten(1), table(x).permute(0, 2, 1)[:, 1:4].flatten(1)], -1),
    "numbered": lambda x: x[:, torch.tensor([0, -1, 7, 7])],
    "broadcast": lambda x: (table(x)[:, :, :1] * table(x)[:, :1] + table(x)[:, 1:2].expand(-1, 3, -1)).flatten(1),
    "products of tables": lambda x: (table(x) @ table(x).mT).flatten(1),
    "products of turned tables": lambda x: (table(x).mT @ table(x)[:, :, 1:3]).flatten(1),
    "table times vector": lambda x: (table(x) @ x[:, :5, None]).squeeze(-1),
}


def extremes(x: Tensor, axis: int) -> tuple[Tensor, ...]:
    most, at = x.max(axis)
    least, where = x.min(axis)
    return most, number(at), least, number(where)


ALONE: dict[str, Callable[[Tensor], Tensor]] = {  # C has no words for these, or another meaning
    "addcmul, value": lambda x: torch.addcmul(x, x, x + 1, value=0.5),
    "addcdiv, value": lambda x: torch.addcdiv(x, x, x * x + 1, value=3.0),
    "divided and rounded down": lambda x: torch.div(x, 0.7, rounding_mode="floor") + x,
    "divided and cut": lambda x: torch.div(x, 0.7, rounding_mode="trunc") + x,
    "addcdiv": lambda x: torch.addcdiv(x, x, 2 + x * x),
    "signs": lambda x: torch.sgn(x) + 3 * torch.sign(x),
    "products": lambda x: torch.cat([table(x + 0.1).prod(1), table(x + 0.1).prod(2)], -1),
    "sums so far": lambda x: torch.cat([x.cumsum(-1), table(x).cumsum(1).flatten(1)], -1),
    "products so far": lambda x: (x + 0.1).cumprod(-1),
    "turned around": lambda x: torch.cat([x.flip(-1), table(x).flip(1, 2).flatten(1)], -1),
    "logsumexp": lambda x: torch.cat([table(x).logsumexp(1), table(x).logsumexp(2)], -1),
    "elu": lambda x: F.elu(x, 0.7),
    "gelu": lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"),
    "mish": lambda x: F.mish(x) + F.hardswish(x),
    "hard limits": lambda x: F.hardtanh(x, -0.7, 1.2) + F.hardsigmoid(x) + F.softshrink(x, 0.3) + F.hardshrink(x, 0.6),
    "selu": lambda x: F.selu(x) + F.celu(x, 0.7),
    "remainder of a real number": lambda x: torch.remainder(x, 0.7),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x, 3, -1, keepdim=True),
    "norm of all": lambda x: torch.linalg.vector_norm(x + 0.1, dim=-1, ord=float("inf"), keepdim=True),
    "clamped by tensors": lambda x: x.clamp(min=x.roll(1, -1) - 0.1, max=x.roll(2, -1) + 3),
    "std": lambda x: table(x).std(2, unbiased=False),
    "median": lambda x: x.median(-1, keepdim=True).values,
    "sorted": lambda x: x.sort(-1).values,
    "matrix product with factors": lambda x: torch.addmm(x, x, torch.eye(SIZE).double() * 2, beta=3, alpha=0.5),
    "batched product with factors": lambda x: torch.baddbmm(
        table(x)[:, :, :3], table(x), table(x).mT, beta=2, alpha=0.25
    ).flatten(1),
    "places that are written": lambda x: x.index_put((torch.arange(len(x))[:, None], torch.tensor([[1, 2]])), x[:, :2]),
    "several places written": lambda x: x.scatter(-1, torch.tensor([[1, 2]]).expand(len(x), 2), 2 * x[:, :2]),
    "the triangle": lambda x: torch.triu(table(x)).flatten(1),
    "differences": lambda x: torch.diff(x, dim=-1),
    "einsum": lambda x: torch.einsum("bij,bkj->bik", table(x), table(x)).flatten(1),
}


class OperationCell(BareCell):
    """The output is an operation on what came in, and on what came before."""

    operation: Callable[[Tensor], Tensor]

    def fields(self) -> Field:
        return Field(self.hidden_size)

    def drive(self, input: Tensor) -> Tensor:
        return input

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return drive + 0 * state

    def output(self, state: Tensor) -> Tensor:
        return self.operation(state)

    @property
    def output_size(self) -> int:
        with torch.no_grad():
            return self.output(torch.zeros(1, SIZE, dtype=torch.float64)).shape[-1]


GROUPS = [[*IN_C][k : k + 8] for k in range(0, len(IN_C), 8)]
"""Those of a group are in one cell: compiled once, and not too long to compile."""


def together(group: list[str]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.cat([IN_C[name](x) for name in group], -1)


def outcome(cell: BareCell, executor: str, weights: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Of two steps of eight rows: the output, and the gradient of what came in."""
    values = torch.tensor(VALUES, dtype=torch.float64)
    x = torch.stack([torch.stack([values.roll(k) * (1 - 0.01 * s) for k in range(8)]) for s in (0, 1)]).requires_grad_()
    with use(executor):
        output, _ = cell.run(x, cell.initial_state(8), None, False)
        (gradient,) = torch.autograd.grad(output, x, weights(output), allow_unused=True, materialize_grads=True)
    return output.detach(), gradient


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
@pytest.mark.parametrize("executor", ["torch", "compiled"])
def test_equals_the_plain_loop(executor: str, group: list[str], compiled: str) -> None:
    """Values one by one, then the gradient of each: to a few roundings of numbers below 1000."""
    cell = OperationCell(SIZE, SIZE, dtype=torch.float64)
    cell.operation = together(group)
    assert compiled_cell(cell).traced is not None, compiled_cell(cell).reason
    if executor == "compiled":
        loops = compiled_cell(cell).variant(hoist=False, rebuild=True).loops
        assert loops is not None
        assert loops.ready(), loops.reason()
    widths = [IN_C[name](torch.zeros(1, SIZE, dtype=torch.float64)).shape[-1] for name in group]
    begin = 0
    for name, width in zip(group, widths, strict=True):

        def of_this(output: Tensor, begin: int = begin, width: int = width) -> Tensor:
            weights = torch.zeros_like(output)
            weights[..., begin : begin + width] = torch.linspace(0.5, 1.5, width, dtype=torch.float64)
            return weights

        (found, gradient), (right, expected) = (outcome(cell, which, of_this) for which in (executor, "plain"))
        part = slice(begin, begin + width)
        torch.testing.assert_close(found[..., part], right[..., part], rtol=1e-12, atol=1e-12, msg=lambda m: name + m)  # noqa: B023
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-11, msg=lambda m: f"slope of {name}: {m}")  # noqa: B023
        begin += width


@pytest.mark.parametrize("name", ALONE)
def test_what_c_does_not_know(name: str) -> None:
    cell = OperationCell(SIZE, SIZE, dtype=torch.float64)
    cell.operation = ALONE[name]
    right, expected = outcome(cell, "plain", torch.ones_like)
    for executor in ("compiled", "torch"):
        found, gradient = outcome(cell, executor, torch.ones_like)
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient, expected, rtol=1e-11, atol=1e-11)

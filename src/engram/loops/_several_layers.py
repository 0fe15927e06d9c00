"""What stands around the loop of several models that are trained as one: the linear head, and the cross entropy.

torch's batched products may give a member other bits with other companions (MKL chooses by their number and by where
they lie in memory); these do not.
"""

from ctypes import c_int, c_int64, c_void_p
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.loops._build import runtime
from engram.loops._choice import threads
from engram.loops._products import compiled_for
from engram.loops._several_products import matmuls, several_column_sums
from engram.maps import members, on_stacks


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``torch.nn.functional.linear``; of several members, each with bits of its own."""
    if not members():
        return F.linear(input, weight, bias)
    found: Tensor = on_stacks(_StackedLinear.apply, input, weight, bias)
    return found


class _StackedLinear(torch.autograd.Function):
    """y = x W^T + b for every member: ``(E, ..., G)`` to ``(E, ..., C)``."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = input.flatten(1, -2)
        ctx.save_for_backward(rows, weight)
        ctx.shape = input.shape
        shape = (*rows.shape[:2], weight.shape[1])
        out = rows.new_zeros(shape) if bias is None else bias[:, None].expand(shape).contiguous()
        return matmuls(rows, weight.mT, out, add=True).view(*input.shape[:-1], -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, weight = ctx.saved_tensors
        grad = grad.contiguous().flatten(1, -2)
        needs = ctx.needs_input_grad
        of_input = matmuls(grad, weight, torch.empty_like(rows)).view(ctx.shape) if needs[0] else None
        of_weight = matmuls(grad.mT, rows, weight.new_empty(weight.shape)) if needs[1] else None
        return of_input, of_weight, several_column_sums(grad) if needs[2] else None


def cross_entropies(scores: Tensor, targets: Tensor) -> Tensor:
    """The cross entropy of each member, in nats, averaged over its rows: ``(E, n, C)``, ``(E, n)`` to ``(E)``."""
    if compiled_for(scores) is None or scores.is_complex() or scores.dtype not in (torch.float32, torch.float64):
        return torch.stack([F.cross_entropy(*own) for own in zip(scores, targets, strict=True)])
    found: Tensor = _CrossEntropies.apply(scores.contiguous(), targets.contiguous())
    return found


class _CrossEntropies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        softmax, losses = torch.empty_like(scores), scores.new_empty(len(scores))
        code: Any = runtime(scores.dtype)
        failed = code.entropies(*_sizes(scores), *map(_place, (scores, targets, softmax, losses)))
        if failed:
            raise IndexError(f"a target is no class below {scores.shape[2]}")
        ctx.save_for_backward(softmax, targets)
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        softmax, targets = ctx.saved_tensors
        out, code = torch.empty_like(softmax), runtime(softmax.dtype)
        given = (softmax, targets, grad.contiguous(), out)
        code.entropy_gradients(*_sizes(softmax), *map(_place, given))  # type: ignore[union-attr]
        return out, None


def _sizes(scores: Tensor) -> tuple[c_int64, c_int, c_int64, c_int64]:
    count, rows, classes = scores.shape
    return c_int64(count), c_int(threads()), c_int64(rows), c_int64(classes)


def _place(tensor: Tensor) -> c_void_p:
    return c_void_p(tensor.data_ptr())

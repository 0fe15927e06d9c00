"""The Cayley transform of a skew-Hermitian matrix, with its gradient."""

from typing import Any

import torch
from torch import Tensor

from engram.maps._transforms import transformed


class _Cayley(torch.autograd.Function):
    """W = Q (I + A)^-1 (I - A) = Q (2 B - I) with B = (I + A)^-1: an inverse and a product.

    dW = -2 Q B dA B, and Q B = (W + Q) / 2, so dL/dA = -(W + Q)^* G B^*: two products.
    """

    @staticmethod
    def forward(skew: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
        eye = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
        inverse = torch.linalg.inv_ex(eye + skew).inverse  # never singular: the eigenvalues of A are imaginary
        return torch.sub(2 * base @ inverse, base), inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[1], *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None]:
        base, w, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # a double backward pass: B as a function of W, which autograd knows
            eye = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
            inverse = (base.mH @ w + eye) / 2
        return -((w + base).mH @ grad @ inverse.mH), None


def cayley_transform(skew: Tensor, base: Tensor | None = None) -> Tensor:
    """Q (I + A)^-1 (I - A) of a skew-Hermitian A ``(N, N)``: unitary if the base Q is. Default: Q = I."""
    if skew.dtype in (torch.bfloat16, torch.float16):  # LAPACK has no such numbers
        return cayley_transform(skew.float(), None if base is None else base.float()).to(skew.dtype)
    eye = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    base = eye if base is None else base
    if torch.compiler.is_compiling() or transformed():
        return base @ torch.linalg.solve(eye + skew, eye - skew)  # where torch wants to see into it
    return _Cayley.apply(skew, base)[0]

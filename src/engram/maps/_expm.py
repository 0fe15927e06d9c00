"""exp(A) of a skew-Hermitian matrix, several times faster than torch.linalg.matrix_exp, with its gradient.

Padé with scaling and squaring (Higham 2005), where three things are cheaper because A^* = -A:

- p(A) = E + A V and q(A) = p(-A) = E - A V with E, V Hermitian polynomials in A^2: one solve, exp(A) = q^-1 p, and
  the result is unitary to rounding whatever the degree;
- A is normal, so ||A^4||_1^(1/4) bounds its spectral radius: fewer squarings than the norm of A would ask for;
- only the skew-Hermitian part of the gradient is wanted, so every sum X + X^* in the chain rule costs one product.

Gradient, with G = dL/dR, R = q^-1 p and M = q^-* G:   dL/dE = M (I - R)^*,   dL/d(A V) = M (I + R)^*, and from there
through the polynomials.
"""

from collections.abc import Callable
from functools import cache
from math import ceil, factorial, isfinite, log2
from typing import Any

import torch
from torch import Tensor

from engram.maps._transforms import observed, transformed

# The Padé approximant of degree m is exact to rounding up to this norm (Higham 2005).
DEGREES = {
    torch.float64: {3: 1.495585217958292e-2, 5: 2.539398330063230e-1, 7: 9.504178996162932e-1, 9: 2.097847961257068},
    torch.float32: {3: 4.258730016922831e-1, 5: 1.880152677804762, 7: 3.925724783138660},
}
POWERS = 4  # A^2, A^4, A^6, A^8


Saved = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""For the gradient: exp of the halved A, its even powers, LU and pivots of q, and (degree, halvings)."""


def exp_skew(skew: Tensor) -> Tensor:
    """exp(A) for A ``(N, N)`` with A^* = -A, real or complex, in float32 or float64 precision.

    The gradient is the skew-Hermitian part of the true one: right for every A that stays skew-Hermitian.
    """
    if skew.dtype in (torch.bfloat16, torch.float16):  # LAPACK has no such numbers
        return exp_skew(skew.float()).to(skew.dtype)
    if torch.compiler.is_exporting():
        return torch.linalg.matrix_exp(skew)  # the program is to run without engram
    if transformed() or skew.is_meta:
        return torch.linalg.matrix_exp(skew)  # torch.func sees into torch's own operators only; meta has no numbers
    if observed():
        return _exp(skew)[0]  # an operator: torch.compile need not look into it, fake tensors have no numbers
    return _Exp.apply(skew)


def _forward(skew: Tensor) -> tuple[Tensor, Saved]:
    squared = skew @ skew
    return forward_of(skew, squared, *_plan(skew, squared))


def forward_of(skew: Tensor, squared: Tensor, degree: int, halvings: int) -> tuple[Tensor, Saved]:
    """exp(A), from A and A^2; both may have an axis of several matrices before the last two."""
    powers = skew.new_zeros(POWERS, *skew.shape)
    powers[0] = squared
    if halvings:
        skew, powers[0] = skew * 0.5**halvings, powers[0] * 0.25**halvings
    for k in range(1, degree // 2):
        torch.matmul(powers[0], powers[k - 1], out=powers[k])
    even = _polynomial(powers, degree, 0)
    odd = skew @ _polynomial(powers, degree, 1)
    lu, pivots = torch.linalg.lu_factor(even - odd)
    root = torch.linalg.lu_solve(lu, pivots, even + odd).contiguous()
    result = root.clone()
    for _ in range(halvings):
        result = result @ result
    return result, (root, powers, lu.contiguous(), pivots, torch.tensor([degree, halvings]))


def backward_of(
    grad: Tensor, skew: Tensor, root: Tensor, powers: Tensor, lu: Tensor, pivots: Tensor, plan: Tensor
) -> Tensor:
    degree, halvings = plan.tolist()
    small = skew * 0.5**halvings if halvings else skew
    chain = [root]
    for _ in range(halvings - 1):
        chain.append(chain[-1] @ chain[-1])
    for square_root in reversed(chain[:halvings]):
        grad = grad @ square_root.mH + square_root.mH @ grad
    m = torch.linalg.lu_solve(lu, pivots, grad, adjoint=True)
    turned = m @ root.mH
    # Twice the Hermitian part of dL/dE, twice the skew part of dL/d(A V), four times the Hermitian part of dL/dV.
    even2, odd2 = plus_adjoint(m - turned), minus_adjoint(m + turned)
    factor4 = plus_adjoint(small.mH @ odd2)
    grad_powers = [
        (even2 * (b / 2)).add_(factor4, alpha=c / 4)
        for b, c in zip(_coefficients(degree, 0)[1:], _coefficients(degree, 1)[1:], strict=True)
    ]
    for k in range(len(grad_powers) - 1, 0, -1):  # A^(2k+2) = A^2 A^(2k)
        grad_powers[0].add_(plus_adjoint(grad_powers[k] @ powers[k - 1]), alpha=0.5)
        grad_powers[k - 1].add_(plus_adjoint(grad_powers[k] @ powers[0]), alpha=0.5)
    grad_small = minus_adjoint(odd2 @ _polynomial(powers, degree, 1)).div_(4)
    return grad_small.sub_(minus_adjoint(grad_powers[0] @ small)).mul_(0.5**halvings)


class _Exp(torch.autograd.Function):
    """For every day: an operator of torch.library costs as much as the arithmetic at N = 128."""

    @staticmethod
    def forward(ctx: Any, skew: Tensor) -> Tensor:
        result, saved = _forward(skew)
        ctx.save_for_backward(skew, *saved)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        skew, *others = ctx.saved_tensors  # once: torch.utils.checkpoint gives them out a single time
        if torch.is_grad_enabled():  # a double backward pass: differentiate torch's own exponential instead
            (found,) = torch.autograd.grad(torch.linalg.matrix_exp(skew), skew, grad, create_graph=True)
            return minus_adjoint(found) / 2
        return backward_of(grad, skew, *others)


@torch.library.custom_op("engram::exp_skew", mutates_args=())
def _exp(skew: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    result, saved = _forward(skew)
    return result, *saved


@_exp.register_fake
def _(skew: Tensor) -> tuple[Tensor, ...]:
    n = skew.shape[0]
    result, root, lu = (skew.new_empty(n, n) for _ in range(3))
    plan = torch.empty(2, dtype=torch.int64, device="cpu")
    return result, root, skew.new_empty(POWERS, n, n), lu, skew.new_empty(n, dtype=torch.int32), plan


_exp_backward = torch.library.custom_op("engram::exp_skew_backward", backward_of, mutates_args=())


@_exp_backward.register_fake
def _(grad, skew, root, powers, lu, pivots, plan):  # type: ignore[no-untyped-def]
    return skew.new_empty(skew.shape)


def _setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(inputs[0], *output[1:])


_exp.register_autograd(
    lambda ctx, grad, *_: _exp_backward(grad, *ctx.saved_tensors),
    setup_context=_setup_context,
)


def _plan(skew: Tensor, squared: Tensor) -> tuple[int, int]:
    """The degree, and how often to halve A first."""
    norm = float(torch.linalg.matrix_norm(squared, 1)) ** 0.5
    return choose(skew.dtype, norm, lambda: float(torch.linalg.matrix_norm(squared @ squared, 1)))


def choose(dtype: torch.dtype, norm: float, of_fourth: Callable[[], float]) -> tuple[int, int]:
    """The degree and the halvings for the root of the norm of A^2, and the norm of A^4, which only large A need."""
    degrees = DEGREES[torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32]
    for degree, limit in degrees.items():
        if norm <= limit:
            return degree, 0
    if not isfinite(norm):  # NaN or infinity: let them show in the result
        return max(degrees), 0
    fourth = of_fourth() ** 0.25  # closer to the spectral radius
    degree, limit = max(degrees.items())
    return degree, max(0, ceil(log2(min(norm, fourth) / limit)))


@cache
def _coefficients(degree: int, first: int) -> list[float]:
    """b_first, b_(first+2), ... of p(A) = sum_j b_j A^j."""
    scale = factorial(degree) / factorial(2 * degree)
    return [
        scale * factorial(2 * degree - j) / (factorial(degree - j) * factorial(j)) for j in range(first, degree + 1, 2)
    ]


def _polynomial(powers: Tensor, degree: int, first: int) -> Tensor:
    """The even (first=0) part of p, or V (first=1) with A V the odd one, out of A^2, A^4, ..."""
    constant, *others = _coefficients(degree, first)
    total = powers[0] * others[0]
    for power, coefficient in zip(powers[1:], others[1:], strict=False):
        total.add_(power, alpha=coefficient)
    total.diagonal(dim1=-2, dim2=-1).add_(constant)
    return total


def minus_adjoint(matrix: Tensor) -> Tensor:
    """X - X^*: twice the skew-Hermitian part."""
    return matrix - matrix.mH


def plus_adjoint(matrix: Tensor) -> Tensor:
    """X + X^*: twice the Hermitian part."""
    return matrix + matrix.mH

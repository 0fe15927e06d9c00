"""Q exp(A) of several models that are trained as one, by batched operations.

The bits of MKL's batched products and of LAPACK depend on where a matrix lies in memory, and on whether it is alone. So
A is bordered with zeros up to a multiple of 16 (exp of it is bordered with ones on the diagonal), which lets all of a
stack begin at multiples of 64 bytes, and a single one is computed twice. Then the bits of a member do not depend on its
companions: those of one degree and number of halvings are computed together, whoever they are.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.maps._expm import Saved, backward_of, choose, forward_of
from engram.maps._skew import fill, places_above

BORDER = 16


def exponentials(entries: Tensor, base: Tensor) -> Tensor:
    """W = Q exp(A) of each member: entries of A above the diagonal ``(E, N(N-1)/2)``, Q ``(E, N, N)``."""
    found: Tensor = _Exponentials.apply(entries, base)
    return found


class _Exponentials(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entries: Tensor, base: Tensor) -> Tensor:
        size = base.shape[-1]
        missing = -size % BORDER
        skew = F.pad(fill(entries, size, places_above(size, entries.device)), (0, missing, 0, missing))
        ctx.base = F.pad(base, (0, missing, 0, missing))
        squared = _product(skew, skew)
        plans: dict[tuple[int, int], list[int]] = {}
        for e, norm in enumerate(torch.linalg.matrix_norm(squared, 1).tolist()):
            plans.setdefault(choose(skew.dtype, norm**0.5, partial(_norm_of_fourth, squared[e])), []).append(e)
        groups: list[tuple[list[int], Tensor, Saved]] = []
        result = torch.empty_like(skew)
        for (degree, halvings), own in plans.items():
            alone = own * 2 if len(own) == 1 else own
            part = skew[alone]
            found, saved = forward_of(part, squared[alone], degree, halvings)
            result[own] = found[: len(own)]
            groups.append((own, part, saved))
        ctx.size, ctx.groups = size, groups
        return _product(ctx.base, result)[:, :size, :size]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        size = ctx.size
        missing = -size % BORDER
        whole = _product(ctx.base.mT, F.pad(grad, (0, missing, 0, missing)))
        of_skew = torch.empty_like(whole)
        for own, part, saved in ctx.groups:
            alone = own * 2 if len(own) == 1 else own
            of_skew[own] = backward_of(whole[alone], part, *saved)[: len(own)]
        inside = of_skew[:, :size, :size]
        flat = (inside - inside.mT).reshape(len(grad), -1)
        return flat.index_select(1, places_above(size, grad.device)), None


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Batched, and of two at least."""
    return torch.bmm(torch.cat([a, a]), torch.cat([b, b]))[:1] if len(a) == 1 else torch.bmm(a, b)


def _norm_of_fourth(squared: Tensor) -> float:
    return float(torch.linalg.matrix_norm(squared @ squared, 1))

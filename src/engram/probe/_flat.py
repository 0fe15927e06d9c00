"""A state of any form as one vector a sequence."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Flat:
    """How a state, a tensor or tuples of tensors, lies in a matrix ``(B, N)`` of real numbers.

    form: of the tuples; shapes: of the tensors, with the batch as first dimension and left out; batch: where it was;
    complex: which of them are; dtypes: of the tensors.
    """

    form: Any
    shapes: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    dtypes: tuple[torch.dtype, ...]

    @classmethod
    def between(cls, two: Any, three: Any) -> "Flat | None":
        """From the states of a batch of two and of a batch of three, which tell where the batch is; None if unclear."""
        (small, form), (large, _) = pytree.tree_flatten(two), pytree.tree_flatten(three)
        if not small or len(small) != len(large) or not all(isinstance(part, Tensor) for part in (*small, *large)):
            return None
        batch = []
        for a, b in zip(small, large, strict=True):
            apart = [d for d in range(a.dim()) if a.dim() == b.dim() and a.shape[d] != b.shape[d]]
            if len(apart) != 1 or (a.shape[apart[0]], b.shape[apart[0]]) != (2, 3):
                return None
            if not (a.is_floating_point() or a.is_complex()):
                return None
            batch.append(apart[0])
        shapes = tuple(tuple(part.movedim(d, 0).shape[1:]) for part, d in zip(small, batch, strict=True))
        return cls(form, shapes, tuple(batch), tuple(part.dtype for part in small))

    @property
    def size(self) -> int:
        """N, the real numbers of a state."""
        return sum(self._widths)

    @property
    def _widths(self) -> list[int]:
        counts = (torch.Size(shape).numel() for shape in self.shapes)
        return [count * (2 if kind.is_complex else 1) for count, kind in zip(counts, self.dtypes, strict=True)]

    def flatten(self, state: Any) -> Tensor:
        """``(B, N)``."""
        parts = []
        for part, d in zip(pytree.tree_flatten(state)[0], self.batch, strict=True):
            rows = part.movedim(d, 0)
            parts.append((torch.view_as_real(rows.resolve_conj()) if rows.is_complex() else rows).flatten(1))
        return torch.cat(parts, 1)

    def restore(self, rows: Tensor) -> Any:
        """The state that :meth:`flatten` made these rows of."""
        parts = []
        for part, shape, d, kind in zip(rows.split(self._widths, 1), self.shapes, self.batch, self.dtypes, strict=True):
            whole = part.reshape(len(rows), *shape, *((2,) if kind.is_complex else ()))
            whole = torch.view_as_complex(whole.contiguous()) if kind.is_complex else whole.to(kind)
            parts.append(whole.movedim(0, d).contiguous())
        return pytree.tree_unflatten(parts, self.form)

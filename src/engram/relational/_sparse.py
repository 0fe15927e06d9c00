"""A linear layer under an L1 penalty, between the encoder and the relations."""

import math

import torch
from torch import Tensor, nn

from engram.errors import OptionError, check_choice, check_number, check_size


class Sparse(nn.Module):
    r"""Codes :math:`\tilde z_t = W z_t`, and a penalty on them or on W.

    .. math::
        \text{penalty} = \lambda \, \mathrm{mean}_{t, b, f} |\tilde z_{t, b, f}|
        \quad \text{or} \quad \lambda \, \mathrm{mean}_{f, g} |W_{f g}|

    It is to dampen features that do not matter, such as a background colour. Source: Kerg (2022), Section 5.6 and
    Appendix C.5, with :math:`\lambda` = 5 for RMTS and 1 for other tasks. The text speaks of a regularised layer, the
    caption of Figure 6 of regularised representations: ``on`` has both.

    Args:
        size: F, the features of a code.
        strength: :math:`\lambda`.
        on: ``codes`` or ``weights``. Default: ``codes``.

    Inputs: ``(..., F)``. Outputs: ``(..., F)``.
    """

    penalty_depends_on_call = True
    """The penalty depends on the last call: where several runs train as one, it is taken within that call."""

    def __init__(self, size: int, strength: float, on: str = "codes") -> None:
        super().__init__()
        if not 0 < check_number("l1", strength) < math.inf:
            raise OptionError(f"l1, the strength of the penalty, must be above 0 and finite, got {strength}")
        self.strength, self.on = float(strength), check_choice("l1_on", on, ("codes", "weights"))
        self.weight = nn.Parameter(torch.empty(check_size("size", size), size))
        nn.init.xavier_normal_(self.weight)
        self._found: Tensor | None = None

    def forward(self, codes: Tensor) -> Tensor:
        found = codes @ self.weight.mT
        self._found = found if self.training and self.on == "codes" else None
        return found

    def penalty(self) -> Tensor:
        """Of the last call in training; 0 if there was none."""
        if self.on == "weights":
            return self.strength * self.weight.abs().mean()
        found, self._found = self._found, None  # nothing of a step outlives it
        return self.weight.new_zeros(()) if found is None else self.strength * found.abs().mean()

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_found": None}  # a tensor with a history cannot be copied

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, strength={self.strength:g}, on={self.on!r}"

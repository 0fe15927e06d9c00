"""The activations of a recurrence.

=========  ==============================  =================
name       h                               complex
=========  ==============================  =================
identity   z                               yes
tanh       tanh(z)                         yes (holomorphic)
relu       max(z, 0)                       refused: no order
sigmoid    1 / (1 + exp(-z))               yes (holomorphic)
modrelu    z/|z| max(|z| + b, 0)           yes
=========  ==============================  =================

modReLU is that of Arjovsky et al. 2016 (also Kerg 2022, Section 3.5), with value 0 at z = 0.
"""

import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError

ACTIVATIONS = ("identity", "tanh", "relu", "sigmoid", "modrelu")
WITHOUT_BIAS = tuple(name for name in ACTIVATIONS if name != "modrelu")
"""The activations without a trained bias."""


def activate(name: str, z: Tensor, bias: Tensor | None = None) -> Tensor:
    """act(z), elementwise and differentiable; ``bias`` (one real number per unit) belongs to modReLU alone."""
    match name:
        case "tanh":
            return z.tanh()
        case "relu":
            return z.relu()
        case "sigmoid":
            return z.sigmoid()
        case "modrelu":
            phase = z.sgn() if z.is_complex() else z.detach().sgn()  # of real numbers it is constant
            return phase * torch.relu(z.abs() + _required(bias))
    return z


def _required(bias: Tensor | None) -> Tensor:
    if bias is None:
        raise OptionError("activation 'modrelu' needs its bias (H,), got None. Pass mod_bias")
    return bias


def check_activation_dtype(name: str, dtype: torch.dtype) -> None:
    """ReLU needs an order, which complex numbers do not have."""
    if name == "relu" and dtype.is_complex:
        raise DTypeError(
            f"activation 'relu' needs a real dtype, got {dtype}: complex numbers have no order. "
            "Use 'modrelu', its complex form"
        )

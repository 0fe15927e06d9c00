"""The activations of a recurrence, and their gradients told from the output alone.

A fast backward pass keeps only the states, so each activation must let its slope be rebuilt from h = act(z):

=========  ==============================  ==========================================  =================
name       h                               pull-back of g = dL/dh to dL/dz             complex
=========  ==============================  ==========================================  =================
identity   z                               g                                           yes
tanh       tanh(z)                         g conj(1 - h^2)                             yes (holomorphic)
relu       max(z, 0)                       g [h > 0]                                   refused: no order
sigmoid    1 / (1 + exp(-z))               g conj(h (1 - h))                           yes (holomorphic)
modrelu    z/|z| max(|z| + b, 0)           u (Re(conj(u) g) + i Im(conj(u) g) r/m)     yes
=========  ==============================  ==========================================  =================

with u = h/|h| the phase, r = |h|, m = |z| = r - b; for a real z this is g [h != 0], and dL/db = Re(conj(u) g).
modReLU is spec/spectral.md section 3.1 (Arjovsky et al. 2016), with value 0 at z = 0.
"""

import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.kernels._products import column_sums

ACTIVATIONS = ("identity", "tanh", "relu", "sigmoid", "modrelu")
PLAIN = tuple(name for name in ACTIVATIONS if name != "modrelu")
"""Those without a bias of their own."""


def activate(name: str, z: Tensor, bias: Tensor | None = None) -> Tensor:
    """act(z), elementwise and differentiable; ``bias`` (one real a unit) is modReLU's own and nobody else's."""
    match name:
        case "tanh":
            return z.tanh()
        case "relu":
            return z.relu()
        case "sigmoid":
            return z.sigmoid()
        case "modrelu":
            phase = z.sgn() if z.is_complex() else z.detach().sgn()  # of real numbers it is constant
            return phase * torch.relu(z.abs() + _given(bias))
    return z


def activate_(name: str, z: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same in place, for the fast loop: allocates nothing except for modReLU's modulus."""
    match name:
        case "tanh":
            return z.tanh_()
        case "relu":
            return z.relu_()
        case "sigmoid":
            return z.sigmoid_()
        case "modrelu":
            modulus = z.abs().add_(_given(bias)).relu_()
            return z.sgn_().mul_(modulus)
    return z


def pull_back(name: str, g: Tensor, h: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """dL/dz from g = dL/dh and h = act(z), written to ``out`` (which may be ``g``)."""
    match name:
        case "tanh":
            torch.ops.aten.tanh_backward.grad_input(g, h, grad_input=out)
        case "relu":
            torch.ops.aten.threshold_backward.grad_input(g, h, 0, grad_input=out)
        case "sigmoid":
            torch.ops.aten.sigmoid_backward.grad_input(g, h, grad_input=out)
        case "modrelu" if not h.is_complex():
            torch.ops.aten.threshold_backward.grad_input(g, h.abs(), 0, grad_input=out)
        case "modrelu":
            phase, length = h.sgn(), h.abs()
            turned = phase.conj_physical() * g  # not conj(): a torch dispatch mode hides its lazy bit from here
            modulus = torch.maximum(length - _given(bias), torch.finfo(length.dtype).eps * length)  # 0 would give NaN
            swing = torch.where(length > 0, length / modulus, 0)
            torch.mul(phase, torch.complex(turned.real, turned.imag * swing), out=out)
        case _:
            out.copy_(g)


def _given(bias: Tensor | None) -> Tensor:
    if bias is None:
        raise OptionError("activation 'modrelu' needs its bias (H,), got None. Pass mod_bias")
    return bias


def modrelu_bias_grad(dz: Tensor, h: Tensor) -> Tensor:
    """dL/db summed over all rows. The radial part of dL/dz equals that of dL/dh, so dz is enough."""
    radial = (h.sgn().conj_physical() * dz).real if h.is_complex() else h.sgn() * dz
    return column_sums(radial.contiguous())


def check_activation_dtype(name: str, dtype: torch.dtype) -> None:
    """ReLU needs an order, which complex numbers do not have."""
    if name == "relu" and dtype.is_complex:
        raise DTypeError(
            f"activation 'relu' needs a real dtype, got {dtype}: complex numbers have no order. "
            "Use 'modrelu', its complex form"
        )

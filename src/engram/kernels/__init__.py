"""The time loops: one plain reference per recurrence, and fast ones with hand-derived gradients.

Which loop runs is said by :func:`status` and chosen with :func:`use`; memory kept between calls is given back by
:func:`free_workspaces`.
"""

from engram.kernels._activations import ACTIVATIONS, PLAIN, activate, check_activation_dtype
from engram.kernels._additive import additive
from engram.kernels._bilinear import bilinear, bilinear_reference
from engram.kernels._choice import KERNELS, chosen, use
from engram.kernels._convolution import convolve, powers
from engram.kernels._factored import factored, factored_reference
from engram.kernels._last import additive_last
from engram.kernels._linear_scan import linear_scan, linear_scan_last
from engram.kernels._loops import status
from engram.kernels._multiplicative import multiplicative, multiplicative_reference
from engram.kernels._reference import additive_reference, scan
from engram.kernels._workspace import free_workspaces
from engram.maps import without_autocast

__all__ = [
    "ACTIVATIONS",
    "KERNELS",
    "PLAIN",
    "activate",
    "additive",
    "additive_last",
    "additive_reference",
    "bilinear",
    "bilinear_reference",
    "check_activation_dtype",
    "chosen",
    "convolve",
    "factored",
    "factored_reference",
    "free_workspaces",
    "linear_scan",
    "linear_scan_last",
    "multiplicative",
    "multiplicative_reference",
    "powers",
    "scan",
    "status",
    "use",
    "without_autocast",
]

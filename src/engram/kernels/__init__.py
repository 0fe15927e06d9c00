"""The time loops: one plain reference per recurrence, and fast ones with hand-derived gradients.

Which loop runs is said by :func:`status` and chosen with :func:`use`; memory kept between calls is given back by
:func:`free_workspaces`.
"""

from engram.kernels._activations import ACTIVATIONS, activate, check_activation_dtype
from engram.kernels._additive import additive
from engram.kernels._choice import KERNELS, chosen, status, use
from engram.kernels._last import additive_last
from engram.kernels._reference import (
    State,
    additive_reference,
    first_rows,
    map_state,
    replace_rows,
    scan,
    without_autocast,
)
from engram.kernels._workspace import free_workspaces

__all__ = [
    "ACTIVATIONS",
    "KERNELS",
    "State",
    "activate",
    "additive",
    "additive_last",
    "additive_reference",
    "check_activation_dtype",
    "chosen",
    "first_rows",
    "free_workspaces",
    "map_state",
    "replace_rows",
    "scan",
    "status",
    "use",
    "without_autocast",
]

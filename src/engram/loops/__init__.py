"""The time loop of any recurrence: a cell's step is traced, planned, and run as generated C or as torch operations.

Which executor runs is said by :func:`status` and :func:`engram.checks.explain`, and chosen with :func:`use`; memory
kept between calls is given back by :func:`free_workspaces`.
"""

from engram.loops._activations import ACTIVATIONS, WITHOUT_BIAS, activate, check_activation_dtype
from engram.loops._choice import EXECUTORS, chosen, needs_plain, use, use_threads
from engram.loops._compile import Compiled, compiled_cell, forget, runs_in_c
from engram.loops._convolution import convolve, powers
from engram.loops._cut import FEW_INPUTS
from engram.loops._export import exporting, scan_steps
from engram.loops._linear_scan import in_blocks, linear_scan, linear_scan_last
from engram.loops._loop import last, loop
from engram.loops._memory import free_workspaces
from engram.loops._module_views import tensors_of, with_tensors
from engram.loops._plain import scan
from engram.loops._several_layers import cross_entropies, linear
from engram.loops._single_step import step_in_place
from engram.loops._status import status
from engram.maps import without_autocast

__all__ = [
    "ACTIVATIONS",
    "EXECUTORS",
    "FEW_INPUTS",
    "WITHOUT_BIAS",
    "Compiled",
    "activate",
    "check_activation_dtype",
    "chosen",
    "compiled_cell",
    "convolve",
    "cross_entropies",
    "exporting",
    "forget",
    "free_workspaces",
    "in_blocks",
    "last",
    "linear",
    "linear_scan",
    "linear_scan_last",
    "loop",
    "needs_plain",
    "powers",
    "runs_in_c",
    "scan",
    "scan_steps",
    "status",
    "step_in_place",
    "tensors_of",
    "use",
    "use_threads",
    "with_tensors",
    "without_autocast",
]

"""From a cell to its loop: traced, lowered and planned at the first call.

A cell keeps its loop until one of its attributes is set; cells of the same class, sizes and options share one.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor, nn

from engram.loops import _torch
from engram.loops._choice import chosen, uses_c
from engram.loops._compiled import Loops
from engram.loops._fingerprint import children, fingerprint
from engram.loops._plan import make_plan
from engram.loops._program import Plan
from engram.loops._trace import CannotCompile
from engram.loops._trace_cell import Traced, trace, undisturbed

REALS = (torch.float32, torch.float64)
FEW_ROWS = 6
"""The rows of a tile of C's product. With fewer, one product over all steps is faster than one at each step."""


@dataclass
class Variant:
    """A plan, and its loops in C; None for dtypes and devices that C does not have."""

    plan: Plan
    loops: Loops | None

    def executor(self, reference: Tensor) -> Any:
        return self.loops if self.loops is not None and uses_c(reference) and self.loops.ready() else _torch.run


@dataclass
class Compiled:
    """The loop of a cell, or why it has none."""

    key: str
    """By which torch operations find it again."""
    traced: Traced | None
    """The step as a program; None if the plain loop must run."""
    reason: str = ""
    """Why it must."""
    line: str = ""
    """The file and line of the step that cannot be compiled."""
    name: str = ""
    """The class of the cell."""
    on_cpu: bool = True
    """Whether the weights are on a processor, for which there is C."""
    _variants: dict[tuple[bool, bool], Variant] = field(default_factory=dict)

    def choose(self, reference: Tensor, batch: int | None) -> "Variant":
        """Which plan runs: with few rows, or without C, products of the input leave the loop.

        ``batch`` is None if it is not known.
        """
        if uses_c(reference) and (batch is None or batch >= FEW_ROWS):
            inside = self.variant(hoist=False, rebuild=batch is not None)
            if inside.loops is not None and inside.loops.ready():
                return inside
        return self.variant(hoist=True, rebuild=batch is not None)

    def variant(self, hoist: bool, rebuild: bool) -> "Variant":
        """The plan with these choices (:func:`engram.loops._plan.make_plan`), made when it is first asked for.

        Without ``rebuild`` buffers are kept whole: torch.compile must know the size of what is kept beforehand.
        """
        if self.traced is None:
            raise CannotCompile(self.reason, self.line)
        found = self._variants.get((hoist, rebuild))
        if found is None:
            plan = make_plan(self.traced.lowered, hoist, rebuild)
            plan.keep_weights(self.traced.used)
            dtype = plan.graph.values[plan.outputs[0]].dtype
            loops = Loops(self.name, plan, dtype) if self.on_cpu and dtype in REALS else None
            found = self._variants[hoist, rebuild] = Variant(plan, loops)
        return found


_by_cell: WeakKeyDictionary[nn.Module, dict[Any, Compiled]] = WeakKeyDictionary()
_shared: WeakValueDictionary[Any, Compiled] = WeakValueDictionary()
BY_KEY: WeakValueDictionary[str, Compiled] = WeakValueDictionary()
"""All loops by name; each lives as long as a cell that runs it."""
_made = count()


def compiled_cell(cell: Any, view: Any = None, width: int | None = None) -> Compiled:
    """The loop of a cell; made at the first call.

    Args:
        view: the cell with its weights built. Default: built here.
        width: the number of features of the input; default: the cell's ``input_size``.
    """
    kept = _by_cell.get(cell)
    if kept is None:
        kept = _by_cell[cell] = {}
    reference, width = cell.reference_weight, cell.input_size if width is None else width
    kind = type(cell)
    inside = children(cell) if cell._modules else ()
    key = (reference.dtype, reference.device, cell.training, width, kind.step, kind.drive, kind.output, inside)
    found = kept.get(key)
    if found is None:
        with undisturbed(reference):
            found = kept.get(key)  # another thread may have made it meanwhile
            if found is None:
                found = kept[key] = _find(cell.with_built_weights() if view is None else view, width)
    return found


def runs_in_c(cell: Any, batch: int) -> bool:
    """Whether all that a cell computes from its input, for this many rows, is done by generated C."""
    found, reference = compiled_cell(cell), cell.reference_weight
    if found.traced is None or not found.traced.with_drive or chosen() == "plain":
        return False
    return isinstance(found.choose(reference, batch).executor(reference), Loops)


def forget(cell: Any) -> None:
    """Drop the loop of a cell whose options changed."""
    if _by_cell:
        _by_cell.pop(cell, None)


def _find(cell: Any, width: int) -> Compiled:
    """The loop that cells with these options share; made now if there is none."""
    known = fingerprint(cell)
    found = None if known is None else _shared.get((known, width))
    if found is None:
        found = _make(cell, width)
        BY_KEY[found.key] = found
        if known is not None:
            _shared[known, width] = found
    return found


def _make(cell: Any, width: int) -> Compiled:
    key, name = f"{type(cell).__qualname__}-{next(_made)}", type(cell).__name__
    try:
        traced = trace(cell, width)
    except CannotCompile as error:
        return Compiled(key, None, error.reason, error.line, name)
    return Compiled(key, traced, name=name, on_cpu=cell.reference_weight.device.type in ("cpu", "meta"))

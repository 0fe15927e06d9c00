"""From a cell to its loop: the tensors that its step reads are found, the step is traced, lowered and planned.

A cell keeps its loop until one of its attributes is set; cells of the same class, sizes and options share one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

from engram.errors import DTypeError, ShapeError
from engram.loops import _torch
from engram.loops._choice import uses_c
from engram.loops._compiled import Loops
from engram.loops._lower import Lowered, lower
from engram.loops._plan import Plan, make_plan
from engram.loops._trace import BATCHES, CannotCompile, check_state, compare, fresh, record
from engram.state import each, parts

REALS = (torch.float32, torch.float64)
FEW = 6
"""Rows of a tile of the product in C: with fewer, one product over all steps is faster than one at each step."""


@dataclass
class Variant:
    """A plan, and its loops in C; None for dtypes and devices that C does not have."""

    plan: Plan
    loops: Loops | None

    def executor(self, like: Tensor) -> Any:
        return self.loops if self.loops is not None and uses_c(like) and self.loops.ready() else _torch.run


@dataclass
class Compiled:
    """The loop of a cell, or why it has none."""

    key: str
    lowered: Lowered | None
    """The step on one row; None if the plain loop must run."""
    names: list[str]
    """The tensors of the cell that the loop reads, in its order."""
    with_drive: bool
    """Whether the loop begins with the input of the layer; else with what ``cell.drive`` gives."""
    reason: str
    line: str
    skeleton: Any
    """The cell without numbers: its step can be called with other weights."""
    name: str = ""
    used: frozenset[int] = frozenset()
    """The weights that the loop reads, as values."""
    on_cpu: bool = True
    several: bool = False
    """Whether what ``cell.drive`` gives is a tuple."""
    _variants: dict[tuple[bool, bool], Variant] = field(default_factory=dict)

    def choose(self, like: Tensor, batch: int | None) -> "Variant":
        """C with all products in the loop for a batch of several rows (None: not known); else products are hoisted."""
        if uses_c(like) and (batch is None or batch >= FEW):
            inside = self.variant(hoist=False, rebuild=batch is not None)
            if inside.loops is not None and inside.loops.ready():
                return inside
        return self.variant(hoist=True, rebuild=batch is not None)

    def variant(self, hoist: bool, rebuild: bool) -> "Variant":
        """The plan with these choices (:func:`engram.loops._plan.make_plan`), made when it is first asked for.

        Buffers are kept whole where the size of what is kept must be known beforehand (torch.compile).
        """
        if self.lowered is None:
            raise CannotCompile(self.reason, self.line)
        found = self._variants.get((hoist, rebuild))
        if found is None:
            plan = make_plan(self.lowered, hoist, rebuild)
            plan.keep_weights(self.used)
            like = plan.graph.values[plan.outputs[0]]
            loops = Loops(self.name, plan, like.dtype) if self.on_cpu and like.dtype in REALS else None
            found = self._variants[hoist, rebuild] = Variant(plan, loops)
        return found


_of_cell: WeakKeyDictionary[nn.Module, dict[Any, Compiled]] = WeakKeyDictionary()
_shared: WeakValueDictionary[Any, Compiled] = WeakValueDictionary()
BY_KEY: WeakValueDictionary[str, Compiled] = WeakValueDictionary()
"""All loops by name; each lives as long as a cell that runs it."""
_made = count()


def compiled_cell(cell: Any, view: Any = None, width: int | None = None) -> Compiled:
    """The loop of a cell; made at the first call.

    Args:
        view: the cell with its weights built, if somebody has it at hand.
        width: the number of features of the input; default: the cell's ``input_size``.
    """
    kept = _of_cell.get(cell)
    if kept is None:
        kept = _of_cell[cell] = {}
    like, width = cell.like, cell.input_size if width is None else width
    kind = type(cell)
    children = _children(cell) if cell._modules else ()
    key = (like.dtype, like.device, cell.training, width, kind.step, kind.drive, kind.output, children)
    found = kept.get(key)
    if found is None:
        with _undisturbed(like):
            found = kept.get(key)  # another thread may have made it meanwhile
            if found is None:
                found = kept[key] = _find(cell.with_built_weights() if view is None else view, width)
    return found


_lock = RLock()


def _new_lock() -> None:
    """In the child of a fork, where a thread that held the lock is gone."""
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


@contextmanager
def _undisturbed(like: Tensor) -> Iterator[None]:
    """A block for a trace: with numbers and gradients whoever asks first, unseen by other people's hooks and modes,
    without a trace in their random numbers, and on one thread, for torch's others would not survive a fork."""
    devices, threads = [like.device] if like.device.type == "cuda" else [], torch.get_num_threads()
    with (
        _lock,
        torch.inference_mode(False),
        _disable_current_modes(),
        torch.no_grad(),
        saved_tensors_hooks(_same, _same),
        torch.random.fork_rng(devices),
    ):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def forget(cell: Any) -> None:
    """The loop of a cell was made for other options."""
    if _of_cell:
        _of_cell.pop(cell, None)


def _find(cell: Any, width: int) -> Compiled:
    fingerprint = _fingerprint(cell)
    fingerprint = None if fingerprint is None else (*fingerprint, width)
    found = _shared.get(fingerprint) if fingerprint is not None else None
    if found is None:
        found = _make(cell, width)
        BY_KEY[found.key] = found
        if fingerprint is not None:
            _shared[fingerprint] = found
    return found


def _fingerprint(cell: Any) -> Any:
    """All that a step could read of its cell, if it is only numbers, words and tensors; None if it is more."""
    kind = type(cell)
    written = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    simple = {name: value for name, value in written.items() if isinstance(value, SIMPLE) and not name.startswith("__")}
    own = {**vars(cell), **cell._parameters, **cell._buffers}
    try:
        options = [(name, _option(value)) for name, value in sorted(own.items()) if name not in TORCHS_OWN | NO_OPTIONS]
    except TypeError:
        return None
    if any(child is not None for child in cell._modules.values()):
        return None
    return (kind, cell.training, kind.step, kind.drive, kind.output, repr(simple), *options)


def _children(cell: nn.Module) -> Any:
    """The attributes of the modules inside a cell, which may change without its knowledge."""
    return tuple(
        (
            name,
            type(child),
            len(child._forward_hooks) + len(child._forward_pre_hooks),
            *(key for key, tensor in child._parameters.items() if tensor is not None),
            *((key, repr(value)) for key, value in vars(child).items() if isinstance(value, SIMPLE)),
        )
        for name, child in cell.named_modules()
        if name
    )


SIMPLE = (int, float, complex, str, bool, type(None), torch.dtype, torch.device)
TORCHS_OWN = set(vars(nn.Module()))
NO_OPTIONS = {"_built_from", "_changes", "laws", "declared"}


def _option(value: Any, inside: bool = False) -> Any:
    """What an attribute says of the loop; a tensor says its form, for its numbers are given to the loop each time."""
    if isinstance(value, Tensor) and not inside:
        return (tuple(value.shape), value.dtype, value.device, value.requires_grad)
    if isinstance(value, SIMPLE):
        return (type(value), repr(value))
    if isinstance(value, (tuple, list)):
        return (type(value), *(_option(item, inside=True) for item in value))
    raise TypeError


def _make(cell: Any, width: int) -> Compiled:
    key = f"{type(cell).__qualname__}-{next(_made)}"
    for with_drive in (True, False):
        try:
            lowered, used, names, skeleton = trace(cell, width, with_drive)
        except CannotCompile as error:
            if not with_drive or error.reason == GROWS:
                return Compiled(key, None, [], False, error.reason, error.line, None)
        else:
            on_cpu, name = cell.like.device.type in ("cpu", "meta"), type(cell).__name__
            several = not with_drive and len(lowered.drives) > 0 and _gives_tuple(cell, width)
            return Compiled(key, lowered, names, with_drive, "", "", skeleton, name, frozenset(used), on_cpu, several)
    raise AssertionError


def _gives_tuple(cell: Any, width: int) -> bool:
    like = fresh(cell.like)
    view = with_tensors(cell, {name: fresh(tensor) for name, tensor in tensors_of(cell).items()})
    return isinstance(view.drive(torch.rand(1, 2, width, dtype=like.dtype, device=like.device)), tuple)


GROWS = "a field of the state grows with time"


def trace(cell: Any, width: int, with_drive: bool) -> tuple[Lowered, set[int], list[str], Any]:
    """The step of a cell on one row, the weights that it reads and their names, and the cell without numbers."""
    if any(field.grows for field in parts(cell.fields())):
        raise CannotCompile(GROWS)
    weights = tensors_of(cell)
    records, view, like = [], cell, fresh(cell.like)
    inputs = [torch.randn(1, batch, width, dtype=like.dtype, device=like.device) for batch in BATCHES]
    states = [each(_other, cell.initial_state(batch)) for batch in BATCHES]
    tried = [(inputs[0], states[0]), (inputs[1], states[1]), (-inputs[0], each(_opposite, states[0]))]
    for x, state in tried:  # one cell after the other, so that one that counts its steps is found out
        leaves = {name: fresh(tensor) for name, tensor in weights.items()}
        view = with_tensors(view, leaves)
        if with_drive:
            drives, several = [fresh(x[0])], False
        else:
            with torch.no_grad():
                drive = view.drive(x)
            several = isinstance(drive, tuple)
            drives = [fresh(d[0]) for d in (drive if several else (drive,))]
        before = _noted(view)

        def step(drives: list[Tensor], state: Any, view: Any = view, several: bool = several) -> Any:
            given = view.drive(drives[0]) if with_drive else tuple(drives) if several else drives[0]
            new = view.step(given, state)
            check_state(new, state)
            return view.output(new), new

        try:
            records.append(record(step, drives, state, list(leaves.values())))
        except (ShapeError, DTypeError) as error:
            raise type(error)(f"{error} ({_place(cell)})") from error
        if changed := [name for name, value in _noted(view).items() if before.get(name) != value]:
            raise CannotCompile(f"the step sets self.{changed[0]}", _place(cell))
    compare(records[0], records[1])
    compare(records[0], records[2], exactly=True)
    if with_drive:
        _check_drive(view, width)
    lowered = lower(*records[:2])
    used = make_plan(lowered).used_weights()
    names = [name for name, value in zip(weights, lowered.weights, strict=True) if value in used]
    skeleton = with_tensors(cell, {name: tensor.new_zeros(()).expand(tensor.shape) for name, tensor in weights.items()})
    return lowered, used, names, skeleton


def _other(field: Tensor) -> Tensor:
    """A state with other numbers at each trace: a step that branches on them, unseen by torch, does something else."""
    leaf = fresh(field)
    with torch.no_grad():
        return leaf.normal_() if leaf.requires_grad else leaf


def _opposite(field: Tensor) -> Tensor:
    """The other sign, for a step that asks for it."""
    return fresh(-field) if field.requires_grad else field


def _noted(view: Any) -> dict[str, str]:
    """The simple attributes of a cell, to be compared: a step that counts changes one."""
    return {name: repr(value) for name, value in vars(view).items() if isinstance(value, SIMPLE) and name != "_changes"}


def _place(cell: Any) -> str:
    """Where the step is written."""
    code = getattr(type(cell).step, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _check_drive(cell: Any, width: int) -> None:
    """A drive that looks at other steps, or samples, cannot be computed step by step."""
    like = cell.like
    x = torch.rand(9, 3, width, dtype=like.dtype, device=like.device)
    near = 1e4 * torch.finfo(like.dtype).eps  # another order of sums, never another formula
    with torch.no_grad():
        whole, steps = cell.drive(x), [cell.drive(step) for step in x]
    tensors = whole if isinstance(whole, tuple) else (whole,)
    for k, tensor in enumerate(tensors):
        alone = torch.stack([s[k] if isinstance(whole, tuple) else s for s in steps])
        if tensor.shape != alone.shape or not torch.allclose(tensor, alone, rtol=near, atol=near, equal_nan=True):
            raise CannotCompile("drive() does not treat each step alone")


def _own(module: nn.Module) -> dict[str, Tensor]:
    attributes = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
    every = {**module._parameters, **module._buffers, **attributes}
    return {name: tensor for name, tensor in every.items() if tensor is not None}


def tensors_of(cell: nn.Module) -> dict[str, Tensor]:
    """All tensors that a step could read: parameters, buffers, and plain attributes (built weights)."""
    return {
        f"{prefix}.{name}" if prefix else name: tensor
        for prefix, module in cell.named_modules()
        for name, tensor in _own(module).items()
    }


def with_tensors(module: nn.Module, tensors: dict[str, Tensor], prefix: str = "") -> Any:
    """A copy of a module that has these tensors as plain attributes, and none of its own."""
    view = type(module).__new__(type(module))
    view.__dict__.update({name: value for name, value in module.__dict__.items() if name != "_built_from"})
    own = _own(module)
    view.__dict__["_parameters"] = {name: None for name in module._parameters if name not in own}
    view.__dict__["_buffers"] = {name: None for name in module._buffers if name not in own}
    view.__dict__["_modules"] = {
        name: None if child is None else with_tensors(child, tensors, f"{prefix}{name}.")
        for name, child in module._modules.items()
    }
    view.__dict__.update({name: tensors[prefix + name] for name in own})
    return view


__all__ = ["BY_KEY", "Compiled", "compiled_cell", "uses_c"]

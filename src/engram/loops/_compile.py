"""From a cell to its loop: the tensors that its step reads are found, the step is traced, lowered and planned.

A cell keeps its loop until one of its attributes is set; cells of the same class, sizes and options share one.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

from engram.loops import _composites  # noqa: F401  (adds its rules)
from engram.loops._choice import uses_c
from engram.loops._compiled import Loops
from engram.loops._lower import lower
from engram.loops._plan import Plan, make_plan
from engram.loops._trace import BATCHES, CannotCompile, compare, fresh, record
from engram.state import each, parts


@dataclass
class Compiled:
    """The loop of a cell, or why it has none."""

    key: str
    plan: Plan | None
    names: list[str]
    """The tensors of the cell that the loop reads, in its order."""
    with_drive: bool
    """Whether the loop begins with the input of the layer; else with what ``cell.drive`` gives."""
    reason: str
    line: str
    loops: Loops | None
    skeleton: Any
    """The cell without numbers: its step can be called with other weights."""


_of_cell: WeakKeyDictionary[nn.Module, dict[Any, Compiled]] = WeakKeyDictionary()
_shared: dict[Any, Compiled] = {}
BY_KEY: dict[str, Compiled] = {}


def compiled_cell(cell: Any) -> Compiled:
    """The loop of a cell; made at the first call."""
    kept = _of_cell.get(cell)
    if kept is None:
        kept = _of_cell[cell] = {}
    like = cell.like
    key = (like.dtype, like.device, cell.training)
    found = kept.get(key)
    if found is None:
        # whoever asks first: no mode without numbers, no checkpoint that counts what is saved, gradients if it records
        with _disable_current_modes(), saved_tensors_hooks(lambda t: t, lambda t: t):
            view = built(cell)
            with torch.inference_mode(False):
                found = kept[key] = _find(view)
    return found


def forget(cell: Any) -> None:
    """The loop of a cell was made for other options."""
    if _of_cell:
        _of_cell.pop(cell, None)


def built(cell: Any) -> Any:
    """A view of a cell in which weights under a map are plain tensors."""
    return cell.with_built_weights() if hasattr(cell, "with_built_weights") else cell


def _find(cell: Any) -> Compiled:
    fingerprint = _fingerprint(cell)
    found = _shared.get(fingerprint) if fingerprint is not None else None
    if found is None:
        found = _make(cell)
        BY_KEY[found.key] = found
        if fingerprint is not None:
            _shared[fingerprint] = found
    return found


def _fingerprint(cell: Any) -> Any:
    """All that a step could read, if it is only numbers, words and tensors; None if it is more."""
    simple = (int, float, complex, str, bool, type(None), torch.dtype, torch.device)

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return (tuple(value.shape), value.dtype, value.device, value.requires_grad)
        if isinstance(value, simple):
            return value
        if isinstance(value, (tuple, list)):
            return tuple(plain(item) for item in value)
        raise TypeError

    if any(child is not None for child in cell._modules.values()):
        return None
    skipped = {"_parameters", "_buffers", "_modules", "_built_from", "_changes", "laws", "declared", "_non_persistent_buffers_set"}
    try:
        own = {k: v for k, v in vars(cell).items() if k not in skipped and "hook" not in k and k != "_is_full_backward_hook"}
        own |= cell._parameters | cell._buffers
        kind = type(cell)
        return (kind, *((name, plain(value)) for name, value in sorted(own.items())))
    except TypeError:
        return None


def _make(cell: Any) -> Compiled:
    key = f"{type(cell).__qualname__}-{len(BY_KEY)}"
    for with_drive in (True, False):
        try:
            plan, names, skeleton = trace(cell, with_drive)
        except CannotCompile as error:
            if not with_drive or error.reason == GROWS:
                return Compiled(key, None, [], False, error.reason, error.line, None, None)
        else:
            loops = Loops(type(cell).__name__, plan, cell.like.dtype) if uses_c_ever(cell.like) else None
            return Compiled(key, plan, names, with_drive, "", "", loops, skeleton)
    raise AssertionError


GROWS = "a field of the state grows with time"


def uses_c_ever(like: Tensor) -> bool:
    return like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def trace(cell: Any, with_drive: bool) -> tuple[Plan, list[str], Any]:
    """The plan of a cell, the names of the tensors that it reads, and the cell without numbers."""
    if any(field.grows for field in parts(cell.fields())):
        raise CannotCompile(GROWS)
    weights = tensors_of(cell)
    records = []
    for batch in BATCHES:
        leaves = {name: fresh(tensor) for name, tensor in weights.items()}
        view = with_tensors(cell, leaves)
        state = each(fresh, cell.initial_state(batch))
        like = fresh(cell.like)
        x = torch.rand(1, batch, cell.input_size, dtype=like.dtype, device=like.device)
        if with_drive:
            drives = [fresh(x[0])]
        else:
            with torch.no_grad():
                drive = view.drive(x)
            drives = [fresh(d[0]) for d in (drive if isinstance(drive, tuple) else (drive,))]

        def step(drives: list[Tensor], state: Any, view: Any = view) -> Any:
            given = view.drive(drives[0]) if with_drive else drives[0] if len(drives) == 1 else tuple(drives)
            new = view.step(given, state)
            return view.output(new), new

        records.append(record(step, drives, state, list(leaves.values())))
    compare(*records)
    if with_drive:
        _check_drive(view)
    plan = make_plan(lower(*records))
    used = plan.used_weights()
    names = [name for name, value in zip(weights, plan.weights, strict=True) if value in used]
    plan.keep_weights(used)
    skeleton = with_tensors(cell, {name: tensor.new_empty(0) for name, tensor in weights.items()})
    return plan, names, skeleton


def _check_drive(cell: Any) -> None:
    """A drive that looks at other steps, or samples, cannot be computed step by step."""
    like = cell.like
    x = torch.rand(2, 3, cell.input_size, dtype=like.dtype, device=like.device)
    with torch.no_grad():
        whole, steps = cell.drive(x), [cell.drive(step) for step in x]
    tensors = whole if isinstance(whole, tuple) else (whole,)
    for k, tensor in enumerate(tensors):
        alone = torch.stack([s[k] if isinstance(whole, tuple) else s for s in steps])
        if tensor.shape != alone.shape or not torch.allclose(tensor, alone, rtol=1e-3, atol=1e-5, equal_nan=True):
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
    view.__dict__.update(module.__dict__)
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

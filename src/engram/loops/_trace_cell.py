"""Trace a cell's step, on copies of its weights, so that the cell is not changed.

Every trace has other numbers, and the third has the opposite sign of the first. So a step that reads numbers in a way
that torch does not show (``tolist``), counts its calls, or treats small batches differently does something else in one
of the traces, and is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

from engram.errors import DTypeError, ShapeError
from engram.loops._export import in_form
from engram.loops._fingerprint import SIMPLE
from engram.loops._fork_lock import ForkLock
from engram.loops._lower import Lowered, lower
from engram.loops._module_views import tensors_of, with_tensors
from engram.loops._plan import make_plan
from engram.loops._trace import BATCHES, CannotCompile, Record, check_state, compare, fresh, record
from engram.state import each, parts

_lock = ForkLock()


@contextmanager
def undisturbed(reference: Tensor) -> Iterator[None]:
    """A block for a trace: it always has numbers and gradients, ignores other hooks and modes, leaves torch's random
    numbers as they were, and uses one thread, for further threads would not survive a fork."""
    devices, threads = [reference.device] if reference.device.type == "cuda" else [], torch.get_num_threads()
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


@dataclass(frozen=True)
class Traced:
    """The step of a cell on one row, and how it is called."""

    lowered: Lowered
    used: frozenset[int]
    """The weights that the step or its gradient reads, as values."""
    names: list[str]
    """Their names in the cell."""
    with_drive: bool
    """Whether the loop is given the input of the layer; else what ``cell.drive`` makes of it."""
    several: bool
    """Whether what ``cell.drive`` gives to the loop is a tuple."""
    skeleton: Any
    """The cell without numbers: its step can be called with other weights."""


def trace(cell: Any, width: int) -> Traced:
    """Trace a cell, together with its drive if that treats each step alone."""
    if any(field.grows for field in parts(cell.fields())):
        raise CannotCompile("a field of the state grows with time")
    try:
        return _traced(cell, width, with_drive=True)
    except CannotCompile:
        return _traced(cell, width, with_drive=False)


def _traced(cell: Any, width: int, with_drive: bool) -> Traced:
    weights = tensors_of(cell)
    records, view, reference = [], cell, fresh(cell.reference_weight)
    inputs = [torch.randn(1, batch, width, dtype=reference.dtype, device=reference.device) for batch in BATCHES]
    states = [each(_random_state, cell.initial_state(batch)) for batch in BATCHES]
    tried = [(inputs[0], states[0]), (inputs[1], states[1]), (-inputs[0], each(_negated, states[0]))]
    for x, state in tried:  # one view made from the other, so that a cell that counts its steps is noticed
        leaves = {name: fresh(tensor) for name, tensor in weights.items()}
        view = with_tensors(view, leaves)
        found, several = _recorded(view, x, state, list(leaves.values()), with_drive)
        records.append(found)
    compare(records[0], records[1])
    compare(records[0], records[2], exactly=True)
    if with_drive:
        _check_drive(view, width)
    lowered = lower(*records[:2])
    used = make_plan(lowered).used_weights()
    names = [name for name, value in zip(weights, lowered.weights, strict=True) if value in used]
    skeleton = with_tensors(cell, {name: tensor.new_zeros(()).expand(tensor.shape) for name, tensor in weights.items()})
    return Traced(lowered, frozenset(used), names, with_drive, several, skeleton)


def tensors_read(cell: Any, width: int) -> tuple[str, ...]:
    """The names of the tensors that the step and the output of a cell read: of a cell that cannot be compiled, too.

    Those that have a gradient; integers, which have none, are all taken to be read.
    """
    with undisturbed(cell.reference_weight), torch.enable_grad():
        built = cell.with_built_weights()
        leaves = {name: fresh(tensor) for name, tensor in tensors_of(built).items()}
        view, reference = with_tensors(built, leaves), built.reference_weight
        drive = view.drive(torch.randn(1, 2, width, dtype=reference.dtype, device=reference.device))
        given = tuple(d[0].detach() for d in drive) if isinstance(drive, tuple) else drive[0].detach()
        new = view.step(given, each(_random_state, built.initial_state(2)))
        made = [tensor for tensor in (view.output(new), *parts(new)) if tensor.requires_grad]
        real = [name for name, leaf in leaves.items() if leaf.requires_grad]
        grads = torch.autograd.grad([t.abs().sum() for t in made], [leaves[name] for name in real], allow_unused=True)
    unread = {name for name, grad in zip(real, grads, strict=True) if grad is None}
    return tuple(name for name in leaves if name not in unread)


def _recorded(view: Any, x: Tensor, state: Any, weights: list[Tensor], with_drive: bool) -> tuple[Record, bool]:
    """What a step does on one batch, and whether its drive is a tuple of tensors."""
    drives, several = [fresh(x[0])], False
    if not with_drive:
        drive = view.drive(x)
        several = isinstance(drive, tuple)
        drives = [fresh(d[0]) for d in (drive if several else (drive,))]
    before = _simple_attributes(view)

    def step(drives: list[Tensor], state: Any) -> Any:
        given = view.drive(drives[0]) if with_drive else tuple(drives) if several else drives[0]
        new = view.step(given, state)
        check_state(new, state)
        new = in_form(parts(new), state)
        return view.output(new), new

    try:
        found = record(step, drives, state, weights)
    except (ShapeError, DTypeError) as error:
        raise type(error)(f"{error} ({_location(view)})") from error
    if changed := [name for name, value in _simple_attributes(view).items() if before.get(name) != value]:
        raise CannotCompile(f"the step sets self.{changed[0]}", _location(view))
    return found, several


def _random_state(field: Tensor) -> Tensor:
    """A state with random numbers: a step that branches on them, unseen by torch, does something else at each trace."""
    leaf = fresh(field)
    with torch.no_grad():
        return leaf.normal_() if leaf.requires_grad else leaf


def _negated(field: Tensor) -> Tensor:
    """The other sign, for a step that asks for it."""
    return fresh(-field) if field.requires_grad else field


def _simple_attributes(view: Any) -> dict[str, str]:
    """The simple attributes of a cell, to be compared: a step that counts changes one."""
    return {name: repr(value) for name, value in vars(view).items() if isinstance(value, SIMPLE) and name != "_changes"}


def _location(cell: Any) -> str:
    """Where the step is written."""
    code = getattr(type(cell).step, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _check_drive(cell: Any, width: int) -> None:
    """A drive that looks at other steps, or samples, cannot be computed step by step."""
    reference = cell.reference_weight
    x = torch.rand(9, 3, width, dtype=reference.dtype, device=reference.device)
    close = 1e4 * torch.finfo(reference.dtype).eps  # another order of sums, never another formula
    with torch.no_grad():
        whole, steps = cell.drive(x), [cell.drive(step) for step in x]
    tensors = whole if isinstance(whole, tuple) else (whole,)
    for k, tensor in enumerate(tensors):
        alone = torch.stack([s[k] if isinstance(whole, tuple) else s for s in steps])
        if tensor.shape != alone.shape or not torch.allclose(tensor, alone, rtol=close, atol=close, equal_nan=True):
            raise CannotCompile("drive() does not treat each step alone")

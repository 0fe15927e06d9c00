"""What goes on around a computation: transforms and traces that must see into it, autocast that must not touch it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._functorch import pyfunctorch
from torch._functorch.vmap import vmap_increment_nesting
from torch.autograd import forward_ad

_together = False


def transformed() -> bool:
    """Whether a torch.func transform or forward-mode differentiation is under way: they take torch's own operations
    only, neither operators of torch.library nor recomputation."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def observed() -> bool:
    """Whether somebody follows the operations and not only their numbers: torch.compile, export, a trace, torch.func,
    forward-mode differentiation, or a dispatch mode (fake tensors, counters)."""
    return (
        torch.compiler.is_compiling()
        or transformed()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
    )


def without_autocast(reference: Tensor) -> AbstractContextManager[object]:
    """A block in which autocast is off on the device of a tensor: what runs there keeps the dtype of the weights."""
    kind = reference.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


@contextmanager
def together(members: int) -> Iterator[Callable[[Tensor], Tensor]]:
    """A block under ``torch.func.vmap`` for several models that are trained as one: their loops, products and maps run
    in forms of their own. For the whole process.

    Gives the function that makes a stacked tensor ``(E, ...)`` one tensor of each member; :func:`leave` is its inverse.
    """
    global _together
    before, _together = _together, True
    try:
        with vmap_increment_nesting(members, "error") as level:
            yield lambda stacked: torch._C._functorch._add_batch_dim(stacked, 0, level)
    finally:
        _together = before


def leave(tensor: Tensor) -> Tensor:
    """The stacked tensor ``(E, ...)`` of each member's tensor, to be taken out of :func:`together`."""
    (interpreter,) = torch._C._functorch.get_interpreter_stack()
    level, count = interpreter.level(), torch._C._functorch.CVmapInterpreterPtr(interpreter).batchSize()
    return torch._C._functorch._remove_batch_dim(tensor, level, count, 0)


def members() -> bool:
    """Whether several models are computed at once: within :func:`together`, under one vmap and nothing else."""
    if not _together or forward_ad._current_level >= 0:
        return False
    stack = torch._C._functorch.get_interpreter_stack()
    return stack is not None and len(stack) == 1 and stack[0].key() == torch._C._functorch.TransformType.Vmap


def on_stacks(function: Callable[..., Any], *tensors: Tensor | None) -> Any:
    """Where :func:`members` holds: a function of the members' stacked tensors, ``(E, ...)`` each, called once, outside
    of vmap; a tensor that is the same for all is expanded. It returns a stacked tensor or a tuple of such.

    What a ``vmap`` rule of an autograd.Function does, at a tenth of the time.
    """
    level = torch._C._functorch.get_interpreter_stack()[0].level()
    stacked = [_stacked(tensor, level) for tensor in tensors]
    count = next(len(tensor) for tensor, own in stacked if own and tensor is not None)
    given = [tensor if own or tensor is None else tensor.expand(count, *tensor.shape) for tensor, own in stacked]
    with pyfunctorch.temporarily_pop_interpreter_stack():
        found = function(*given)
    if isinstance(found, Tensor):
        return torch._C._functorch._add_batch_dim(found, 0, level)
    return tuple(torch._C._functorch._add_batch_dim(tensor, 0, level) for tensor in found)


def _stacked(tensor: Tensor | None, level: int) -> tuple[Tensor | None, bool]:
    """The tensor of all members with these along its first axis, if it is one of many."""
    if tensor is None or not torch._C._functorch.is_batchedtensor(tensor):
        return tensor, False
    whole, axis = torch._C._functorch.get_unwrapped(tensor), torch._C._functorch.maybe_get_bdim(tensor)
    return whole if axis == 0 else whole.movedim(axis, 0), True


def per_member(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Where :func:`members` holds: a function of each member's tensors, called for one member after the other, as if
    each were alone. At least one of the tensors differs from member to member."""

    def of_all(*stacked: Tensor) -> Tensor:
        return torch.stack([function(*own) for own in zip(*(tensor.unbind(0) for tensor in stacked), strict=True)])

    found: Tensor = on_stacks(of_all, *tensors)
    return found

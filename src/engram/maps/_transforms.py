"""What goes on around a computation: transforms and traces that must see into it, autocast that must not touch it."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad


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

"""What goes on around a computation: transforms and traces that must see into it, autocast that must not touch it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
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
def together() -> Iterator[None]:
    """A block in which one ``torch.func.vmap`` means several models that are trained as one, each with numbers of its
    own: their loops, products and maps then run member by member in their fast forms. For the whole process."""
    global _together
    before, _together = _together, True
    try:
        yield
    finally:
        _together = before


def members() -> bool:
    """Whether several models are computed at once: within :func:`together`, under one vmap and nothing else."""
    if not _together or forward_ad._current_level >= 0:
        return False
    stack = torch._C._functorch.get_interpreter_stack()
    return stack is not None and len(stack) == 1 and stack[0].key() == torch._C._functorch.TransformType.Vmap


class _PerMember(torch.autograd.Function):
    @staticmethod
    def forward(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: Callable[..., Tensor], *tensors: Tensor) -> tuple[Tensor, int]:
        given = [
            (tensor,) * info.batch_size if dim is None else tensor.unbind(dim)
            for tensor, dim in zip(tensors, in_dims[1:], strict=True)
        ]
        return torch.stack([function(*own) for own in zip(*given, strict=True)]), 0


def per_member(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Where :func:`members` holds: a function of each member's tensors, called for one member after the other, as if
    each were alone. At least one of the tensors differs from member to member."""
    found: Tensor = _PerMember.apply(function, *tensors)
    return found

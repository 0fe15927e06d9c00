"""A block after which a module is as it was before."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, its weights frozen; after the block, left in whatever way, all is as before.

    Kept: the attributes of every submodule (its mode, and a state that it keeps for itself), parameters and buffers and
    their values, requires_grad, gradients, and the state of torch's random generators. Within the block a matrix under
    a map is built once, not once a call.
    """
    attributes = [(space, dict(space)) for part in module.modules() for space in _spaces(part)]
    tensors = [*module.parameters(), *module.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    others = [(tensor.requires_grad, tensor.grad) for tensor in tensors]
    devices = sorted({tensor.device.index or 0 for tensor in tensors if tensor.is_cuda})
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=devices))
        stack.enter_context(parametrize.cached())
        if devices:  # cuDNN has no backward pass in evaluation mode
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        try:
            module.eval().requires_grad_(False)
            yield
        finally:
            for space, before in attributes:
                space.clear()
                space.update(before)
            for tensor, value, (wanted, gradient) in zip(tensors, values, others, strict=True):
                if not torch.equal(tensor.detach(), value):
                    tensor.data.copy_(value)
                tensor.requires_grad_(wanted)
                tensor.grad = gradient


def _spaces(part: nn.Module) -> tuple[dict[str, Any], ...]:
    """Where the names of a module stand: its attributes, its parameters, its buffers (one may be bound anew)."""
    return vars(part), part._parameters, part._buffers

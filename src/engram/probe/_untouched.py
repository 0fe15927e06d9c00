"""A block after which a module is as it was before."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """Within the block the module is in evaluation mode with frozen weights; after it, also after an error, as before.

    Restored are: the attributes of every submodule (its mode, a state that it keeps for itself), parameters and buffers
    and their values, requires_grad, gradients, and the state of torch's random generators.
    """
    tensors = [*module.parameters(), *module.buffers()]
    devices = sorted({tensor.device.index or 0 for tensor in tensors if tensor.is_cuda})
    with ExitStack() as stack:  # goes through all of its callbacks, also if one of them fails
        stack.enter_context(torch.random.fork_rng(devices=devices))
        if devices:  # cuDNN has no backward pass in evaluation mode
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        for tensor in tensors:
            value = None if tensor.is_meta else tensor.detach().clone()
            stack.callback(_restore_tensor, tensor, value, tensor.requires_grad, tensor.grad)
        for part in module.modules():
            stack.callback(setattr, part, "training", part.training)
            for space in _spaces(part):
                stack.callback(_restore_space, space, dict(space))
        module.eval()
        for tensor in tensors:
            if tensor.requires_grad and tensor.is_leaf and not tensor.is_inference():  # which could not be undone
                tensor.requires_grad_(False)
        yield


def _spaces(part: nn.Module) -> list[dict[str, Any]]:
    """Where the names of a module stand: its attributes, its parameters, its buffers (one may be bound anew).

    A module of torch.jit has them outside Python, where none can be bound anew.
    """
    return [space for space in (vars(part), part._parameters, part._buffers) if isinstance(space, dict)]


def _restore_space(space: dict[str, Any], before: dict[str, Any]) -> None:
    space.clear()
    space.update(before)


def _restore_tensor(tensor: Tensor, value: Tensor | None, wanted: bool, gradient: Tensor | None) -> None:
    if tensor.requires_grad != wanted:
        tensor.requires_grad_(wanted)
    if tensor.grad is not gradient:
        tensor.grad = gradient
    if value is not None and not torch.equal(tensor.detach(), value):
        tensor.data.copy_(value)

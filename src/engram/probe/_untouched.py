"""A block after which a module is as it was before."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.nn.utils import parametrize


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, its weights frozen; after the block, left in whatever way, all is as before.

    Kept: the mode of every submodule, the values of parameters and buffers, requires_grad, gradients, and the state of
    torch's random generators. Within the block a matrix under a map is built once, not once a call.
    """
    modes = [(part, part.training) for part in module.modules()]
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
            for part, training in modes:
                part.training = training
            for tensor, value, (wanted, gradient) in zip(tensors, values, others, strict=True):
                if not torch.equal(tensor.detach(), value):
                    tensor.data.copy_(value)
                tensor.requires_grad_(wanted)
                tensor.grad = gradient

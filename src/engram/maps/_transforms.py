"""Where torch must see into what is computed."""

import torch
from torch.autograd import forward_ad


def transformed() -> bool:
    """Whether a torch.func transform or forward-mode differentiation is under way: they take torch's own operations
    only, neither operators of torch.library nor recomputation."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0

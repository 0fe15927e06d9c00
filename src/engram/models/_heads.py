"""Heads: from the output of a core, ``(T, B, G)`` or one answer ``(B, G)``, to ``(S, B, C)`` as the task asks."""

import torch
from torch import Tensor, nn

from engram.loops import linear
from engram.tasks import Task


class EveryStep(nn.Linear):
    """y_t = W_o h_t + b_o at every step: ``(T, B, G)`` to ``(T, B, C)``."""

    def select(self, output: Tensor) -> Tensor:
        """What the linear map is applied to."""
        return output

    def forward(self, output: Tensor) -> Tensor:
        return linear(self.select(output), self.weight, self.bias)


class LastStep(EveryStep):
    """y = W_o h_T + b_o: ``(T, B, G)``, or ``(B, G)`` of a core that gives its last step only, to ``(1, B, C)``.

    Args:
        bidirectional: half of the features are of a way back, which ends at the first step.
    """

    def __init__(self, features: int, outputs: int, bias: bool = True, *, bidirectional: bool = False) -> None:
        super().__init__(features, outputs, bias)
        self.bidirectional = bidirectional

    def select(self, output: Tensor) -> Tensor:
        if output.dim() == 2:
            return output[None]
        if not self.bidirectional:
            return output[-1:]
        ahead, back = output.chunk(2, -1)
        return torch.cat([ahead[-1:], back[:1]], -1)


class MeanOverTime(EveryStep):
    """y = W_o mean_t h_t + b_o: ``(T, B, G)``, or one answer ``(B, G)``, to ``(1, B, C)``."""

    def select(self, output: Tensor) -> Tensor:
        return output[None] if output.dim() == 2 else output.mean(0, keepdim=True)


class OwnAnswer(nn.Module):
    """No read-out: the core answers itself, ``(B, C)`` or ``(T, B, C)``, of which every step or the last is asked."""

    def __init__(self, every_step: bool) -> None:
        super().__init__()
        self.every_step = every_step

    def forward(self, output: Tensor) -> Tensor:
        if output.dim() == 2:
            return output[None]
        return output if self.every_step else output[-1:]


Head = EveryStep | OwnAnswer


def make_head(task: Task, core: nn.Module, features: int | None, bias: bool = True) -> Head:
    """The head between a core and a task.

    At every step, or at the last one, as ``task.answer`` says; a core with the attribute ``readout = "mean"`` is
    averaged over time in place of its last step.

    Args:
        features: G, or None for a core that answers itself.
        bias: whether the linear read-out has one.
    """
    if features is None:
        return OwnAnswer(task.answer == "every")
    if task.answer == "every":
        return EveryStep(features, task.output_size, bias)
    if getattr(core, "readout", "last") == "mean":
        return MeanOverTime(features, task.output_size, bias)
    bidirectional = bool(getattr(core, "bidirectional", False))
    return LastStep(features, task.output_size, bias, bidirectional=bidirectional)

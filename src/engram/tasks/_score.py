"""Losses and metrics that several tasks share."""

import torch.nn.functional as F
from torch import Tensor

from engram.loops import cross_entropies
from engram.tasks._task import Batch


def cross_entropy(outputs: Tensor, batch: Batch) -> Tensor:
    """In nats, averaged over all S steps, masked or not."""
    return F.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())


def cross_entropy_of_each(outputs: Tensor, batch: Batch) -> Tensor:
    """:func:`cross_entropy` of each member of ``(E, S, B, C)``: ``(E)``."""
    return cross_entropies(outputs.flatten(1, 2), batch.targets.flatten(1))


def masked_cross_entropy(outputs: Tensor, batch: Batch) -> Tensor:
    """In nats, averaged over the masked steps."""
    return F.cross_entropy(outputs[batch.mask], batch.targets[batch.mask])


def masked_mse(outputs: Tensor, batch: Batch) -> Tensor:
    """The mean square error over the masked steps and all components."""
    return (outputs - batch.targets)[batch.mask].square().mean()


def accuracy(outputs: Tensor, batch: Batch) -> float:
    """The share of the masked steps whose likeliest class is right."""
    right = outputs.argmax(-1) == batch.targets
    return float(right[batch.mask].float().mean())

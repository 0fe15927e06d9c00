"""Loss and metrics over a whole split."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engram.state import State, detached
from engram.tasks import Batch, Batches, Task


def place(batch: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    """A batch on this device; numbers (not classes) in this dtype."""
    inputs, targets, mask = (
        part.to(device, dtype if part.is_floating_point() else part.dtype, non_blocking=True) for part in batch
    )
    return Batch(inputs, targets, mask)


def carry_on(network: object, state: State) -> State:
    """What goes on into the next window: what the network's own ``carry`` keeps of a state, without a history."""
    if state is None:
        return None
    carry = getattr(network, "carry", None)
    return carry(state) if callable(carry) else detached(state)


@torch.no_grad()
def evaluate_split(
    network: Callable[..., tuple[Tensor, State]],
    task: Task,
    batches: Batches,
    device: torch.device,
    dtype: torch.dtype,
    after_batch: Callable[[int], None] = lambda k: None,
) -> dict[str, float]:
    """``loss`` and the task's metrics, averaged over the scored steps of one epoch of ``batches``.

    Text runs in windows as in training: what the network carries on, and no more, comes into the next one.

    ``after_batch`` is called with the number of batches done: for progress, or to raise and leave.
    """
    training = isinstance(network, nn.Module) and network.training
    if isinstance(network, nn.Module):
        network.eval()
    sums: dict[str, float] = {}
    weight, state = 0, None
    try:
        for k in range(batches.per_epoch):
            batch = place(batches[k], device, dtype)
            outputs, state = network(batch.inputs, state)
            state = carry_on(network, state) if batches.carries else None
            scores = {"loss": float(task.loss(outputs, batch)), **task.metrics(outputs, batch)}
            count = int(batch.mask.sum())
            weight += count
            for name, score in scores.items():
                sums[name] = sums.get(name, 0.0) + count * score
            after_batch(k + 1)
    finally:
        if isinstance(network, nn.Module):
            network.train(training)
    return {name: total / weight for name, total in sums.items()}

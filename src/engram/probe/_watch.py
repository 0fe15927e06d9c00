"""What is measured while a network trains."""

from typing import Any

import torch

from engram.probe._gradient import GradientReach
from engram.probe._matrices import recurrent_matrices
from engram.probe._profile import SHORTEST, profile
from engram.tasks import Task, seeded

STEPS, ROWS = 100, 2
"""Of the test sequences."""


def watch(network: Any, task: Task) -> dict[str, float]:
    """A few numbers about a network in training, in the time of a few steps; the network is left as it was.

    ``engram train --probe-every N`` writes them to metrics.jsonl, in lines with the split "probe". horizon: the lag
    from which on less than 1 % of the gradient of the last output is left, over the first 100 steps of two test
    sequences (100 if it reaches further). reach: the share of the largest norm that is left at the last lag. Both need
    sequences of at least 8 steps. Of the first layer's recurrent matrix W, if there is one: radius, the largest modulus
    of an eigenvalue; norm, the largest singular value; drift, the largest entry of W^* W - I.

    Args:
        network: a network of :mod:`engram.models`.
        task: the task that it learns.
    """
    with torch.random.fork_rng(devices=()):
        inputs = task.sample(ROWS, seeded(0, "probe")).inputs
        if task.answer == "every":
            inputs = inputs[:STEPS]  # one that answers at the end may need all steps
        data = inputs if network.vocabulary else inputs.to(network.dtype)
        reach = None
        if len(inputs) >= SHORTEST:
            found = profile(network, length=len(inputs), batch_first=False, data=data, parts=("gradient_reach",))
            reach = found.parts["gradient_reach"]
    numbers: dict[str, float] = {}
    if isinstance(reach, GradientReach):
        largest = max(reach.norms)
        numbers["horizon"] = float(len(reach.norms) if reach.horizon is None else reach.horizon)
        numbers["reach"] = reach.norms[-1] / largest if largest else 0.0
    for _, weight, *_ in recurrent_matrices(network)[:1]:
        eye = torch.eye(len(weight), dtype=weight.dtype)
        numbers["radius"] = float(torch.linalg.eigvals(weight).abs().max())
        numbers["norm"] = float(torch.linalg.matrix_norm(weight, 2))
        numbers["drift"] = float((weight.mH @ weight - eye).abs().max())
    return numbers

"""Why a network fails on a task, as far as the probe can tell in a few seconds."""

from typing import Any

from engram.errors import EngramError
from engram.probe import profile
from engram.tasks import Task, seeded
from engram.train import RunDirectory, load_network

LONGEST, SEQUENCES = 1000, 2
PARTS = ("gradient_reach", "lyapunov")


def verdict(run: RunDirectory, task: Task, *, best: bool = True) -> str:
    """What the probe says of the network of a run on sequences of this task, in one or two sentences."""
    network: Any = load_network(run.folder, best=best, allow=run.allow)
    inputs = task.sample(SEQUENCES, seeded(0, "verdict")).inputs[:LONGEST]
    data = inputs if network.vocabulary else inputs.to(network.dtype)
    try:
        found = profile(network, length=len(inputs), parts=PARTS, batch_first=False, data=data)
    except EngramError as error:  # images, or a model that does not hand out its state
        return f"The probe cannot tell why: {error}"
    return "The probe: " + " ".join(part.words() for part in found.parts.values())

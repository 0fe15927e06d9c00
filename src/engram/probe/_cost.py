"""What a profile will cost, told before it starts."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from engram.probe._capacity import LEAST, MOST, PAIRS, WIDEST, reading_steps
from engram.probe._gradient import EXACT, PROBES
from engram.probe._linear import LARGEST, paths
from engram.probe._reached import DIRECTIONS
from engram.probe._subject import Subject
from engram.probe._tangents import push

FOLLOWED = 16
"""Lyapunov exponents, the largest."""
FLOPS = 5e9
"""Of matrix products in float64, a second."""


@dataclass(frozen=True)
class Cost:
    """Passes over whole sequences, single steps, and seconds as one measured call foretells them."""

    passes: int
    steps: int
    seconds: float

    def words(self) -> str:
        return (
            f"{self.passes:,} passes over whole sequences and {self.steps:,} single steps, about {self.seconds:.1f} s"
        )


def cost(subject: Subject, inputs: Tensor, parts: tuple[str, ...]) -> Cost:
    """From one measured call of each kind: a pass, a pass with its gradient, a step, a step with its tangents.

    A pass over many rows is taken as a + b rows, from one sequence and from the batch.
    """
    length, batch = inputs.shape[:2]
    steps, size = length if subject.can_step else 0, subject.state_size
    with subject:
        small, whole = _timed(lambda: subject.outputs(inputs[:, :1])), _timed(lambda: subject.outputs(inputs))
        back = _timed(lambda: _backward(subject, inputs)) if "gradient_reach" in parts else 0.0
        call = _timed(lambda: subject.outputs(inputs[:1])) if steps else 0.0
        follow = _timed(lambda: _tangents(subject, inputs)) if steps and "lyapunov" in parts else 0.0
    slope = max(0.0, whole - small) / max(1, batch - 1)

    def run(rows: float) -> float:
        return small + slope * rows

    probes = subject.output_size if subject.output_size <= EXACT else PROBES
    read = min(size or subject.output_size, WIDEST)
    rows, times = 2 * min(max(LEAST, 20 * read), MOST), reading_steps(length)
    algebra = 2.0 * rows * read * (read + length * subject.input_size + PAIRS) / FLOPS
    table = {
        "gradient_reach": (1 + probes, 2 * steps, probes * back + 6 * steps * call),
        "fisher_memory": (2, 2, 4 * call + run(2 * size) / length) if steps else (0, 0, 0.0),
        "memory_capacity": (1, times if steps else 0, run(rows / times) + times * call + algebra),
        "spectrum": (0, 0, 0.03 * (size if size <= LARGEST else DIRECTIONS)),
        "lyapunov": (0, steps, steps * follow),
        "separation_rank": (1, 0, run(729) * 6 / length),
        "structure": (0, 0, 0.0),
    }
    if steps and size > LARGEST:  # products with the Jacobian, one by one from the right, all at once from the left
        table["fisher_memory"] = (0, DIRECTIONS + 2 * steps, 3 * (DIRECTIONS + steps) * call + 3 * run(DIRECTIONS))
    asked = [table[part] for part in parts]
    return Cost(sum(row[0] for row in asked), sum(row[1] for row in asked), sum(row[2] for row in asked))


def _backward(subject: Subject, inputs: Tensor) -> None:
    """One forward and one backward pass, if there can be one."""
    with torch.enable_grad(), suppress(Exception):  # what goes wrong is said by the part itself
        x = inputs.detach().clone().requires_grad_()
        torch.autograd.grad(subject.outputs(x)[-1].sum(), x)


def _tangents(subject: Subject, inputs: Tensor) -> None:
    """One step with the small differences that are followed."""
    first = paths(subject, inputs)[:1]
    with suppress(Exception):
        state = subject.step(None, first[0]).detach()
        frame = torch.eye(subject.state_size, min(FOLLOWED, subject.state_size)).to(state)
        push(subject.step, state, first[0], frame.expand(len(state), -1, -1))


def _timed(call: Callable[[], object]) -> float:
    with torch.no_grad():
        call()  # the first one may build things
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

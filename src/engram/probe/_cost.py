"""What a profile will cost, said before it starts."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from engram.probe._subject import Subject

FLOPS = 5e9
"""Floating point operations per second of a product of matrices in float64."""


@dataclass(frozen=True)
class Cost:
    """What a part of the probe will take."""

    passes: int = 0
    """Over whole sequences."""
    steps: int = 0
    """Calls of a single step."""
    seconds: float = 0.0
    """For all of these."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.passes + other.passes, self.steps + other.steps, self.seconds + other.seconds)

    def words(self) -> str:
        return (
            f"{self.passes:,} passes over whole sequences and {self.steps:,} single steps, about {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Timings:
    """Seconds of the calls that parts are made of. Each is timed when somebody asks, once.

    subject, inputs: the model, and the sequences ``(T, B, D)`` that it will read.
    """

    subject: Subject
    inputs: Tensor

    @cached_property
    def step(self) -> float:
        """One step of all sequences; 0 where the state cannot be passed in."""
        return seconds_of(lambda: self.subject.outputs(self.inputs[:1])) if self.subject.can_step else 0.0

    @cached_property
    def backward(self) -> float:
        """A pass over the sequences and its gradient."""
        return seconds_of(lambda: _backward(self.subject, self.inputs))

    def forward(self, rows: float) -> float:
        """A pass over this many sequences, a + b rows: from a pass over one and a pass over the batch."""
        return self._first + self._slope * (rows - 1)

    @cached_property
    def _first(self) -> float:
        return seconds_of(lambda: self.subject.outputs(self.inputs[:, :1]))

    @cached_property
    def _slope(self) -> float:
        whole = seconds_of(lambda: self.subject.outputs(self.inputs))
        return max(0.0, whole - self._first) / max(1, self.inputs.shape[1] - 1)


def seconds_of(call: Callable[[], object]) -> float:
    """The second call is timed: the first one may compile or allocate."""
    with torch.no_grad():
        call()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def _backward(subject: Subject, inputs: Tensor) -> None:
    with torch.enable_grad(), suppress(Exception):  # what fails here fails again in the part, which says so
        x = inputs.detach().clone().requires_grad_()
        torch.autograd.grad(subject.outputs(x)[-1].sum(), x)

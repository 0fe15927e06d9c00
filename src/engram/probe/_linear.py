"""A model near one of its states: W and v of its step, for the measures that are of matrices."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.errors import OptionError
from engram.probe._fisher_steps import linearise
from engram.probe._reached import Reached, reached
from engram.probe._subject import Subject

LARGEST = 512
"""The most numbers of a state of which the Jacobian is made; of more, what a signal reaches first."""

WIDE = 256
"""Above, small differences are followed along one sequence only."""


def paths(subject: Subject, inputs: Tensor) -> Tensor:
    """The sequences of ``inputs`` ``(T, B, D)`` along which Lyapunov exponents are taken."""
    return inputs if subject.state_size <= WIDE else inputs[:, :1]


@dataclass(frozen=True)
class Tangent:
    """h -> W h + v s near a state; ``linear`` tells that it is so everywhere.

    matrix: W = d h' / d h ``(N, N)``. signal: v ``(N,)``, of all inputs alike. radius: the spectral radius of W.
    """

    matrix: Tensor
    signal: Tensor
    linear: bool
    radius: float


def tangent(subject: Subject, inputs: Tensor) -> Tangent:
    """The Jacobian of a step at the state that the first sequence of ``inputs`` ``(T, B, D)`` leads to.

    The step is taken as linear if the Jacobian at another state, of the second half alone, is the same.
    """
    one = inputs[:, :1]
    with subject:
        far, near = (subject.advance(None, part)[1].detach()[0] for part in (one, one[len(one) // 2 :]))
        matrix, signal = linearise(subject.step, far, one[-1, 0])
        other, _ = linearise(subject.step, near * 0.5, one[0, 0])
    scale = float(matrix.abs().max()) + 1e-30
    linear = float((matrix - other).abs().max()) < 1e-4 * scale
    radius = float(torch.linalg.eigvals(matrix.double()).abs().max())
    return Tangent(matrix.detach(), signal.detach(), linear, radius)


def sampled(subject: Subject, inputs: Tensor) -> Reached:
    """Of a state too large for :func:`tangent`, at the same state: the directions that a signal reaches first."""
    one = inputs[:, :1]
    with subject:
        return reached(subject.step, subject.advance(None, one)[1].detach()[0], one[-1, 0])


def check_state(subject: Subject) -> None:
    """A model without a state to hand in is refused."""
    if not subject.can_step:
        raise OptionError(f"the state of this model cannot be handed in: {subject.no_state}")

"""What every part of a profile is given."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from engram.probe._cost import Timings
from engram.probe._linear import LARGEST_JACOBIAN, Tangent, linearise
from engram.probe._reached import Reached, reached
from engram.probe._subject import Subject

Loss = Callable[[Tensor], Tensor]
"""From outputs ``(S, B, C)``, time first, to a number."""


@dataclass(frozen=True)
class Setup:
    """A model with the inputs that it is measured on; what several parts need is computed once.

    Attributes:
        subject: the model, time first, its state one vector (see :class:`engram.probe.Subject`).
        inputs: ``(T, B, D)``.
        loss: of the outputs ``(S, B, C)``; None: half the squared last output.
        seed: for whatever a part samples.
        notes: what a reader of the numbers should know; parts add to it.
    """

    subject: Subject
    inputs: Tensor
    loss: Loss | None = None
    seed: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def length(self) -> int:
        """T, the steps of the inputs."""
        return len(self.inputs)

    @cached_property
    def timings(self) -> Timings:
        """How long the model's calls take."""
        return Timings(self.subject, self.inputs)

    @cached_property
    def jacobian(self) -> Tangent | Reached:
        """The Jacobian of a step, at the state that the first sequence leads to.

        A state of more than 512 numbers is too large for it: the directions that a signal reaches first stand for all.
        The model is taken as linear if the Jacobian at another state (half of that which the second half of the
        sequence leads to) is the same.
        """
        self.subject.require_state()
        subject, one = self.subject, self.inputs[:, :1]
        with subject:
            state = subject.advance(None, one)[1].detach()[0]
            if subject.state_size > LARGEST_JACOBIAN:
                return self._reached(state, one[-1, 0])
            matrix, signal = linearise(subject.step, state, one[-1, 0])
            other = subject.advance(None, one[self.length // 2 :])[1].detach()[0]
            there, _ = linearise(subject.step, 0.5 * other, one[0, 0])
        linear = float((matrix - there).abs().max()) < 1e-4 * (float(matrix.abs().max()) + 1e-30)
        return Tangent(matrix.detach(), signal.detach(), linear)

    def _reached(self, state: Tensor, input: Tensor) -> Reached:
        found = reached(self.subject.step, state, input)
        self.notes.append(
            f"a state of {found.size:,} numbers is too large for its Jacobian: Fisher memory and spectrum are of the "
            f"{found.basis.shape[1]} directions that a signal reaches first, and Fisher memory is a lower bound"
        )
        return found

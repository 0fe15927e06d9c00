"""All measures of one model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import EngramError, ShapeError, check_choice, check_size
from engram.figures import save_figure
from engram.probe._caller import said_by
from engram.probe._capacity import memory_capacity
from engram.probe._cost import FOLLOWED, Cost, cost
from engram.probe._fisher import FisherMemory, fisher_memory
from engram.probe._gradient import GradientReach, Loss, gradient_reach
from engram.probe._linear import LARGEST, Tangent, check_state, paths, sampled, tangent
from engram.probe._lyapunov import Lyapunov, lyapunov
from engram.probe._page import figure_of, heading
from engram.probe._plain import plain
from engram.probe._reached import Reached
from engram.probe._separation import separation_rank
from engram.probe._spectrum import Spectrum, spectrum
from engram.probe._structure import learned_structure
from engram.probe._subject import Subject
from engram.probe._summary import summary

PARTS = (
    "gradient_reach",
    "fisher_memory",
    "memory_capacity",
    "spectrum",
    "lyapunov",
    "separation_rank",
    "structure",
)


SHORTEST = 8
"""Fewer steps tell nothing of how a gradient decays."""


@dataclass(frozen=True)
class Profile:
    """What :func:`profile` found: for each part its result, or the reason why there is none, as text."""

    name: str
    model: str
    length: int
    parts: dict[str, Any]
    notes: list[str]
    cost: Cost
    seconds: float
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the parts by name, each an object; one that does not apply is ``{"reason": ...}``."""
        found = {
            name: {"reason": part} if isinstance(part, str) else part.to_dict() for name, part in self.parts.items()
        }
        about = {"name": self.name, "model": self.model, "length": self.length, "seed": self.seed, "notes": self.notes}
        return {**about, **plain(found), "cost": plain(self.cost), "seconds": self.seconds}

    def words(self) -> str:
        """A paragraph for people, one line a part."""
        lines = [f"{self.name} ({self.model}), {self.length} steps", *(f"! {note}" for note in self.notes)]
        for name, part in self.parts.items():
            lines.append("- " + (f"{heading(name)}: not measured: {part}" if isinstance(part, str) else part.words()))
        return "\n".join(lines)

    def summary(self) -> dict[str, str]:
        """The number of each part that people quote, to stand beside those of other models."""
        return summary(self.parts)

    def figure(self) -> Any:
        """All parts as panels of one matplotlib Figure."""
        return figure_of(f"{self.name} ({self.model})", self.parts)

    def draw(self, path: Path | str) -> None:
        """The figure as a file, SVG or PNG."""
        save_figure(self.figure(), Path(path))


@dataclass(frozen=True)
class _Measures:
    """The parts, each a method of its name; what several of them need is made once."""

    subject: Subject
    inputs: Tensor
    loss: Loss | None
    seed: int
    notes: list[str] = field(default_factory=list)

    @cached_property
    def tangent(self) -> Tangent | Reached:
        """The Jacobian of a step at the state which the inputs lead to; of a state too large, what a signal reaches."""
        check_state(self.subject)
        if self.subject.state_size <= LARGEST:
            return tangent(self.subject, self.inputs)
        found = sampled(self.subject, self.inputs)
        self.notes.append(
            f"a state of {found.size:,} numbers is too large for its Jacobian: Fisher memory and spectrum are sampled, "
            f"in the {found.basis.shape[1]} directions that a signal reaches first (a lower bound of Fisher memory)"
        )
        return found

    def gradient_reach(self) -> GradientReach:
        return gradient_reach(self.subject, inputs=self.inputs, loss=self.loss, seed=self.seed)

    def _note(self, near: Tangent | Reached, words: str) -> None:
        if isinstance(near, Tangent) and not near.linear:
            self.notes.append(words)

    def fisher_memory(self) -> FisherMemory:
        """Of the tangent; over the length measured where noise would grow without bound."""
        near, length = self.tangent, len(self.inputs)
        self._note(near, "Fisher memory is that of the step linearised at the state which the inputs lead to")
        if isinstance(near, Reached):
            with self.subject:
                return near.fisher_memory(length)
        forever = near.radius < 1 - 1e-6
        return fisher_memory(near.matrix, near.signal, lags=length, steps=None if forever else length)

    def memory_capacity(self) -> Any:
        return memory_capacity(self.subject, lags=len(self.inputs), seed=self.seed)

    def spectrum(self) -> Spectrum:
        """Of the recurrent matrix of the first layer; of a model without one (gates), of its Jacobian."""
        matrix = self.subject.recurrent_matrix()
        if matrix is not None:
            return spectrum(matrix)
        self._note(
            self.tangent,
            "no square recurrent matrix makes up the state: the spectrum is that of the Jacobian of a step there",
        )
        return spectrum(self.tangent.matrix)

    def lyapunov(self) -> Lyapunov:
        subject = self.subject
        check_state(subject)
        with subject:
            along = paths(subject, self.inputs)
            if along.shape[1] < self.inputs.shape[1]:
                self.notes.append(
                    f"of a state of {subject.state_size} numbers Lyapunov exponents are along one sequence"
                )
            state = subject.advance(None, along[:1])[1].detach()
            count = min(subject.state_size, FOLLOWED)
            return lyapunov(subject.step, state, along[1:].transpose(0, 1), count=count)

    def separation_rank(self) -> Any:
        return separation_rank(self.subject, seed=self.seed)

    def structure(self) -> Any:
        return learned_structure(self.subject)


def profile(
    module: nn.Module,
    *,
    input_size: int | None = None,
    length: int = 200,
    parts: Sequence[str] = PARTS,
    seed: int = 0,
    batch: int = 4,
    batch_first: bool | None = None,
    data: Tensor | None = None,
    loss: Loss | None = None,
    name: str | None = None,
    before: Callable[[Cost], None] = lambda cost: None,
    each: Callable[[str], None] = lambda part: None,
) -> Profile:
    """How much memory has this model, how far back, and where does it lose it?

    Nothing in the model is changed. Parts that do not apply (a model that does not hand out its state, a part that is
    too large) hold the reason. Where the inputs matter they are ``data``, or drawn without a pattern.

    Args:
        module: any model that maps sequences to outputs (see :class:`Subject`).
        input_size: D, where the module does not say it.
        length: T, the steps looked back.
        parts: some of :data:`PARTS`.
        seed, batch: of the sequences drawn.
        batch_first: whether it reads ``(B, T, D)``; found out unless given.
        data: real inputs, in the order of dimensions that the module reads: numbers, or whole numbers for symbols.
        loss: of the outputs ``(S, B, C)``, time first, for the gradient of the states.
        name: what the model is called in words and pictures.
        before: is told the cost before anything is measured.
        each: is told the name of each part as it begins.
    """
    parts = tuple(dict.fromkeys(parts))
    for part in parts:
        check_choice("part", part, PARTS)
    check_size("length", length, least=SHORTEST)
    subject = Subject(module, input_size, batch_first=batch_first, length=length)
    inputs = _data(subject, data) if data is not None else None
    if inputs is None:
        steps = subject.fixed_length or length
        inputs = subject.draw(steps, check_size("batch", batch), torch.Generator().manual_seed(seed))
    measures = _Measures(subject, inputs, loss, seed, list(subject.notes))
    found: dict[str, Any] = {}
    begin = time.perf_counter()
    expected = cost(subject, inputs, parts)
    before(expected)
    for part in parts:
        each(part)
        try:
            found[part] = getattr(measures, part)()
        except EngramError as error:
            found[part] = str(error)
        except Exception as error:  # of torch or scipy, or of a model that is not ours: no gradient, no memory
            found[part] = said_by(error)
    seconds = time.perf_counter() - begin
    title = name or type(module).__name__
    return Profile(title, str(subject), len(inputs), found, measures.notes, expected, seconds, seed)


def _data(subject: Subject, data: Tensor) -> Tensor:
    """Time first, symbols as one-hot vectors."""
    if subject.symbols and data.dim() == 2 and not data.is_floating_point():
        data = F.one_hot(data, subject.input_size)
    if data.dim() != 3 or data.shape[-1] != subject.input_size:
        raise ShapeError(
            f"data must be sequences of rank 3 with {subject.input_size} features, got the shape {tuple(data.shape)}"
        )
    data = data.to(subject.device, subject.dtype)
    return data.transpose(0, 1) if subject.batch_first else data

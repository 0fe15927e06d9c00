"""All parts of one model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import DTypeError, EngramError, ShapeError, check_choice, check_size
from engram.figures import save_figure
from engram.probe._caller import first_line
from engram.probe._cost import Cost
from engram.probe._figure import figure_of
from engram.probe._json import as_json
from engram.probe._part import NotMeasured, Part
from engram.probe._parts import PARTS
from engram.probe._setup import Loss, Setup
from engram.probe._subject import Subject

SHORTEST = 8
"""Fewer steps show nothing of how a gradient decays."""


@dataclass(frozen=True)
class Profile:
    """What :func:`profile` found.

    name: of the model. model: its sizes, in words. length: T. parts: by name, each a :class:`Part`, or a
    :class:`NotMeasured` with the reason where it does not apply. notes: what a reader of the numbers should know. cost:
    as expected before. seconds: as taken. seed: random seed of the inputs.
    """

    name: str
    model: str
    length: int
    parts: dict[str, Any]
    notes: list[str]
    cost: Cost
    seconds: float
    seed: int = 0

    @property
    def verdict(self) -> str:
        """One sentence: the headline of the first part that could be measured."""
        first = next(
            (part.headline() for part in self.parts.values() if isinstance(part, Part)), "nothing could be measured."
        )
        return first[0].upper() + first[1:]

    def words(self) -> str:
        """For people: the verdict, the notes, and a line per part."""
        head = [f"{self.name} ({self.model}), {self.length} steps", f"Verdict: {self.verdict}"]
        notes = [f"Note: {note}" for note in self.notes]
        return "\n".join([*head, *notes, *(f"- {part.words()}" for part in self.parts.values())])

    def summary(self) -> dict[str, str]:
        """The number of each part that people quote, by title; a dash where there is none."""
        return {part.title: part.brief() for part in self.parts.values()}

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the parts by name, each an object; one that does not apply is ``{"reason": ...}``."""
        about = {"name": self.name, "model": self.model, "length": self.length, "seed": self.seed}
        found = {name: part.to_dict() for name, part in self.parts.items()}
        cost = as_json(self.cost)
        return {**about, "verdict": self.verdict, "notes": self.notes, **found, "cost": cost, "seconds": self.seconds}

    def figure(self) -> Any:
        """All parts as panels of one matplotlib Figure."""
        return figure_of(f"{self.name} ({self.model})", [plot for part in self.parts.values() for plot in part.plots()])

    def plot(self, path: Path | str) -> None:
        """The figure as a file, SVG or PNG."""
        save_figure(self.figure(), Path(path))


def profile(
    module: nn.Module,
    *,
    input_size: int | None = None,
    length: int = 200,
    parts: Sequence[str | type[Part]] = tuple(PARTS),
    seed: int = 0,
    batch: int = 4,
    batch_first: bool | None = None,
    data: Tensor | None = None,
    loss: Loss | None = None,
    name: str | None = None,
    before: Callable[[Cost], None] = lambda cost: None,
    each: Callable[[str], None] = lambda part: None,
) -> Profile:
    """Measure a model's memory: how far back it reaches, how much it holds, where it loses it.

    Nothing in the model is changed. A part that does not apply (the model's state cannot be passed in, it has no
    recurrent matrix) gives the reason in place of numbers.

    Args:
        module: any model that maps sequences to outputs (see :class:`Subject`).
        input_size: D, the inputs per step. Default: found in the module.
        length: T, the steps looked back.
        parts: names out of :data:`PARTS`, or classes of your own (see :class:`Part`). Default: all.
        seed: random seed of the inputs.
        batch: B, the sampled sequences.
        batch_first: whether the module reads ``(B, T, D)``. Default: found out by calling it.
        data: real inputs in place of sampled ones, in the module's order of dimensions; integers for symbols.
        loss: of the outputs ``(S, B, C)``, time first, for the gradient of the states. Default: half the squared last
            output.
        name: of the model, in words and figures. Default: its class.
        before: called with the expected cost before anything is measured.
        each: called with the name of each part as it begins.
    """
    wanted = {part.name: part for part in map(_part, parts)}
    check_size("length", length, least=SHORTEST)
    check_size("seed", seed, least=0)
    subject = Subject(module, input_size, batch_first=batch_first, length=length)
    if data is not None:
        inputs = _time_first(subject, data)
    else:
        steps = subject.fixed_length or length
        inputs = subject.sample(steps, check_size("batch", batch), torch.Generator().manual_seed(seed))
    setup = Setup(subject, inputs, loss, seed, list(subject.notes))
    found: dict[str, Part | NotMeasured] = {}
    start = time.perf_counter()
    with subject:
        expected = sum((part.cost(setup) for part in wanted.values()), Cost())
    before(expected)
    for key, part in wanted.items():
        each(key)
        try:
            found[key] = part.measure(setup)
        except EngramError as error:
            found[key] = NotMeasured(part.title, str(error))
        except Exception as error:  # of torch or scipy, or of a model that is not ours: no gradient, no memory
            found[key] = NotMeasured(part.title, first_line(error))
    seconds = time.perf_counter() - start
    title = name or type(module).__name__
    return Profile(title, str(subject), len(inputs), found, setup.notes, expected, seconds, seed)


def _part(part: str | type[Part]) -> type[Part]:
    """A built-in part by its name, or a class of the user's own."""
    if isinstance(part, str):
        return PARTS[check_choice("part", part, PARTS)]
    if not (isinstance(part, type) and issubclass(part, Part)):
        raise DTypeError(f"a part is a name or a subclass of engram.probe.Part, got {part!r}")
    return part


def _time_first(subject: Subject, data: Tensor) -> Tensor:
    """The user's inputs as ``(T, B, D)``, symbols as one-hot vectors."""
    if subject.symbols and data.dim() == 2 and not data.is_floating_point():
        data = F.one_hot(data, subject.input_size)
    if data.dim() != 3 or data.shape[-1] != subject.input_size:
        raise ShapeError(
            f"data must be sequences of rank 3 with {subject.input_size} features, got the shape {tuple(data.shape)}"
        )
    data = data.to(subject.device, subject.dtype)
    return data.transpose(0, 1) if subject.batch_first else data

"""What a part of a profile is: one question about a model, and its answer."""

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from engram.figures import MUTED
from engram.probe._cost import Cost
from engram.probe._json import as_json
from engram.probe._setup import Setup

Plot = Callable[[Any], None]
"""Plots one panel on matplotlib's axes."""


class Part(ABC):
    """One question about a model's memory. The class knows how to measure, an instance is what was measured.

    To add one, write a frozen dataclass whose fields are the numbers found, and hand the class to
    :func:`engram.probe.profile` in ``parts``; docs/probe.md has an example. A built-in part also stands in
    :data:`engram.probe.PARTS`.

    Attributes:
        name: its key in ``profile.parts``, in JSON and after ``engram probe --parts``.
        title: as people write it.
        question: what it answers, one sentence.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]

    @classmethod
    @abstractmethod
    def cost(cls, setup: Setup) -> Cost:
        """What :meth:`measure` will cost, from a few calls that are timed."""

    @classmethod
    @abstractmethod
    def measure(cls, setup: Setup) -> "Part":
        """The answer for one model. An error means that the part does not apply; its message is the reason shown."""

    @abstractmethod
    def headline(self) -> str:
        """The verdict: one sentence that follows "title: "."""

    def details(self) -> str:
        """More sentences, or none."""
        return ""

    @abstractmethod
    def brief(self) -> str:
        """The number that people quote, to stand in a table beside those of other models."""

    @abstractmethod
    def plot(self, axes: Any) -> None:
        """The figure, on matplotlib's axes."""

    def plots(self) -> list[Plot]:
        """All panels of the part, where it has more than one."""
        return [self.plot]

    def words(self) -> str:
        """The answer in plain sentences, the verdict first."""
        return f"{self.title}: {self.headline()} {self.details()}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return as_json(self)


@dataclass(frozen=True)
class NotMeasured:
    """Stands in place of a part that does not apply to a model.

    title: of the part. reason: why there is no answer.
    """

    title: str
    reason: str

    def brief(self) -> str:
        return "-"

    def words(self) -> str:
        return f"{self.title}: not measured: {self.reason}"

    def plots(self) -> list[Plot]:
        return [self.plot]

    def plot(self, axes: Any) -> None:
        """An empty panel with the reason in it."""
        axes.set_axis_off()
        axes.set_title(self.title)
        words = "\n".join(textwrap.wrap(f"not measured: {self.reason}", 44))
        axes.text(0.5, 0.5, words, ha="center", va="center", color=MUTED, transform=axes.transAxes)

    def to_dict(self) -> dict[str, Any]:
        return {"reason": self.reason}

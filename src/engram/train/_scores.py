"""Which score of a validation is to get better, and in which direction that is."""

import math
from collections.abc import Iterable

from engram.errors import OptionError, unknown
from engram.run_files import larger_is_better


class Score:
    """A score by name. Smaller is better for losses and errors, larger for accuracies and returns: the last word of the
    name decides (``valid_accuracy``). Any other name says it itself: ``max:NAME`` or ``min:NAME``.

    >>> Score("accuracy", ["loss", "accuracy"]).better({"loss": 3.0, "accuracy": 0.9}, {"loss": 2.0, "accuracy": 0.8})
    True
    """

    def __init__(self, text: str, known: Iterable[str]) -> None:
        known = list(known)
        direction, _, self.name = text.rpartition(":")
        if self.name not in known:
            raise unknown("score to stop by", self.name, known)
        larger = {"max": True, "min": False, "": larger_is_better(self.name)}.get(direction)
        if larger is None:
            raise OptionError(
                f"stop_by={text!r} does not tell whether larger is better: write max:{self.name} or min:{self.name}"
            )
        self.larger = larger

    @property
    def worst(self) -> float:
        return -math.inf if self.larger else math.inf

    def better(self, new: dict[str, float], old: dict[str, float]) -> bool:
        """Whether the new scores are better than the old; equal ones are not."""
        return new[self.name] > old[self.name] if self.larger else new[self.name] < old[self.name]

    def reaches(self, scores: dict[str, float], goal: float) -> bool:
        """Whether the scores are as good as a goal, or better."""
        return scores[self.name] >= goal if self.larger else scores[self.name] <= goal

"""The relational games: does a grid of 3 x 3 cells, shown one cell after the other, obey a rule?"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engram.errors import check_choice, check_size
from engram.tasks._batches import Batches, Resampled
from engram.tasks._task import Batch, Task
from engram.tasks.relational._choose import one_of
from engram.tasks.relational._polyominoes import GRID, SIDE, magnified, on_canvas
from engram.tasks.relational._relational import OneAnswer
from engram.tasks.relational._rules import RULES, Source

SOLID_ONLY = ("colour-shape", "left-of")
"""The rules that ask for one colour per object: they have no test on stripes."""
TEST_OBJECTS = {"test": "hexominoes", "test-stripes": "stripes"}


@dataclass(frozen=True)
class RelationalGame(OneAnswer):
    """Nine cells, row by row, with coloured objects in some of them: does the rule hold (1) or not (0)?

    same: two identical objects. between: three in a line, the outer ones identical. occurs: the object above is one of
    the three below. xoccurs: the same, and the other two are different. row-matching: the patterns of the first and the
    last row are the same. colour-shape: 2 [other shape] + [other colour] of two objects. left-of: the darker of two is
    on the left. Objects are identical if shape, colour and orientation are. Trained on pentominoes, tested on
    hexominoes and on striped squares; sequences are fresh. Source: Shanahan et al. 2020 (PrediNet); Kerg (2022),
    Section 5.4.2.
    """

    rule: Literal["same", "between", "occurs", "xoccurs", "row-matching", "colour-shape", "left-of"] = "same"
    """What is asked."""
    view: Literal["crop", "canvas"] = "crop"
    """A step shows its cell enlarged (crop), or the grid with this cell only (canvas)."""

    name: ClassVar[str] = "relational-game"
    source: ClassVar[str] = "Shanahan et al. 2020 (PrediNet)"
    input_shape = (3, SIDE, SIDE)
    steps = GRID**2
    rows = (GRID,) * GRID

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, RULES)
        check_choice("view", self.view, ("crop", "canvas"))

    @property
    def output_size(self) -> int:
        return 4 if self.rule == "colour-shape" else 2

    @property
    def answers(self) -> tuple[str, ...]:
        if self.rule == "colour-shape":
            return ("same shape and colour", "other colour", "other shape", "other shape and colour")
        return ("no", "yes")

    def objects(self) -> Tensor | None:
        return magnified() if self.view == "crop" else None

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Pentominoes."""
        return self._sampled("pentominoes", batch_size, generator)

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """``train`` and ``valid`` of pentominoes, ``test`` of hexominoes, ``test-stripes`` of stripes."""
        check_choice("split", split, ("train", "valid", *self.exams()))
        if split == "train":
            return super().batches(split, batch_size, seed, size)
        sample = partial(self._sampled, TEST_OBJECTS.get(split, "pentominoes"))
        return Resampled(sample, size, batch_size, seed, split)

    def exams(self) -> dict[str, Task]:
        """``test``, and ``test-stripes`` for the rules that can be asked of stripes."""
        return {"test": self} if self.rule in SOLID_ONLY else {"test": self, "test-stripes": self}

    def _sampled(self, objects: str, count: int, generator: torch.Generator) -> Batch:
        answers = one_of(check_size("batch_size", count), self.output_size, generator)
        rows = RULES[self.rule](Source(objects, generator), answers).T.contiguous()
        inputs = rows if self.view == "crop" else on_canvas(rows)
        return Batch(inputs, answers[None], torch.ones(1, count, dtype=torch.bool))

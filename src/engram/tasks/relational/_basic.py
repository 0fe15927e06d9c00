"""The background colour that the four basic tasks take on request."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engram.errors import check_flag
from engram.tasks.relational._relational import RelationalTask
from engram.tasks.relational._shapes import COLOURS, coloured_table
from engram.tasks.relational._trials import Kind, Sampler, Trials


@dataclass(frozen=True)
class BasicTask(RelationalTask):
    """A task on plain shapes, or on shapes each before a colour of its own that means nothing."""

    spurious: bool = False
    """Give each image one of 100 background colours at random; the answer depends on the shapes only."""

    def __post_init__(self) -> None:
        check_flag("spurious", self.spurious)
        super().__post_init__()

    def objects(self) -> Tensor:
        return coloured_table(self.shapes) if self.spurious else super().objects()

    def coloured(self, kinds: Sequence[Kind]) -> list[Kind]:
        """The same kinds of trials, with colours if they are asked for."""
        if not self.spurious:
            return list(kinds)
        return [Kind(kind.share, kind.space * COLOURS**self.key, _coloured(kind)) for kind in kinds]


def _coloured(kind: Kind) -> Sampler:
    """Its trials, each image with a random colour: row ``shape * COLOURS + colour`` of the coloured table."""

    def sample(count: int, generator: torch.Generator) -> Trials:
        rows, answers = kind.sample(count, generator)
        return Trials(rows * COLOURS + torch.randint(COLOURS, rows.shape, generator=generator), answers)

    return sample

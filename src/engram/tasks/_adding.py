"""The adding problem: the sum of two marked numbers, far apart."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engram.errors import check_size
from engram.tasks._score import masked_mse
from engram.tasks._task import Batch, Task


@dataclass(frozen=True)
class Adding(Task):
    """x_t = (v_t, m_t) with v_t uniform in [0, 1) and two markers m_t = 1; the target is the sum of the marked values.

    One marker is uniform in positions 0..floor(T/2)-1, one in ceil(T/2)..T-1, so that of an odd number of steps the
    middle one is never marked. Inputs ``(T, B, 2)``, targets ``(1, B, 1)``.
    Source: Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016.
    """

    length: int = 200
    """T, the steps."""

    name: ClassVar[str] = "adding"
    source: ClassVar[str] = "Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016"
    answer: ClassVar[Literal["every", "last"]] = "last"
    metric: ClassVar[str] = "mse"
    input_size = 2
    output_size = 1
    chance = 1 / 6
    memoryless_baseline = 1 / 6  # of the constant 1: the variance of the sum of two uniform numbers

    def __post_init__(self) -> None:
        check_size("length", self.length, least=2)

    @property
    def steps(self) -> int:
        return self.length

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        check_size("batch_size", batch_size)
        values = torch.rand(self.length, batch_size, generator=generator)
        first = torch.randint(0, self.length // 2, (1, batch_size), generator=generator)
        second = torch.randint((self.length + 1) // 2, self.length, (1, batch_size), generator=generator)
        marks = torch.zeros_like(values).scatter_(0, torch.cat([first, second]), 1.0)
        total = values.gather(0, first) + values.gather(0, second)
        return Batch(torch.stack([values, marks], -1), total[..., None], torch.ones(1, batch_size, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The mean square error of the answer at the last step."""
        return masked_mse(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The mean square error."""
        return {"mse": float(masked_mse(outputs, batch))}

"""The contract of a task."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from engram.tasks._batches import Batches, Drawn, Fresh, Indexed
from engram.tasks._seeds import seeded


class Batch(NamedTuple):
    """B sequences of T steps, and what is asked of them at S steps: S = T, or 1 where only the last step answers.

    inputs: ``(T, B, D)`` numbers, or ``(T, B)`` whole numbers below ``task.vocabulary``, which a network embeds.
    targets: ``(S, B)`` classes, or ``(S, B, C)`` values.
    mask: ``(S, B)``, True where the metrics count.
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Task(ABC):
    """Sequences from a seed, a loss, and how well one can do without memory. Same seed, same batch, on every machine.

    Subclasses are frozen dataclasses whose fields are the options on the command line.
    """

    name: ClassVar[str]
    """What the command line calls it."""
    source: ClassVar[str]
    """Where the protocol is from."""
    answer: ClassVar[Literal["every", "last"]] = "every"
    """Whether every step is asked for an output, or the last one only."""
    metric: ClassVar[str] = "accuracy"
    """The metric people quote, a key of :meth:`metrics`."""
    is_data_set: ClassVar[bool] = False
    """Whether the training sequences are a fixed set, not drawn."""
    embedding: ClassVar[int] = 0
    """The size of the embedding in the paper, where there is one."""

    @property
    def vocabulary(self) -> int:
        """The number of symbols if the inputs are symbols, else 0."""
        return 0

    @property
    def has_validation(self) -> bool:
        """Whether there is a split ``"valid"``."""
        return True

    @property
    @abstractmethod
    def input_size(self) -> int:
        """D, the features of the input (of symbols: their number)."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """C, the classes to choose from, or the values to give."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """T, the length of a sequence (of a window, for text)."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """The metric of the best answer that knows the step but not the input."""

    @property
    @abstractmethod
    def memoryless_baseline(self) -> float:
        """The loss of the best answer that knows the step but not the input."""

    @abstractmethod
    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Sequences drawn afresh (from the training set, where there is one)."""

    @abstractmethod
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """What is minimised, from outputs ``(S, B, C)``."""

    @abstractmethod
    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """What people quote, by name; an average over the masked steps."""

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """The batches of a split; the k-th is a function of the arguments and k alone.

        Args:
            split: ``"train"``, ``"valid"`` or ``"test"``.
            batch_size: B.
            seed: of the sequences and their order.
            size: how many sequences the split has. For ``train``, 0 draws fresh ones without end.
        """
        if split != "train":
            return Drawn(self.sample, size, batch_size, seed, split)
        if not size:
            return Fresh(self.sample, batch_size, seed)
        whole = self.sample(size, seeded(seed, split))
        return Indexed(lambda rows: Batch(*(part[:, rows] for part in whole)), size, batch_size, seed)

    def exams(self) -> "dict[str, Task]":
        """What a trained network is tested on, by the name of the split; some tasks test on longer sequences too."""
        return {"test": self}

    def options(self) -> dict[str, Any]:
        """The fields, for a settings file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

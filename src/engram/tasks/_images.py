"""Images as sequences: what pixel by pixel and patch by patch share."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, check_choice, check_size
from engram.tasks._batches import Batches, Indexed
from engram.tasks._data import read
from engram.tasks._score import accuracy, cross_entropy
from engram.tasks._symbols import entropy
from engram.tasks._task import Batch, Task

FOLDERS = {"mnist": "mnist", "fashion": "fashion_mnist"}
TRAIN, TEST, SIDE, CLASSES = 60_000, 10_000, 28, 10


@lru_cache
def labelled(images: str, part: Literal["train", "t10k"]) -> tuple[Tensor, Tensor]:
    """The images ``(N, 28, 28)`` as bytes and their classes ``(N,)``, from idx files (headers of 16 and 8 bytes)."""
    pixels = np.frombuffer(bytearray(read(f"{FOLDERS[images]}/{part}-images-idx3-ubyte")), np.uint8, offset=16)
    classes = np.frombuffer(read(f"{FOLDERS[images]}/{part}-labels-idx1-ubyte"), np.uint8, offset=8)
    return torch.from_numpy(pixels.reshape(-1, SIDE, SIDE)), torch.from_numpy(classes.astype(np.int64))


@dataclass(frozen=True)
class ImageTask(Task):
    """Say after the last step which of 10 classes the image is (targets ``(1, B)``); pixels are value/255."""

    images: Literal["mnist", "fashion"] = "mnist"
    """Digits, or pieces of clothing (Fashion-MNIST)."""
    valid: int = 10_000
    """How many of the 60 000 training images are kept for validation; 0: there is no validation."""
    subset: int = 0
    """Train on this many images only, the first ones; 0 means all."""

    answer: ClassVar[Literal["every", "last"]] = "last"
    is_data_set: ClassVar[bool] = True
    output_size = CLASSES

    def __post_init__(self) -> None:
        check_choice("images", self.images, FOLDERS)
        if check_size("valid", self.valid, 0) >= TRAIN:
            raise OptionError(f"valid must be less than the {TRAIN} training images, got {self.valid}")
        if check_size("subset", self.subset, 0) > TRAIN - self.valid:
            raise OptionError(f"subset must be at most {TRAIN - self.valid} (60000 - valid), got {self.subset}")

    @property
    def has_validation(self) -> bool:
        return self.valid > 0

    @property
    def chance(self) -> float:
        """The share of the most frequent class of the training images."""
        return float(torch.bincount(self._training_classes()).max()) / len(self._training_classes())

    @property
    def memoryless_baseline(self) -> float:
        """The entropy of the training images' classes, in nats."""
        return entropy(self._training_classes())

    @abstractmethod
    def sequences(self, images: Tensor) -> Tensor:
        """Inputs ``(T, B, D)`` in 0..1 from images ``(B, 28, 28)`` of bytes."""

    def order(self) -> Tensor:
        """The 60 000 training images in the order in which they are split: validation is taken from the end."""
        return torch.arange(TRAIN)

    def rows(self, split: str) -> Tensor:
        """The numbers of the images of this split in their file."""
        check_choice("split", split, ("train", "valid", "test"))
        if split == "test":
            return torch.arange(TEST)
        if split == "train":
            return self.order()[: self.subset or TRAIN - self.valid]
        if not self.has_validation:
            raise OptionError(f"{self.name} with valid=0 has no validation images: set valid, or ask has_validation")
        return self.order()[TRAIN - self.valid :]

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        rows = self.rows("train")
        return self._take(
            "train", rows[torch.randint(len(rows), (check_size("batch_size", batch_size),), generator=generator)]
        )

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Batches:
        """Of the images of the split, or of its first ``size``; ``train`` in a new order each epoch."""
        rows = self.rows(split)[: check_size("size", size, 0) or None]
        shuffle = seed if split == "train" else None
        return Indexed(lambda chosen: self._take(split, rows[chosen]), len(rows), batch_size, shuffle)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy of the last step."""
        return cross_entropy(outputs, batch)

    def metrics(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The share of the images that are named right."""
        return {"accuracy": accuracy(outputs, batch)}

    def _take(self, split: str, rows: Tensor) -> Batch:
        images, classes = labelled(self.images, "t10k" if split == "test" else "train")
        targets = classes[rows][None]
        return Batch(self.sequences(images[rows]), targets, torch.ones_like(targets, dtype=torch.bool))

    def _training_classes(self) -> Tensor:
        return labelled(self.images, "train")[1][self.rows("train")]

"""Sequential and permuted MNIST: an image one pixel at a time."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, check_size
from engram.tasks._images import SIDE, TRAIN, ImageTask

NNRNN = 1234


@lru_cache
def orders(seed: int) -> tuple[Tensor, Tensor]:
    """Permutations of the 784 pixels and then, from the same generator, of the 60 000 images."""
    generator = np.random.RandomState(seed)  # the published permutations are of this one
    return torch.from_numpy(generator.permutation(SIDE**2)), torch.from_numpy(generator.permutation(TRAIN))


@dataclass(frozen=True)
class PixelMNIST(ImageTask):
    """MNIST pixel by pixel: 784 steps of one pixel, row by row, ``(784, B, 1)``.

    The split is that of nnRNN's permuted task: ``RandomState(1234)`` samples the order of the pixels, then that of
    the images; the first 60 000 - valid are for training. Source: Le et al. 2015; the split, the
    program of Kerg (2022), Appendix A.1.
    """

    name: ClassVar[str] = "smnist"
    source: ClassVar[str] = "Le et al. 2015"
    input_size = 1
    steps = SIDE**2

    def order(self) -> Tensor:
        return orders(NNRNN)[1]

    def sequences(self, images: Tensor) -> Tensor:
        return images.flatten(1).t().contiguous().float().div_(255)[..., None]


@dataclass(frozen=True)
class PermutedMNIST(PixelMNIST):
    """MNIST pixel by pixel in one fixed random order: ``(784, B, 1)``.

    With permutation 1234 the images are split in an order sampled from the same generator after the pixels,
    else by their number: the last ``valid`` are for validation. Source: Le et al. 2015; Kerg (2022),
    Appendix A.1.2.
    """

    permutation: int = NNRNN
    """Seed of numpy's RandomState: 1234 nnRNN, 92916 scoRNN and RAC (with valid=5000), 100 RelRNN."""

    name: ClassVar[str] = "psmnist"
    source: ClassVar[str] = "Le et al. 2015; Kerg et al. 2019 (nnRNN)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if check_size("permutation", self.permutation, 0) >= 2**32:
            raise OptionError(f"permutation must be less than {2**32}, as numpy's seeds, got {self.permutation}")

    def order(self) -> Tensor:
        return orders(NNRNN)[1] if self.permutation == NNRNN else torch.arange(TRAIN)

    def sequences(self, images: Tensor) -> Tensor:
        return super().sequences(images)[orders(self.permutation)[0]]

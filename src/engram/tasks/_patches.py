"""MNIST one patch at a time."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from engram.errors import OptionError, check_size
from engram.tasks._images import SIDE, ImageTask


@dataclass(frozen=True)
class MNISTPatches(ImageTask):
    """Square patches, from left to right and from top to bottom, each one step.

    7 by 7 pixels without overlap give ``(16, B, 49)``. Where the patches do not fill the image (8 and stride 8), it
    gets a frame of zeros, 32 by 32. All 60 000 images are for training: the source has no validation. Source: Khrulkov
    et al. (2018); Alkin (2024), Chapter 6.
    """

    valid: int = 0
    """How many of the training images, the last ones, are kept for validation; 0: there is no validation."""
    patch: int = 7
    """The side of a patch."""
    stride: int = 7
    """The pixels from one patch to the next."""

    name: ClassVar[str] = "mnist-patches"
    source: ClassVar[str] = "Khrulkov et al. 2018"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("patch", self.patch)
        check_size("stride", self.stride)
        if not self.stride <= self.patch <= SIDE:
            raise OptionError(f"expected stride <= patch <= {SIDE}, got patch={self.patch}, stride={self.stride}")

    @property
    def frame(self) -> int:
        """The zeros around the image, together, that make the patches fit."""
        return (self.patch - SIDE) % self.stride

    @property
    def steps(self) -> int:
        return ((SIDE + self.frame - self.patch) // self.stride + 1) ** 2

    @property
    def input_size(self) -> int:
        return self.patch**2

    def sequences(self, images: Tensor) -> Tensor:
        before = self.frame // 2
        after = self.frame - before
        framed = F.pad(images[:, None].float().div_(255), (before, after, before, after))
        return F.unfold(framed, self.patch, stride=self.stride).permute(2, 0, 1).contiguous()

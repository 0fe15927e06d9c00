"""Encoders: from what a task shows at a step to a vector. Each has ``output_size``, and takes any leading axes."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import OptionError
from engram.tasks import Task

CODE = 128
"""The size of the code of an image, where neither the person nor the task says one."""


class Identity(nn.Module):
    """Numbers as they are, flattened: ``(..., *shape)`` to ``(..., D)``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape, self.output_size = shape, math.prod(shape)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs if len(self.shape) == 1 else inputs.flatten(inputs.dim() - len(self.shape))


class OneHot(nn.Module):
    """Symbols ``(...)`` to ``(..., K)``: 1 at the symbol, else 0."""

    reference: Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.output_size = vocabulary
        self.register_buffer("reference", torch.empty(0), persistent=False)  # for its dtype

    def forward(self, symbols: Tensor) -> Tensor:
        return F.one_hot(symbols, self.output_size).to(self.reference.dtype)


class Embedding(nn.Embedding):
    """Symbols ``(...)`` to trained vectors ``(..., size)``."""

    @property
    def output_size(self) -> int:
        return self.embedding_dim


class PixelCNN(nn.Module):
    """Images ``(..., channels, height, width)`` to codes ``(..., size)``: three convolutions, two linear layers.

    Each convolution has 32 channels, kernel 4, stride 2, padding 1; the linear layers have 256 and ``size`` units; a
    ReLU follows each of the five, the last too. Weights are Kaiming normal, biases 0. Height and width are at least 8:
    each convolution halves them. Source: Webb et al. 2021 (ESBN), Kerg (2022), Section 5.5 and
    Appendix C.1 (CoRelNet).

    Args:
        shape: channels, height, width.
        size: of the code.
    """

    channels, hidden = 32, 256

    def __init__(self, shape: tuple[int, ...], size: int = CODE) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 8 or shape[0] < 1:
            raise OptionError(
                f"the encoder of images takes (channels, height, width), at least 8 x 8 pixels: three convolutions "
                f"halve them three times; got {shape}. embedding=0 takes plain pixels"
            )
        self.shape, self.output_size = shape, size
        sizes = [shape[0], self.channels, self.channels, self.channels]
        convolutions = [nn.Conv2d(a, b, 4, stride=2, padding=1) for a, b in pairwise(sizes)]
        pixels = self.channels * (shape[1] // 8) * (shape[2] // 8)
        linear = [nn.Linear(pixels, self.hidden), nn.Linear(self.hidden, size)]
        layers: list[Any] = [*convolutions, *linear]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        relu = nn.ReLU()
        self.layers = nn.Sequential(
            *(part for layer in convolutions for part in (layer, relu)),
            nn.Flatten(),
            *(part for layer in linear for part in (layer, relu)),
        )

    def forward(self, images: Tensor) -> Tensor:
        codes: Tensor = self.layers(images.reshape(-1, *self.shape))
        return codes.reshape(*images.shape[:-3], self.output_size)


Encoder = Identity | OneHot | Embedding | PixelCNN


def make_encoder(task: Task, embedding: int | None = None) -> Encoder:
    """The encoder of a task's inputs.

    Args:
        embedding: the size of the code of a symbol or an image; default: that of the task's paper (of images without a
            paper: 128). 0 gives one-hot symbols and plain pixels.
    """
    return encoder_for(task, embedding)[0]()


def default_embedding(task: Task) -> int:
    """The size of the code of a symbol or an image, where nobody says one; 0 where there is none."""
    if task.vocabulary:
        return task.embedding
    return (task.embedding or CODE) if len(task.input_shape) == 3 else 0


def encoder_for(task: Task, embedding: int | None) -> tuple[Callable[[], Encoder], int]:
    """What makes the encoder, and the size of its output: that is known before its weights are sampled."""
    size = default_embedding(task) if embedding is None else embedding
    if task.vocabulary and size:
        return partial(Embedding, task.vocabulary, size), size
    if task.vocabulary:
        return partial(OneHot, task.vocabulary), task.vocabulary
    if len(task.input_shape) == 3 and size:
        return partial(PixelCNN, task.input_shape, size), size
    if size:
        raise OptionError(
            f"embedding is for tasks of symbols or images; {task.name} has {task.input_size} numbers per step"
        )
    return partial(Identity, task.input_shape), task.input_size

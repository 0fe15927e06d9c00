"""Encoders: from what a task shows at a step to a vector. Each has ``output_size``, and takes any leading axes."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import EngramError, OptionError, ShapeError, check_last_axes
from engram.files import one_line
from engram.imports import is_outside, load_class
from engram.models._options import parameters_of
from engram.relational import CODE, PixelCNN
from engram.tasks import Task


class Identity(nn.Module):
    """Numbers as they are, flattened: ``(..., *shape)`` to ``(..., D)``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape, self.output_size = shape, math.prod(shape)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs if len(self.shape) == 1 else inputs.flatten(inputs.dim() - len(self.shape))


class OneHot(nn.Module):
    """Symbols ``(...)`` to ``(..., K)``: 1 at the symbol, else 0.

    Args:
        vocabulary: K, the number of symbols.
    """

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


class OwnEncoder(nn.Module):
    """A module of somebody else as an encoder: it is given images in a batch, ``(N, *shape)``, and makes ``(N, F)``.

    F is found by calling it with zeros, in evaluation mode.

    Args:
        module: any module.
        shape: of what is seen at a step.
    """

    def __init__(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.module, self.shape = module, shape
        training = module.training
        try:
            with torch.no_grad():
                found = module.eval()(torch.zeros(2, *shape))
        except EngramError:
            raise
        except Exception as error:  # somebody else's code may raise anything
            raise OptionError(
                f"the encoder {type(module).__name__} must take {('batch', *shape)}, what the task shows at a step; it "
                f"refused {(2, *shape)}: {type(error).__name__}: {one_line(str(error), 300)}"
            ) from error
        finally:
            module.train(training)
        if not isinstance(found, Tensor) or found.dim() != 2 or len(found) != 2 or not found.is_floating_point():
            made = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ShapeError(
                f"the encoder {type(module).__name__} must make a vector of each input, (batch, features); of "
                f"{(2, *shape)} it made {made}"
            )
        self.output_size = found.shape[-1]

    def forward(self, inputs: Tensor) -> Tensor:
        check_last_axes(f"the encoder {type(self.module).__name__}", inputs.shape, self.shape)
        codes: Tensor = self.module(inputs.reshape(-1, *self.shape))
        return codes.reshape(*inputs.shape[: inputs.dim() - len(self.shape)], self.output_size)


Encoder = Identity | OneHot | Embedding | PixelCNN | OwnEncoder


def make_encoder(task: Task, embedding: int | None = None, encoder: str = "") -> Encoder:
    """The encoder of a task's inputs.

    Args:
        embedding: the size of the code of a symbol or an image; default: that of the task's paper (of images without a
            paper: 128). 0 gives one-hot symbols and plain pixels.
        encoder: of images, ``learned`` or ``random`` (its weights stay as initialised), of anything but symbols
            ``package.module:Class`` or ``file.py:Class`` of your own; default: learned.
    """
    return encoder_for(task, embedding, encoder)[0]()


def default_embedding(task: Task) -> int:
    """The size of the code of a symbol or an image, where nobody says one; 0 where there is none."""
    if task.vocabulary:
        return task.embedding
    return (task.embedding or CODE) if len(task.input_shape) == 3 else 0


def default_encoder(task: Task, embedding: int | None) -> str:
    """How images are encoded where nobody says it; empty where there are none, or plain pixels are asked for."""
    images = not task.vocabulary and len(task.input_shape) == 3
    return "learned" if images and embedding != 0 else ""


def encoder_for(task: Task, embedding: int | None, encoder: str = "") -> tuple[Callable[[], Encoder], int]:
    """What makes the encoder, and the size of its output: of engram's own that is known before weights are sampled."""
    size = default_embedding(task) if embedding is None else embedding
    if is_outside(encoder) and not task.vocabulary:
        own = _own_encoder(encoder, task.input_shape, size)
        return lambda: own, own.output_size
    if encoder and not default_encoder(task, size):
        what = "is of symbols" if task.vocabulary else f"shows {task.input_shape} at a step"
        raise OptionError(f"encoder is for tasks of images with an embedding; {task.name} {what}, got {encoder!r}")
    if task.vocabulary and size:
        return partial(Embedding, task.vocabulary, size), size
    if task.vocabulary:
        return partial(OneHot, task.vocabulary), task.vocabulary
    if len(task.input_shape) == 3 and size:
        return partial(PixelCNN, task.input_shape, size, encoder == "random"), size
    if size:
        raise OptionError(
            f"embedding is for tasks of symbols or images; {task.name} has {task.input_size} numbers per step"
        )
    return partial(Identity, task.input_shape), task.input_size


def _own_encoder(name: str, shape: tuple[int, ...], size: int) -> OwnEncoder:
    """Its constructor is given what it names of input_shape and output_size."""
    kind = load_class(name, nn.Module)
    taken = parameters_of(kind)[0]
    given = {"input_shape": shape, "output_size": size or CODE}
    needed = [key for key, p in taken.items() if p.default is p.empty and key not in given]
    if needed:
        raise OptionError(
            f"the encoder {kind.__name__} needs {', '.join(needed)}: it is given those of input_shape and output_size "
            "that its constructor names; give the others defaults"
        )
    return OwnEncoder(kind(**{key: value for key, value in given.items() if key in taken}), shape)

"""From the sequences of a task to its outputs: embedding, recurrent layer, linear read-out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import EngramError, OptionError
from engram.kernels import State
from engram.nn import Recurrent, make_model
from engram.tasks import Task
from engram.train._settings import Settings


class Network(nn.Module):
    """y = W_o h + b_o on top of a recurrent layer, at every step or at the last one, as the task asks.

    Inputs: ``(T, B, D)``, or symbols ``(T, B)``, which are embedded (or turned one-hot with ``embedding=0``).
    Outputs: ``(S, B, C)`` with S = T or 1; and the state, to carry on.
    """

    def __init__(self, task: Task, layer: nn.Module, embedding: int = 0) -> None:
        super().__init__()
        self.vocabulary, self.every_step = task.vocabulary, task.answer == "every"
        self.embedding = nn.Embedding(task.vocabulary, embedding) if embedding else None
        self.layer = layer
        with torch.no_grad():  # asks the layer itself how many features it gives: any module will do
            features = self._features(torch.zeros(1, 1, embedding or task.input_size))[0].shape[-1]
        self.head = nn.Linear(features, task.output_size)

    def _features(self, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
        output, state = self.layer(inputs, state)
        if not self.every_step:
            output = output[None] if output.dim() == 2 else output[-1:]
        return (torch.view_as_real(output).flatten(-2) if output.is_complex() else output), state

    def forward(self, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
        if self.vocabulary:
            inputs = self.embedding(inputs) if self.embedding else F.one_hot(inputs, self.vocabulary).to(self.dtype)
        features, state = self._features(inputs, state)
        return self.head(features), state

    @property
    def dtype(self) -> torch.dtype:
        return self.head.weight.dtype

    def penalty(self) -> Tensor | None:
        """What the layer adds to the loss, if anything."""
        return self.layer.penalty() if isinstance(self.layer, Recurrent) else None


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A block whose new tensors are of this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def make_network(settings: Settings) -> Network:
    """The network of these settings, its weights drawn from the global generator: the same in every precision."""
    with default_dtype(torch.float32):
        network = _make_network(settings)
    return network.double() if settings.precision == "64-true" else network


def _make_network(settings: Settings) -> Network:
    task, options = settings.task, settings.model_options()
    embedding = task.embedding if settings.embedding is None else settings.embedding
    if embedding and not task.vocabulary:
        raise OptionError(f"embedding is for tasks of symbols; {task.name} has {task.input_size} numbers a step")
    size = embedding or task.input_size
    try:
        layer: Any = make_model(settings.model, size, settings.hidden, settings.layers, **options)
    except TypeError as error:  # an option torch's own layers do not know
        if isinstance(error, EngramError):
            raise
        raise OptionError(f"option of {settings.model}: {error}") from None
    if isinstance(layer, Recurrent) and task.answer == "last":
        layer.return_sequence = False  # only the last state is needed: less memory
    return Network(task, layer, embedding)

"""From the sequences of a task to its outputs: embedding, recurrent layer, linear read-out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import EngramError, OptionError, unknown
from engram.kernels import State
from engram.models import Model
from engram.nn import NETWORKS, Recurrent, TensorNet, make_model, model_options
from engram.tasks import Task
from engram.train._memory import WithinMemory, check_batches
from engram.train._settings import Settings


class Network(nn.Module):
    """y = W_o h + b_o on top of a recurrent layer, at every step or at the last one, as the task asks.

    Inputs: ``(T, B, D)``, or symbols ``(T, B)``, which are embedded (or turned one-hot with ``embedding=0``).
    Outputs: ``(S, B, C)`` with S = T or 1; and the state, to carry on.
    """

    def __init__(self, task: Task, layer: nn.Module, embedding: int = 0, bias: bool = True) -> None:
        super().__init__()
        self.vocabulary, self.every_step = task.vocabulary, task.answer == "every"
        self.embedding = nn.Embedding(task.vocabulary, embedding) if embedding else None
        self.layer = layer
        with torch.no_grad():  # asks the layer itself how many features it gives: any module will do
            features = self._features(torch.zeros(1, 1, embedding or task.input_size))[0].shape[-1]
        self.head = nn.Linear(features, task.output_size, bias=bias)
        # One that is zero depends on no weight; to build it would take time at every step.
        self.has_penalty = isinstance(layer, Recurrent) and layer.penalty().requires_grad

    def _features(self, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
        output, state = self.layer(inputs, state)
        if not self.every_step:
            output = _last(self.layer, output)[None]
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
        return self.layer.penalty() if self.has_penalty else None  # type: ignore[operator]


class WholeNetwork(nn.Module):
    """A network with a read-out of its own, which answers once after all inputs; called as :class:`Network` is."""

    def __init__(self, task: Task, layer: TensorNet) -> None:
        super().__init__()
        self.vocabulary, self.layer = task.vocabulary, layer

    def forward(self, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
        if self.vocabulary:
            inputs = F.one_hot(inputs, self.vocabulary).to(self.dtype)
        return self.layer(inputs)[None], None

    @property
    def dtype(self) -> torch.dtype:
        return next(self.layer.parameters()).dtype

    def penalty(self) -> None:
        """None: nothing is added to the loss."""


def _last(layer: nn.Module, output: Tensor) -> Tensor:
    """What each direction ended with, ``(B, H)``: of torch's own layers, the way back ends at the first step."""
    if output.dim() == 2:
        return output
    if not getattr(layer, "bidirectional", False):
        return output[-1]
    ahead, back = output.chunk(2, -1)
    return torch.cat([ahead[-1], back[0]], -1)


def _check_options(task: Task, options: dict[str, Any]) -> None:
    """What a layer takes but a run decides itself; and what would show a network its answers."""
    for name in ("batch_first", "return_sequence", "output_all_layers", "device", "dtype"):
        if name in options:
            raise OptionError(f"option {name} is for your own programs; a run sets it itself")
    if options.get("bidirectional") and task.vocabulary:
        raise OptionError(f"bidirectional: {task.name} asks for the next symbol, which the way back has read already")


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A block whose new tensors are of this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


AnyNetwork = Network | WholeNetwork


def make_network(settings: Settings) -> AnyNetwork:
    """The network of these settings, its weights drawn from the global generator: the same in every precision."""
    check_batches(settings)
    try:
        with default_dtype(torch.float32), WithinMemory():
            network = _make_network(settings)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:  # torch's own layers check little
        if isinstance(error, EngramError) or not settings.model.options:
            raise
        raise OptionError(f"option of {settings.model.name}: {error} (options: {settings.model.options})") from error
    return network.double() if settings.machine.precision == "64-true" else network


def _make_network(settings: Settings) -> AnyNetwork:
    task, model, options = settings.task, settings.model, settings.model.options
    _check_options(task, options)
    if model.name in NETWORKS:
        return _make_whole(model, task, options)
    embedding = task.embedding if model.embedding is None else model.embedding
    if embedding and not task.vocabulary:
        raise OptionError(f"embedding is for tasks of symbols; {task.name} has {task.input_size} numbers a step")
    size = embedding or task.input_size
    layer: Any = make_model(model.name, size, model.hidden, model.layers, **options)
    if isinstance(layer, Recurrent) and task.answer == "last":
        layer.return_sequence = False  # only the last state is needed: less memory
    return Network(task, layer, embedding, model.readout_bias)


def _make_whole(model: Model, task: Task, options: dict[str, Any]) -> WholeNetwork:
    if task.answer != "last":
        raise OptionError(f"{model.name} answers once, after the last input; {task.name} asks at every step")
    if model.layers != 1:
        raise OptionError(f"{model.name} has no layers, its rank is --hidden; got layers={model.layers}")
    if model.embedding:
        raise OptionError(f"{model.name} has a feature map of its own (--features), no embedding")
    kind = NETWORKS[model.name]
    known = model_options(model.name)
    for name in options:
        if name not in known:
            raise unknown(f"option of {model.name}", name, known)
    return WholeNetwork(task, kind(task.input_size, model.hidden, task.output_size, task.steps, **options))

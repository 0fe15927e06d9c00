"""From a task and the settings of a model to a network."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from engram.errors import DTypeError, EngramError, OptionError, ShapeError
from engram.models._cores import core_for, features_of
from engram.models._encoders import default_embedding, default_encoder, encoder_for
from engram.models._heads import make_head
from engram.models._memory import WithinMemory
from engram.models._model import Model, read_segments
from engram.models._network import Network
from engram.nn import TensorNet
from engram.relational import ContextNorm, Sparse
from engram.tasks import Task


def make_network(task: Task, model: Model) -> Network:
    """The network of a model on a task, its weights sampled from the global generator, always in float32: so they are
    the same numbers in every precision that it is converted to.

    Refused before it is made if it does not fit into memory.
    """
    try:
        with _default_dtype(torch.float32), WithinMemory():
            return _make_network(task, model)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:  # the classes of others check little
        if isinstance(error, EngramError) or not model.options:
            raise
        options = ", ".join(f"{name}={value}" for name, value in model.options.items())
        raise OptionError(f"option of {model.label}: {error} (options: {options})") from error


def _make_network(task: Task, model: Model) -> Network:
    if model.options.get("bidirectional") and task.vocabulary:
        raise OptionError(f"bidirectional: {task.name} asks for the next symbol, which the way back has read already")
    encoder_maker, size = encoder_for(task, embedding_of(task, model), encoder_name_of(task, model))
    context = _context(task, model, size)
    core = core_for(task, model, size)  # the order in which weights are sampled: core, encoder, head
    encoder = encoder_maker()
    sparse = Sparse(size, model.l1, model.l1_on) if model.l1 else None
    head = make_head(task, core, features_of(core, task, model, size), model.readout_bias)
    network = Network(encoder, core, head, objects_of(task), task.vocabulary, sparse=sparse, context=context)
    if not any(p.requires_grad for p in network.parameters()):
        raise OptionError(f"{model.label} on {task.name} has no parameter that could be trained")
    return network


def embedding_of(task: Task, model: Model) -> int:
    """The size of the embedding of a model on a task: the one given, or the default."""
    if not issubclass(model.kind, TensorNet):
        return default_embedding(task) if model.embedding is None else model.embedding
    if model.embedding:
        raise OptionError(f"{model.label} has a feature map of its own (option features), no embedding")
    return 0


def encoder_name_of(task: Task, model: Model) -> str:
    """How a model encodes the images of a task: as given, or the default; empty where there are no images."""
    if model.encoder and issubclass(model.kind, TensorNet):
        raise OptionError(f"{model.label} has a feature map of its own (option features), no encoder")
    return model.encoder or default_encoder(task, embedding_of(task, model))


def context_of(task: Task, model: Model) -> str:
    """How codes are normalised over the steps of a sequence: as given, or as the task's papers do it."""
    return model.context or ("off" if issubclass(model.kind, TensorNet) else task.context)


def _context(task: Task, model: Model, size: int) -> ContextNorm | None:
    name = context_of(task, model)
    if name == "off":
        return None
    segments = {"whole": (), "segmented": task.segments}.get(name) or read_segments(name) or ()
    if segments and sum(segments) != task.steps:
        raise OptionError(
            f"the segments of context must add up to the steps of {task.name}: {name} makes {sum(segments)} of "
            f"{task.steps}. Its own are {'+'.join(map(str, task.segments))}"
        )
    return ContextNorm(size, segments)


def objects_of(task: Task) -> Tensor | None:
    """The table of the task's objects, checked."""
    table = task.objects()
    if table is None:
        return None
    if not isinstance(table, Tensor) or not table.is_floating_point():
        raise DTypeError(f"objects() of {task.name} must be a tensor of real numbers, such as images from 0 to 1")
    if tuple(table.shape[1:]) != tuple(task.input_shape):
        raise ShapeError(
            f"objects() of {task.name} must be (objects, {', '.join(map(str, task.input_shape))}), got "
            f"{tuple(table.shape)}"
        )
    return table.to(torch.get_default_dtype())


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A block whose new tensors are of this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)

"""Cores: how any module is made from sizes, and how it is called.

A core is a ``torch.nn.Module``. Its constructor is given, by name, those of these arguments that it names:

    input_size   F, the features of a step, after the encoder
    hidden_size  the hidden units (``rank`` means the same)
    num_layers   the layers on top of each other
    output_size  C, the outputs that the task asks for: the core then answers itself, and has no head
    steps        T, the length of a sequence
    task         the task itself

and the options of the run as further keyword arguments. It is called with a sequence ``(T, B, F)``, and returns
``(T, B, G)``, or one answer ``(B, G)``; either alone, or as ``(output, state)``. If ``forward`` has a second positional
argument, it is the state of the sequence before, which goes on (left out at the start). A state is a tensor or
a tuple of tensors, whose second axis is the batch.
"""

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from engram.errors import EngramError, OptionError, ShapeError
from engram.files import one_line
from engram.models._model import Model
from engram.models._options import default_hidden, is_size, parameters_of
from engram.models._registry import model_class
from engram.nn import Recurrent, TensorNet
from engram.state import State, parts
from engram.tasks import Task


def make_core(
    name: str,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    *,
    output_size: int | None = None,
    steps: int | None = None,
    task: Task | None = None,
    **options: Any,
) -> nn.Module:
    """A model by name, from its sizes: those that its constructor names are given to it.

    >>> make_core("exprnn", 10, 32).source
    'Lezcano-Casado and Martinez-Rubio 2019 (expRNN)'
    """
    kind = model_class(name)
    sizes = {
        "input_size": input_size,
        "hidden_size": hidden_size,
        "rank": hidden_size,
        "num_layers": num_layers,
        "output_size": output_size,
        "steps": steps,
        "task": task,
    }
    taken = parameters_of(kind)[0]
    if num_layers != 1 and "num_layers" not in taken:
        raise OptionError(f"{kind.__name__} has no layers (its constructor takes no num_layers), got {num_layers}")
    given = {k: value for k, value in sizes.items() if k in taken and value is not None and is_size(k, taken[k])}
    needed = [key for key, p in taken.items() if p.default is p.empty and key not in {*given, *options}]
    if needed:
        raise OptionError(
            f"{kind.__name__} needs {', '.join(needed)}: a run gives a model those of {', '.join(sizes)} that its "
            "constructor names, the rest are options"
        )
    return kind(**given, **options)


class Sizes(NamedTuple):
    """What a core gives: G features, in one answer or at every step."""

    features: int
    one_answer: bool


def measure(core: nn.Module, input_size: int, steps: int) -> Sizes:
    """What a core gives, asked from itself: it is called with zeros."""
    recurrent = isinstance(core, Recurrent | nn.RNNBase)
    batch, steps = (1, 1) if recurrent else (2, steps)
    training = core.training
    core.eval()  # a batch normalisation would take note of the zeros
    try:
        with torch.no_grad():
            output, state = call(core, torch.zeros(steps, batch, input_size))
            check_state(core, state)
    except EngramError:
        raise
    except Exception as error:  # somebody else's code may raise anything
        raise OptionError(
            f"{type(core).__name__} must take a sequence (steps, batch, features); it refused "
            f"{(steps, batch, input_size)}: {type(error).__name__}: {one_line(str(error), 300)}"
        ) from error
    finally:
        core.train(training)
    if output.dim() == 2 and len(output) == batch:
        return Sizes(output.shape[-1], one_answer=True)
    if output.dim() == 3 and output.shape[:2] == (steps, batch):
        return Sizes(output.shape[-1], one_answer=False)
    raise ShapeError(
        f"{type(core).__name__} must return (steps, batch, features) or (batch, features) for a sequence (steps, "
        f"batch, features); of {(steps, batch, input_size)} it made {tuple(output.shape)}"
    )


def call(core: nn.Module, inputs: Tensor, state: State = None) -> tuple[Tensor, State]:
    """The output of a core, as real numbers, and its state, if it returned one."""
    result = core(inputs) if state is None else core(inputs, state)
    output, state = result, None
    if isinstance(result, tuple | list) and result:
        output, state = result[0], result[1] if len(result) > 1 else None
    if not isinstance(output, Tensor) or not (output.is_floating_point() or output.is_complex()):
        what = output.dtype if isinstance(output, Tensor) else type(result).__name__
        raise ShapeError(
            f"{type(core).__name__} must return a tensor of numbers, alone or in a tuple with a state; got {what}"
        )
    return torch.view_as_real(output.resolve_conj()).flatten(-2) if output.is_complex() else output, state


def check_state(core: nn.Module, state: State) -> None:
    """Refuse a state that a core takes again and a run could not hand on."""
    if has_state(core) and not all(isinstance(part, Tensor) for part in parts(state)):
        raise ShapeError(
            f"the state of {type(core).__name__}, which it takes again, must be a tensor or a tuple of tensors; got "
            f"{type(state).__name__}"
        )


def has_state(core: nn.Module) -> bool:
    """Whether ``forward`` takes a second positional argument: the state."""
    kinds = [p.kind for p in inspect.signature(core.forward).parameters.values()]
    places = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
    return places > 1 or inspect.Parameter.VAR_POSITIONAL in kinds


def core_for(task: Task, model: Model, input_size: int) -> nn.Module:
    """The core of a model on a task."""
    if model.hidden != default_hidden(model.kind) and not {"hidden_size", "rank"} & {*parameters_of(model.kind)[0]}:
        raise OptionError(f"{model.label} has no hidden units to set (its constructor takes no hidden_size)")
    core = make_core(
        model.name,
        input_size,
        model.hidden,
        model.layers,
        output_size=task.output_size,
        steps=task.steps,
        task=task,
        **model.options,
    )
    if isinstance(core, Recurrent) and task.answer == "last" and getattr(core, "readout", "last") == "last":
        core.return_sequence = False  # only the last state is needed: less memory
    return core


def features_of(core: nn.Module, task: Task, model: Model, input_size: int) -> int | None:
    """G, what the head will read; None if the core answers itself. What does not fit the task is refused."""
    if isinstance(core, TensorNet):
        sizes = Sizes(task.output_size, one_answer=True)  # known without a call, which would take time
    else:
        sizes = measure(core, input_size, task.steps)
    if sizes.one_answer and task.answer == "every":
        raise OptionError(f"{model.label} answers once, after the last input; {task.name} asks at every step")
    if "output_size" not in parameters_of(model.kind)[0]:
        return sizes.features
    if sizes.features != task.output_size:
        raise ShapeError(
            f"{model.label} takes output_size and so answers itself: it must give {task.output_size} numbers, it gave "
            f"{sizes.features}"
        )
    return None

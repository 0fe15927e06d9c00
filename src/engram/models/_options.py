"""What a class takes when it is made: the sizes that a run gives it, and options that a person may set."""

import inspect
from typing import Any, NamedTuple, get_overloads

from torch import nn

from engram.nn import Recurrent, TensorNet

SIZES = ("input_size", "hidden_size", "rank", "num_layers", "output_size", "steps", "task")
"""The arguments that :func:`engram.models.make_core` gives to a constructor that names them."""
SET_BY_RUN = ("batch_first", "return_sequence", "output_all_layers", "device", "dtype")
"""Options of layers for a person's own programs: a network needs them to be as they are."""


class Option(NamedTuple):
    """An option of a class: the type that its constructor is annotated with, and its default.

    One that must be given has the default ``inspect.Parameter.empty``; no model of engram has such.
    """

    type: Any
    default: Any


def options_of(kind: type[nn.Module]) -> dict[str, Option]:
    """The options of a class by name: its arguments without the sizes and without what a run sets itself.

    >>> options_of(nn.GRU)["dropout"]
    Option(type=<class 'float'>, default=0.0)
    """
    return {
        name: Option(_type(parameter), parameter.default)
        for name, parameter in parameters_of(kind)[0].items()
        if name not in SET_BY_RUN and not is_size(name, parameter)
    }


USUAL_WIDTH = 128


def default_hidden(kind: type[nn.Module]) -> int:
    """The hidden units of a class where nobody says how many: the default of its constructor, or else 128.

    >>> default_hidden(nn.GRU)
    128
    """
    hidden = parameters_of(kind)[0].get("hidden_size")
    return hidden.default if hidden is not None and type(hidden.default) is int else USUAL_WIDTH


def is_size(name: str, parameter: inspect.Parameter) -> bool:
    """Whether a run gives it. A rank with a default is that of a cell's weights, not the width of a tensor network."""
    return name in SIZES and not (name == "rank" and parameter.default is not parameter.empty)


def parameters_of(kind: type[nn.Module]) -> tuple[dict[str, inspect.Parameter], bool]:
    """All that a constructor takes, by name, and whether it takes any other keyword too.

    Where it hands ``**options`` on, those of its base class count; a recurrent layer spells all of them out itself.
    """
    if issubclass(kind, Recurrent):
        return {name: p for name, p in inspect.signature(kind).parameters.items() if name != "laws"}, False
    found, is_open = _along(kind)
    if is_open and issubclass(kind, TensorNet):
        more = inspect.signature(kind._make).parameters.items()
        found, is_open = {name: p for name, p in more if p.default is not p.empty} | found, False
    return found, is_open


def _along(kind: type) -> tuple[dict[str, inspect.Parameter], bool]:
    """The parameters of the constructors of a class and its bases, as far as each hands keywords on to the next."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__:
        make = vars(base).get("__init__")
        if base in (nn.Module, object) or make is None:
            continue
        for signature in map(_signature, [*get_overloads(make), make]):  # nn.LSTM spells its arguments in an overload
            parameters = list(signature.parameters.values())[1:]
            for parameter in parameters:
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    found.setdefault(parameter.name, parameter)
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                return found, False
    return found, bool(found)


def _signature(make: Any) -> inspect.Signature:
    try:
        return inspect.signature(make, eval_str=True)
    except NameError:  # an annotation of a name that is imported for type checkers alone
        return inspect.signature(make)


def _type(parameter: inspect.Parameter) -> Any:
    """The annotation, or else the type of the default."""
    if parameter.annotation is not parameter.empty:
        return parameter.annotation
    return Any if parameter.default in (None, parameter.empty) else type(parameter.default)

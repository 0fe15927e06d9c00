"""The options of a model as typed flags, read from the signatures of its class."""

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, make_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro
from torch import nn

from engram.errors import OptionError, unknown
from engram.nn import MODELS, NETWORKS, Cell, Recurrent, TensorNet

SIMPLE = (int, float, bool, str, NoneType)
BY_THE_RUN = ("num_layers", "batch_first", "return_sequence", "output_all_layers", "device", "dtype")
"""What a class takes and a run decides itself."""


@dataclass(frozen=True)
class Option:
    """One keyword argument of a model: its type as far as words can say it, its default, and what it is."""

    name: str
    kind: Any
    default: Any
    help: str


def model_class(name: str) -> type[nn.Module]:
    """The class of a model by name."""
    known: dict[str, type[nn.Module]] = {**MODELS, **NETWORKS}
    if name not in known:
        raise unknown("model", name, known)
    return known[name]


def options_of(kind: type[nn.Module]) -> dict[str, Option]:
    """The options of a class, those of its base classes and of its cell: of two with one name, the nearest counts."""
    found: dict[str, Option] = {}
    usual = getattr(kind, "usual", {})
    for maker in _makers(kind):
        hints, texts = get_type_hints(maker), _arguments(maker)
        for each in inspect.signature(maker).parameters.values():
            if each.default is each.empty or each.name in BY_THE_RUN:
                continue
            default = usual.get(each.name, each.default)
            simple = _simple(hints.get(each.name, type(default)), default)
            if simple is not None and each.name not in found:
                found[each.name] = Option(each.name, simple, default, texts.get(each.name, ""))
            elif each.name in found and not found[each.name].help:
                before = found[each.name]
                found[each.name] = Option(each.name, before.kind, before.default, texts.get(each.name, ""))
    return found


def flags_of(kind: type[nn.Module], taken: Iterable[str]) -> type:
    """A dataclass of these options, for tyro. One whose name is another flag's is ``--model-NAME``."""
    taken = set(taken)
    entries = []
    for option in options_of(kind).values():
        name = f"model-{option.name}" if option.name in taken else option.name
        flag = tyro.conf.arg(name=name.replace("_", "-"), help=option.help or f"See the class {kind.__name__}.")
        entries.append((option.name, Annotated[option.kind, flag], field(default=option.default)))
    return make_dataclass("Options", entries, frozen=True)


def given(flags: Any, kind: type[nn.Module]) -> dict[str, Any]:
    """The options that are not the class's own defaults."""
    known = options_of(kind)
    values = {each.name: getattr(flags, each.name) for each in fields(flags)}
    return {name: value for name, value in values.items() if value != known[name].default}


def check_options(name: str, options: dict[str, Any]) -> None:
    """Whether a file's options are the model's, and of their types."""
    known = options_of(model_class(name))
    for option, value in options.items():
        if option not in known:
            raise unknown(f"option of {name}", option, known)
        if not _fits(value, known[option].kind):
            kind = getattr(known[option].kind, "__name__", str(known[option].kind))
            raise OptionError(f"{option} of {name} must be of type {kind}, got {value!r:.60}")


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        kinds = kinds[:1] * len(value) if Ellipsis in kinds and isinstance(value, tuple) else kinds
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _makers(kind: type[nn.Module]) -> Iterator[Any]:
    """The functions that take options, the nearest first."""
    own = [cls for cls in kind.__mro__ if issubclass(cls, nn.Module) and cls is not nn.Module]
    yield from (cls.__init__ for cls in own if "__init__" in vars(cls))
    if issubclass(kind, TensorNet):
        yield kind._make
    if issubclass(kind, Recurrent):
        cells = [cls for cls in kind.cell.__mro__ if issubclass(cls, Cell)]
        yield from (cls.__init__ for cls in cells if "__init__" in vars(cls))


def _simple(kind: Any, default: Any) -> Any:
    """The part of a type that words can say: numbers, flags, texts, choices, tuples of those; None if there is none."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    kept = [each for each in members if each in SIMPLE or _is_choice(each)]
    if not [each for each in kept if each is not NoneType]:
        return None
    if default is None and NoneType not in kept:
        kept.append(NoneType)
    return Union[tuple(kept)]  # noqa: UP007 - made at run time


def _is_choice(kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return True
    parts = [each for each in get_args(kind) if each is not Ellipsis]
    return get_origin(kind) is tuple and all(_simple(each, 0) is not None for each in parts)


def _arguments(maker: Any) -> dict[str, str]:
    """What the docstring of a class says of each argument, in the section Args."""
    owner = inspect.getmodule(maker)
    name = maker.__qualname__.split(".")[0]
    text = inspect.cleandoc(getattr(owner, name, maker).__doc__ or "")
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    found: dict[str, str] = {}
    for entry in re.split(r"\n    (?=\S)", "\n" + section[1].rstrip()) if section else []:
        names, _, said = entry.partition(": ")
        words = re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", r"\1\2", " ".join(said.split()))
        found |= {each.strip(): words for each in names.split(",")}
    return found

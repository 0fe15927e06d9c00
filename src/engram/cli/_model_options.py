"""The options of a model, read from the signatures of its class: their types, and what its docstrings say of them."""

import inspect
import re
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from torch import nn

from engram.cli._docs import without_markup
from engram.errors import OptionError, unknown
from engram.models import Option, model_class, options_of

SIMPLE = (int, float, bool, str, NoneType)


def changed(options: dict[str, Any], kind: type[nn.Module]) -> dict[str, Any]:
    """The options that are not the class's own defaults."""
    known = options_of(kind)
    return {name: value for name, value in options.items() if name not in known or value != known[name].default}


def in_words(option: Option) -> Any:
    """The part of an option's type that words can say, or None. Without a type, a text (a number, if it is one)."""
    if option.type is Any:
        return int | float | str | None if option.default is None else int | float | str
    return _simple(option.type, option.default)


def check_options(name: str, options: dict[str, Any]) -> None:
    """Whether a file's options are the model's, and of their types."""
    known = options_of(model_class(name))
    for option, value in options.items():
        if option not in known:
            raise unknown(f"option of {name}", option, known)
        simple = in_words(known[option])
        if simple is None:  # of a type that no word can say: the class itself checks it
            continue
        if not _fits(value, simple):
            raise OptionError(f"{option} of {name} must be of type {_type_words(simple)}, got {value!r:.60}")


def _type_words(kind: Any) -> str:
    """``int``; ``float or None``."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join("None" if each is NoneType else _type_words(each) for each in get_args(kind))
    return str(getattr(kind, "__name__", kind)) if get_origin(kind) is None else str(kind).replace("typing.", "")


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        value = tuple(value) if isinstance(value, list) else value  # TOML knows lists only
        kinds = get_args(kind)
        kinds = kinds[:1] * len(value) if Ellipsis in kinds and isinstance(value, tuple) else kinds
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


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


def help_of(kind: type[nn.Module]) -> dict[str, str]:
    """What the docstrings of a class, its bases and its cell say of each argument, in their sections Args."""
    found: dict[str, str] = {}
    shared: dict[str, str] = {}  # of several at once: it counts where nothing else is said
    for base in (*kind.__mro__, *getattr(kind, "cell", object).__mro__):
        section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", inspect.cleandoc(base.__doc__ or ""), re.MULTILINE)
        for entry in re.split(r"\n    (?=\S)", "\n" + section[1].rstrip()) if section else []:
            names, _, said = entry.partition(": ")
            words = without_markup(" ".join(said.split()))
            words = re.sub(r" Default: (?!None, )[^ ]*$", "", words).replace("Default: None, ", "Default: ")
            names = re.sub(r" \(.*\)$", "", names)  # the types
            if "," in names:
                shared = {name.strip(): words for name in names.split(",")} | shared
            else:
                found = {names.strip(): words} | found
    return shared | found

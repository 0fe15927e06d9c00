"""Options whose names a command cannot know before it has read a run or a factory: NAME=VALUE."""

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

from engram.errors import OptionError

T = TypeVar("T")
FLAGS = {"true": True, "false": False}


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as keyword arguments: numbers, booleans and tuples are read as Python's, the rest is text.

    true and false count in small letters too, as in a file of settings: as a text, false would count as True.

    >>> read_options(["delay=20", "layout=at"])
    {'delay': 20, 'layout': 'at'}
    """
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name.isidentifier() and equals):
            raise OptionError(f"an option is NAME=VALUE, such as delay=20; got {word!r}")
        if value.lower() in FLAGS:
            options[name] = FLAGS[value.lower()]
            continue
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            options[name] = value
    return options


def apart(words: Sequence[str], alone: Sequence[T]) -> tuple[tuple[str, ...], tuple[str | T, ...]]:
    """Options, and words that stand alone: ``--option delay=9 runs/first`` ends with a run, if none was named before.

    >>> apart(["delay=9", "runs/first"], [])
    (('delay=9',), ('runs/first',))
    """
    if alone:
        return tuple(words), tuple(alone)
    is_option = [word.partition("=")[0].isidentifier() and "=" in word for word in words]
    first = is_option.index(False) if False in is_option else len(words)
    return tuple(words[:first]), tuple(words[first:])

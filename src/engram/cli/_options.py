"""Options whose names a command cannot know before it has read a run or a factory: NAME=VALUE."""

import ast
from collections.abc import Sequence
from typing import Any

from engram.errors import OptionError


def read_options(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as keyword arguments: numbers, booleans and tuples are read as Python's, the rest is text.

    >>> read_options(["delay=20", "layout=at"])
    {'delay': 20, 'layout': 'at'}
    """
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name.isidentifier() and equals):
            raise OptionError(f"an option is NAME=VALUE, such as activation=tanh; got {word!r}")
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            options[name] = value
    return options

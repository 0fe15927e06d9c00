"""Docstrings as help: of fields, without markup."""

import re
from contextlib import suppress
from dataclasses import is_dataclass

from docstring_parser import parse_from_object


def docs_of(kind: type) -> dict[str, str]:
    """The docstrings below the fields of a dataclass, its bases' too."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            with suppress(OSError, TypeError):  # a class made at run time has no source
                found |= {each.arg_name: each.description or "" for each in parse_from_object(base).params}
    return found


def without_markup(text: str) -> str:
    """A docstring for people who have neither Sphinx nor its markup.

    >>> without_markup("A :class:`~engram.nn.RNN` with ``bias``, see :func:`train`.")
    'A RNN with bias, see train.'
    """
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)(?:\(\))?`", r"\1", text)
    return re.sub(r"``([^`]*)``|`([^`]*)`", r"\1\2", text)


def sentence(text: str) -> str:
    """A docstring in one line, without markup, that begins with a capital."""
    line = " ".join(without_markup(text).split())
    first = line.split(" ")[0]
    return line[:1].upper() + line[1:] if first == "a" or (first.isalpha() and len(first) > 1) else line

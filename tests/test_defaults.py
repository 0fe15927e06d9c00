"""A default is what the docstring says it is, of every public function and class that says one."""

import ast
import importlib
import inspect
import pkgutil
import re
from typing import Any

import pytest

import engram

ROOMS = [engram.__name__, *(f"engram.{room.name}" for room in pkgutil.iter_modules(engram.__path__))]


def said(thing: Any) -> dict[str, str]:
    """What the section ``Args`` of a docstring gives as the default of an argument, by name."""
    section = re.split(r"\n\n", (inspect.getdoc(thing) or "").partition("Args:\n")[2])[0]
    found = {}
    for piece in re.split(r"^ {4}(?=[a-z])", section, flags=re.MULTILINE):
        names, _, text = piece.partition(":")
        if told := re.search(r"[Dd]efault: (\S+)", text):
            for name in re.sub(r"\(.*", "", names).split(","):
                found[name.strip()] = " ".join(text[told.start(1) :].split())
    return found


def things() -> dict[str, Any]:
    found = {}
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if callable(thing) and said(thing):
                found[f"{thing.__module__}.{name}"] = thing
    return found


VALUE = re.compile(
    r"``\"?(?P<word>[\w.-]+)\"?``(?!-)|(?P<literal>None|True|False|-?\d[\d.e-]*|\([^)]*\))(?=[.;:]|,(?! or)|$)"
)
"""A default that is written as it is, such as ``tanh``, None or 1e-8; others, such as "no limit", are in words."""


def written(text: str) -> list[Any]:
    """The values that may be meant; none if it is in words."""
    found = VALUE.match(text)
    if not found:
        return []
    word = found["word"] or found["literal"].rstrip(".")
    try:
        return [word, ast.literal_eval(word)]
    except (ValueError, SyntaxError):
        return [word]


THINGS = things()


@pytest.mark.parametrize("name", THINGS)
def test_default(name: str) -> None:
    """Also its type: 0 is not 0.0, and ``0`` not None. (A default may be another argument; that is in words too.)"""
    parameters = inspect.signature(THINGS[name]).parameters
    for argument, text in said(THINGS[name]).items():
        values = written(text)
        if argument in parameters and values and values[0] not in parameters:
            default = parameters[argument].default
            assert any(value == default and type(value) is type(default) for value in values), (argument, text, default)


def test_they_are_found() -> None:
    """Hundreds of defaults of a hundred things; were the docstrings written another way, none would be looked at."""
    counts = [len([text for text in said(thing).values() if written(text)]) for thing in THINGS.values()]
    assert sum(counts) > 800
    assert len([count for count in counts if count]) > 100

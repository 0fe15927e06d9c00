"""What ``help()`` shows of a layer or a map is complete by itself: every argument, with its default."""

import inspect
import re
from typing import Any

import pytest

from engram import maps, nn
from engram.maps import MAPS, Map
from engram.models import MODELS

LAYERS = {entry.kind.__name__: entry.kind for entry in MODELS.values() if entry.kind.__module__.startswith("engram.")}
CELLS = {name: kind for name, kind in vars(nn).items() if isinstance(kind, type) and issubclass(kind, nn.BareCell)}


def documented(kind: type) -> dict[str, str]:
    """The text of each argument in the section ``Args`` of a docstring."""
    section = re.split(r"\n\n", inspect.cleandoc(kind.__doc__ or "").partition("Args:\n")[2])[0]
    pieces = re.split(r"^ {4}(?=[a-z])", section, flags=re.MULTILINE)
    found = {}
    for piece in filter(str.strip, pieces):
        names, _, text = piece.partition(":")
        for name in re.sub(r"\(.*", "", names).split(","):
            found[name.strip()] = " ".join(text.split())
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_every_argument_of_a_layer(name: str) -> None:
    kind = LAYERS[name]
    taken: dict[str, Any] = dict(inspect.signature(kind).parameters)
    if issubclass(kind, nn.TensorNet):
        taken |= dict(inspect.signature(kind._make).parameters)
        for internal in ("self", "empty", "options"):
            taken.pop(internal, None)
    found = documented(kind)
    assert sorted(found) == sorted(taken)
    check_defaults(name, taken, found)


def check_defaults(name: str, taken: dict[str, Any], found: dict[str, str]) -> None:
    """The docstring says of every argument with a default what it is."""
    for argument, parameter in taken.items():
        told = re.search(r"Default: (.+?)[.,]?(?: |$)", found[argument])
        if parameter.default is not parameter.empty and argument not in ("output",):
            assert told, f"{argument} of {name} has the default {parameter.default!r}, and help() does not say so"
            shown = told[1].strip("`").rstrip(".")
            assert shown in (str(parameter.default), str(parameter.default).partition(",")[0]), argument


def keywords(kind: type) -> set[str]:
    """What a cell takes: the arguments of each ``__init__`` that the one before hands its options on to."""
    taken: set[str] = set()
    for init in (vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base)):
        parameters = inspect.signature(init).parameters.values()
        taken |= {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return taken - {"self"}


@pytest.mark.parametrize("name", CELLS)
def test_every_argument_of_a_cell(name: str) -> None:
    """Each argument of its own has an entry; those of its bases have one too, or are named under ``options``."""
    kind = CELLS[name]
    found = documented(kind)
    options = found.pop("options", "")
    own = {n: p for n, p in inspect.signature(kind).parameters.items() if p.kind is not p.VAR_KEYWORD}
    assert own.keys() <= found.keys()
    check_defaults(name, own, found)
    named = found.keys() | set(re.findall(r"``(\w+)``", options))
    if options.endswith("those of the cell."):  # to be mixed with any cell, whose options are not known here
        assert named <= keywords(kind)
    else:
        assert named == keywords(kind)


@pytest.mark.parametrize("name", MAPS)
def test_every_argument_of_a_map(name: str) -> None:
    taken = set(inspect.signature(MAPS[name]).parameters)
    assert set(documented(MAPS[name])) == taken


def public() -> dict[str, Any]:
    """Every class and function of the two rooms."""
    return {f"{room.__name__}.{name}": getattr(room, name) for room in (maps, nn) for name in room.__all__}


def test_nobody_is_sent_elsewhere() -> None:
    """No "others: as RNN", no file that users do not have."""
    texts = {name: inspect.getdoc(thing) or "" for name, thing in public().items()}
    assert all(texts[name] for name, thing in public().items() if inspect.isroutine(thing) or isinstance(thing, type))
    for name, text in texts.items():
        for phrase in ("others: as", "spec/", "unless given", "one cell a layer"):
            assert phrase not in text, f"{name}: {phrase}"


def test_maps_are_found() -> None:
    assert all(issubclass(kind, Map) for kind in MAPS.values())
    assert len(LAYERS) > 30
    assert len(CELLS) > 25

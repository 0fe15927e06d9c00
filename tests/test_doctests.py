"""Every module imports by itself, and every example in a docstring is true."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest
import torch

import engram

# Importing engram.cli.__main__ runs the command line.
NAMES = sorted(
    module.name for module in pkgutil.walk_packages(engram.__path__, "engram.") if not module.name.endswith("__main__")
)


def examples(module: ModuleType) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what it is for"
    for test in examples(module):
        test.globs["torch"] = torch
        runner = doctest.DocTestRunner(verbose=False)
        told: list[str] = []
        runner.run(test, out=told.append)
        assert runner.summarize(verbose=False).failed == 0, "".join(told)


def test_there_are_examples() -> None:
    """Not a test of nothing: the modules are found, and those known to have examples have them."""
    assert {"engram.loops._loop", "engram.maps._make", "engram.nn._rnn", "engram.tasks._copy"} <= set(NAMES)
    found = {test.name for name in NAMES for test in examples(importlib.import_module(name))}
    assert {
        "engram.errors.unknown",
        "engram.loops._choice.use",
        "engram.loops._status.status",
        "engram.maps._make.make_map",
        "engram.nn._rnn.RNN",
    } <= found

"""The least and the largest number of every option of every task: it is allowed, and what is beyond it is refused."""

import math
import pickle
from dataclasses import fields
from typing import Any

import pytest
import torch

from engram.errors import DTypeError, OptionError
from engram.tasks import TASKS, Copy, make_task
from engram.tasks._data import _unpacked

LEAST_ONE: list[Any] = [[1], [0, -1]]
LEAST_TWO: list[Any] = [[2], [1, 0]]
SHARE: list[Any] = [[1e-6, 1 - 1e-6], [0.0, 1.0, -0.1, 1.1, math.nan]]
IMAGES: dict[str, list[Any]] = {"valid": [[0, 59_999], [-1, 60_000]], "subset": [[0, 50_000], [-1, 50_001]]}
LIMITS: dict[str, dict[str, list[Any]]] = {  # by task and option: what is allowed, what is not
    "copy": {"delay": LEAST_ONE, "length": LEAST_ONE},
    "copying-memory": {"delay": [[0, 1], [-1]], "length": LEAST_ONE, "symbols": LEAST_TWO},
    "transfer-copy": {"delay": LEAST_ONE, "length": LEAST_ONE},
    "denoise": {"delay": LEAST_ONE, "length": LEAST_ONE},
    "adding": {"length": LEAST_TWO},
    "start-end": {"length": [[20, 22], [18, 21]], "data": [[2, 50], [1, 51]], "symbols": LEAST_TWO},
    "lag-copy": {"lag": [[1, 15], [0, 16]], "features": LEAST_ONE, "length": [[9], [8, 0]]},
    "sinus": {"features": LEAST_ONE, "length": LEAST_ONE, "frequency": [[1e-9, 1e9], [0.0, -1.0, math.inf, math.nan]]},
    "copy-sinus": {
        "features": LEAST_ONE,
        "length": [[5], [4, 0]],
        "lag": [[1, 15], [0, 16]],
        "frequency": [[1e-9], [0.0, math.inf]],
    },
    "parity": {"features": LEAST_ONE, "length": LEAST_ONE},
    "contractive": {
        **dict.fromkeys(("states", "inputs", "outputs", "length"), LEAST_ONE),
        **dict.fromkeys(("epsilon", "on"), SHARE),
        "snr": [[-300.0, 0.0, 300.0], [math.inf, -math.inf, math.nan]],
        "system": [[0, 2], [-1]],
    },
    "smnist": IMAGES,
    "psmnist": {**IMAGES, "permutation": [[0, 2**32 - 1], [-1, 2**32]]},
    "mnist-patches": {
        **IMAGES,
        "subset": [[0, 60_000], [-1, 60_001]],
        "patch": [[7, 28], [6, 29]],
        "stride": [[1, 7], [0, 8]],
    },
    "ptb": {"bptt": LEAST_ONE, "subset": [[0, 151], [150, 1, -1]]},
    "shakespeare": {"length": [[2, 100_385], [1, 100_386]]},
    "pautomac": {"problem": [[1, 45], [0, 2, 46, 48]]},
    "dist-n": {"number": [[2, 49], [1, 50]]},
}
SHOWN = ("copy", "copying-memory", "denoise", "adding", "start-end", "lag-copy", "sinus", "copy-sinus", "parity")
"""Those of which a batch is sampled too: without data, and at once."""
CASES = [(name, option) for name, options in LIMITS.items() for option in options]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_limits(name: str, option: str) -> None:
    allowed, refused = LIMITS[name][option]
    for value in allowed:
        task = make_task(name, **{option: value})
        if name in SHOWN:
            batch = task.sample(3, torch.Generator().manual_seed(0))
            assert batch.inputs.shape[:2] == (task.steps, 3)
            assert math.isfinite(task.memoryless_baseline)
            assert math.isfinite(task.chance)
    for value in refused:
        with pytest.raises(OptionError, match=rf"\b{option}\b"):
            make_task(name, **{option: value})


def test_no_number_is_left_out() -> None:
    """Of the shapes of trials the largest holdout has a test of its own (relational/test_refusals.py)."""
    numbers = {
        (name, field.name)
        for name, kind in TASKS.items()
        for field in fields(kind)
        if type(field.default) in (int, float) and field.name != "holdout"
    }
    assert numbers == {*CASES}


FLAGS = [
    (name, field.name) for name, kind in TASKS.items() for field in fields(kind) if isinstance(field.default, bool)
]


@pytest.mark.parametrize(("name", "option"), FLAGS)
def test_a_flag_is_true_or_false(name: str, option: str) -> None:
    assert FLAGS
    for value in (0, 1, None, "no"):
        with pytest.raises(DTypeError, match=f"{option} must be True or False, got {value!r}"):
            make_task(name, **{option: value})


WORDS = {"layout": "att", "images": "mnits", "shapes": "esbm", "level": "imgae", "rule": "sane", "view": "corp"}


@pytest.mark.parametrize("option", WORDS)
def test_words_are_checked(option: str) -> None:
    """By every task that has the option."""
    found = [name for name, kind in TASKS.items() if option in (field.name for field in fields(kind))]
    assert found
    for name in found:
        with pytest.raises(OptionError, match=f"unknown {option} '{WORDS[option]}'.*Did you mean"):
            make_task(name, **{option: WORDS[option]})


def test_delays_of_a_transfer() -> None:
    """A list becomes a tuple, as a settings file gives it; one number is none."""
    assert make_task("transfer-copy", tests=[3, 5]).tests == (3, 5)  # type: ignore[attr-defined]
    for tests in (200, "200"):
        with pytest.raises(DTypeError, match=r"tests must be several delays, such as .*got"):
            make_task("transfer-copy", tests=tests)


def test_symbols_in_words() -> None:
    """As numbers, where a task says nothing else."""
    assert make_task("copy").spelled(torch.tensor([0, 9, 3])) == ["0", "9", "3"]


def test_a_task_that_is_pickled_is_equal() -> None:
    for name in SHOWN:
        task = make_task(name)
        assert pickle.loads(pickle.dumps(task)) == task


class Needs(Copy):
    """A task of somebody with an option that must be given."""

    def __init__(self, delay: int) -> None:
        super().__init__(delay)


def test_an_option_without_a_default() -> None:
    name = f"{__file__}:Needs"
    assert make_task(name, delay=3).steps == Copy(3).steps
    with pytest.raises(OptionError, match=r"task .*test_limits.py:Needs: .*missing 1 required .*delay"):
        make_task(name)


def test_what_comes_neither_packed_nor_as_an_archive() -> None:
    assert _unpacked("ptb/a.txt", "https://somewhere/a.txt", b"abc") == {"ptb/a.txt": b"abc"}

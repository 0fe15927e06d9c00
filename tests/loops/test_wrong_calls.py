"""Arguments that do not fit are refused: a loop in C that trusts them would read whatever lies in memory."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from recurrences import additive, additive_cell

from engram.errors import DTypeError, EngramError, OptionError, ShapeError
from engram.loops import use

Change = Callable[[dict[str, Any]], dict[str, Any]]


def sizes(*alive: int, dtype: torch.dtype = torch.int64) -> Change:
    return lambda case: {"input": torch.zeros(10, 2).double(), "sizes": torch.tensor(alive, dtype=dtype)}


SIZES: dict[str, Change] = {
    "too few rows": sizes(3, 3, 2, 1),
    "too many rows": sizes(3, 3, 3, 2),
    "growing": sizes(1, 1, 2, 3, 3),
    "a step without rows": sizes(3, 3, 3, 1, 0),
    "negative": sizes(6, 6, -2),
    "no step": sizes(),
    "int32": sizes(3, 3, 2, 1, 1, dtype=torch.int32),
}


@pytest.mark.parametrize("wrong", SIZES)
def test_wrong_sizes(executor: str, wrong: str, problem: Callable[..., Any]) -> None:
    case = problem()
    with use(executor), pytest.raises(ShapeError, match=r"sizes must be int64.*10 rows.*got tensor"):
        additive(**{**case, **SIZES[wrong](case)})


MISFITS: dict[str, Change] = {
    "start of too few rows": lambda case: {"start": case["start"][:2]},
    "start of the wrong width": lambda case: {"start": case["start"][:, :3]},
    "start of another dtype": lambda case: {"start": case["start"].float()},
    "weight_hh not square": lambda case: {"weight_hh": case["weight_hh"][:, :3]},
    "weight_hh of another dtype": lambda case: {"weight_hh": case["weight_hh"].float()},
    "weight_hh of the wrong size": lambda case: {"weight_hh": torch.eye(5).double()},
    "mod_bias too short": lambda case: {"mod_bias": case["mod_bias"][:3]},
    "weight_ih of the wrong width": lambda case: {"weight_ih": case["weight_ih"][:, :1]},
    "bias too long": lambda case: {"bias": torch.zeros(5).double()},
    "input of another dtype": lambda case: {"input": case["input"].float()},
}


@pytest.mark.parametrize("wrong", MISFITS)
def test_misfits(executor: str, wrong: str, problem: Callable[..., Any]) -> None:
    """By engram's own check or by torch's: an error, not a number."""
    case = problem(activation="modrelu")
    with use(executor), pytest.raises((RuntimeError, EngramError)):
        additive(**{**case, **MISFITS[wrong](case)})


def test_unknown_activation(problem: Callable[..., Any]) -> None:
    with pytest.raises(OptionError, match=r"unknown activation 'tahn'.*Did you mean 'tanh'"):
        additive(**{**problem(), "activation": "tahn"})


@pytest.mark.parametrize("name", ["auto", "torch", "plain"])
def test_modrelu_without_its_bias(name: str, problem: Callable[..., Any]) -> None:
    case = problem(activation="modrelu")
    cell = additive_cell(*(case[name] for name in ("weight_ih", "bias", "weight_hh", "mod_bias", "activation")))
    cell.mod_bias = None
    with use(name), pytest.raises(OptionError, match=r"'modrelu' needs its bias.*got None"):
        cell.run(case["input"], case["start"], None, False)


def test_errors_are_torchs_own_kind_too() -> None:
    """Code that catches what torch.nn raises catches these."""
    assert issubclass(ShapeError, ValueError)
    assert issubclass(ShapeError, RuntimeError)
    assert issubclass(DTypeError, TypeError)

"""The table [search] of a sweep file, checked."""

from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from typing import Any

from engram.errors import EngramError, OptionError, check_between, check_choice, check_size, unknown
from engram.sweep._search_file import PRUNERS, SAMPLERS, Range, Search

MOST_TRIALS = 100_000
Wrong = Callable[[str, str, str], OptionError]
"""``wrong(message, table, name)``: an error with the line of a name."""
EXAMPLE = '[search.space] with lines such as lr = {low = 1e-4, high = 1e-1, log = true} or model = {choices = ["lstm"]}'


def read_search(values: Any, wrong: Wrong) -> Search:
    """The search of a file."""
    if not isinstance(values, dict):
        raise wrong(f'search must be a table, [search] with method = "optuna"; got {values!r:.60}', "", "search")
    known = ["method", *(each.name for each in fields(Search))]
    for name in values:
        if name not in known:
            raise wrong(str(unknown("name in [search]", name, known)), "search", name)
    given = dict(values)
    for name, check in CHECKS.items():
        if name in given or name == "method":
            try:
                given[name] = check(given.get(name))
            except EngramError as error:
                raise wrong(str(error), "search", name) from None
    given.pop("method")
    given["space"] = _space(given.get("space"), wrong)
    return Search(**given)


def _space(values: Any, wrong: Wrong) -> dict[str, Range]:
    if not isinstance(values, dict) or not values:
        raise wrong(f"a search needs {EXAMPLE}; got {values!r:.60}", "", "search")
    known = [each.name for each in fields(Range)]
    found = {}
    for name, given in values.items():
        if name in ("seed", "seeds"):
            raise wrong("seeds are not searched: they stand at the top of the file", "search.space", name)
        if not isinstance(given, dict) or not given or ("choices" in given) == (len(given) > 1):
            raise wrong(f"{name} is {{low = ..., high = ...}} or {{choices = [...]}}", "search.space", name)
        for key in given:
            if key not in known:
                raise wrong(str(unknown(f"name in the range of {name}", key, known)), "search.space", name)
        try:
            found[name.replace("-", "_")] = Range(**{**given, "choices": _choices(given.get("choices", ()))})
        except EngramError as error:
            raise wrong(f"{name}: {error}", "search.space", name) from None
    return found


def _choices(given: Any) -> tuple[Any, ...]:
    if not isinstance(given, list | tuple) or (isinstance(given, list) and not given):
        raise OptionError(f"choices must be a list of values, got {given!r:.60}")
    for value in given:
        if not isinstance(value, str | int | float | bool):
            raise OptionError(f"a choice must be a text, a number, true or false; got {value!r:.60}")
    return tuple(given)


def _rungs(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or any(a >= b for a, b in pairwise(check_size("a rung", rung) for rung in given)):
        raise OptionError(f"rungs must be a list of steps, each larger than the one before; got {given!r:.60}")
    return tuple(given)


def _metric(given: Any) -> str:
    if not isinstance(given, str) or "_" not in given:
        raise OptionError(f"metric must be a split and a score, such as valid_loss or test_accuracy; got {given!r:.60}")
    return given


CHECKS: dict[str, Callable[[Any], Any]] = {
    "method": lambda given: check_choice("method", given, ("optuna",)),
    "trials": lambda given: check_size("trials", given, most=MOST_TRIALS),
    "parallel": lambda given: check_size("parallel", given, most=MOST_TRIALS),
    "sampler": lambda given: check_choice("sampler", given, SAMPLERS),
    "seed": lambda given: check_size("seed", given, least=0, most=2**32 - 1),
    "metric": _metric,
    "direction": lambda given: check_choice("direction", given, ("minimize", "maximize")),
    "rungs": _rungs,
    "pruner": lambda given: check_choice("pruner", given, PRUNERS),
    "keep": lambda given: check_between("keep", given, 0, 1),
}

"""The sweep file as it is read: what is wrong is told with its line."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from engram.errors import EngramError, FileError, OptionError, check_flag, check_size, unknown
from engram.files import read_bounded
from engram.runs import Where
from engram.sweep._file import DEFAULTS, MOST_RUNS, Ladder, Row, SweepFile, When
from engram.sweep._lines import line_of
from engram.sweep._read_search import read_search

MOST_BYTES = 2**20
LADDER = ("over", "values", "solved")
T = TypeVar("T")


def read_sweep(path: Path) -> SweepFile:
    """A sweep out of a TOML file. Mistakes are told with their line."""
    try:
        text = read_bounded(path, MOST_BYTES).decode("utf-8-sig")
        values = tomllib.loads(text)
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}. engram sweep --example prints a sweep file") from None
    except FileError as error:
        raise OptionError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path} is not TOML: {error}") from None
    try:
        return SweepFile(**{"name": path.stem, **_Reader(text).read(values), "text": text})
    except EngramError as error:
        raise OptionError(f"{path}: {error}") from None


class _Reader:
    """Checks what tomllib gives, with the lines of the text for messages."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, values: dict[str, Any]) -> dict[str, Any]:
        known = [each.name for each in fields(SweepFile) if each.name != "text"]
        for name in values:
            if name not in known:
                raise self._unknown("name in a sweep file", name, known, "", name)
        found: dict[str, Any] = {}
        if "name" in values:
            found["name"] = self._name(values["name"])
        for name in ("base", "grid"):
            if name in values:
                found[name] = self._table(name, values[name])
        for name, given in found.get("grid", {}).items():
            if not isinstance(given, list) or not given:
                raise self._wrong(f"{name} in [grid] must be a list of values to try, got {given!r:.60}", "grid", name)
        if "list" in values:
            found["list"] = tuple(self._table("list", row, k) for k, row in enumerate(self._tables(values, "list")))
        self._check_once(found)
        if "seeds" in values:
            found["seeds"] = self._checked("seeds", lambda: self._seeds(values["seeds"]))
        if "when" in values:
            found["when"] = tuple(self._when(row, k) for k, row in enumerate(self._tables(values, "when")))
        if "ladder" in values:
            found["ladder"] = self._ladder(values["ladder"])
        if "search" in values:
            found["search"] = read_search(values["search"], self._wrong)
        if "retries" in values:
            retries = values["retries"]
            found["retries"] = self._checked("retries", lambda: check_size("retries", retries, least=0, most=1000))
        if "together" in values:
            found["together"] = self._checked("together", lambda: check_flag("together", values["together"]))
        self._check_ladder(found)
        self._check_conditions(found)
        return found

    def _name(self, name: Any) -> str:
        is_plain = isinstance(name, str) and name.isprintable() and 0 < len(name) <= 200
        if not is_plain or Path(name).name != name or name.startswith("."):
            raise self._wrong(f"name must be that of a folder, such as copy-delay; got {name!r:.60}", "", "name")
        return name

    def _tables(self, values: Mapping[str, Any], name: str) -> list[Any]:
        given = values[name]
        if not isinstance(given, list) or not given:
            raise self._wrong(f"{name} is written as tables, each under [[{name}]]; got {given!r:.60}", "", name)
        return given

    def _table(self, name: str, values: Any, place: int = 0) -> Row:
        """A table of settings, with underscores in its names."""
        if not isinstance(values, dict):
            raise self._wrong(
                f"{name} must be a table, [{name}] with NAME = VALUE below it; got {values!r:.60}", "", name
            )
        for key in values:
            if key in ("seed", "seeds"):
                raise self._wrong(
                    "seeds stand at the top of the file: seeds = 5, or seeds = [0, 1, 7]", name, key, place
                )
            if "-" in key and key.replace("-", "_") in values:
                raise self._wrong(f"{key} is given twice, with a hyphen and with an underscore", name, key, place)
        return {key.replace("-", "_"): _none(value) for key, value in values.items()}

    def _check_once(self, found: dict[str, Any]) -> None:
        for place, row in enumerate(found.get("list", ())):
            for name in row:
                if name in found.get("grid", {}):
                    raise self._wrong(
                        f"{name} is in [grid] and in [[list]]: it can be in one only", "list", name, place
                    )

    def _seeds(self, given: Any) -> tuple[int, ...]:
        if isinstance(given, list) and given:
            seeds = tuple(check_size("a seed", seed, least=0) for seed in given)
            if len(set(seeds)) < len(seeds):
                raise self._wrong(f"seeds must differ, got {given}", "", "seeds")
            return seeds
        return tuple(range(check_size("seeds", given, most=MOST_RUNS)))

    def _when(self, row: Any, place: int) -> When:
        known = ("if", "set", "skip")
        for name in row if isinstance(row, dict) else ():
            if name not in known:
                raise self._unknown("name in [[when]]", name, known, "when", name, place)
        if not isinstance(row, dict) or "if" not in row or ("set" in row) == ("skip" in row):
            raise self._wrong(
                '[[when]] has if = "CONDITION", and set = {NAME = VALUE} or skip = true', "when", "if", place
            )
        if "skip" in row and row["skip"] is not True:
            raise self._wrong(f"skip must be true, got {row['skip']!r:.60}", "when", "skip", place)
        try:
            condition = Where(row["if"])
        except OptionError as error:
            raise self._wrong(str(error), "when", "if", place) from None
        return When(condition, self._table("when", row.get("set", {}), place), "skip" in row)

    def _ladder(self, row: Any) -> Ladder:
        if not isinstance(row, dict) or sorted(row) != sorted(LADDER):
            example = 'over = "delay", values = [100, 200, 400] and solved = "accuracy>0.99"'
            raise self._wrong(f"[ladder] has {example}; got {row!r:.80}", "", "ladder")
        if not isinstance(row["over"], str) or not isinstance(row["values"], list) or not row["values"]:
            raise self._wrong(f"[ladder] goes over a name and a list of values, got {row!r:.80}", "ladder", "over")
        try:
            return Ladder(row["over"].replace("-", "_"), tuple(row["values"]), Where(row["solved"]))
        except OptionError as error:
            raise self._wrong(str(error), "ladder", "solved") from None

    def _check_ladder(self, found: dict[str, Any]) -> None:
        """What a ladder goes over is its own."""
        over = found["ladder"].over if "ladder" in found else None
        if over == "seed":
            raise self._wrong("a ladder cannot go over seeds", "ladder", "over")
        if over in found.get("grid", {}) or any(over in row for row in found.get("list", ())):
            raise self._wrong(f"the ladder goes over {over}, which is in [grid] or [[list]] too", "ladder", "over")

    def _check_conditions(self, found: dict[str, Any]) -> None:
        """A name that no run has would make a condition that never holds."""
        file = SweepFile(**{name: value for name, value in found.items() if name != "when"})
        known = {*file.base, *file.varied, *DEFAULTS, *(name for when in found.get("when", ()) for name in when.values)}
        for place, when in enumerate(found.get("when", ())):
            for name in when.condition.names:
                if name not in known:
                    raise self._unknown(
                        f"name in the condition {when.condition.text!r}", name, known, "when", "if", place
                    )

    def _checked(self, name: str, check: Callable[[], T]) -> T:
        try:
            return check()
        except EngramError as error:
            raise self._wrong(str(error).removeprefix(f"line {line_of(self.text, '', name)}: "), "", name) from None

    def _wrong(self, message: str, table: str, name: str, place: int = 0) -> OptionError:
        line = line_of(self.text, table, name, place)
        return OptionError(f"line {line}: {message}" if line else message)

    def _unknown(self, kind: str, name: str, known: Iterable[str], table: str, key: str, place: int = 0) -> OptionError:
        return self._wrong(str(unknown(kind, name, known)), table, key, place)


def _none(value: Any) -> Any:
    """TOML has no None: the text stands for it."""
    return [_none(each) for each in value] if isinstance(value, list) else None if value == "None" else value

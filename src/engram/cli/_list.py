"""``engram list``."""

import json
import re
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from engram.certify import CLAIMS
from engram.maps import MAPS
from engram.models import MODELS
from engram.tasks import TASKS

COLUMNS = {
    "models": ("name", "good for", "equation", "recurrent parameters", "source"),
    "tasks": ("name", "what", "metric", "options"),
}
"""What fits beside each other on a screen; --json has all."""


@dataclass(frozen=True)
class List:
    """Show the models, maps, tasks or claims: what each is, its parameters or options, its cost, and its source.

    Examples: engram list tasks, engram list models --json
    """

    what: Annotated[Literal["models", "maps", "tasks", "claims"], tyro.conf.Positional] = "models"
    """What to list."""
    json: bool = False
    """Print a JSON list."""

    def run(self) -> None:
        rows = {"models": _models, "maps": _maps, "tasks": _tasks, "claims": _claims}[self.what]()
        if self.json:
            print(json.dumps(rows, default=str))
            return
        shown = COLUMNS.get(self.what, tuple(rows[0]))
        table = Table(
            title=self.what if self.what in ("tasks", "claims") else f"{self.what} (N hidden units)", show_lines=True
        )
        for column in shown:
            table.add_column(column, overflow="fold", no_wrap=column == "name" and self.what in COLUMNS)
        for row in rows:
            table.add_row(*(_text(row[column]) for column in shown))
        Console().print(table)


def _text(value: Any) -> str:
    return "\n".join(f"{name}={v}" for name, v in value.items()) if isinstance(value, dict) else str(value)


def _models() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "class": f"{entry.kind.__module__.partition('.')[0]}.nn.{entry.kind.__name__}",
            "good for": entry.good_for,
            "equation": entry.equation,
            "options": {key: option.default for key, option in entry.options.items()},
            "recurrent parameters": entry.parameters,
            "a step": entry.step_cost,
            "a build": entry.build_cost,
            "source": entry.source,
        }
        for name, entry in MODELS.items()
    ]


def _tasks() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "class": f"engram.tasks.{task.__name__}",
            "what": _plain((task.__doc__ or "").split("\n")[0]),
            "answer at": f"{task.answer} step",
            "metric": task.metric,
            "data set": task.is_data_set,
            "options": {field.name: field.default for field in fields(task)},
            "source": task.source,
        }
        for name, task in TASKS.items()
    ]


def _claims() -> list[dict[str, Any]]:
    return [
        {"name": name, "claim": claim.words, "sizes": ", ".join(field.name for field in fields(claim))}
        for name, claim in CLAIMS.items()
    ]


def _plain(line: str) -> str:
    """A line of a docstring for people who have neither the specifications nor Sphinx."""
    return re.sub(r":class:`~?\.?(\w+)`|``([^`]*)``", r"\1\2", re.sub(r" ?\(spec/[^)]*\)", "", line))


def _maps() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "equation": map.equation,
            "promise": map.promise,
            "parameters": map.count,
            "a product": _order(map.apply_cost),
            "a build": _order(map.build_cost),
            "source": map.source,
        }
        for name, map in MAPS.items()
    ]


def _order(cost: str) -> str:
    return cost if cost == "-" else f"O({cost})"

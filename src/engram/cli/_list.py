"""``engram list``."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from engram.maps import MAPS
from engram.nn import MODELS


@dataclass(frozen=True)
class List:
    """Show the models or the maps: equation, number of parameters, cost a step and a build, and source.

    Example: engram list maps
    """

    what: Annotated[Literal["models", "maps"], tyro.conf.Positional] = "models"
    """What to list."""
    json: bool = False
    """Print a JSON list."""

    def run(self) -> None:
        rows = _models() if self.what == "models" else _maps()
        if self.json:
            print(json.dumps(rows))
            return
        table = Table(title=f"{self.what} (N hidden units)", show_lines=True)
        for column in rows[0]:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*row.values())
        Console().print(table)


def _models() -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "class": f"engram.nn.{layer.__name__}",
            "equation": layer.cell.equation,
            "recurrent parameters": layer.count,
            "a step": f"O({layer.apply_cost})",
            "a build": layer.build_cost if layer.build_cost == "-" else f"O({layer.build_cost})",
            "source": layer.source,
        }
        for name, layer in MODELS.items()
    ]


def _maps() -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "equation": map.equation,
            "promise": map.promise,
            "parameters": map.count,
            "a step": f"O({map.apply_cost})",
            "a build": map.build_cost if map.build_cost == "-" else f"O({map.build_cost})",
            "source": map.source,
        }
        for name, map in MAPS.items()
    ]

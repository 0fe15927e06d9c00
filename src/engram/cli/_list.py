"""``engram list``."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from engram.maps import MAPS, Free
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
    rows = []
    for name, layer in MODELS.items():
        map = layer.matrix or Free
        own = layer.matrix is not None and layer.matrix is not Free
        rows.append(
            {
                "name": name,
                "class": f"engram.nn.{layer.__name__}",
                "equation": layer.cell.equation + (f"; {map.equation.replace('W =', 'W_hh =')}" if own else ""),
                "recurrent parameters": map.count if layer.cell.gates == 1 else "2N^2 + those of Q",
                "a step": "O(N^2)",
                "a build": _order(map.build_cost),
                "source": layer.source,
            }
        )
    return rows


def _maps() -> list[dict[str, str]]:
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

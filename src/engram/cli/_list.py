"""``engram list``."""

import json
import re
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from engram.certify import CLAIMS
from engram.maps import MAPS, Free
from engram.nn import MODELS, NETWORKS, Recurrent
from engram.tasks import TASKS

# The two that are torch's own, to compare with.
TORCH = {
    "lstm": {
        "equation": "i, f, o = sigmoid(...), c' = f c + i tanh(...), h' = o tanh(c')",
        "recurrent parameters": "4N^2",
        "a step": "O(N^2)",
        "a build": "-",
        "source": "Hochreiter and Schmidhuber 1997",
    },
    "gru": {
        "equation": "r, z = sigmoid(...), n = tanh(W x + r U h), h' = (1 - z) n + z h",
        "recurrent parameters": "3N^2",
        "a step": "O(N^2)",
        "a build": "-",
        "source": "Cho et al. 2014",
    },
}


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
            print(json.dumps(rows))
            return
        shown = ("name", "what", "metric", "options") if self.what == "tasks" else tuple(rows[0])  # --json has all
        table = Table(
            title=self.what if self.what in ("tasks", "claims") else f"{self.what} (N hidden units)", show_lines=True
        )
        for column in shown:
            table.add_column(column, overflow="fold", no_wrap=column == "name" and self.what == "tasks")
        for row in rows:
            table.add_row(*(_text(row[column]) for column in shown))
        Console().print(table)


def _text(value: Any) -> str:
    return "\n".join(f"{name}={v}" for name, v in value.items()) if isinstance(value, dict) else str(value)


def _models() -> list[dict[str, Any]]:
    rows = []
    for name, layer in MODELS.items():
        if not issubclass(layer, Recurrent):
            rows.append({"name": name, "class": f"torch.nn.{layer.__name__}", **TORCH[name]})
            continue
        map = layer.matrix or Free
        own = layer.matrix is not None and layer.matrix is not Free
        rows.append(
            {
                "name": name,
                "class": f"engram.nn.{layer.__name__}",
                "equation": layer.cell.equation + (f"; {map.equation.replace('W =', 'W_hh =')}" if own else ""),
                "recurrent parameters": layer.cell.count or map.count,
                "a step": layer.cell.step_cost,
                "a build": _order(map.build_cost),
                "source": layer.source,
            }
        )
    return rows + [
        {
            "name": name,
            "class": f"engram.nn.{network.__name__}",
            "equation": "h_y = <W_y, f(x_1) o ... o f(x_d)>, " + network.tensor,
            "recurrent parameters": network.count,
            "a step": network.step_cost,
            "a build": "-",
            "source": network.source,
        }
        for name, network in NETWORKS.items()
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

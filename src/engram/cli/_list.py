"""``engram list``: from the catalogue, without importing torch."""

import json
import shutil
import textwrap
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from engram.cli._catalogue import catalogue
from engram.errors import unknown

LINES = {"models": "good for", "tasks": "what", "maps": "promise", "claims": "claim"}
"""What is said of each in one line."""


@dataclass(frozen=True)
class List:
    """Show the models, maps, tasks or claims, one line each; with a name, all about that one.

    Examples:
        engram list tasks
        engram list models nnrnn
        engram list models --json
    """

    what: Annotated[Literal["models", "maps", "tasks", "claims"], Parameter(name="KIND")] = "models"
    """What to list."""
    name: Annotated[str | None, Parameter(name="NAME", metavar="NAME")] = None
    """One of them: equation, options, cost and source."""
    _: KW_ONLY
    json: bool = False
    """Print a JSON list; of one, an object."""

    def run(self) -> None:
        rows: list[dict[str, Any]] = catalogue()[self.what]
        if self.name is None:
            print(json.dumps(rows) if self.json else self._lines(rows))
            return
        row = next((row for row in rows if row["name"] == self.name), None)
        if row is None:
            raise unknown(self.what.removesuffix("s"), self.name, (row["name"] for row in rows))
        print(json.dumps(row) if self.json else _details(row))

    def _lines(self, rows: list[dict[str, Any]]) -> str:
        width = max(len(row["name"]) for row in rows)
        lines = [f"{row['name']:<{width}}  {row[LINES[self.what]]}" for row in rows]
        return "\n".join([*lines, "", f"engram list {self.what} {rows[0]['name']} shows all about one of them."])


def _details(row: dict[str, Any]) -> str:
    """One entry per paragraph, options one per line."""
    width = min(shutil.get_terminal_size().columns, 120)
    lines = []
    for key, value in row.items():
        if key == "help":
            continue
        if isinstance(value, dict):
            lines += [f"{key}:", *(_option(name, default, row["help"], width) for name, default in value.items())]
        else:
            said = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
            lines.append(textwrap.fill(f"{key}: {said}", width, subsequent_indent="    "))
    return "\n".join(lines)


def _option(name: str, default: Any, texts: dict[str, str], width: int) -> str:
    shown = "" if default is None else f" (default: {json.dumps(default) if not isinstance(default, str) else default})"
    text = f"    --{name.replace('_', '-')}  {texts.get(name, '')}{shown}"
    return textwrap.fill(text, width, subsequent_indent=" " * 8)

"""What there is, as a file: commands, models, tasks, maps, claims and their options, read without importing torch.

``make catalogue`` (``python -m engram.cli._catalogue``) writes the file; a test compares it with the code.
"""

import inspect
import json
from dataclasses import MISSING, fields
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")


@cache
def catalogue() -> dict[str, Any]:
    """The content of the file."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def options_after(words: list[str]) -> dict[str, Any]:
    """The options of the command that these words begin, by their flags, each with what it takes: None for a flag, a
    list of choices, or a word for what it is. Those of the task and the model that the words name are among them."""
    command = catalogue()["commands"].get(words[0] if words else "", {"options": {}})
    if "below" in command:
        command = command["below"].get(words[1] if len(words) > 1 else "", command)
    found = dict(command["options"])
    if words[:1] == ["train"] or words[:2] == ["plot", "task"]:
        named = {word.removeprefix("--model=") for word in words}
        model = next((name for name in names("models") if name in named), "exprnn")
        for what, chosen in (("tasks", named), ("models", {model} if words[0] == "train" else set())):
            for row in catalogue()[what]:
                for name, default in row["options"].items() if row["name"] in chosen else ():
                    flag = f"--{name.replace('_', '-')}"
                    found |= {flag: None, f"--no-{flag[2:]}": None} if isinstance(default, bool) else {flag: ""}
    return found


def names(what: str) -> list[str]:
    """The names of all models, tasks, maps or claims."""
    rows = catalogue().get(what)
    return [row["name"] for row in rows] if isinstance(rows, list) else []


def build() -> dict[str, Any]:
    """What the file must say: found in the code, which takes seconds to import."""
    lists = {"models": _models(), "tasks": _tasks(), "maps": _maps(), "claims": _claims()}
    return {**_commands(), **lists}


def write() -> None:
    """Make the file again."""
    FILE.write_text(json.dumps(build(), indent=1, default=str, ensure_ascii=False) + "\n", encoding="utf-8")


def _commands() -> dict[str, Any]:
    """The first page of help, and for each command its own."""
    from engram.cli._app import COMMANDS, command_app, load, root
    from engram.cli._command import Group
    from engram.cli._task_pages import HAVE_TASKS, shortened
    from engram.tasks import TASKS

    found = {name: _command(command_app(name, [name, "--help"])) for name in COMMANDS}
    lines = {name: known["help"] for name, known in found.items()}
    for name, known in found.items():
        kind, whole = load(name), root([name, "--help"], lines)
        known["page"] = _page(whole, name)
        if isinstance(kind, Group):
            known["noun"], known["alone"] = kind.noun, kind.default is not None
            known["below"] = {below: _command(whole[name][below]) for below in kind.commands}
            for below, each in known["below"].items():
                each["page"] = _page(whole, name, below)
    for command, *below in HAVE_TASKS:
        known = found[command]["below"][below[0]] if below else found[command]
        pages = {task: _page(root([command, *below, task, "--help"], lines), command, *below) for task in TASKS}
        known["tasks"] = {task: shortened(page, known["page"]) for task, page in pages.items()}
    return {"page": _page(root([], lines)), "commands": found}


def _page(app: Any, *words: str) -> list[str]:
    """A page of help as lines of at most 80 columns."""
    from rich.console import Console

    from engram.cli._command import print_help

    text = StringIO()
    print_help(app, words, Console(file=text, width=80, color_system=None, force_terminal=False))
    return [line.rstrip() for line in text.getvalue().rstrip().splitlines()]


def _command(app: Any) -> dict[str, Any]:
    """First line of help, options, and what words that stand alone may be."""
    options: dict[str, Any] = {}
    alone: list[Any] = []
    for argument in app.assemble_argument_collection() if app.default_command else ():
        choices, metavar = argument.get_choices(), argument.parameter.metavar
        takes = list(choices) if choices else metavar or ("PATH" if argument.hint is Path else "")
        flags = [name for name in argument.names if name.startswith("-")]
        if argument.index is not None or not flags:
            alone.append(takes or argument.name)
        for flag in flags if argument.index is None else ():
            options[flag] = None if argument.hint is bool else takes
    line = app.help.split("\n\n")[0].replace("\n", " ")
    return {"help": line, "options": options, "words": alone}


def _models() -> list[dict[str, Any]]:
    from engram.cli._model_options import help_of
    from engram.models import MODELS

    rows = []
    for name, entry in MODELS.items():
        texts = help_of(entry.kind)
        rows.append(
            {
                "name": name,
                "class": f"{entry.kind.__module__.partition('.')[0]}.nn.{entry.kind.__name__}",
                "good for": entry.good_for,
                "equation": entry.equation,
                "options": {key: option.default for key, option in entry.options.items()},
                "help": {key: texts.get(key, "") for key in entry.options},
                "recurrent parameters": entry.parameters,
                "per step": entry.step_cost,
                "to build W": entry.build_cost,
                "source": entry.source,
            }
        )
    return rows


def _tasks() -> list[dict[str, Any]]:
    from engram.tasks import TASKS

    rows = []
    for name, task in TASKS.items():
        rows.append(
            {
                "name": name,
                "class": f"engram.tasks.{task.__name__}",
                "what": _line(task),
                "answer at": f"{task.answer} step",
                "metric": task.metric,
                "data set": task.is_data_set,
                "options": {each.name: None if each.default is MISSING else each.default for each in fields(task)},
                "help": _fields_help(task),
                "source": task.source,
            }
        )
    return rows


def _maps() -> list[dict[str, Any]]:
    from engram.maps import MAPS

    return [
        {
            "name": name,
            "equation": map.equation,
            "promise": map.promise,
            "parameters": map.count,
            "per product": _order(map.apply_cost),
            "to build W": _order(map.build_cost),
            "source": map.source,
        }
        for name, map in MAPS.items()
    ]


def _claims() -> list[dict[str, Any]]:
    from engram.certify import CLAIMS

    rows = []
    for name, claim in CLAIMS.items():
        sizes = _fields_help(claim)
        rows.append({"name": name, "claim": claim.words, "sizes": ", ".join(sizes), "help": sizes})
    return rows


def _fields_help(kind: Any) -> dict[str, str]:
    """What the docstrings of a dataclass's fields say, each in one line, without markup."""
    from engram.cli._docs import docs_of, without_markup

    texts = docs_of(kind)
    return {each.name: without_markup(" ".join(texts.get(each.name, "").split())) for each in fields(kind)}


def _line(kind: type) -> str:
    """The first line of a docstring, without markup."""
    from engram.cli._docs import without_markup

    return without_markup(inspect.cleandoc(kind.__doc__ or "")).split("\n")[0]


def _order(cost: str) -> str:
    return cost if cost == "-" else f"O({cost})"


if __name__ == "__main__":
    write()

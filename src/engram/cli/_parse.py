"""From words to a command."""

import io
import re
import tomllib
from contextlib import redirect_stderr
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Union

import tyro

from engram.cli._bench import Bench
from engram.cli._completion import Completion
from engram.cli._demo import Demo
from engram.cli._draw import Draw
from engram.cli._evaluate import Evaluate
from engram.cli._list import List
from engram.cli._train import Resume, Train
from engram.errors import OptionError, unknown
from engram.tasks import TASKS
from engram.train import Settings

COMMANDS: dict[str, type] = {
    "demo": Demo,
    "train": Train,
    "resume": Resume,
    "evaluate": Evaluate,
    "list": List,
    "draw": Draw,
    "bench": Bench,
    "completion": Completion,
}
Command: Any = Union[  # noqa: UP007 - made at run time
    tuple(
        Annotated[command, tyro.conf.subcommand(name, description=cleandoc(command.__doc__ or ""))]
        for name, command in COMMANDS.items()
    )
]

TITLES = ("Unrecognized options", "Value error", "Missing argument", "Parsing error", "Invalid choice")


def parse(words: list[str]) -> Any:
    """The command these words ask for. What is wrong with them is told in one line."""
    if words[0] not in COMMANDS and not words[0].startswith("-"):
        raise unknown("command", words[0], COMMANDS)
    if words[0] == "train":
        words = ["train", *_with_config(words[1:])]
    heard = io.StringIO()
    try:
        with redirect_stderr(heard):
            return tyro.cli(
                Command,
                prog="engram",
                description="Recurrent networks whose memory you can measure, prove and train fast. "
                "--debug shows tracebacks.",
                args=words,
                config=(
                    tyro.conf.FlagCreatePairsOff,
                    tyro.conf.OmitArgPrefixes,
                    tyro.conf.OmitSubcommandPrefixes,
                    tyro.conf.CascadeSubcommandArgs,
                ),
            )
    except SystemExit as end:
        if end.code:
            raise OptionError(_one_line(heard.getvalue())) from None
        raise


def _with_config(words: list[str]) -> list[str]:
    """The words of ``engram train``, with those of the settings in --config FILE that they do not say themselves."""
    values: dict[str, Any] = {}
    if "--config" in words:
        place = words.index("--config") + 1
        values = _read(Path(words[place]) if place < len(words) else Path())
    task = values.pop("task", None)
    task = {"name": task} if isinstance(task, str) else task or {}
    named = bool(words) and not words[0].startswith("-")
    if not named and "name" in task:
        words = [task["name"], *words]
        named = True
    if named and words[0] not in TASKS:
        raise unknown("task", words[0], TASKS)
    if named and task.get("name", words[0]) == words[0]:
        values |= {name: value for name, value in task.items() if name != "name"}
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if flag not in words and value is not False:
            given = value if isinstance(value, list) else [] if value is True else [value]
            words = [*words, flag, *map(str, given)]
    return words


def _read(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise OptionError(f"--config {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"--config {path} is not TOML: {error}") from None
    known = [field.name for field in fields(Settings)]
    for name in values:
        if name not in known:
            raise unknown(f"setting in {path}", name, known)
    return values


def _one_line(box: str) -> str:
    """What tyro says in a frame, as one line: the fault and the likeliest cure."""
    parts = [re.sub(r"[\s│]+", " ", part).strip() for part in re.split(r"[─╭╮╰╯]{3,}", box)]
    said = [part for part in parts[1:] if part and not part.startswith("For full helptext")]
    fault = next((part for part in said if part not in TITLES), box.strip())
    own = re.sub(r"^Error parsing (Train|task): ", "", fault)  # our own words, from a check of the settings
    if own != fault:
        return own
    near = re.search(r"Perhaps you meant: .*?(--[\w-]+)", box.replace("\n", " "))
    return fault.rstrip(".") + (f". Did you mean {near[1]}?" if near else ". See --help")

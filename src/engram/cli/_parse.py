"""From words to a command."""

import io
import re
import tomllib
from contextlib import redirect_stderr
from dataclasses import fields
from pathlib import Path
from typing import Any

import tyro

from engram.cli._bench import Bench
from engram.cli._certify import SUBJECTS, Certify, Verify
from engram.cli._completion import Completion
from engram.cli._convert import CONVERSIONS, Convert
from engram.cli._demo import Demo
from engram.cli._draw import PICTURES, Draw
from engram.cli._evaluate import Evaluate
from engram.cli._list import List
from engram.cli._probe import Probe
from engram.cli._size import Size
from engram.cli._subcommands import subcommands
from engram.cli._train import Resume, Train
from engram.errors import FileError, OptionError, unknown
from engram.files import read_bounded
from engram.models import MODELS
from engram.tasks import TASKS
from engram.train import Settings

COMMANDS: dict[str, type] = {
    "demo": Demo,
    "train": Train,
    "resume": Resume,
    "evaluate": Evaluate,
    "certify": Certify,
    "verify": Verify,
    "probe": Probe,
    "size": Size,
    "convert": Convert,
    "list": List,
    "draw": Draw,
    "bench": Bench,
    "completion": Completion,
}
Command: Any = subcommands(COMMANDS)

TITLES = (
    "Unrecognized options",
    "Required options",
    "Value error",
    "Missing argument",
    "Parsing error",
    "Invalid choice",
)


def parse(words: list[str]) -> Any:
    """The command these words ask for. What is wrong with them is told in one line."""
    if words[0] not in COMMANDS and not words[0].startswith("-"):
        raise unknown("command", words[0], COMMANDS)
    words = _apart(words)
    words = _gathered(_model_options(words) if words[0] == "train" else words)
    subcommands: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("certify", "claim", SUBJECTS),
        ("draw", "picture", tuple(PICTURES)),
        ("convert", "conversion", tuple(CONVERSIONS)),
    )
    for command, kind, known in subcommands:
        if words == [command]:
            raise OptionError(f"engram {command} needs a {kind}, one of: {', '.join(known)}")
        if words[0] == command and not words[1].startswith("-") and words[1] not in known:
            raise unknown(kind, words[1], known)
    if words[0] == "train":
        words = ["train", *_with_config(_task_first(words[1:]))]
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


def _apart(words: list[str]) -> list[str]:
    """``--lr=3`` as ``--lr 3``, one form for all that follows; not where the value looks like an option."""
    pairs = (re.fullmatch(r"(--[\w-]+)=((?!-[^\d.]).*)", word, re.DOTALL) for word in words)
    return [part for word, pair in zip(words, pairs, strict=True) for part in (pair.groups() if pair else (word,))]


def _model_options(words: list[str]) -> list[str]:
    """``--equal-cores`` and ``--activation relu``, where the model has such an option and the run has not, as
    ``--option equal_cores=True`` and ``--option activation=relu``."""
    named = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--model"]
    if not named or named[-1] not in MODELS:
        return words
    tasks = [TASKS[word] for word in words if word in TASKS][:1]
    kinds: list[Any] = [Train, *tasks]
    taken = {field.name for kind in kinds for field in fields(kind)}
    known = {*MODELS[named[-1]].options} - taken
    result: list[str] = []
    place = 0
    while place < len(words):
        name = words[place].removeprefix("--").replace("-", "_")
        place += 1
        if not (words[place - 1].startswith("--") and name in known):
            result.append(words[place - 1])
        elif place < len(words) and not re.match(r"-[^\d.]", words[place]):  # a negative number is a value
            result += ["--option", f"{name}={words[place]}"]
            place += 1
        else:
            result += ["--option", f"{name}=True"]
    return result


def _gathered(words: list[str]) -> list[str]:
    """``--option a=1 --option b=2`` as ``--option a=1 b=2``: tyro would keep the last one only."""
    rest: list[str] = []
    options: list[str] = []
    for place, word in enumerate(words):
        begins = words[place - 1 : place] == ["--option"] and not word.startswith("-")
        goes_on = bool(options) and words[place - 1] == options[-1] and re.match(r"[^\W\d]\w*=", word)
        if begins or goes_on:
            options.append(word)
        elif word != "--option":
            rest.append(word)
    return [*rest, "--option", *options] if options else words


def _task_first(words: list[str]) -> list[str]:
    """The task may stand anywhere among the words of ``engram train``: its name is the word that no option takes."""
    places = [place for place, word in enumerate(words) if word in TASKS and words[place - 1 : place] != ["--name"]]
    if places:
        return [words[places[0]], *words[: places[0]], *words[places[0] + 1 :]]
    alone = {"--" + field.name.replace("_", "-") for field in fields(Train) if isinstance(field.default, bool)}
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        taken = before.startswith("--") and before not in alone
        if not (word.startswith("-") or "=" in word or taken):
            return [word, *words[:place], *words[place + 1 :]]
    return words


def _with_config(words: list[str]) -> list[str]:
    """The words of ``engram train``, with those of the settings in --config FILE that they do not say themselves."""
    values, path = _settings_file(words)
    task = values.pop("task", {})
    task = {"name": task} if isinstance(task, str) else task
    if not isinstance(task, dict):
        raise OptionError(f"task in {path} must be a name or a table with a name, got {task!r}")
    named = bool(words) and not words[0].startswith("-")
    if not named and "name" in task:
        words, named = [str(task["name"]), *words], True
    if not named and not {"-h", "--help"} & {*words}:
        raise OptionError(f"engram train needs a task, one of: {', '.join(TASKS)}. See engram list tasks")
    if named and words[0] not in TASKS:
        raise unknown("task", words[0], TASKS)
    if named and task.get("name", words[0]) == words[0]:
        values |= {name: value for name, value in task.items() if name != "name"}
    said = {word.replace("_", "-") for word in words if word.startswith("--")}
    said |= {"--steps", "--epochs"} if {"--steps", "--epochs"} & said else set()  # one or the other
    defaults = {
        field.name: field.default for kind in (Settings, TASKS.get(words[0], Settings)) for field in fields(kind)
    }
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        negative = flag.replace("--", "--no-", 1)
        if flag in said or negative in said:
            continue
        default = defaults.get(name)
        if isinstance(value, bool) and isinstance(default, bool):
            words = [*words, flag if value else negative] if value != default else words
        elif isinstance(value, list):
            if not isinstance(default, tuple) or any(str(each).startswith("--") for each in value):
                raise OptionError(f"{name} in {path} must be {_kind(default)}, got {value!r}")
            words = [*words, flag, *map(str, value)]
        else:
            dashed = isinstance(value, str) and value.startswith("-")  # a value, not another flag
            words = [*words, *([f"{flag}={value}"] if dashed else [flag, str(value)])]
    return words


def _kind(default: Any) -> str:
    return "a list of values, none a flag" if isinstance(default, tuple) else "one value"


def _settings_file(words: list[str]) -> tuple[dict[str, Any], Path | None]:
    """What the file after --config says."""
    places = [place for place, word in enumerate(words[:-1]) if word == "--config"]  # without a file tyro complains
    if not places:
        return {}, None
    path = Path(words[places[-1] + 1])
    try:
        values = tomllib.loads(read_bounded(path, 2**20).decode())
    except OSError as error:
        raise OptionError(f"--config {path}: {error.strerror}") from None
    except FileError as error:
        raise OptionError(f"--config {path}: {error}") from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # not TOML, not UTF-8, endless digits or nesting
        raise OptionError(f"--config {path} is not TOML: {error}") from None
    known = [field.name for field in fields(Settings)]
    values = {name.replace("-", "_"): value for name, value in values.items()}
    for name in values:
        if name not in known:
            raise OptionError(f"{unknown(f'setting in {path}', name, known)} Options of the task go under [task]")
    return values, path


def _one_line(box: str) -> str:
    """What tyro says in a frame, as one line: the fault and the likeliest cure."""
    parts = [re.sub(r"[\s│╭─]+", " ", part).strip() for part in re.split(r"[─╭╮╰╯]{3,}|-{5,}", box)]  # or in ASCII
    said = [part for part in parts if part and not part.startswith("For full helptext")]
    fault = next((part for part in said if part not in TITLES), " ".join(box.split()))
    own = re.sub(r"^Error parsing (Train|task|\S*\bsubject\S*): ", "", fault)  # our own words, from a check of sizes
    if own != fault:
        return own
    if choice := re.match(r"invalid choice '(.*)' for argument '(.*?)'\. Expected one of \((.*)\)", fault):
        known = [name for name in re.findall(r"'([^']*)'", choice[3]) if name != "None"]
        return str(unknown({"what": "word"}.get(choice[2], choice[2]), choice[1], known))
    for sign, kind in (("invalid literal for int() with base 10: ", "whole number"), ("string to float: ", "number")):
        if (flag := re.match(r"Error parsing (--[\w-]+):", fault)) and sign in fault:
            return f"{flag[1]} must be a {kind}, got {fault.rpartition(sign)[2].rstrip('.')}"
    if missing := re.match(r"Missing value for argument '(.*?)'", fault):
        return f"{missing[1]} needs a value. See --help"
    fault = re.sub(r" \(applied to [^)]*\)| Arguments are applied to the directly.*| \(required\)", "", fault)
    near = re.search(r"Perhaps you meant: .*?(--[\w-]+)", box.replace("\n", " "))
    better = near and near[1] not in fault.split()
    return fault.rstrip(".") + (f". Did you mean {near[1]}?" if near and better else ". See --help")

"""From words to a command."""

import io
import re
import tomllib
from contextlib import redirect_stderr
from inspect import cleandoc
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
from engram.cli._train import Resume, Train, defaults, train_command
from engram.errors import EngramError, FileError, OptionError, unknown
from engram.files import read_bounded
from engram.imports import check_allowed, full_name, is_outside
from engram.tasks import TASKS, Task, make_task, task_class
from engram.train import groups_of

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

DESCRIPTION = "Recurrent networks whose memory you can measure, prove and train fast. --debug shows tracebacks."
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
        return _train(words[1:])
    return _cli(Command, _gathered(words), (tyro.conf.FlagCreatePairsOff,))


def _cli(kind: Any, words: list[str], config: tuple[Any, ...], **options: Any) -> Any:
    """What tyro makes of the words; its complaints in one line."""
    train = kind is not Command
    heard = io.StringIO()
    try:
        with redirect_stderr(heard):
            return tyro.cli(
                kind,
                prog="engram train" if train else "engram",
                description=cleandoc(kind.__doc__) if train else DESCRIPTION,
                args=words,
                config=(
                    *config,
                    tyro.conf.OmitArgPrefixes,
                    tyro.conf.OmitSubcommandPrefixes,
                    tyro.conf.CascadeSubcommandArgs,
                ),
                **options,
            )
    except SystemExit as end:
        if end.code:
            raise OptionError(_one_line(heard.getvalue(), words)) from None
        raise


def _apart(words: list[str]) -> list[str]:
    """``--lr=3`` as ``--lr 3``, one form for all that follows; not where the value looks like an option."""
    pairs = (re.fullmatch(r"(--[\w-]+)=((?!-[^\d.]).*)", word, re.DOTALL) for word in words)
    return [part for word, pair in zip(words, pairs, strict=True) for part in (pair.groups() if pair else (word,))]


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


FOLLOWING = {
    "--optimizer": ("optimiser", ("alpha", "betas", "momentum", "eps")),
    "--lr": ("optimiser", ("lr_orthogonal",)),
    "--steps": ("optimiser", ("cosine_steps",)),
    "--plateau": ("optimiser", ("schedule",)),
    "--step-size": ("optimiser", ("schedule",)),
}
"""Settings whose default follows from another: given that one, those of a file do not count."""


def _train(words: list[str]) -> Any:
    """The command ``engram train`` with the flags of its model; the defaults are those of the file after --config."""
    if "--option" in words:
        raise OptionError("options of a model are flags: --activation relu; in a file they are under [model.options]")
    words = _task_first(words)
    path = _value_of("--config", words)
    typed = [word for word in (*words[:1], _value_of("--model", words)) if word and is_outside(word)]
    allow = [*typed, *(words[place + 1] for place, word in enumerate(words[:-1]) if word == "--allow")]
    values = _read_settings(Path(path), allow) if path is not None else {}
    task, words = _task_of(words, values, path, allow)
    named = _value_of("--model", words)
    in_file = values.get("model", {}).get("name", "exprnn")
    command = train_command(named or in_file, task if isinstance(task, type) or task is None else type(task))
    if not isinstance(task, Task):
        return _cli(command, words, (tyro.conf.FlagCreatePairsOff,))
    said = {word.replace("_", "-") for word in words}
    if {"--steps", "--epochs"} & said:  # one or the other
        values["budget"] = {k: v for k, v in values.get("budget", {}).items() if k not in ("steps", "epochs")}
    if "--group" in said:  # all of them, not some of each: the first that matches counts
        values["optimiser"] = {k: v for k, v in values.get("optimiser", {}).items() if k != "groups"}
    for flag, (group, names) in FOLLOWING.items():  # what a resolved file says of what a flag now changes
        if flag in said:
            values[group] = {k: v for k, v in values.get(group, {}).items() if k not in names}
    if named and not _same(named, in_file):  # the options are another model's
        values["model"] = {k: v for k, v in values.get("model", {}).items() if k != "options"}
    return _cli(command, words, (), default=defaults(command, task, values, allow))


def _task_of(
    words: list[str], values: dict[str, Any], path: str | None, allow: list[str]
) -> tuple[Task | type[Task] | None, list[str]]:
    """The task that words or file name, with its options in the file (without a file, its class); and the words with
    its name in front."""
    task = values.pop("task", {})
    task = {"name": task} if isinstance(task, str) else task
    if not isinstance(task, dict):
        raise OptionError(f"task in {path} must be a name or a table with a name, got {task!r}")
    if not words or words[0].startswith("-"):
        if "name" not in task and not {"-h", "--help"} & {*words}:
            raise OptionError(f"engram train needs a task, one of: {', '.join(TASKS)}. See engram list tasks")
        if "name" in task:  # a file's word, not a person's
            check_allowed(str(task["name"]), allow)
            words = [str(task["name"]), *words]
    name = words[0]
    if name.startswith("-"):
        return None, words
    same = _same(task.get("name", name), name)
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in task.items() if k != "name" and same}
    if path is None:
        kind = task_class(name)
        return kind, [kind.name, *words[1:]]
    made = make_task(name, **options)
    return made, [made.name, *words[1:]]


def _same(name: Any, other: Any) -> bool:
    """Whether two names mean one thing: a file may be named by a path from here or from the root."""
    return name == other or (
        all(isinstance(n, str) and is_outside(n) for n in (name, other)) and (full_name(name) == full_name(other))
    )


def _task_first(words: list[str]) -> list[str]:
    """The task may stand anywhere among the words of ``engram train``: its name is the word that no option takes."""
    places = [place for place, word in enumerate(words) if word in TASKS and words[place - 1 : place] != ["--name"]]
    taking = ("--model", "--allow", "--out", "--config", "--name")
    places += [k for k, word in enumerate(words) if re.search(r"\.py:[\w.]+$", word) and words[k - 1] not in taking]
    if places:
        return [words[places[0]], *words[: places[0]], *words[places[0] + 1 :]]
    alone = {"--dry-run", "--json", "--tensorboard", "--no-readout-bias"}
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        taken = before.startswith("--") and before not in alone
        if not (word.startswith("-") or "=" in word or taken):
            return [word, *words[:place], *words[place + 1 :]]
    return words


def _value_of(flag: str, words: list[str]) -> str | None:
    """The word after the last such flag, if there is one; else tyro complains."""
    return next((words[place + 1] for place in reversed(range(len(words) - 1)) if words[place] == flag), None)


def _read_settings(path: Path, allow: list[str]) -> dict[str, Any]:
    """The groups of a TOML file; hyphens and underscores are alike, and of lists and options the text None is None."""
    try:
        values = tomllib.loads(read_bounded(path, 2**20).decode())
    except OSError as error:
        raise OptionError(f"--config {path}: {error.strerror}") from None
    except FileError as error:
        raise OptionError(f"--config {path}: {error}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, endless digits or nesting
        raise OptionError(f"--config {path} is not TOML: {error}") from None
    values = _plain(values)
    if isinstance(model := values.get("model"), dict) and isinstance(options := model.get("options"), dict):
        model["options"] = {name: None if value == "None" else value for name, value in options.items()}
    try:
        groups_of(values, allow)
    except EngramError as error:
        raise type(error)(f"--config {path}: {error}") from None
    return values


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [None if each == "None" else _plain(each) for each in values]
    return {k.replace("-", "_"): _plain(v) for k, v in values.items()} if isinstance(values, dict) else values


def _one_line(box: str, words: list[str]) -> str:
    """What tyro says in a frame, as one line: the fault and the likeliest cure."""
    parts = [re.sub(r"[\s│╭─]+", " ", part).strip() for part in re.split(r"[─╭╮╰╯]{3,}|-{5,}", box)]  # or in ASCII
    said = [part for part in parts if part and not part.startswith("For full helptext")]
    fault = next((part for part in said if part not in TITLES), " ".join(box.split()))
    groups = r"Train|task|--group|model|optimiser|budget|machine|\S*\bsubject\S*"
    own = re.sub(rf"^Error parsing ({groups}): ", "", fault)  # our own words, from a check of sizes
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
    if (word := re.fullmatch(r"Unrecognized options: ([^\s-]\S*)", fault)) and word[1] in words:
        before = words[words.index(word[1]) - 1]
        if before.startswith("--"):
            return f"{before} is a flag and takes no value, got {word[1]!r}"
    fault = re.sub(r" \(applied to [^)]*\)| Arguments are applied to the directly.*| \(required\)", "", fault)
    near = re.search(r"Perhaps you meant: .*?(--[\w-]+)", box.replace("\n", " "))
    better = near and near[1] not in fault.split()
    return fault.rstrip(".") + (f". Did you mean {near[1]}?" if near and better else ". See --help")

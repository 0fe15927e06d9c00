"""From words to a command. A command's file is imported when its name is typed: help and lists need no torch."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError

from engram.cli._catalogue import catalogue
from engram.cli._command import Group, app_of, empty_app, print_help
from engram.cli._mistakes import in_one_line
from engram.cli._task_pages import HAVE_TASKS, whole
from engram.errors import OptionError, unknown

COMMANDS = {
    "demo": "_demo:Demo",
    "train": "_train:train_app",
    "resume": "_resume:Resume",
    "sweep": "_sweep:SWEEP",
    "evaluate": "_evaluate:Evaluate",
    "runs": "_runs:RUNS",
    "compare": "_compare:Compare",
    "certify": "_certify:CERTIFY",
    "verify": "_verify:Verify",
    "probe": "_probe:Probe",
    "size": "_size:Size",
    "convert": "_convert:CONVERT",
    "list": "_list:List",
    "plot": "_plot:PLOT",
    "bench": "_bench:Bench",
    "completion": "_completion:Completion",
}
"""Where each command is: the file, and in it a dataclass, a group of commands, or a function of the words."""
HELP = ("-h", "--help")
DESCRIPTION = """Recurrent networks whose memory you can measure, prove and train fast.

Example: engram train copy --model nnrnn --hidden 128 --delay 200

engram COMMAND --help shows the options of a command; --debug shows tracebacks; --version the version."""


@dataclass(frozen=True)
class Help:
    """A page of help that was asked for, of the command that these words begin."""

    words: tuple[str, ...]

    def run(self) -> None:
        """The catalogue has most pages; those of a model or of code outside engram are made."""
        page = page_of(self.words) if (sys.stdout.encoding or "").lower().startswith("utf") else None
        if page is None:
            print_help(root(self.words), _chain(self.words))
        else:
            print(*page, sep="\n")


def page_of(words: Sequence[str]) -> list[str] | None:
    """The lines of the page that the catalogue has for these words, if it has one."""
    words = [word for word in words if word not in HELP]
    found: dict[str, Any] = catalogue()["commands"].get(words[0], {}) if words else catalogue()
    if words[1:2] and words[1] in found.get("below", ()):
        found = found["below"][words[1]]
    for command in HAVE_TASKS:
        if more := words[len(command) :] if tuple(words[: len(command)]) == command else []:
            kept = found["tasks"].get(more[0]) if len(more) == 1 else None  # other words name a model, a file
            return kept and whole(kept, found["page"])
    return found.get("page")


def _chain(words: Sequence[str]) -> Sequence[str]:
    """The names of command and command below it."""
    below = catalogue()["commands"].get(words[0], {}).get("below", ()) if words else ()
    return words[: 2 if words[1:2] and words[1] in below else 1]


def parse(words: list[str]) -> Any:
    """The command that these words ask for, an object with a method ``run``. A mistake is told in one line."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in HELP:
        return Help(())
    if words[0].startswith("-"):
        raise OptionError(f"unknown option {words[0]} of engram: the name of a command comes first. See engram --help")
    if words[0] not in COMMANDS:
        raise unknown("command", words[0], COMMANDS)
    _check_group(words)
    if {*HELP} & {*words}:
        return Help(tuple(words))
    try:
        make, bound, _ = root(words).parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise in_one_line(error, words) from None
    return make(*bound.args, **bound.kwargs)


def root(words: Sequence[str], lines: Mapping[str, str] | None = None) -> App:
    """The whole app; of the commands only the one that the words name is more than a line of help, out of ``lines``."""
    app = empty_app("engram", DESCRIPTION)
    if lines is None:
        lines = {name: known["help"] for name, known in catalogue()["commands"].items()}
    for place, name in enumerate(COMMANDS):
        below = command_app(name, words) if [name] == [*words[:1]] else empty_app(name, lines.get(name, ""))
        below.sort_key = place
        app.command(below)
    return app


def command_app(name: str, words: Sequence[str]) -> App:
    """The app of one command. That of ``train`` depends on the words: task and model have options of their own; so does
    that of ``plot task``."""
    kind = load(name)
    return app_of(name, kind, words[1:]) if isinstance(kind, type | Group) else kind(name, list(words[1:]))


def load(name: str) -> Any:
    """What stands for a command in its file."""
    file, _, attribute = COMMANDS[name].partition(":")
    return getattr(import_module(f"engram.cli.{file}"), attribute)


def _check_group(words: list[str]) -> None:
    """Refuse a group of commands without one of them, unless it does something by itself."""
    known = catalogue()["commands"].get(words[0], {})
    if "below" not in known:
        return
    if len(words) == 1 and not known["alone"]:
        raise OptionError(f"engram {words[0]} needs a {known['noun']}, one of: {', '.join(known['below'])}")
    if len(words) == 1 or words[1].startswith("-") or words[1] in known["below"]:
        return
    is_slip = bool(get_close_matches(words[1], known["below"], cutoff=0.75)) and not Path(words[1]).exists()
    if is_slip or not (known["alone"] and known["words"]):  # else it is a file, which may have any name
        raise unknown(known["noun"], words[1], known["below"])

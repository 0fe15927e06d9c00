"""From words to a command. A command's file is imported when its name is typed: help and lists need no torch."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cyclopts import App, CycloptsError

from engram.cli._catalogue import catalogue
from engram.cli._command import Group, app_of, empty_app
from engram.cli._mistakes import in_one_line
from engram.errors import OptionError, unknown

COMMANDS = {
    "demo": "_demo:Demo",
    "train": "_train:train_app",
    "resume": "_resume:Resume",
    "evaluate": "_evaluate:Evaluate",
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
DESCRIPTION = """Recurrent networks whose memory you can measure, prove and train fast.

Example: engram train copy --model nnrnn --hidden 128 --delay 200

engram COMMAND --help shows the options of a command; --debug shows tracebacks; --version the version."""


@dataclass(frozen=True)
class Help:
    """A page of help that was asked for."""

    app: App
    words: tuple[str, ...]

    def run(self) -> None:
        self.app.help_print(self.words)


def parse(words: list[str]) -> Any:
    """The command that these words ask for, an object with a method ``run``. A mistake is told in one line."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        return Help(root(), ())
    if words[0].startswith("-"):
        raise OptionError(f"unknown option {words[0]} of engram: the name of a command comes first. See engram --help")
    if words[0] not in COMMANDS:
        raise unknown("command", words[0], COMMANDS)
    app, below = root(words), _check_group(words)
    if {"-h", "--help"} & {*words}:
        return Help(app, tuple(words[: 2 if below and words[1] in below else 1]))
    try:
        make, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise in_one_line(error, words) from None
    return make(*bound.args, **bound.kwargs)


def root(words: list[str] | None = None) -> App:
    """The whole app; of the commands only the one that the words name is more than a line of help."""
    app = empty_app("engram", DESCRIPTION)
    named = words[0] if words else None
    for place, name in enumerate(COMMANDS):
        known = catalogue()["commands"].get(name, {"help": ""})  # a new command, before the catalogue has it
        below = command_app(name, words or []) if name == named else empty_app(name, known["help"])
        below.sort_key = place
        app.command(below)
    return app


def command_app(name: str, words: list[str]) -> App:
    """The app of one command. That of ``train`` depends on the words: task and model have options of their own."""
    kind = load(name)
    return app_of(name, kind) if isinstance(kind, type | Group) else kind(name, words[1:])


def load(name: str) -> Any:
    """What stands for a command in its file."""
    file, _, attribute = COMMANDS[name].partition(":")
    return getattr(import_module(f"engram.cli.{file}"), attribute)


def _check_group(words: list[str]) -> dict[str, Any]:
    """Refuse a group of commands without one of them; the commands there are."""
    known = catalogue()["commands"].get(words[0], {})
    if "below" not in known:
        return {}
    if len(words) == 1:
        raise OptionError(f"engram {words[0]} needs a {known['noun']}, one of: {', '.join(known['below'])}")
    if not words[1].startswith("-") and words[1] not in known["below"]:
        raise unknown(known["noun"], words[1], known["below"])
    below: dict[str, Any] = known["below"]
    return below

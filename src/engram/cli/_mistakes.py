"""What cyclopts found wrong with the words, as one line: the fault, what was expected, and the likeliest cure."""

import inspect
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import starmap
from typing import Any, Literal, get_args, get_origin

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownOptionError

from engram.cli._catalogue import catalogue
from engram.cli._run_words import newest_run
from engram.errors import EngramError, OptionError, unknown

RENAMED = {"--every": "--probe-every"}
KINDS = {int: "a whole number", float: "a number", bool: "True or False"}


def in_one_line(error: CycloptsError, words: list[str]) -> EngramError:
    """The error of the library that says the same."""
    if isinstance(error.__cause__, EngramError):
        return error.__cause__
    if isinstance(error, UnknownOptionError):
        return OptionError(_unknown_option(error, words))
    if isinstance(error, CoercionError):
        return _wrong_value(error)
    if isinstance(error, MissingArgumentError):
        return OptionError(_missing(error))
    if error.unused_tokens:
        return OptionError(_left_over(error.unused_tokens[0], error, words))
    return OptionError(" ".join(str(error).split()))


def _unknown_option(error: UnknownOptionError, words: list[str]) -> str:
    flag = (error.token.keyword or error.token.value).partition("=")[0]
    if flag in RENAMED:
        return f"{flag} is called {RENAMED[flag]} now"
    if any(each.name == flag.lstrip("-").upper() for each in error.argument_collection):
        mended = [word.removeprefix(f"{flag}=") for word in words if word != flag]
        return f"write it without {flag}: {shlex.join(['engram', *mended])}"
    known = [name for each in error.argument_collection for name in each.names if name.startswith("-")]
    owners = _owners() if words[0] == "train" else {}
    typed = flag.replace("_", "-")
    tries = ((known, 0.8), (owners, 0.75), (known, 0.6))  # a likely slip, another's option, an unlikely slip
    near = next((found for names, cutoff in tries if (found := get_close_matches(typed, names, 1, cutoff))), [])
    said = f"unknown option {flag} of engram {_command(error)}"
    if not near:
        return f"{said}. engram {_command(error)} --help lists them"
    if near[0] in known:
        return f"{said}. Did you mean {near[0]}?"
    return f"{said} here. {near[0]} is an option of {owners[near[0]]}"


def _owners() -> dict[str, str]:
    """Every option of a task or a model, and whose it is."""
    found: dict[str, dict[str, list[str]]] = {}
    for what in ("task", "model"):
        for row in catalogue()[f"{what}s"]:
            for name in row["options"]:
                found.setdefault(f"--{name.replace('_', '-')}", {}).setdefault(what, []).append(row["name"])
    return {flag: " and of ".join(starmap(_several, kinds.items())) for flag, kinds in found.items()}


def _several(what: str, names: list[str]) -> str:
    return f"the {what}{'s' * (len(names) > 1)} {', '.join(names)}"


def _wrong_value(error: CoercionError) -> EngramError:
    argument, token = error.argument, error.token
    name = (token.keyword if token else None) or (argument.name if argument else "the value")
    value = token.value if token else ""
    kind = error.target_type
    if get_origin(kind) is Literal:
        kinds = {row["name"]: what for what in ("claims", "maps", "tasks", "models") for row in catalogue()[what]}
        if name == "KIND" and value in kinds:  # engram list nnrnn
            return OptionError(f"{value} is one of the {kinds[value]}: write engram list {kinds[value]} {value}")
        return unknown(name if name.startswith("-") else name.lower(), value, map(str, get_args(kind)))
    if kind in KINDS:
        hint = ""
        if kind is int and _is_whole(value):
            hint = f": write {int(float(value))}"
        return OptionError(f"{name} must be {KINDS[kind]}, got {value!r:.60}{hint}")
    return OptionError(f"{name} cannot be {value!r:.60}. See --help")


def _is_whole(text: str) -> bool:
    """Whether a text such as 1e3 or 8.0 is a whole number all the same."""
    try:
        return float(text).is_integer()
    except (ValueError, OverflowError):
        return False


def _missing(error: MissingArgumentError) -> str:
    argument = error.argument
    if argument is None:
        return " ".join(str(error).split())
    flag = error.keyword or next((each.keyword for each in argument.tokens if each.keyword), None)
    count = argument.token_count()[0]
    if flag or error.tokens_so_far:
        choices = argument.get_choices()
        more = f", one of: {', '.join(choices)}" if choices else ""
        needs = f"{count} values, got {len(error.tokens_so_far)}" if count > 1 else f"a value{more}"
        return f"{flag or argument.name} needs {needs}. See --help"
    mistyped = [word for word in error.unused_tokens or () if word.startswith("--")]
    if near := get_close_matches(argument.name, mistyped, n=1, cutoff=0.6):
        return f"unknown option {near[0]} of engram {_command(error)}. Did you mean {argument.name}?"
    name = "-o" if "-o" in argument.names else argument.name
    said = f"engram {_command(error)} needs {name}, {_begin_small(argument.parameter.help or 'a value')}"
    if argument.name == "RUN" and (run := newest_run()):
        return f"{said}. The newest one here: engram {_command(error)} {run}"
    return f"{said}. {_example(error)}"


def _left_over(word: str, error: CycloptsError, words: list[str]) -> str:
    before = words[words.index(word) - 1] if word in words[1:] else ""
    if before.startswith("--"):
        return f"{before} is a flag and takes no value, got {word!r}" + _opposite(before, word)
    return f"engram {_command(error)} takes no further word, got {word!r}. {_example(error)}"


def _opposite(flag: str, word: str) -> str:
    off = word.lower() in ("false", "no", "off", "0") and not flag.startswith("--no-")
    return f": write --no-{flag.removeprefix('--')}" if off else ""


def _command(error: CycloptsError) -> str:
    return " ".join(error.command_chain or ())


def _example(error: CycloptsError) -> str:
    """The first example of the command's help."""
    app: Any = error.app
    lines: Iterable[str] = str(app.help_epilogue or "").splitlines()
    found = next((line[line.index("engram ") :].strip() for line in lines if "engram " in line), "")
    return f"Example: {found}" if found else "See --help"


def _begin_small(text: str) -> str:
    """The first sentence, to stand within another."""
    first = inspect.cleandoc(text).split(". ")[0].split("; ")[0].rstrip(".").replace("\n", " ")
    is_symbol = (first[:2].isupper() or first[1:2] in (",", " ")) and not first.startswith("A ")
    return first if is_symbol else first[:1].lower() + first[1:]

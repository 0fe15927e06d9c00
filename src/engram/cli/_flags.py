"""Messages of the library name arguments; a person at the command line knows flags."""

import re
from collections.abc import Iterable

from engram.cli._catalogue import options_after

AFTER = r"(?<![\w\-.'\"=])"
SENTENCES = (
    rf"{AFTER}NAME(?= must | is an option of | is for | is a size| needs | and \w+ count )",
    rf"{AFTER}NAME(?= '[^']*' cannot be used)",
    r"(?<=give )NAME\b",
    r"(?<=, or )NAME(?= with )",
    r"(?<= with )NAME$",
    r"(?<=give a )NAME\b",
    r"(?<=see )NAME\b",
    r"(?<=smaller )NAME\b",
    r"(?<=larger )NAME\b",
    r"(?<=raise )NAME\b",
    r"(?<=within )NAME(?=,)",
    r"(?<=\) or )NAME(?= \(now )",
    r"(?<=needs )NAME(?=,)",
    r"(?<=\(and )NAME(?=\))",
    r"(?<=multiple of )NAME\b",
)
"""Where a plain word such as steps is the name of an argument; NAME stands for the names."""


def with_flags(message: str, words: list[str]) -> str:
    """A message of the library as an answer to these words."""
    return in_flags(message, (flag.strip("-").replace("-", "_") for flag in options_after(words) if len(flag) > 2))


def in_flags(message: str, names: Iterable[str]) -> str:
    """A message with the arguments of these names as flags.

    Names with an underscore are arguments wherever they stand; plain words only where the sentence says so.

    >>> in_flags("hidden must be at least 1, got 0", ["hidden"])
    '--hidden must be at least 1, got 0'
    >>> in_flags("give steps or epochs, not both; got 3 and 1", ["steps", "epochs"])
    'give --steps or --epochs, not both; got 3 and 1'
    >>> in_flags("the schedule step needs step_size", ["step_size"])
    'the schedule step needs --step-size'
    """
    known = sorted({name for name in names if name}, key=len, reverse=True)
    if not known or message.startswith("--config"):  # of a file, which has no flags
        return message
    long = [name for name in known if "_" in name]
    if long:
        message = re.sub(rf"{AFTER}({'|'.join(long)})\b(?!=)", _flag, message)
    either = "|".join(known)
    for pattern in SENTENCES:
        message = re.sub(pattern.replace("NAME", f"({either})"), _flag, message)
    # What stands beside a flag as its equal is a flag too: steps or epochs, patience and plateau.
    message = re.sub(
        rf"(?<=--)([\w-]+)( or | and | \(and )({either})\b", lambda m: m[1] + m[2] + _dashes(m[3]), message
    )
    return re.sub(rf"{AFTER}({either})( or | and | \(and )(?=--)", lambda m: _dashes(m[1]) + m[2], message)


def _flag(found: "re.Match[str]") -> str:
    return _dashes(found[0])


def _dashes(name: str) -> str:
    return f"--{name.replace('_', '-')}"

"""The exceptions of engram: each message gives the rule, what was expected, what came, and how to mend it.

Every class is an :class:`EngramError` and also the built-in class that ``torch.nn`` raises in the same place, so
that code written for ``torch.nn`` keeps catching what it caught.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class EngramError(Exception):
    """Anything engram refuses. ``except EngramError`` catches all of them."""


class ShapeError(EngramError, ValueError, RuntimeError):
    """A tensor has the wrong rank or size (torch raises ValueError for the one, RuntimeError for the other)."""


class DTypeError(EngramError, TypeError, ValueError, RuntimeError):
    """A value has the wrong type or dtype, or a tensor lives on the wrong device (torch raises all three)."""


class StepError(EngramError, RuntimeError):
    """A cell's step changes what it was given in place (torch raises RuntimeError for some of these)."""


class OptionError(EngramError, ValueError):
    """An argument of a constructor or a command is outside its range."""


class NonFiniteError(EngramError, ValueError):
    """A tensor holds NaN or infinity where the caller asked for that to be checked."""


class ManifoldError(EngramError, ValueError):
    """A matrix was assigned that does not have the property of its map: it is not orthogonal, for example."""


class DataError(EngramError, ValueError):
    """A data file is missing, cannot be read, or is not the file it should be."""


class FileError(EngramError, ValueError):
    """A file from a stranger is not read: a link, a device, too long, not JSON, changed since it was sealed."""


class RunError(EngramError):
    """A run cannot be started, resumed or read: its directory is in use, full, damaged or not there."""


class BusyError(RunError):
    """A run is in use by another process."""


class StoppedError(EngramError):
    """A run ended before its time: the loss is not finite, or the disk is full. The command line exits with 1."""


class DivergedError(StoppedError):
    """A run ended because its loss, gradient or weights are not finite."""


class CertificateError(EngramError, ValueError):
    """A certificate is not one, was changed, or says what is not so."""


LONG, NEAR = 50, 5
"""Names that a message lists in full at most, and how many it gives of a longer list."""


def unknown(kind: str, name: object, known: Iterable[str]) -> OptionError:
    """The error for a name outside a fixed list: it lists the known names and the nearest one. Of a long list it gives
    the nearest names alone, if the name is a slip of one: among a hundred others the hint would not be seen.

    >>> str(unknown("activation", "tahn", ["relu", "tanh"]))
    "unknown activation 'tahn': expected one of relu, tanh. Did you mean 'tanh'?"
    >>> str(unknown("option of copy", "dealy", ["delay", "length"]))
    "unknown option 'dealy' of copy: expected one of delay, length. Did you mean 'delay'?"
    """
    names = sorted(set(known))
    nearest = get_close_matches(str(name).lower(), names, n=NEAR, cutoff=0.55)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    is_slip = bool(get_close_matches(str(name).lower(), nearest, n=1, cutoff=0.75))
    shown = nearest if is_slip and len(names) > LONG else names
    others = f" and {len(names) - len(shown)} others" if len(shown) < len(names) else ""
    what, *where = re.split(r"(?= (?:of|in|to) )", kind, maxsplit=1)
    return OptionError(f"unknown {what} {name!r}{''.join(where)}: expected one of {', '.join(shown)}{others}.{hint}")


def check_choice(kind: str, name: str, known: Iterable[str]) -> str:
    """Return ``name`` if it is among ``known``, else raise :func:`unknown`."""
    if not isinstance(name, str) or name not in known:
        raise unknown(kind, name, known)
    return name


LARGEST = 2**63 - 1
"""The largest whole number that torch takes."""


def check_size(name: str, value: object, least: int = 1, most: int = LARGEST) -> int:
    """Return ``value`` if it is a whole number from ``least`` to ``most``.

    >>> check_size("layers", 10**400, most=1000)
    Traceback (most recent call last):
    engram.errors.OptionError: layers must be at most 1,000, got a number of 401 digits
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise DTypeError(f"{name} must be a whole number (int), got {value!r:.60} of type {type(value).__name__}")
    if value < least:
        raise OptionError(f"{name} must be at least {least}, got {_digits(value)}")
    if value > most:
        raise OptionError(f"{name} must be at most {most:,}, got {_digits(value)}")
    return value


def check_number(name: str, value: object) -> float:
    """Return ``value`` if it is a number, whole or not, that float64 can hold (infinity and NaN too)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DTypeError(f"{name} must be a number, got {value!r:.60} of type {type(value).__name__}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise OptionError(f"{name} must be a number below {LARGEST:,}, got {_digits(value)}")
    return value


def _digits(value: int) -> str:
    """A whole number for a message; Python itself refuses to write very long ones."""
    count = int(value.bit_length() * 0.30103) + 1
    return str(value) if count < 30 else f"a number of {count:,} digits"


def check_between(name: str, value: object, low: float, high: float) -> float:
    """Return ``value`` if it is a number with low < value < high (NaN is in no range).

    >>> check_between("epsilon", 0.01, 0, 1)
    0.01
    """
    if not low < check_number(name, value) < high:
        raise OptionError(f"{name} must lie between {low} and {high}, exclusive, got {value}")
    return value  # type: ignore[return-value]


def check_last_axes(who: str, got: Sequence[int], expected: Sequence[int]) -> None:
    """Refuse a tensor whose last axes are others: as many numbers in another shape would be read in the wrong order.

    >>> check_last_axes("the encoder", (5, 3, 16, 64), (3, 32, 32))
    Traceback (most recent call last):
    engram.errors.ShapeError: the encoder was made for inputs (..., 3, 32, 32), got (5, 3, 16, 64)
    """
    if tuple(got)[max(len(got) - len(expected), 0) :] != tuple(expected):
        raise ShapeError(f"{who} was made for inputs (..., {', '.join(map(str, expected))}), got {tuple(got)}")


def check_flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False: a word such as "no" would count as True."""
    if not isinstance(value, bool):
        raise DTypeError(f"{name} must be True or False, got {value!r}")
    return value

"""One check that the options of several tasks share."""

from engram.errors import DTypeError, OptionError


def check_between(name: str, value: object, low: float, high: float) -> float:
    """Return ``value`` if it is a number with low < value < high (NaN is in no range).

    >>> check_between("epsilon", 0.01, 0, 1)
    0.01
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DTypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not low < value < high:
        raise OptionError(f"{name} must lie between {low} and {high}, both left out, got {value}")
    return value

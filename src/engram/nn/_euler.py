"""Checks of the constants of a differential equation that a recurrence follows in small steps."""

import math

from engram.errors import OptionError, check_number


def positive(name: str, value: float) -> float:
    """The value, if it is above 0 and finite."""
    if not 0 < check_number(name, value) < math.inf:
        raise OptionError(f"{name} must be above 0 and finite, got {value}")
    return value


def at_least_zero(name: str, value: float) -> float:
    """The value, if it is at least 0 and finite."""
    if not 0 <= check_number(name, value) < math.inf:
        raise OptionError(f"{name} must be at least 0 and finite, got {value}")
    return value

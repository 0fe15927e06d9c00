"""The limits of a claim's work: what is estimated to take longer, or more memory, is refused before it starts."""

from collections.abc import Mapping
from math import inf, log10

from engram.certify._claim import Claim, RankClaim
from engram.certify._cost import Cost
from engram.errors import OptionError
from engram.places import free_memory

DAY = 86_400.0
LARGEST = 10**12
"""Of the sizes of any claim: what is larger would never end, and its arithmetic may not even begin."""
UNITS = (("year", 31_557_600), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def check_cost(claim: Claim, max_side: int | None, max_memory: float | None, max_seconds: float) -> Cost:
    """The estimate, if it is within the limits; ``max_memory`` None is what is free."""
    check_large(claim.name, claim.sizes())
    cost = claim.cost()
    if isinstance(claim, RankClaim) and max_side is not None and not claim.side_estimate <= max_side:
        raise OptionError(
            f"{claim.name}: the matrix has {rounded(claim.side_estimate)} rows, --max-side is {max_side:,}"
        )
    memory = free_memory() if max_memory is None else max_memory
    if not cost.megabytes <= memory:  # nor is NaN a limit
        raise OptionError(
            f"{claim.name} is estimated to need {rounded(cost.megabytes)} MB at these sizes, and the limit is "
            f"{rounded(memory)} MB: choose smaller sizes, or raise --max-memory"
        )
    if not cost.seconds <= max_seconds:
        raise OptionError(
            f"{claim.name} is estimated to take {duration(cost.seconds)} at these sizes, and the limit is "
            f"{duration(max_seconds)}: choose smaller sizes, or raise --max-seconds"
        )
    return cost


def check_large(what: str, sizes: Mapping[str, int]) -> None:
    """Refuse sizes whose arithmetic alone may take for ever."""
    for name, size in sizes.items():
        if size > LARGEST:
            raise OptionError(f"{what}: {name} must be at most 10^12, got {rounded(size)}")


def rounded(number: float) -> str:
    """A number of any size, short.

    >>> rounded(1234.5), rounded(10**400), rounded(inf)
    ('1,234', '10^400', 'more than 10^300')
    """
    if number == inf:
        return "more than 10^300"
    return f"{number:,.0f}" if not number >= 10**15 else f"10^{log10(number):.0f}"


def duration(seconds: float) -> str:
    """In the largest unit that gives two or more.

    >>> duration(0.25), duration(90), duration(7500), duration(1e40)
    ('0.25 seconds', '90 seconds', '2 hours', '10^33 years')
    """
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{rounded(seconds / length)} {unit}s"
    return f"{seconds:.2g} seconds"

"""As wide as a number of parameters allows: networks of different depth or kind at equal cost."""

from bisect import bisect_right
from functools import lru_cache
from typing import Any

import torch

from engram.errors import OptionError, check_size
from engram.models import make_network
from engram.sweep._alike import Alike
from engram.train import Settings, settings_from_flat

MOST_WIDTH = 2**16
"""The widest network that is tried."""
MOST_NARROW = 2**11
"""A model that refuses all widths up to this one refuses something else."""


def within_budget(row: dict[str, Any], allow: tuple[str, ...] = ()) -> Settings:
    """The settings of a row; one with ``parameters`` has the largest ``hidden`` whose network has at most that many.

    Counted are the trained numbers of the whole network, the read-out included: of an orthogonal matrix those that
    it is built from, such as the N (N - 1) / 2 of a skew matrix.
    """
    if "parameters" not in row:
        return settings_from_flat(row, allow)
    if "hidden" in row:
        raise OptionError("parameters decides the width, so that hidden cannot be given too: take one of them out")
    budget = check_size("parameters", row["parameters"])
    settings = settings_from_flat({name: value for name, value in row.items() if name != "parameters"}, allow)
    same_network = Alike(repr((settings.task, settings.model)), settings)  # rates, seeds and steps do not count
    return settings.replace(hidden=_widest(same_network, budget))


@lru_cache(maxsize=4096)
def parameters_of(shape: Alike, hidden: int) -> int:
    """The trained numbers of the network of this width."""
    settings = shape.settings.replace(hidden=hidden)
    with torch.random.fork_rng(devices=()):
        network = make_network(settings.task, settings.model)
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def _widest(shape: Alike, budget: int) -> int:
    """The number of parameters grows with the width. Mostly it is a polynomial of degree 2, which three widths tell;
    else by doubling, then by halving the interval."""
    low = _narrowest(shape)
    if parameters_of(shape, low) > budget:
        what, least = f"{shape.settings.model.label} on {shape.settings.task.name}", parameters_of(shape, low)
        raise OptionError(f"parameters = {budget} is met by no width of {what}: hidden = {low} has {least} already")
    guess = _by_degree_2(shape, budget) if low == 1 else 0
    if guess and parameters_of(shape, guess) <= budget < parameters_of(shape, guess + 1):
        return guess
    high = 2 * low
    while parameters_of(shape, high) <= budget:
        low, high = high, 2 * high
        if high > MOST_WIDTH:
            raise OptionError(f"parameters = {budget:,} allows a width above {MOST_WIDTH:,}: give hidden instead")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters_of(shape, middle) <= budget else (low, middle)
    return low


def _narrowest(shape: Alike) -> int:
    """The least width that the model can have: some options ask for more than one unit."""
    high, refused = 1, _refusal(shape, 1)
    while refused is not None:
        high *= 2
        if high > MOST_NARROW:
            raise refused
        refused = _refusal(shape, high)
    low = high // 2  # refused, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _refusal(shape, middle) is None else (middle, high)
    return high


def _refusal(shape: Alike, width: int) -> OptionError | None:
    """What the model says against a width; None if nothing."""
    try:
        parameters_of(shape, width)
    except OptionError as error:
        return error
    return None


def _by_degree_2(shape: Alike, budget: int) -> int:
    """The largest width within the budget if one, two and four units tell the number of parameters; 0 if it is none."""
    one, two, four = (parameters_of(shape, width) for width in (1, 2, 4))
    if four > budget:
        return 0
    slope, curve = 6 * (two - one), (four - two) - 2 * (two - one)  # of Newton's form, times 6: whole
    widths = range(1, MOST_WIDTH)
    found = bisect_right(widths, 6 * budget, key=lambda n: 6 * one + (n - 1) * slope + (n - 1) * (n - 2) * curve)
    return found if found < len(widths) else 0

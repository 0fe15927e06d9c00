"""Which depths and widths of a linear RNN copy its input p steps later, and which has the fewest parameters.

L layers of n units copy d numbers with a lag of p steps if and only if p d <= L (n - d).
Source: Lizaire et al. (2026), Appendix A.3, Lemmas 2 and 3, for d = 1; for any d see docs/sources.md.
"""

from dataclasses import dataclass, replace
from math import isqrt

from engram.errors import OptionError, check_size
from engram.theory._parameters import rnn_parameters

MOST_ROWS = 10_000
"""The most sizes that :func:`sizings` lists for one lag."""
LARGEST = 10**12
"""The largest lag and number of channels."""


def largest_lag(hidden: int, depth: int, channels: int = 1) -> int:
    """The largest p with p d <= L (n - d).

    Args:
        hidden: n, the units of a layer.
        depth: L, the layers.
        channels: d, the numbers that are copied.

    >>> largest_lag(5, 3)
    12
    """
    check_size("hidden", hidden, check_size("channels", channels))
    return check_size("depth", depth) * (hidden - channels) // channels


def least_hidden(lag: int, depth: int, channels: int = 1) -> int:
    """The fewest units per layer with which L layers copy d numbers p steps later: d + ceil(p d / L).

    Args:
        lag: p, the steps between an input and its copy.
        depth: L, the layers.
        channels: d, the numbers that are copied.

    >>> [least_hidden(8, depth, 5) for depth in (1, 2, 4, 8)]
    [45, 25, 15, 10]
    """
    return channels - (-lag * channels // depth)


@dataclass(frozen=True)
class Sizing:
    """A linear RNN that copies with a lag, as narrow as its depth allows."""

    depth: int
    """L, the layers."""
    hidden: int
    """n, the units of a layer."""
    parameters: int
    """Without readout."""
    units: int
    """Of all layers, L n."""
    fewest: bool = False
    """Whether this one has the fewest parameters of all; of equal ones, the shallowest."""


def sizings(lag: int, channels: int = 1, max_depth: int | None = None) -> list[Sizing]:
    """For each width that is the least at some depth, the shallowest such network, from one layer on.

    Any other network that copies with this lag has at least the depth, width and parameters of one in the list.

    Args:
        lag: p, the steps between an input and its copy.
        channels: d, the numbers that are copied.
        max_depth: the most layers; default: p d, where the width is at its least, d + 1.
    """
    for name, size in (("lag", lag), ("channels", channels)):
        check_size(name, size, most=LARGEST)
    most = min(lag * channels, lag * channels if max_depth is None else check_size("max_depth", max_depth))
    if min(most, 2 * isqrt(lag * channels)) > MOST_ROWS:  # a width or a depth is at most the root of lag * channels
        raise OptionError(f"a lag of {lag:,} has more than {MOST_ROWS:,} sizes: set max_depth to at most {MOST_ROWS:,}")
    rows: list[Sizing] = []
    depth = 1
    while depth <= most:
        hidden = least_hidden(lag, depth, channels)
        rows.append(Sizing(depth, hidden, rnn_parameters(hidden, depth, channels), hidden * depth))
        narrower = hidden - channels - 1
        depth = -(-lag * channels // narrower) if narrower else most + 1
    best = min(rows, key=lambda row: row.parameters)
    return [replace(row, fewest=row is best) for row in rows]

"""How many parameters a delay costs at each depth (spec/depth.md 4.2, 4.6)."""

from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, ClassVar

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.certify._delay import largest_lag
from engram.certify._limits import check_large
from engram.errors import OptionError, check_size

MOST_ROWS = 10_000
"""Sizes that are told for one lag."""


def rnn_parameters(hidden: int, depth: int, inputs: int = 1) -> int:
    """Of a linear RNN with one bias a layer, without readout and start: (2L - 1) n^2 + (L + d) n.

    >>> rnn_parameters(10, 8, 5)
    1630
    """
    return (2 * depth - 1) * hidden**2 + (depth + inputs) * hidden


def least_hidden(lag: int, depth: int, channels: int = 1) -> int:
    """The fewest units a layer with which L layers copy d channels p steps later: d + ceil(p d / L).

    >>> [least_hidden(8, depth, 5) for depth in (1, 2, 4, 8)]
    [45, 25, 15, 10]
    """
    return channels - (-lag * channels // depth)


@dataclass(frozen=True)
class Sizing:
    """A linear RNN that copies with a lag, as narrow as its depth allows."""

    depth: int
    hidden: int
    parameters: int
    units: int
    fewest: bool = False
    """Of all, this one has the fewest parameters (of equals, the shallowest)."""


def sizings(lag: int, channels: int = 1, max_depth: int | None = None) -> list[Sizing]:
    """For each width that some depth needs, the fewest layers, from one layer on; the rest is larger in every way."""
    check_size("lag", lag)
    check_size("channels", channels)
    check_large("these layers", {"lag": lag, "channels": channels})
    most = min(lag * channels, lag * channels if max_depth is None else check_size("max_depth", max_depth))
    if min(most, 2 * isqrt(lag * channels)) > MOST_ROWS:  # a width or a depth is at most the root of lag * channels
        raise OptionError(
            f"a lag of {lag:,} has more than {MOST_ROWS:,} sizes: give a max_depth of up to {MOST_ROWS:,}"
        )
    rows: list[Sizing] = []
    depth = 1
    while depth <= most:
        hidden = least_hidden(lag, depth, channels)
        rows.append(Sizing(depth, hidden, rnn_parameters(hidden, depth, channels), hidden * depth))
        narrower = hidden - channels - 1
        depth = -(-lag * channels // narrower) if narrower else most + 1
    best = min(rows, key=lambda row: row.parameters)
    return [replace(row, fewest=row is best) for row in rows]


@dataclass(frozen=True)
class Params(Claim):
    """A copy that L layers of n >= 4 units make costs any shallower linear RNN more parameters (Theorem 2).

    The lag is p = L (n - 1); l < L layers need n' = ceil(p / l) + 1 units. With a = 2 L l - L - l and m = n - 1, the
    shallower network has at least (L - l) / l^2 times (a m^2 - l m - 3 l^2) parameters more; this margin is
    positive for all l < L and n > (3 + sqrt 13) / 2 = 3.303. Below, the comparison itself decides: it fails at n = 3
    for 2 layers against 1 (35 against 36 parameters), and at n = 2.
    """

    hidden: int
    """n, the units of a layer."""
    depth: int
    """L, the layers."""

    name: ClassVar[str] = "params"
    words: ClassVar[str] = "Theorem 2: for n >= 4, to copy with lag L (n - 1) in fewer layers takes more parameters"
    example: ClassVar[dict[str, int]] = {"hidden": 4, "depth": 3}

    def __post_init__(self) -> None:
        check_size("hidden", self.hidden, least=2)
        check_size("depth", self.depth)

    def cost(self) -> Cost:
        """A row for every shallower depth, found, judged and written."""
        return Cost(5e-6 * self.depth, 600 * MB * self.depth)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        lag = largest_lag(self.hidden, self.depth)
        shallower = [(depth, least_hidden(lag, depth)) for depth in range(1, self.depth)]
        return {
            "lag": lag,
            "parameters": rnn_parameters(self.hidden, self.depth),
            "shallower": [[depth, hidden, rnn_parameters(hidden, depth)] for depth, hidden in shallower],
            "margins": [margin(self.hidden, self.depth, depth) for depth, _ in shallower],
        }

    def holds(self, found: Found) -> bool:
        return all(count > found["parameters"] for _, _, count in found["shallower"])

    def statement(self, found: Found) -> str:
        own = (
            f"{many(self.depth, 'layer')} of {self.hidden} units can copy with a lag of {found['lag']} and have "
            f"{found['parameters']} parameters"
        )
        if not found["shallower"]:
            return f"{own}; there is nothing shallower."
        depth, hidden, count = min(found["shallower"], key=lambda row: row[2])
        return (
            f"{own}; fewer layers that do it have {'at least' if self.holds(found) else 'as few as'} {count} "
            f"({depth} of {hidden} units)."
        )

    def more(self) -> dict[str, Any]:
        return {"critical_hidden": critical_hidden(self.depth) if self.depth > 1 else None}


def margin(hidden: int, depth: int, shallower: int) -> int:
    """a m^2 - l m - 3 l^2, by which Theorem 2 is proved for these sizes if it is positive."""
    m, a = hidden - 1, 2 * depth * shallower - depth - shallower
    return a * m**2 - shallower * m - 3 * shallower**2


def critical_hidden(depth: int) -> int:
    """The least n from which on the margin is positive for all shallower depths.

    The larger root is n_0 = 1 + l (1 + sqrt(12 a + 1)) / (2 a), for integers n > n_0 without any rounding:

    >>> [critical_hidden(depth) for depth in (2, 3, 4, 5)]
    [4, 3, 3, 3]
    """
    least = 2
    for shallower in range(1, depth):
        a = 2 * depth * shallower - depth - shallower
        start = 1 + (shallower + isqrt(shallower**2 * (12 * a + 1))) // (2 * a)  # at most n_0
        least = max(least, next(n for n in range(start, start + 3) if margin(n, depth, shallower) > 0))
    return least

"""The claim ``params``: fewer layers need more parameters for the same lag."""

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.errors import check_size
from engram.theory import largest_lag, least_hidden, rnn_parameters


@dataclass(frozen=True)
class ParamsClaim(Claim):
    """To copy with the longest lag of L layers of n >= 4 units, any shallower linear RNN needs more parameters.

    The lag is p = L (n - 1); l < L layers need n' = ceil(p / l) + 1 units. With a = 2 L l - L - l and m = n - 1, the
    shallower network has at least (L - l) / l^2 times (a m^2 - l m - 3 l^2) more parameters; this margin is positive
    for all l < L and n > (3 + sqrt 13) / 2 = 3.303. For smaller n the counts themselves are compared: the claim fails
    at n = 3 for 2 layers against 1 (36 against 35 parameters), and at some depths for n = 2.
    Source: Lizaire et al. (2026), Theorem 2 (Section 3.1, Appendix A.5).
    """

    hidden: int
    """n, the units of a layer."""
    depth: int
    """L, the layers."""

    name: ClassVar[str] = "params"
    words: ClassVar[str] = (
        "for n >= 4, to copy with lag L (n - 1) in fewer layers takes more parameters (Lizaire et al., Theorem 2)"
    )
    example: ClassVar[dict[str, int]] = {"hidden": 4, "depth": 3}

    def __post_init__(self) -> None:
        check_size("hidden", self.hidden, least=2)
        check_size("depth", self.depth)

    def cost(self) -> Cost:
        """One row for every shallower depth."""
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
    """a m^2 - l m - 3 l^2: if it is positive, l = ``shallower`` layers have more parameters."""
    m, a = hidden - 1, 2 * depth * shallower - depth - shallower
    return a * m**2 - shallower * m - 3 * shallower**2


def critical_hidden(depth: int) -> int:
    """The least n such that for it and all larger n the margin is positive at all shallower depths.

    The larger root of the margin is n_0 = 1 + l (1 + sqrt(12 a + 1)) / (2 a); the search starts below it, in integers.

    >>> [critical_hidden(depth) for depth in (2, 3, 4, 5)]
    [4, 3, 3, 3]
    """
    least = 2
    for shallower in range(1, depth):
        a = 2 * depth * shallower - depth - shallower
        start = 1 + (shallower + isqrt(shallower**2 * (12 * a + 1))) // (2 * a)  # at most n_0
        least = max(least, next(n for n in range(start, start + 3) if margin(n, depth, shallower) > 0))
    return least

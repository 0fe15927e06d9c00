"""Which sizes an atlas has."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice

from engram.certify import RankClaim, TTDifferentCoresClaim, TTEqualCoresClaim, check_large, rac_claim
from engram.errors import OptionError, check_size
from engram.theory.bounds import enough_templates

MOST = 20_000
"""The most matrices of an atlas."""


@dataclass(frozen=True)
class Range:
    """The sizes of an atlas: M from 2, R (or r) and L from 1, every even T (or d) whose matrix is small enough.

    A circuit gets a grid of K = M templates. One of two layers or more also gets a grid of K = M + 1, since M^{T/2} is
    an upper bound only for M templates; and one of as many templates as Conjecture 1 needs, since M are too few if
    R < M (docs/sources.md).
    """

    max_side: int = 1024
    """The most rows of a matrix, K^(T/2)."""
    max_modes: int = 8
    """The largest M (or n)."""
    max_channels: int = 6
    """The largest R (or r)."""
    max_depth: int = 7
    """The largest L."""

    def __post_init__(self) -> None:
        for name in ("max_side", "max_modes"):
            check_size(name, getattr(self, name), least=2)
        for name in ("max_channels", "max_depth"):
            check_size(name, getattr(self, name))

    def claims(self) -> list[RankClaim]:
        """One claim per matrix, the small ones first. The other claims about a circuit follow from the same rank."""
        check_large("atlas", asdict(self))
        found = [claim for claim in islice(self._all(), MOST + 1) if claim.side <= self.max_side]
        if len(found) > MOST:
            raise OptionError(f"an atlas of these sizes has more than {MOST:,} matrices: choose smaller limits")
        return sorted(found, key=lambda claim: (claim.side, claim.sizes().get("depth", 0)))

    def _all(self) -> Iterator[RankClaim]:
        """With K = M templates they are within max_side; with more templates, some are not."""
        for modes in range(2, min(self.max_modes, self.max_side) + 1):
            steps = 0
            while modes ** ((steps := steps + 2) // 2) <= self.max_side:
                for channels in range(1, self.max_channels + 1):
                    yield TTEqualCoresClaim(modes, channels, steps)
                    yield TTDifferentCoresClaim(modes, channels, steps)
                    for depth in range(1, self.max_depth + 1):
                        enough = enough_templates(modes, channels, steps, depth, self.max_side)
                        for templates in sorted({modes, modes + 1, enough} if depth > 1 else {modes}):
                            yield rac_claim(modes, channels, steps, depth, templates)

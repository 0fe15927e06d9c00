"""The claims about tensor trains: how wide a shallow (CP) network must be to compute the same.

Source: Alkin (2024), Chapter 4; Khrulkov, Novikov, Oseledets (2018), Theorem 1, for different cores.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from engram.certify._claim import Found, Grid, RankClaim
from engram.certify._cost import MB, Cost, product_seconds, sample_seconds
from engram.certify._rac import check_even
from engram.errors import check_size
from engram.exact import FieldTrain, constructed_train, random_train
from engram.theory import bounds


@dataclass(frozen=True)
class TTDifferentCoresClaim(RankClaim):
    """A tensor train of order d, mode size n and rank r with different cores: its CP rank is at least min(n, r)^{d/2}.

    The rank of the matrix of odd against even modes is a lower bound of the CP rank (Alkin 2024, Lemma 2).
    Source: Khrulkov, Novikov, Oseledets (2018), Theorem 1.
    """

    rank: int
    """r, the rank of the train."""
    steps: int
    """d, the order of the tensor; even."""

    name: ClassVar[str] = "tt-different-cores"
    words: ClassVar[str] = (
        "tensor train, different cores: the CP rank is at least min(n,r)^(d/2), for almost all cores (Khrulkov et al., "
        "Theorem 1)"
    )
    example: ClassVar[dict[str, int]] = {"modes": 3, "rank": 2, "steps": 6}
    equal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_size("modes", self.modes)
        check_size("rank", self.rank)
        check_even(self.steps)

    @property
    def shape(self) -> tuple[int, int]:
        return self.modes, self.steps // 2

    def building(self) -> Cost:
        """The cores; a product with one of them for every entry, in blocks."""
        n, r, side = self.modes, self.rank, self.side_estimate
        weights, blocks = (2 if self.equal else self.steps) * r**2 * n, 2 * side**2 * r / FieldTrain.AT_ONCE
        seconds = product_seconds(self.steps + blocks, n * r, r) + side**2 * (2e-9 * r**2 + 5e-8 * r)
        return Cost(seconds + sample_seconds(weights), 8 * MB * (2 * weights + self.steps + 4 * FieldTrain.AT_ONCE))

    @property
    def bound(self) -> int:
        return bounds.tt_bound(self.modes, self.rank, self.steps)

    @property
    def upper(self) -> int:
        return bounds.tt_upper(self.modes, self.rank, self.steps)

    def witness(self, kind: str, prime: int, seed: int) -> Grid:
        if kind == "random":
            return random_train(self.modes, self.rank, self.steps, self.equal, prime, seed)
        return constructed_train(self.modes, self.rank, self.steps, prime)

    def statement(self, found: Found) -> str:
        cores = "equal inner cores" if self.equal else "cores of their own"
        return (
            f"Almost every tensor train of order {self.steps}, mode size {self.modes} and rank {self.rank} with "
            f"{cores} has an odd-even rank, and so a CP rank, of at least {found['rank']}: a shallow (CP) network "
            f"needs that width. The theorem says at least {self.bound}; no train has an odd-even rank above "
            f"{self.upper}."
        )


@dataclass(frozen=True)
class TTEqualCoresClaim(TTDifferentCoresClaim):
    """A tensor train of order d, mode size n, rank r and equal inner cores: its CP rank is at least min(n, r)^{d/2}.

    Source: Alkin (2024), Theorem 1 (Chapter 4), which states min(n, r-1)^{d/2}; the cores of its proof give more.
    """

    name: ClassVar[str] = "tt-equal-cores"
    words: ClassVar[str] = (
        "tensor train, equal inner cores: the CP rank is at least min(n,r)^(d/2), for almost all cores (Alkin, "
        "Theorem 1)"
    )
    equal: ClassVar[bool] = True

    def more(self) -> dict[str, Any]:
        return {"printed_bound": bounds.tt_printed(self.modes, self.rank, self.steps)}

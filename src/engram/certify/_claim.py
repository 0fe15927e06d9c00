"""What a claim is: a statement about networks of concrete sizes that exact arithmetic decides."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, ClassVar, Protocol

from engram.certify._cost import MB, Cost, power, rank_seconds
from engram.certify._field import FieldMatrix, Residues

Found = Mapping[str, Any]
"""The numbers that were found, by name: whole numbers, words, lists of them, as JSON has them."""


@dataclass(frozen=True)
class Claim(ABC):
    """A statement at concrete sizes, which are the fields."""

    name: ClassVar[str]
    words: ClassVar[str]
    """The statement for any sizes."""
    example: ClassVar[dict[str, int]]
    """Sizes that are decided in a moment."""
    witnesses: ClassVar[tuple[str, ...]] = ("random",)
    """The kinds of weights that can be asked."""

    @abstractmethod
    def cost(self) -> Cost:
        """What :meth:`find` takes, estimated from the sizes: :func:`engram.certify.certify` refuses too much."""

    @abstractmethod
    def find(self, witness: str, prime: int, seed: int) -> Found:
        """Do the arithmetic: the numbers found depend on the sizes and these three alone, on every machine."""

    @abstractmethod
    def holds(self, found: Found) -> bool:
        """Whether they are as the claim says."""

    @abstractmethod
    def statement(self, found: Found) -> str:
        """What they prove, in words."""

    def sizes(self) -> dict[str, int]:
        return asdict(self)

    def more(self) -> dict[str, Any]:
        """Further numbers for the reader."""
        return {}


def many(count: int, what: str) -> str:
    """A number of things, in words.

    >>> many(1, "layer"), many(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{count} {what}" + ("" if count == 1 else "s")


class Grid(Protocol):
    """What can give a matrix by blocks of rows."""

    def grid(self) -> Iterator[tuple[int, Residues]]: ...


@dataclass(frozen=True)
class RankClaim(Claim):
    """A claim that the rank of one matrix over a prime field decides.

    Why a rank at one point is a proof: the entries of the matrix are polynomials with integer coefficients in the
    weights. Its rank modulo p at integer weights is at most its rank over the rationals there; a minor that is not zero
    at one point is a polynomial that is not zero, and such a polynomial vanishes only on a set of measure zero. So the
    rank found is a lower bound for almost all real weights. Upper bounds come from counting, for all weights.
    """

    witnesses: ClassVar[tuple[str, ...]] = ("random", "construction")

    modes: int
    """M (or n), the numbers that encode one input."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(K, T/2): the matrix has K^{T/2} rows and as many columns."""

    @property
    def side(self) -> int:
        letters, half = self.shape
        return int(letters**half)

    @property
    def side_estimate(self) -> float:
        """:attr:`side` as a float: infinite, not endless."""
        return power(*self.shape)

    @abstractmethod
    def building(self) -> Cost:
        """What the entries of the matrix take."""

    def cost(self) -> Cost:
        """Beside the entries: the rank, the matrix, and FLINT's copy of it for the elimination."""
        side = self.side_estimate
        if side > 1e100:  # nor could a bound be computed
            return Cost(inf, inf)
        entries, rank = self.building(), rank_seconds(side, side, self.upper)
        return Cost(entries.seconds + rank, 20 + entries.megabytes + 2 * 8 * MB * side**2)

    @property
    @abstractmethod
    def bound(self) -> int:
        """The lower bound that is claimed."""

    @property
    @abstractmethod
    def upper(self) -> int:
        """The upper bound that holds for all weights."""

    @abstractmethod
    def witness(self, kind: str, prime: int, seed: int) -> Grid:
        """Weights modulo p: drawn from the seed, or those of the proof."""

    def find(self, witness: str, prime: int, seed: int) -> Found:
        bounds = {"bound": self.bound, "upper": self.upper}  # first: a number that is too long is refused
        matrix = FieldMatrix(self.side, self.side, prime)
        for first, block in self.witness(witness, prime, seed).grid():
            matrix.fill(first, block)
        return {"matrix": [self.side, self.side], "rank": matrix.rank(), **bounds}

    def holds(self, found: Found) -> bool:
        return bool(self.bound <= found["rank"] <= self.upper)

"""What a claim is: a statement about networks of concrete sizes that exact arithmetic decides."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, ClassVar, Protocol

from flint import fmpq, fmpz

from engram.certify._cost import DAY, MB, Cost, check_large, check_limits, power, rank_seconds
from engram.exact import FieldMatrix, Residues

Found = Mapping[str, Any]
"""The numbers that were found, by name: whole numbers, texts, and lists of them, as JSON has them."""


@dataclass(frozen=True)
class Claim(ABC):
    """A statement about networks whose sizes are the fields of the dataclass.

    A new claim defines the three class variables and the four methods without a body below (docs/certificates.md).
    """

    name: ClassVar[str]
    """In certificates and on the command line; the class is called the same, with ``Claim`` at the end."""
    words: ClassVar[str]
    """The statement for any sizes, in one line."""
    example: ClassVar[dict[str, int]]
    """Sizes that are decided within a second."""
    witnesses: ClassVar[tuple[str, ...]] = ("random",)
    """The kinds of weights that can be used: ``random``, and perhaps ``construction``, those of a proof."""

    @abstractmethod
    def cost(self) -> Cost:
        """An estimate of what :meth:`find` takes; :func:`engram.certify.certify` refuses what is above its limits."""

    @abstractmethod
    def find(self, witness: str, prime: int, seed: int) -> Found:
        """Do the arithmetic. The result depends only on the sizes and these three arguments, on every machine."""

    @abstractmethod
    def holds(self, found: Found) -> bool:
        """Whether the numbers found are those that the claim states."""

    @abstractmethod
    def statement(self, found: Found) -> str:
        """What the numbers found prove, in words."""

    def sizes(self) -> dict[str, int]:
        return asdict(self)

    def more(self) -> dict[str, Any]:
        """Further entries of the certificate file, for its reader: they follow from the sizes. Default: none."""
        return {}

    def check_cost(
        self, max_side: int | None = None, max_memory: float | None = None, max_seconds: float = DAY
    ) -> Cost:
        """:meth:`cost`, or an error if it is above a limit (:func:`engram.certify.certify` explains them)."""
        check_large(self.name, self.sizes())
        cost = self.cost()
        check_limits(self.name, cost, max_side, max_memory, max_seconds)
        return cost


def many(count: int, what: str) -> str:
    """A number of things, in words.

    >>> many(1, "layer"), many(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{count} {what}" + ("" if count == 1 else "s")


def rational(number: str) -> fmpq:
    """A text such as 3/4 as a number; Python's own integers refuse texts of more than 4300 digits.

    >>> rational("-3/4") * 4, rational("2")
    (-3, 2)
    """
    whole, _, part = number.partition("/")
    return fmpq(fmpz(whole), fmpz(part or "1"))


class Grid(Protocol):
    """Anything that gives a matrix in blocks of rows: pairs of the number of a first row and the block."""

    def grid(self) -> Iterator[tuple[int, Residues]]: ...


@dataclass(frozen=True)
class RankClaim(Claim):
    """A claim about a rank: lower bound <= rank of one matrix modulo a prime <= upper bound.

    Why the rank at one point is a proof: the entries of the matrix are polynomials with integer coefficients in the
    weights. At integer weights the rank modulo p is at most the rank over the rationals. A minor that is not zero at
    one point is a polynomial that is not zero, and such a polynomial is zero only on a set of measure zero. So the
    rank found is a lower bound for almost all real weights. Upper bounds, for all weights, come from counting.
    Source: Ziv (2019), Claim 5 (Appendix B.3).
    """

    witnesses: ClassVar[tuple[str, ...]] = ("random", "construction")

    modes: int
    """M (of a tensor train: n), the numbers that encode one input."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(K, T/2): the matrix has K^{T/2} rows and as many columns."""

    @property
    def side(self) -> int:
        """The rows of the matrix, K^{T/2}."""
        count, half = self.shape
        return int(count**half)

    @property
    def side_estimate(self) -> float:
        """:attr:`side` as a float, infinite if it is too large for one."""
        return power(*self.shape)

    @abstractmethod
    def building(self) -> Cost:
        """An estimate of what computing the entries of the matrix takes."""

    def cost(self) -> Cost:
        """The entries; the rank; the matrix and FLINT's copy of it for the elimination."""
        side = self.side_estimate
        if side > 1e100:  # the upper bound could not be computed either
            return Cost(inf, inf, side)
        entries, rank = self.building(), rank_seconds(side, side, self.upper)
        return Cost(entries.seconds + rank, 20 + entries.megabytes + 2 * 8 * MB * side**2, side)

    @property
    @abstractmethod
    def bound(self) -> int:
        """The lower bound that is claimed."""

    @property
    @abstractmethod
    def upper(self) -> int:
        """An upper bound for all weights."""

    @abstractmethod
    def witness(self, kind: str, prime: int, seed: int) -> Grid:
        """Weights modulo p: random ones, or those of the proof."""

    def find(self, witness: str, prime: int, seed: int) -> Found:
        bounds = {"bound": self.bound, "upper": self.upper}  # first: numbers of too many digits are refused
        matrix = FieldMatrix(self.side, self.side, prime)
        for first, block in self.witness(witness, prime, seed).grid():
            matrix.fill(first, block)
        return {"matrix": [self.side, self.side], "rank": matrix.rank(), **bounds}

    def holds(self, found: Found) -> bool:
        return bool(self.bound <= found["rank"] <= self.upper)

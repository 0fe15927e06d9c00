"""The claims: each a statement about networks of concrete sizes, decided by the rank of one matrix over a prime field.

Why a rank at one point is a proof: the entries of the matrix are polynomials with integer coefficients in the weights.
Its rank modulo p at integer weights is at most its rank over the rationals there; a minor that is not zero at one point
is a polynomial that is not zero, and such a polynomial vanishes only on a set of measure zero. So the rank found is a
lower bound for almost all real weights. Upper bounds come from counting, for all weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from engram.certify import _bounds as bounds
from engram.certify._field import Residues
from engram.certify._rac import conjecture_rac, constructed_rac, random_rac
from engram.certify._tensor_train import constructed_train, random_train
from engram.errors import OptionError, check_choice, check_size

WITNESSES = ("random", "construction")


class Grid(Protocol):
    """What can give a matrix by blocks of rows."""

    def grid(self) -> Iterator[tuple[int, Residues]]: ...


@dataclass(frozen=True)
class Claim(ABC):
    """A statement at concrete sizes, which are the fields."""

    name: ClassVar[str]
    words: ClassVar[str]
    """The statement for any sizes."""

    modes: int
    """M (or n), the numbers that encode one input."""

    @property
    @abstractmethod
    def side(self) -> int:
        """The matrix has this many rows and as many columns."""

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

    @abstractmethod
    def statement(self, rank: int) -> str:
        """What the rank proves, in words."""

    def holds(self, rank: int) -> bool:
        return self.bound <= rank <= self.upper

    def sizes(self) -> dict[str, int]:
        return asdict(self)

    def more(self) -> dict[str, Any]:
        """Further numbers for the reader."""
        return {}


def _even(steps: int, least: int) -> int:
    check_size("steps", steps, least)
    if steps % 2:
        raise OptionError(f"steps must be even: Start and End are the two halves of the sequence; got {steps}")
    return steps


@dataclass(frozen=True)
class RACShallow(Claim):
    """A recurrent arithmetic circuit of one layer: the Start-End rank is min(R, M^{T/2}), no more and no less."""

    channels: int
    """R, the units of a layer."""
    steps: int
    """T, even."""
    templates: int = 0
    """K, the inputs of the grid; as many as modes unless given."""

    name: ClassVar[str] = "rac-shallow"
    words: ClassVar[str] = "Theorem 1.1: for almost all weights, sep = min(R, M^(T/2)) at depth 1"
    depth: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("modes", "channels"):
            check_size(name, getattr(self, name))
        _even(self.steps, 2)
        check_size("templates", self.templates, least=0)
        object.__setattr__(self, "templates", self.templates or self.modes)

    @property
    def side(self) -> int:
        return int(self.templates ** (self.steps // 2))

    @property
    def bound(self) -> int:
        return bounds.rac_shallow(self.modes, self.channels, self.steps)

    @property
    def upper(self) -> int:
        return bounds.rac_upper(self.modes, self.channels, self.steps, self.depth, self.templates)

    def witness(self, kind: str, prime: int, seed: int) -> Any:
        check_choice("witness", kind, WITNESSES)
        if kind == "random":
            return _Halved(random_rac(self.modes, self.channels, self.depth, self.templates, prime, seed), self.steps)
        return _Halved(self._construction(prime, seed), self.steps)

    def _construction(self, prime: int, seed: int) -> Any:
        raise OptionError("Theorem 1.1 is proved without a construction: use --witness random")

    def statement(self, rank: int) -> str:
        shallow = bounds.rac_shallow(self.modes, self.channels, self.steps)
        return (
            f"Almost every recurrent arithmetic circuit of depth {self.depth} with {self.channels} channels and "
            f"{self.modes} modes has a Start-End separation rank of at least {rank} after {self.steps} steps; "
            f"{self._claimed()} at least {self.bound}, none gives the grid more than {self.upper}, and a circuit of "
            f"depth 1 has {shallow}."
        )

    def _claimed(self) -> str:
        return "the theorem says"

    def more(self) -> dict[str, Any]:
        return {"depth": self.depth, "shallow": bounds.rac_shallow(self.modes, self.channels, self.steps)}


@dataclass(frozen=True)
class RACDeep(RACShallow):
    """A circuit of two layers: the Start-End rank is at least ((min(M, R) over T/2))."""

    name: ClassVar[str] = "rac-deep"
    words: ClassVar[str] = "Theorem 1.2: for almost all weights, sep >= ((min(M,R) over T/2)) at depth 2"
    depth: ClassVar[int] = 2

    @property
    def bound(self) -> int:
        return bounds.rac_deep(self.modes, self.channels, self.steps)

    def _construction(self, prime: int, seed: int) -> Any:
        if self.templates != self.modes:
            raise OptionError(f"the construction has as many templates as modes, {self.modes}; got {self.templates}")
        return constructed_rac(self.modes, self.channels, self.steps, prime)


@dataclass(frozen=True)
class RACConjecture(RACShallow):
    """A circuit of any depth: Conjecture 1, at these sizes."""

    depth: int = 3  # type: ignore[misc]
    """L, the layers."""

    name: ClassVar[str] = "rac-conjecture"
    words: ClassVar[str] = (
        "Conjecture 1: for almost all weights, sep >= min(((min(M,R) over ((T/2 over L-1)))), M^(T/2))"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("depth", self.depth)

    @property
    def bound(self) -> int:
        return bounds.rac_conjecture(self.modes, self.channels, self.steps, self.depth)

    def _construction(self, prime: int, seed: int) -> Any:
        return conjecture_rac(self.modes, self.channels, self.depth, self.templates, prime, seed)

    def _claimed(self) -> str:
        return "Conjecture 1 says"


@dataclass(frozen=True)
class RACUpper(RACConjecture):
    """The upper bound by degrees, at these sizes: the rank found is within it, and often reaches it."""

    name: ClassVar[str] = "rac-upper"
    words: ClassVar[str] = "for all weights, sep <= the product of the multiset coefficients of the degrees"

    def holds(self, rank: int) -> bool:
        return rank <= self.upper

    def statement(self, rank: int) -> str:
        reached = "reaches it" if rank == self.upper else f"reaches {rank}"
        return (
            f"No recurrent arithmetic circuit of depth {self.depth} with {self.channels} channels and {self.modes} "
            f"modes gives a grid of {self.templates} templates over {self.steps} steps a Start-End rank "
            f"above {self.upper}; this one {reached}."
        )


@dataclass(frozen=True)
class _Halved:
    """A circuit with the number of its steps."""

    circuit: Any
    steps: int

    def grid(self) -> Iterator[tuple[int, Residues]]:
        return self.circuit.grid(self.steps)


@dataclass(frozen=True)
class TTDifferentCores(Claim):
    """A tensor train with different cores: its CP rank is at least min(n, r)^{d/2}."""

    rank: int
    """r, the rank of the train."""
    steps: int
    """d, the order of the tensor, even."""

    name: ClassVar[str] = "tt-different-cores"
    words: ClassVar[str] = "for almost all cores, the CP rank is at least min(n,r)^(d/2)"
    equal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_size("modes", self.modes)
        check_size("rank", self.rank)
        _even(self.steps, 2)

    @property
    def side(self) -> int:
        return int(self.modes ** (self.steps // 2))

    @property
    def bound(self) -> int:
        return bounds.tt_bound(self.modes, self.rank, self.steps)

    @property
    def upper(self) -> int:
        return bounds.tt_upper(self.modes, self.rank, self.steps)

    def witness(self, kind: str, prime: int, seed: int) -> Any:
        check_choice("witness", kind, WITNESSES)
        if kind == "random":
            return random_train(self.modes, self.rank, self.steps, self.equal, prime, seed)
        return constructed_train(self.modes, self.rank, self.steps, prime)

    def statement(self, rank: int) -> str:
        cores = "equal inner cores" if self.equal else "cores of their own"
        return (
            f"Almost every tensor train of order {self.steps}, mode size {self.modes} and rank {self.rank} with "
            f"{cores} has an odd-even rank, and so a CP rank, of at least {rank}: a shallow (CP) network needs "
            f"that width. The theorem says at least {self.bound}; no train has an odd-even rank above {self.upper}."
        )


@dataclass(frozen=True)
class TTEqualCores(TTDifferentCores):
    """A tensor train with equal inner cores: its CP rank is at least min(n, r)^{d/2}; printed: min(n, r-1)^{d/2}."""

    name: ClassVar[str] = "tt-equal-cores"
    words: ClassVar[str] = "for almost all equal cores, the CP rank is at least min(n,r)^(d/2)"
    equal: ClassVar[bool] = True

    def more(self) -> dict[str, Any]:
        return {"printed_bound": bounds.tt_thesis(self.modes, self.rank, self.steps)}


CLAIMS: dict[str, type[Claim]] = {
    claim.name: claim for claim in (TTEqualCores, TTDifferentCores, RACShallow, RACDeep, RACConjecture, RACUpper)
}

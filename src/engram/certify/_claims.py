"""The claims about the ranks of recurrent arithmetic circuits and of tensor trains."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from engram.certify import _bounds as bounds
from engram.certify._claim import Found, RankClaim, many
from engram.certify._cost import MB, Cost, product_seconds, sample_seconds
from engram.certify._field import Residues
from engram.certify._rac import conjecture_rac, constructed_rac, random_rac
from engram.certify._tensor_train import constructed_train, random_train
from engram.errors import OptionError, check_size

AT_ONCE = 1 << 14
"""Entries of a block of a circuit's matrix; of a train's, eight times as many."""


def _even(steps: int, least: int) -> int:
    check_size("steps", steps, least)
    if steps % 2:
        raise OptionError(f"steps must be even: Start and End are the two halves of the sequence; got {steps}")
    return steps


@dataclass(frozen=True)
class RACShallow(RankClaim):
    """A recurrent arithmetic circuit of one layer: the Start-End rank is min(R, M^{T/2}), no more and no less."""

    channels: int
    """R, the units of a layer."""
    steps: int
    """T, even."""
    templates: int = 0
    """K, the inputs of the grid; as many as modes unless given."""

    name: ClassVar[str] = "rac-shallow"
    words: ClassVar[str] = "Theorem 1.1: for almost all weights, sep = min(R, M^(T/2)) at depth 1"
    example: ClassVar[dict[str, int]] = {"modes": 4, "channels": 3, "steps": 6}
    depth: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("modes", "channels"):
            check_size(name, getattr(self, name))
        _even(self.steps, 2)
        check_size("templates", self.templates, least=0)
        object.__setattr__(self, "templates", self.templates or self.modes)

    @property
    def shape(self) -> tuple[int, int]:
        return self.templates, self.steps // 2

    def building(self) -> Cost:
        """Weights, templates and the states of a block of rows; two products of matrices per layer and step."""
        m, r, k, side = self.modes, self.channels, self.templates, self.side_estimate
        weights = self.depth * 2 * r**2 + (r + k) * m
        at_once = max(side, min(side**2, AT_ONCE) / k)
        blocks, columns = max(1, side**2 / AT_ONCE), 3 * side + (2 * side**2 / k if self.steps > 2 else 0)
        seconds = (
            product_seconds(1, r, m, k)
            + product_seconds((blocks * (self.steps - 2) + self.steps) * self.depth, 2 * r, r)
            + self.depth * columns * (2e-9 * r**2 + 3e-8 * r)
            + 5e-9 * side**2 * r
        )
        return Cost(seconds + sample_seconds(weights), 8 * MB * (2 * weights + 4 * self.depth * r * at_once))

    @property
    def bound(self) -> int:
        return bounds.rac_shallow(self.modes, self.channels, self.steps)

    @property
    def upper(self) -> int:
        return bounds.rac_upper(self.modes, self.channels, self.steps, self.depth, self.templates)

    def witness(self, kind: str, prime: int, seed: int) -> Any:
        if kind == "random":
            return _Halved(random_rac(self.modes, self.channels, self.depth, self.templates, prime, seed), self.steps)
        return _Halved(self._construction(prime, seed), self.steps)

    def _construction(self, prime: int, seed: int) -> Any:
        raise OptionError("Theorem 1.1 is proved without a construction: use --witness random")

    def statement(self, found: Found) -> str:
        shallow = bounds.rac_shallow(self.modes, self.channels, self.steps)
        return (
            f"Almost every recurrent arithmetic circuit of depth {self.depth} with {many(self.channels, 'channel')} "
            f"and {many(self.modes, 'mode')} has a Start-End separation rank of at least {found['rank']} after "
            f"{self.steps} steps; {self._claimed()} at least {self.bound}, none gives the grid more than "
            f"{self.upper}, and a circuit of depth 1 has {shallow}."
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

    def holds(self, found: Found) -> bool:
        return bool(found["rank"] <= self.upper)

    def statement(self, found: Found) -> str:
        rank = found["rank"]
        reached = "reaches it" if rank == self.upper else f"reaches {rank}"
        return (
            f"No recurrent arithmetic circuit of depth {self.depth} with {many(self.channels, 'channel')} and "
            f"{many(self.modes, 'mode')} gives a grid of {many(self.templates, 'template')} over {self.steps} steps a "
            f"Start-End rank above {self.upper}; this one {reached}."
        )


@dataclass(frozen=True)
class _Halved:
    """A circuit with the number of its steps."""

    circuit: Any
    steps: int

    def grid(self) -> Iterator[tuple[int, Residues]]:
        return self.circuit.grid(self.steps)


@dataclass(frozen=True)
class TTDifferentCores(RankClaim):
    """A tensor train with different cores: its CP rank is at least min(n, r)^{d/2}."""

    rank: int
    """r, the rank of the train."""
    steps: int
    """d, the order of the tensor, even."""

    name: ClassVar[str] = "tt-different-cores"
    words: ClassVar[str] = "for almost all cores, the CP rank is at least min(n,r)^(d/2)"
    example: ClassVar[dict[str, int]] = {"modes": 3, "rank": 2, "steps": 6}
    equal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_size("modes", self.modes)
        check_size("rank", self.rank)
        _even(self.steps, 2)

    @property
    def shape(self) -> tuple[int, int]:
        return self.modes, self.steps // 2

    def building(self) -> Cost:
        """The cores; a product with one of them for every entry, in blocks."""
        n, r, side = self.modes, self.rank, self.side_estimate
        weights, blocks = (2 if self.equal else self.steps) * r**2 * n, 2 * side**2 * r / (8 * AT_ONCE)
        seconds = product_seconds(self.steps + blocks, n * r, r) + side**2 * (2e-9 * r**2 + 5e-8 * r)
        return Cost(seconds + sample_seconds(weights), 8 * MB * (2 * weights + self.steps + 32 * AT_ONCE))

    @property
    def bound(self) -> int:
        return bounds.tt_bound(self.modes, self.rank, self.steps)

    @property
    def upper(self) -> int:
        return bounds.tt_upper(self.modes, self.rank, self.steps)

    def witness(self, kind: str, prime: int, seed: int) -> Any:
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
class TTEqualCores(TTDifferentCores):
    """A tensor train with equal inner cores: its CP rank is at least min(n, r)^{d/2}; printed: min(n, r-1)^{d/2}."""

    name: ClassVar[str] = "tt-equal-cores"
    words: ClassVar[str] = "for almost all equal cores, the CP rank is at least min(n,r)^(d/2)"
    equal: ClassVar[bool] = True

    def more(self) -> dict[str, Any]:
        return {"printed_bound": bounds.tt_thesis(self.modes, self.rank, self.steps)}

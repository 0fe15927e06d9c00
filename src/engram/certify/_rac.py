"""The claims about recurrent arithmetic circuits: how much of the first half of a sequence the second can depend on.

The output for all sequences of K given inputs (templates) is a matrix: rows are first halves (Start), columns second
halves (End). Its rank is a lower bound of the separation rank, the least number of products of a function of the Start
and a function of the End whose sum is the output. Source: Ziv (2019), Section 2.2 (definitions, Claim 2) and 2.3.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from engram.certify._claim import Found, Grid, RankClaim, many
from engram.certify._cost import MB, Cost, product_seconds, sample_seconds
from engram.errors import OptionError, check_size
from engram.exact import FieldCircuit, Residues, conjecture_circuit, constructed_circuit, random_circuit
from engram.theory import bounds


def check_even(steps: int) -> int:
    """Return ``steps`` if it is an even number of at least 2."""
    if check_size("steps", steps, 2) % 2:
        raise OptionError(f"steps must be even: Start and End are the two halves of the sequence; got {steps}")
    return steps


@dataclass(frozen=True)
class RACShallowClaim(RankClaim):
    """One layer of R channels, inputs of M numbers, T steps: the Start-End rank is min(R, M^{T/2}), exactly.

    Source: Ziv (2019), Theorem 1.1 (Section 2.3.1, Appendix B.1).
    """

    channels: int
    """R, the units of a layer."""
    steps: int
    """T, the length of a sequence; even."""
    templates: int = 0
    """K, the inputs of the grid; default: as many as modes."""

    name: ClassVar[str] = "rac-shallow"
    words: ClassVar[str] = "depth 1: the Start-End rank is min(R, M^(T/2)), for almost all weights (Ziv, Theorem 1.1)"
    example: ClassVar[dict[str, int]] = {"modes": 4, "channels": 3, "steps": 6}
    depth: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("modes", "channels"):
            check_size(name, getattr(self, name))
        check_even(self.steps)
        check_size("templates", self.templates, least=0)
        object.__setattr__(self, "templates", self.templates or self.modes)

    @property
    def shape(self) -> tuple[int, int]:
        return self.templates, self.steps // 2

    def building(self) -> Cost:
        """Weights, templates and the states of a block of rows; two matrix products per layer and step."""
        m, r, k, side = self.modes, self.channels, self.templates, self.side_estimate
        weights = self.depth * 2 * r**2 + (r + k) * m
        at_once = max(side, min(side**2, FieldCircuit.AT_ONCE) / k)
        blocks, columns = max(1, side**2 / FieldCircuit.AT_ONCE), 3 * side + (2 * side**2 / k if self.steps > 2 else 0)
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

    def witness(self, kind: str, prime: int, seed: int) -> Grid:
        if kind == "random":
            circuit = random_circuit(self.modes, self.channels, self.depth, self.templates, prime, seed)
        else:
            circuit = self._construction(prime, seed)
        return _Sequences(circuit, self.steps)

    def _construction(self, prime: int, seed: int) -> FieldCircuit:
        raise OptionError("Theorem 1.1 is proved without a construction: use witness random")

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
class RACDeepClaim(RACShallowClaim):
    """Two layers of R channels, inputs of M numbers, T steps: the Start-End rank is at least ((min(M, R) over T/2)).

    ((n over k)) = C(n + k - 1, k). Source: Ziv (2019), Theorem 1.2 (Section 2.3.1, Appendix B.2).
    """

    name: ClassVar[str] = "rac-deep"
    words: ClassVar[str] = (
        "depth 2: the Start-End rank is at least ((min(M,R) over T/2)), for almost all weights (Ziv, Theorem 1.2)"
    )
    depth: ClassVar[int] = 2

    @property
    def bound(self) -> int:
        return bounds.rac_deep(self.modes, self.channels, self.steps)

    def _construction(self, prime: int, seed: int) -> FieldCircuit:
        if self.templates != self.modes:
            raise OptionError(f"the construction has as many templates as modes, {self.modes}; got {self.templates}")
        return constructed_circuit(self.modes, self.channels, self.steps, prime)


@dataclass(frozen=True)
class RACConjectureClaim(RACShallowClaim):
    """L layers: the Start-End rank is at least min{((min(M, R) over ((T/2 over L-1)))), M^{T/2}}.

    ((n over k)) = C(n + k - 1, k). A conjecture, decided here at concrete sizes.
    Source: Ziv (2019), Conjecture 1 (Section 2.3.2, Appendix A.4).
    """

    depth: int = 3  # type: ignore[misc]
    """L, the layers."""

    name: ClassVar[str] = "rac-conjecture"
    words: ClassVar[str] = (
        "depth L: the Start-End rank is at least min(((min(M,R) over ((T/2 over L-1)))), M^(T/2)), for almost all "
        "weights (Ziv, Conjecture 1)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("depth", self.depth)

    @property
    def bound(self) -> int:
        return bounds.rac_conjecture(self.modes, self.channels, self.steps, self.depth)

    def _construction(self, prime: int, seed: int) -> FieldCircuit:
        return conjecture_circuit(self.modes, self.channels, self.depth, self.templates, prime, seed)

    def _claimed(self) -> str:
        return "Conjecture 1 says"


@dataclass(frozen=True)
class RACUpperClaim(RACConjectureClaim):
    """L layers: the Start-End rank of a grid is at most a product of multiset coefficients, for all weights.

    The bound is :func:`engram.theory.bounds.rac_upper`, which is not in the thesis. The rank found often reaches it.
    """

    name: ClassVar[str] = "rac-upper"
    words: ClassVar[str] = "depth L: the Start-End rank is at most a product of multiset coefficients, for all weights"

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
class _Sequences:
    """A circuit with the length of its sequences."""

    circuit: FieldCircuit
    steps: int

    def grid(self) -> Iterator[tuple[int, Residues]]:
        return self.circuit.grid(self.steps)


def rac_claim(modes: int, channels: int, steps: int, depth: int, templates: int = 0) -> RACShallowClaim:
    """The claim about circuits of this depth: Theorem 1.1 at depth 1, Theorem 1.2 at depth 2, Conjecture 1 above.

    Args:
        modes: M, the numbers that encode one input.
        channels: R, the units of a layer.
        steps: T, the length of a sequence; even.
        depth: L, the layers.
        templates: K, the inputs of the grid; default: as many as modes.

    >>> rac_claim(3, 3, 8, 2).name
    'rac-deep'
    """
    if check_size("depth", depth) <= 2:
        return (RACShallowClaim if depth == 1 else RACDeepClaim)(modes, channels, steps, templates)
    return RACConjectureClaim(modes, channels, steps, templates, depth)

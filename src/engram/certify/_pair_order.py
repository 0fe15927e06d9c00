"""The claim ``pair-order``: which similarities tell the order of two objects, and which cannot."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from engram.certify._claim import Claim, Found
from engram.certify._cost import MB, Cost
from engram.errors import check_size
from engram.exact import integers

Vector = list[Fraction]
Scores = list[list[Fraction]]


@dataclass(frozen=True)
class PairOrderClaim(Claim):
    """Of two objects, products of codes tell the order only by norms, or not at all; differences always do.

    Swapping two codes swaps the diagonal of S = Z Z^T: the decoder is given the same numbers for both orders exactly
    if the norms are equal. Context normalisation of two steps makes z = beta + g s and beta - g s of them, with the
    signs s of their differences and g = gamma / sqrt 2 (its epsilon left out). With beta = 0 that is z and -z, of which
    every product (W_1 z) . (W_2 z) is the same: neither a symmetric nor an asymmetric similarity tells the order,
    whatever the decoder. With another beta both do, unless beta . (g s) = 0 for the symmetric one. The difference
    w . z_1 - w . z_2 changes its sign. All is computed at random rational codes, and compared exactly.
    Source: Kerg (2022), Section 7.2, who says that no symmetric similarity can learn it.
    """

    features: int
    """F, the numbers in the code of an object."""

    name: ClassVar[str] = "pair-order"
    words: ClassVar[str] = (
        "similarities of two objects tell their order by norms alone, after normalisation not at all; differences do "
        "(Kerg 2022, Section 7.2)"
    )
    example: ClassVar[dict[str, int]] = {"features": 4}

    def __post_init__(self) -> None:
        check_size("features", self.features, least=2)

    def cost(self) -> Cost:
        """Two matrices F x F, and a few dozen products with them."""
        return Cost(1e-4 + 1e-4 * self.features**2, MB * 500 * self.features**2)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        size = self.features
        signs = [1 - 2 * (int(number) % 2) for number in integers(seed, 4, size)]
        # Of equal signs, and none of them 0: no sum below is 0 by chance.
        a, more, step, shift, weights = (
            [sign * (1 + abs(number)) for sign, number in zip(signs, _vector(row), strict=True)]
            for row in integers(seed, 1, 5, size)
        )
        first, second = ([_vector(row) for row in integers(seed, k, size, size)] for k in (2, 3))
        mirrored = [-a[0], *a[1:]]  # has the norm of a

        def normalised(beta: Vector) -> tuple[Vector, Vector]:
            return _sum(beta, step), _sum(beta, [-x for x in step])

        pairs = {
            "other_norms": (a, _sum(a, more)),
            "equal_norms": (a, mirrored),
            "normalised": normalised([Fraction(0)] * size),
            "normalised_beta": normalised(shift),
        }

        def asymmetric(*codes: Vector) -> Scores:
            left, right = ([[_dot(row, z) for row in matrix] for z in codes] for matrix in (first, second))
            return [[_dot(x, y) for y in right] for x in left]

        def symmetric(*codes: Vector) -> Scores:
            return [[_dot(x, y) for y in codes] for x in codes]

        def difference(*codes: Vector) -> Scores:
            numbers = [_dot(weights, z) for z in codes]
            return [[x - y for y in numbers] for x in numbers]

        return {
            f"{rule.__name__}_{name}": _changed(rule(x, y), rule(y, x))
            for rule in (symmetric, asymmetric, difference)
            for name, (x, y) in pairs.items()
        }

    def holds(self, found: Found) -> bool:
        blind = {"symmetric_equal_norms", "symmetric_normalised", "asymmetric_normalised"}
        return all((count == 0) == (name in blind) for name, count in found.items())

    def statement(self, found: Found) -> str:
        told = {name: "tells" if count else "does not tell" for name, count in found.items()}
        return (
            f"For two codes of {self.features} numbers a symmetric similarity {told['symmetric_other_norms']} the "
            f"order if norms differ, {told['symmetric_equal_norms']} it if they are equal; after normalisation with "
            f"beta = 0 it {told['symmetric_normalised']} it, an asymmetric one {told['asymmetric_normalised']} it, a "
            f"difference {told['difference_normalised']} it."
        )


def _vector(numbers: object) -> Vector:
    return [Fraction(int(number)) for number in numbers]  # type: ignore[attr-defined]


def _dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _sum(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def _changed(before: Scores, after: Scores) -> int:
    """How many of the four scores are others after the swap."""
    return sum(x != y for rows in zip(before, after, strict=True) for x, y in zip(*rows, strict=True))

"""The claim ``invariance``: products of codes do not change when all codes are turned."""

from dataclasses import dataclass
from typing import ClassVar

from flint import fmpq, fmpq_mat

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.errors import check_size
from engram.exact import integers


@dataclass(frozen=True)
class InvarianceClaim(Claim):
    """CoRelNet's similarities S = Z Z^T of T codes are the same for Z and Z Q, for every orthogonal Q.

    All rational orthogonal Q without the eigenvalue -1 are (I - A)(I + A)^{-1} with A skew and rational (Cayley). One
    such Q, of a random integer A, turns T random integer codes; S is compared entry by entry, in rational numbers. An
    asymmetric similarity (Z W_1^T)(Z W_2^T)^T of random integers is compared as well, and is another one.
    Source: Kerg (2022), Section 5.6, where it is said in words: the decoder sees relations and no identity.
    """

    steps: int
    """T, the objects of a sequence."""
    features: int = 3
    """F, the numbers in the code of an object."""

    name: ClassVar[str] = "invariance"
    words: ClassVar[str] = (
        "symmetric similarities do not change under an orthogonal transform of all codes, asymmetric ones do "
        "(Kerg 2022, Section 5.6)"
    )
    example: ClassVar[dict[str, int]] = {"steps": 4, "features": 3}

    def __post_init__(self) -> None:
        check_size("steps", self.steps)
        check_size("features", self.features, least=2)

    def cost(self) -> Cost:
        """An inverse of F x F, whose entries have about 8 F digits, and products with the codes."""
        size, steps = self.features, self.steps
        products = size**3 + 2 * steps * size**2 + 2 * steps**2 * size
        return Cost(2e-7 * size * products, MB * (size + 2 * steps) * (size + steps) * (100 + 20 * size))

    def find(self, witness: str, prime: int, seed: int) -> Found:
        codes = _rational(integers(seed, 1, self.steps, self.features))
        turn = orthogonal(integers(seed, 2, self.features, self.features))
        first, second = (_rational(integers(seed, k, self.features, self.features)) for k in (3, 4))
        turned = codes * turn

        def changed(before: fmpq_mat, after: fmpq_mat) -> int:
            return sum(a != b for a, b in zip(before.entries(), after.entries(), strict=True))

        def asymmetric(z: fmpq_mat) -> fmpq_mat:
            return z * first.transpose() * second * z.transpose()

        size = range(self.features)
        identity = _rational([[i == j for j in size] for i in size])
        return {
            "is_orthogonal": bool(turn * turn.transpose() == identity),
            "first_row": [str(turn[0, j]) for j in size],
            "changed_codes": changed(codes, turned),
            "changed_scores": changed(codes * codes.transpose(), turned * turned.transpose()),
            "changed_asymmetric_scores": changed(asymmetric(codes), asymmetric(turned)),
        }

    def holds(self, found: Found) -> bool:
        moved = found["changed_codes"] > 0 and found["changed_asymmetric_scores"] > 0
        return bool(found["is_orthogonal"] and moved and found["changed_scores"] == 0)

    def statement(self, found: Found) -> str:
        return (
            f"A rational orthogonal matrix changes {found['changed_codes']} of the {self.steps * self.features} "
            f"numbers in the codes of {many(self.steps, 'object')}, {found['changed_scores']} of their {self.steps**2} "
            f"symmetric scores and {found['changed_asymmetric_scores']} of as many asymmetric ones."
        )


def orthogonal(numbers: object) -> fmpq_mat:
    """(I - A)(I + A)^{-1}; below the diagonal of the skew A is 1 + |x| of a matrix of integers, so that A is not 0."""
    rows = [[1 + abs(int(entry)) for entry in row] for row in numbers]  # type: ignore[attr-defined]
    size = len(rows)
    skew = [[(rows[i][j] if i > j else -rows[j][i] if i < j else 0) for j in range(size)] for i in range(size)]
    minus = [[(i == j) - skew[i][j] for j in range(size)] for i in range(size)]
    plus = [[(i == j) + skew[i][j] for j in range(size)] for i in range(size)]
    return _rational(minus) * _rational(plus).inv()


def _rational(numbers: object) -> fmpq_mat:
    rows = [[fmpq(int(entry)) for entry in row] for row in numbers]  # type: ignore[attr-defined]
    return fmpq_mat(len(rows), len(rows[0]), [entry for row in rows for entry in row])

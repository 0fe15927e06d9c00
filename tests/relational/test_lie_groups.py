"""Facts on Lie groups that the source recalls (Kerg 2022, Appendix E), each at random matrices in float64.

e(n) diagonal matrices with entries of modulus 1, t(n) upper triangular ones with such a diagonal, u(n) skew-Hermitian
matrices. Tolerances: products and exponentials of n x n matrices of norm about 1 err by a few n eps.
"""

import pytest
import torch
from torch import Tensor

from engram.maps import haar

SIZES = [1, 2, 5, 8]
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def random(size: int) -> Tensor:
    return torch.randn(size, size, dtype=torch.complex128)


def skew(size: int) -> Tensor:
    a = random(size)
    return (a - a.mH) / 2


def bracket(x: Tensor, y: Tensor) -> Tensor:
    return x @ y - y @ x


def is_unitary(matrix: Tensor) -> bool:
    return bool(torch.allclose(matrix.mH @ matrix, torch.eye(len(matrix), dtype=matrix.dtype), **CLOSE))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("size", SIZES)
class TestBracket:
    def test_is_bilinear_alternating_and_has_the_jacobi_identity(self, size: int) -> None:
        x, y, z = (random(size) for _ in range(3))
        torch.testing.assert_close(bracket(2 * x - 3 * y, z), 2 * bracket(x, z) - 3 * bracket(y, z), **CLOSE)
        assert not bracket(x, x).any()
        torch.testing.assert_close(bracket(x, y), -bracket(y, x), **CLOSE)
        total = bracket(x, bracket(y, z)) + bracket(z, bracket(x, y)) + bracket(y, bracket(z, x))
        torch.testing.assert_close(total, torch.zeros_like(total), rtol=0, atol=1e-12 * size)

    def test_of_skew_hermitian_matrices_is_one(self, size: int) -> None:
        found = bracket(skew(size), skew(size))
        torch.testing.assert_close(found, -found.mH, **CLOSE)

    def test_of_the_algebra_of_t_is_in_it(self, size: int) -> None:
        """Upper triangular with an imaginary diagonal; the bracket's diagonal is 0."""
        x, y = (random(size).triu(1) + torch.diag(1j * torch.randn(size, dtype=torch.float64)) for _ in range(2))
        found = bracket(x, y)
        torch.testing.assert_close(found, found.triu(), **CLOSE)
        torch.testing.assert_close(found.diagonal().real, torch.zeros(size, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("size", SIZES)
class TestExponential:
    def test_of_skew_hermitian_is_unitary_along_the_whole_line(self, size: int) -> None:
        x = skew(size)
        for t in (-2.0, -0.3, 0.0, 1.0, 7.0):
            assert is_unitary(torch.linalg.matrix_exp(t * x))

    def test_of_any_other_matrix_leaves_the_group(self, size: int) -> None:
        """Lie(U(n)) has nothing else: the Hermitian part is the derivative of exp(tX)^* exp(tX) at 0."""
        x = skew(size) + 0.1 * torch.eye(size, dtype=torch.complex128)
        assert not is_unitary(torch.linalg.matrix_exp(x))

    def test_is_onto_the_unitary_group(self, size: int) -> None:
        """U(n) is compact and connected: every unitary P = V diag(e^{i a}) V^* is exp of V diag(i a) V^*."""
        unitary = haar(size, complex=True)
        values, vectors = torch.linalg.eig(unitary)
        vectors = torch.linalg.qr(vectors).Q
        algebra = vectors @ torch.diag(1j * values.angle().to(torch.complex128)) @ vectors.mH
        torch.testing.assert_close(torch.linalg.matrix_exp(algebra), unitary, rtol=1e-9, atol=1e-9)
        for t in (0.25, 0.5):  # the path to the identity stays in the group
            assert is_unitary(torch.linalg.matrix_exp(t * algebra))

    def test_of_the_algebra_of_e_and_t_is_in_them(self, size: int) -> None:
        angles = torch.diag(1j * torch.randn(size, dtype=torch.float64))
        for x in (angles, angles + random(size).triu(1)):
            found = torch.linalg.matrix_exp(x)
            torch.testing.assert_close(found, found.triu(), **CLOSE)
            torch.testing.assert_close(found.diagonal().abs(), torch.ones(size, dtype=torch.float64), **CLOSE)

    def test_a_change_of_basis_goes_through_it(self, size: int) -> None:
        """P exp(A) P^* = exp(P A P^*), so Lie(P G P^*) = P Lie(G) P^*."""
        p, a = haar(size, complex=True), random(size) / size
        torch.testing.assert_close(
            p @ torch.linalg.matrix_exp(a) @ p.mH, torch.linalg.matrix_exp(p @ a @ p.mH), rtol=1e-10, atol=1e-10
        )

    def test_of_a_real_skew_matrix_has_determinant_one(self, size: int) -> None:
        """Lie(SO(n)): exp is orthogonal with determinant 1, so that reflections are not reached."""
        a = torch.randn(size, size, dtype=torch.float64)
        found = torch.linalg.matrix_exp(a - a.mT)
        torch.testing.assert_close(found.mT @ found, torch.eye(size, dtype=torch.float64), **CLOSE)
        torch.testing.assert_close(torch.linalg.det(found), torch.ones((), dtype=torch.float64), **CLOSE)


def test_t_is_not_bounded_and_e_and_u_are() -> None:
    far = torch.tensor([[1, 1e9], [0, 1]], dtype=torch.complex128)  # in t(2), as far from 0 as one likes
    assert float(far.abs().max()) == 1e9
    assert float(torch.linalg.matrix_norm(haar(5, complex=True), 2)) == pytest.approx(1, abs=1e-12)


def test_imaginary_eigenvalues_alone_do_not_make_a_matrix_skew_hermitian() -> None:
    """The source says that the skew-Hermitian matrices are precisely those whose eigenvalues have real part zero. A
    matrix must be normal too: this one has eigenvalues 0 and is not skew, and its exponential is not unitary."""
    nilpotent = torch.tensor([[0, 1], [0, 0]], dtype=torch.complex128)
    assert not torch.linalg.eigvals(nilpotent).any()
    assert not is_unitary(torch.linalg.matrix_exp(nilpotent))


def test_a_bounded_determinant_does_not_make_a_group_closed_under_bounds() -> None:
    """The source has U(n) closed as a preimage of U(1) under det. That preimage is larger, and not bounded."""
    stretched = torch.diag(torch.tensor([4.0, 0.25], dtype=torch.complex128))
    assert complex(torch.linalg.det(stretched)) == 1
    assert not is_unitary(stretched)

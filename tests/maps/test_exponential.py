"""exp of a skew matrix: against torch, for any norm, and unitary; the Cayley transform likewise."""

from collections.abc import Callable

import pytest
import torch

from engram.maps import cayley_transform, exp_skew, haar, skew, skew_entries

DTYPES = (torch.float64, torch.complex128)


def random_skew(n: int, norm: float, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(n, n, dtype=dtype)
    a = x - x.mH
    return a * (norm / torch.linalg.matrix_norm(a, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [0.0, 1e-8, 1e-3, 0.1, 0.5, 1.0, 2.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_value_and_gradient(n: int, norm: float, dtype: torch.dtype) -> None:
    """Against an eigendecomposition, whose angles are right to n eps |A|; a few n eps more for the products."""
    a = random_skew(n, norm, dtype) if n > 1 or dtype.is_complex else torch.zeros(1, 1, dtype=dtype)
    a.requires_grad_()
    result = exp_skew(a)
    w = result.detach()
    angles, u = torch.linalg.eigh(-1j * a.detach().to(torch.complex128))
    exact = (u * torch.exp(1j * angles)) @ u.mH
    allowed = 10 * n * torch.finfo(torch.float64).eps * max(1.0, norm)
    assert float((w - exact).abs().max()) < allowed
    assert float((w.mH @ w - torch.eye(n)).abs().max()) < allowed
    g = torch.randn_like(w)
    (found,) = torch.autograd.grad(result, a, g)
    # Daleckii-Krein: the divided differences of exp in the eigenbasis
    gap = angles[:, None] - angles[None, :]
    mean = torch.exp(0.5j * (angles[:, None] + angles[None, :]))
    divided = mean * torch.sinc(gap / (2 * torch.pi))
    expected = u @ (divided.conj() * (u.mH @ g.to(torch.complex128) @ u)) @ u.mH
    expected = (expected - expected.mH) / 2
    expected = expected if dtype.is_complex else expected.real
    assert float((found - expected).abs().max()) < 10 * allowed * max(1.0, float(g.abs().max()))


def test_float32_and_nan() -> None:
    a = random_skew(50, 2.0, torch.float64)
    assert float((exp_skew(a.float()) - torch.linalg.matrix_exp(a)).abs().max()) < 50 * 1.2e-7  # n eps
    a[0, 1] = torch.nan
    assert bool(torch.isnan(exp_skew(a)).any())


def test_operator_and_transforms() -> None:
    entries = torch.randn(10, dtype=torch.float64, requires_grad=True)

    def f(e: torch.Tensor) -> torch.Tensor:
        return exp_skew(skew(e, 5))

    assert torch.autograd.gradcheck(f, entries)
    assert torch.autograd.gradgradcheck(f, entries)
    jacobian = torch.autograd.functional.jacobian(f, entries.detach())
    assert float((torch.func.jacrev(f)(entries.detach()) - jacobian).abs().max()) < 1e-12
    torch.library.opcheck(torch.ops.engram.exp_skew.default, (skew(entries, 5).detach().requires_grad_(),))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cayley_with_a_base(dtype: torch.dtype) -> None:
    n, q = 6, haar(6, complex=dtype.is_complex)
    entries = torch.randn(n * n if dtype.is_complex else 15, dtype=torch.float64, requires_grad=True)
    a, eye = skew(entries.detach(), n), torch.eye(n)
    assert float((cayley_transform(a, q) - q @ torch.linalg.solve(eye + a, eye - a)).abs().max()) < 1e-13
    assert torch.autograd.gradcheck(lambda e: cayley_transform(skew(e, n), q), entries)
    assert torch.autograd.gradgradcheck(lambda e: cayley_transform(skew(e, n), q), entries)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [0.3, 30.0])
@pytest.mark.parametrize("function", [exp_skew, cayley_transform])
def test_a_gradient_that_will_be_differentiated_is_the_same(
    function: Callable[[torch.Tensor], torch.Tensor], norm: float, dtype: torch.dtype
) -> None:
    """It is computed in another way then; of the skew part, the only one that counts."""
    a, weights = random_skew(6, norm, dtype).requires_grad_(), torch.randn(6, 6, dtype=dtype)
    once, twice = (torch.autograd.grad(function(a), a, weights, create_graph=again)[0] for again in (False, True))
    torch.testing.assert_close(twice - twice.mH, once - once.mH, rtol=0, atol=1e-12 * (1 + norm))


@pytest.mark.parametrize("dtype", DTYPES)
def test_skew_entries_round_trip(dtype: torch.dtype) -> None:
    entries = torch.randn(36 if dtype.is_complex else 15, dtype=torch.float64)
    a = skew(entries, 6)
    assert a.dtype == dtype
    assert torch.equal(a.mH, -a)
    assert torch.equal(skew_entries(a), entries)

"""The exponential and the Cayley map against their definitions, against torch's own, and as orthogonal matrices."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from engram.maps import Cayley, Exponential, Orthogonal, orthogonality_error, skew

MADE: list[type[Orthogonal]] = [Exponential, Cayley]


def entries(size: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(size * (size - 1) // 2, dtype=torch.float64)


def test_skew_is_row_by_row() -> None:
    assert skew(torch.tensor([1.0, 2.0, 3.0]), 3).tolist() == [[0, 1, 2], [-1, 0, 3], [-2, -3, 0]]
    assert skew(torch.empty(0), 1).tolist() == [[0]]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
def test_exponential(size: int) -> None:
    """Q exp(A); to 1e-12: a product of float64 matrices of length 1, in another order."""
    made, free = Exponential(size).double(), entries(size)
    base = made.sample(dtype=torch.float64)
    made.right_inverse(base)
    torch.testing.assert_close(made(free), base @ torch.linalg.matrix_exp(skew(free, size)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
def test_cayley(size: int) -> None:
    """Q (I + A)^-1 (I - A), with the inverse written out; the two factors commute."""
    made, free = Cayley(size).double(), entries(size)
    base, eye = made.sample(dtype=torch.float64), torch.eye(size, dtype=torch.float64)
    made.right_inverse(base)
    a = skew(free, size)
    torch.testing.assert_close(made(free), base @ torch.linalg.inv(eye + a) @ (eye - a), rtol=0, atol=1e-12)
    torch.testing.assert_close(made(free), base @ (eye - a) @ torch.linalg.inv(eye + a), rtol=0, atol=1e-12)


def test_one_angle() -> None:
    """Of size 2 both are rotations: by a for the exponential, by 2 arctan(a) for Cayley."""
    a = torch.tensor([0.7], dtype=torch.float64)
    for made, angle in ((Exponential(2), a), (Cayley(2), -2 * torch.arctan(a))):
        rotation = torch.stack([torch.cat([angle.cos(), angle.sin()]), torch.cat([-angle.sin(), angle.cos()])])
        torch.testing.assert_close(made.double()(a), rotation, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize(("made", "theirs", "factor"), [(Exponential, "matrix_exp", 1.0), (Cayley, "cayley", -2.0)])
def test_equals_torch(made: type[Orthogonal], theirs: str, factor: float, size: int) -> None:
    """torch.nn.utils.parametrizations.orthogonal from the same base: A below the diagonal, and -2 A for Cayley."""
    layer = nn.Linear(size, size, bias=False, dtype=torch.float64)
    nn.init.orthogonal_(layer.weight)
    base = layer.weight.detach().clone()
    parametrizations.orthogonal(layer, "weight", theirs)
    ours, free = made(size).double(), entries(size)
    ours.right_inverse(base)
    with torch.no_grad():
        holder: Any = layer.parametrizations
        holder.weight.original.copy_(factor * skew(free, size).tril(-1))
    found, right = ours(free), layer.weight.detach()
    torch.testing.assert_close(found, right, rtol=0, atol=1e-12)  # float64 rounding
    torch.testing.assert_close(torch.det(found), torch.det(base), rtol=0, atol=1e-12)


@pytest.mark.parametrize("made", MADE)
@given(size=st.integers(1, 20), scale=st.floats(0, 30), seed=st.integers(0, 2**16))
def test_orthogonal_whatever_the_parameters(made: type[Orthogonal], size: int, scale: float, seed: int) -> None:
    """1e-11 in float64: entries of up to 100, for which the exponential doubles its rounding some ten times."""
    torch.manual_seed(seed)
    found = made(size).double()(entries(size, scale))
    assert orthogonality_error(found) <= 1e-11
    assert float(torch.det(found)) == pytest.approx(1, abs=1e-11)  # connected with the base, the identity


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_either_determinant_can_be_assigned(made: type[Orthogonal], sign: float) -> None:
    """The base point carries the determinant; the parameters move within its component."""
    base = torch.diag(torch.tensor([sign, 1, 1, 1], dtype=torch.float64))
    ours = made(4).double()
    assert not ours.right_inverse(base).any()
    assert float(torch.det(ours(entries(4)))) == pytest.approx(sign, abs=1e-12)


@pytest.mark.parametrize("made", MADE)
def test_sample_is_uniform(made: type[Orthogonal]) -> None:
    """Haar on SO(N): determinant 1, entries of mean 0 and variance 1/N. 2000 draws, four standard errors."""
    draws = torch.stack([made(4).sample() for _ in range(2000)])
    assert float((torch.det(draws) - 1).abs().max()) < 1e-5
    assert draws.mean(0).abs().max() < 4 * 0.5 / 2000**0.5
    assert (draws.square().mean(0) - 0.25).abs().max() < 4 * 0.25 / 2000**0.5  # the variance of x^2 is 1/24 < 1/16

"""Products of m < N reflections: a map knows its own matrices, at every N and m, and no others."""

import math
from functools import reduce

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import ManifoldError
from engram.maps import Householder

KINDS = [torch.float32, torch.float64]


def bound(n: int, m: int, dtype: torch.dtype) -> float:
    """A vector is known to about sqrt(N) eps (N roundings, which partly cancel), its reflection turns four times as
    far, m of them add up; once to take the matrix apart and once to build it again."""
    return 2 * 4 * m * math.sqrt(n) * torch.finfo(dtype).eps


def check(matrix: Tensor, m: int) -> None:
    """Contained, assigned, and the same again; in a map that has not seen it before."""
    n = len(matrix)
    map = Householder(n, m)
    assert map.contains(matrix), f"{map}: {map.distance(matrix):.3g} away"
    assert map.distance(matrix) <= bound(n, m, matrix.dtype)
    back = map(map.right_inverse(matrix))
    assert float((back - matrix).abs().max()) <= bound(n, m, matrix.dtype)


def check_own(n: int, m: int, dtype: torch.dtype) -> None:
    """Both what the map draws (made in float64, then rounded) and what it computes in this dtype."""
    map = Householder(n, m)
    check(map.sample(dtype=dtype), m)
    check(map.to(dtype)(map.sample_free(None)[0].to(dtype)), m)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@given(n=st.integers(2, 128), data=st.data())
def test_own_matrices(n: int, data: st.DataObject, dtype: torch.dtype) -> None:
    m = data.draw(st.integers(1, n))
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    check_own(n, m, dtype)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_the_case_that_was_refused(dtype: torch.dtype) -> None:
    """N = 64, m = 16: 19 of 20 float32 matrices were "not in the manifold"."""
    for seed in range(20):
        torch.manual_seed(seed)
        check_own(64, 16, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("n", [*range(2, 34), 64, 128])
def test_every_number_of_reflections(n: int, dtype: torch.dtype) -> None:
    torch.manual_seed(n)
    for m in range(1, n + 1, max(1, n // 32)):
        check_own(n, m, dtype)


def reflections(*vectors: list[float]) -> Tensor:
    """The product of the reflections of these vectors."""
    made = []
    for v in vectors:
        u = torch.tensor(v, dtype=torch.float64)
        made.append(torch.eye(len(v), dtype=torch.float64) - 2 * torch.outer(u, u) / u.dot(u))
    return reduce(torch.matmul, made)


# Vectors with zeros where the map's usual form divides by them, equal ones, ones that cancel; and their number.
SPECIAL: dict[str, tuple[Tensor, int]] = {
    "a swap": (reflections([1, -1, 0, 0]), 1),
    "the last coordinate": (reflections([0, 0, 0, 1]), 1),
    "the first coordinate": (reflections([1, 0, 0, 0]), 1),
    "identity from two": (torch.eye(4, dtype=torch.float64), 2),
    "fewer than may be": (reflections([0, 1, 2, 0]), 3),
    "two in the last plane": (reflections([0, 0, 1, 0.3], [0, 0, 0.2, 1]), 2),
    "almost the identity": (reflections([1, 0, 0, 0], [1, 1e-9, 0, 0]), 2),
    "a cycle": (torch.eye(4, dtype=torch.float64).roll(1, 0), 3),
    "minus the identity": (-torch.eye(4, dtype=torch.float64), 4),
    "all but one turned over": (torch.diag(torch.tensor([-1.0, -1, -1, 1], dtype=torch.float64)), 3),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_matrices(name: str) -> None:
    matrix, m = SPECIAL[name]
    for dtype in KINDS:
        check(matrix.to(dtype), m)


@given(n=st.integers(3, 40), data=st.data())
def test_more_reflections_are_refused(n: int, data: st.DataObject) -> None:
    """With m + 1 the determinant is wrong; with m + 2 two more directions move, by as much as said."""
    m = data.draw(st.integers(1, n - 2))
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    map = Householder(n, m)
    assert map.distance(Householder(n, m + 1).sample(dtype=torch.float64)) >= 2
    if m + 2 == n:  # then the sign of the last coordinate is free
        return
    matrix = Householder(n, m + 2).sample(dtype=torch.float64)
    moved = torch.linalg.svdvals(matrix - torch.eye(n, dtype=torch.float64))
    assert map.distance(matrix) == pytest.approx(float(moved[m]), abs=1e-12)
    if moved[m] > 1e-9:
        assert not map.contains(matrix)
        with pytest.raises(ManifoldError, match="away from that"):
            map.right_inverse(matrix)

"""Whatever a map gives, by sample or by forward, it contains, takes back by assignment, and gives again."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from table_of_maps import FAMILY
from torch import Tensor

from engram.errors import ManifoldError
from engram.maps import (
    MAPS,
    Cayley,
    Exponential,
    Fourier,
    Givens,
    Householder,
    Map,
    Projected,
    ScaledCayley,
    Schur,
    SoftOrthogonal,
    SpectralMargin,
    SpectralReflections,
    _solved,
    haar,
)

SIZES = (1, 2, 3, 8, 33)
KINDS = (torch.float32, torch.float64)

OPTIONS: dict[str, Callable[[int], Map]] = {
    **FAMILY,
    "exponential, identity": partial(Exponential, init="identity"),
    "exponential, rebased": partial(Exponential, rebase_every=3),
    "cayley, henaff": partial(Cayley, init="henaff"),
    "scaled-cayley, rho=1": partial(ScaledCayley, rho=1),
    "scaled-cayley, rho=N": lambda n: ScaledCayley(n, rho=n),
    "householder, m=1": partial(Householder, reflections=1),
    "householder, m=N/2": lambda n: Householder(n, max(1, n // 2)),
    "householder, m=N-1": lambda n: Householder(n, max(1, n - 1)),
    "givens, L=N+2": lambda n: Givens(n, n + 2),
    "givens, L=2, complex": partial(Givens, layers=2, complex=True),
    "schur, haar": partial(Schur, init="haar"),
    "schur, block, haar": partial(Schur, mask="block", init="haar"),
    "schur, block, gamma=1": partial(Schur, mask="block", gamma=1.0, init="haar"),
    "schur, full, gamma=1": partial(Schur, mask="full", gamma=1.0, init="cayley"),
    "spectral-margin, 0": partial(SpectralMargin, margin=0.0),
    "spectral-margin, 1": partial(SpectralMargin, margin=1.0, init="henaff"),
    "spectral-reflections, margin 1": partial(SpectralReflections, margin=1.0),
    "spectral-reflections, (N, 1)": lambda n: SpectralReflections(n, reflections=(n, 1)),
    "soft-orthogonal, spectral": partial(SoftOrthogonal, norm="spectral"),
}
# Whose inverse is a search or nothing; at N = 1 one layer or one reflection is all there is.
WITHOUT_FORMULA = {
    "fourier": SIZES,
    "givens, L=3": (8, 33),
    "givens, L=2, complex": (3, 8, 33),
    "givens, fft": SIZES,
    "givens, fft, complex": SIZES,
    "spectral-reflections, m=1": (2, 3, 8, 33),
    "spectral-reflections, (N, 1)": (2, 3, 8, 33),
}


def given_by(map: Map, dtype: torch.dtype) -> dict[str, Tensor]:
    """A sample, and a point away from it, as ``forward`` gives it in this dtype (stored matrices: the start)."""
    drawn = map.sample(dtype=dtype)
    free = map.right_inverse(drawn)
    moved = (free,) if isinstance(free, Tensor) else free
    if not isinstance(map, Projected):
        moved = tuple(f + 0.3 * torch.randn_like(f) / math.sqrt(map.size) for f in moved)
    return {"sample": drawn, "forward": map(*moved)}


def bound(map: Map, matrix: Tensor) -> float:
    """Of the largest entry. N eps by a constant: each of the inverses is made of some ten products and orthogonal
    decompositions, backward stable, of matrices of norm |W|. By how much the parameters of a matrix magnify rounding:

    * scaled-cayley: A = (I + W D)^-1 (I - W D), so 1 / gap of the eigenvalues to -1;
    * schur with a rule for its blocks: the condition of the eigenvectors.
    """
    magnified = 1.0
    wide = matrix.to(torch.complex128 if matrix.is_complex() else torch.float64)
    if isinstance(map, ScaledCayley):
        turned = wide if map.complex else wide * map.signs
        values = torch.linalg.eigvals(turned)
        magnified = 1.0 if map.complex else 2 / float((values + 1).abs().min())
        magnified = max(magnified, map.size) if map.complex else magnified  # the widest gap is at least 2 pi / N
    if isinstance(map, Schur) and (map.mask == "block" or map.gamma is not None):
        magnified = float(torch.linalg.cond(torch.linalg.eig(wide).eigenvectors))
    scale = max(1.0, float(torch.linalg.matrix_norm(wide, 2)))
    return 16 * map.size * torch.finfo(matrix.dtype).eps * scale * magnified


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPTIONS)
def test_comes_back(name: str, size: int) -> None:
    torch.manual_seed(size)
    counted = 0
    for dtype in KINDS:
        for source, matrix in given_by(OPTIONS[name](size), dtype).items():
            where = f"{name}, N = {size}, {dtype}, {source}"
            map = OPTIONS[name](size)  # one that has not seen this matrix
            assert map.has_inverse == (size not in WITHOUT_FORMULA.get(name, ())), where
            if not map.has_inverse:
                continue
            matrix = matrix.detach()
            assert map.contains(matrix), f"{where}: {map.distance(matrix):.3g} away"
            back = map.right_inverse(matrix)
            again = map(*((back,) if isinstance(back, Tensor) else back)).detach()
            off = float((again - matrix).abs().max())
            assert off <= bound(map, matrix), f"{where}: {off:.3g} against {bound(map, matrix):.3g}"
            counted += 1
    assert counted == (4 if size not in WITHOUT_FORMULA.get(name, ()) else 0)


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, sizes in WITHOUT_FORMULA.items() for size in sizes])
def test_without_a_formula(name: str, size: int) -> None:
    """It still contains what it gives, and takes back what it drew. Another is found, or refused in one line."""
    torch.manual_seed(size)
    for dtype in KINDS:
        map = OPTIONS[name](size)
        for source, matrix in given_by(map, dtype).items():
            assert map.contains(matrix.detach()), f"{name}, {source}: {map.distance(matrix):.3g} away"
        drawn = map.sample(dtype=dtype)
        back = map.right_inverse(drawn)
        again = map(*((back,) if isinstance(back, Tensor) else back)).detach()
        assert float((again - drawn).abs().max()) <= bound(map, drawn)
    if size > 3:  # below, the search is quick, and other tests see it succeed
        other = OPTIONS[name](33).to(torch.float64)
        matrix = OPTIONS[name](33).sample(dtype=torch.float64)
        assert other.contains(matrix)
        with pytest.raises(ManifoldError, match=r"has no formula for its inverse.* Assign what the map itself sampled"):
            other.right_inverse(matrix)


def test_every_map_is_there() -> None:
    """Every name of the registry is tried; 47 maps at 5 sizes, 828 matrices that come back through a formula."""
    assert set(MAPS) <= set(OPTIONS)
    without = sum(len(sizes) for sizes in WITHOUT_FORMULA.values())
    assert (len(OPTIONS), 4 * (len(OPTIONS) * len(SIZES) - without)) == (47, 828)


def test_a_saturated_singular_value_comes_back() -> None:
    """At the edge of the margin, where p is large: it was cut 1e-7 before the edge, in float64 too."""
    map = SpectralMargin(4, margin=0.5).double()
    p = torch.tensor([30.0, -30.0, 20.0, 0.0], dtype=torch.float64)
    left, right, _ = map.sample_free(None)
    matrix = map(left, right, p)
    back = map.right_inverse(matrix)
    assert float((map(*back) - matrix).abs().max()) <= bound(map, matrix)
    assert all(bool(f.isfinite().all()) for f in back)


@pytest.mark.parametrize(
    ("rho", "matrix", "why"),
    [
        (2, torch.diag(torch.tensor([-1.0, -1, -1, -1])), "must not have -1 among the eigenvalues"),
        (1, torch.eye(4), "is 2 away from that"),
        (0, torch.diag(torch.tensor([1.0, 1, 1, -1])), "is 2 away from that"),
    ],
)
def test_what_scaled_cayley_cannot_reach_it_does_not_contain(rho: int, matrix: Tensor, why: str) -> None:
    """-1 among the eigenvalues of W D^*, or the other determinant."""
    map = ScaledCayley(4, rho=rho)
    assert not map.contains(matrix)
    with pytest.raises(ManifoldError, match=why):
        map.right_inverse(matrix)


@pytest.mark.parametrize("size", [2, 3, 6, 9, 16])
@pytest.mark.parametrize("mask", ["block", "full"])
def test_schur_with_gamma_in_any_order(mask: str, size: int) -> None:
    """T reaches into the blocks and makes some eigenvalues real; LAPACK's order of the blocks is rarely ours."""
    for seed in range(10):
        torch.manual_seed(seed)
        map = Schur(size, mask, gamma=0.9, init="haar")
        entries, lower, theta = map.sample_free(None)
        matrix = map.double_forward(entries, 0.5 * torch.randn_like(lower), theta)
        assert map.contains(matrix), f"{map.distance(matrix):.3g} away"
        back = map.double_forward(*map.right_inverse(matrix))
        assert float((back - matrix).abs().max()) <= bound(map, matrix)
        assert not map.contains(1.01 * matrix)


def test_what_a_normal_matrix_is_off_is_not_explained_by_rounding() -> None:
    """Rotations times 1 + x have moduli x too large; their eigenvectors are orthogonal: rounding explains nothing."""
    map = Schur(6, "block", gamma=1.0, init="haar")
    entries, lower, theta = map.sample_free(None)
    matrix = map.double_forward(entries, 0 * lower, theta)
    for share, inside in ((1e-11, True), (1e-9, False), (1e-7, False)):
        assert map.contains((1 + share) * matrix) == inside
        assert map.distance((1 + share) * matrix) == pytest.approx(share, abs=1e-13)


def test_the_error_of_equal_angles_is_that_of_rounding() -> None:
    """Two blocks of one angle, joined by T, are a Jordan block: its eigenvalues are off by the root of what the matrix
    is, which no form can help (Bauer and Fike)."""
    map = Schur(4, "block", init="haar").double()
    entries, lower, _, gamma = map.sample_free(None)
    free = entries, torch.ones_like(lower), torch.ones(2, dtype=torch.float64), gamma
    assert float((torch.linalg.eigvals(map.double_forward(*free)).abs() - 1).abs().max()) > 1e-10
    assert map.error(*free) < 1e-13
    assert Schur(4, "block", gamma=0.9).double().error(*free[:3]) < 1e-13
    spoiled = free[0], 0 * lower, free[2], torch.tensor([1.0, 1.0], dtype=torch.float64)
    map.basis.base.mul_(1.1)
    assert map.error(*spoiled) == pytest.approx(0.21)


@pytest.mark.parametrize(("size", "said"), [(16, "away after 1 searches"), (17, "only tried up to N = 16")])
def test_up_to_which_size_is_searched(size: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_solved, "TRIES", 1)
    monkeypatch.setattr(_solved, "ITERATIONS", 0)
    with pytest.raises(ManifoldError, match=said):
        Fourier(size).double().right_inverse(haar(size, complex=True))

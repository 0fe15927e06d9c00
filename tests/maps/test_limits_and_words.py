"""Options at their limits and beyond, what a map says of itself, matrices that are not finite, and what is nearest."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from table_of_maps import FAMILY
from torch import Tensor, nn

from engram.errors import DTypeError, ManifoldError, OptionError
from engram.maps import (
    MAPS,
    Antisymmetric,
    Cayley,
    Exponential,
    Givens,
    Householder,
    ScaledCayley,
    Schur,
    SoftOrthogonal,
    SpectralMargin,
    SpectralReflections,
    StiefelStep,
    cayley_transform,
    haar,
    orthogonal,
    polar,
)

F64 = torch.float64
NEGATIVE = [-1e-9, math.nan]
LIMITS: list[tuple[Any, str, list[Any], list[Any]]] = [  # of N = 4: what is allowed, what is not
    (Householder, "reflections", [1, 4], [0, 5]),
    (Givens, "layers", [1, 7, "fft"], [0, 10**5 + 1, "FFT"]),
    (ScaledCayley, "rho", [0, 4], [-1, 5]),
    (SpectralMargin, "margin", [0, 1], [-1e-9, 1 + 1e-9, math.nan]),
    (SpectralReflections, "reflections", [(1, 4), (4, 1), (None, 2)], [(0, 1), (1, 5), (1,), 3]),
    (Schur, "gamma", [1e-9, 5.0], [0.0, -1.0, math.inf, math.nan]),
    (Schur, "gamma_penalty", [0, 0.1], NEGATIVE),
    (Schur, "decay", [0, 0.1], NEGATIVE),
    (Schur, "mask", ["full", "block"], ["lower"]),
    (SoftOrthogonal, "strength", [0, 0.1], NEGATIVE),
    (SoftOrthogonal, "norm", ["fro", "spectral"], ["nuc"]),
    (Antisymmetric, "gamma", [0, 2.0], [*NEGATIVE, math.inf]),
    (Antisymmetric, "deviation", [0, 2.0], [*NEGATIVE, math.inf]),
    (Exponential, "rebase_every", [None, 1], [0]),
    (Exponential, "init", ["haar", "henaff", "cayley", "identity"], ["xavier"]),
    (Cayley, "rebase_every", [None, 1], [0]),
]


@pytest.mark.parametrize(
    ("kind", "option", "allowed", "refused"), LIMITS, ids=[f"{k.__name__}-{o}" for k, o, *_ in LIMITS]
)
def test_limits_of_options(kind: Any, option: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in allowed:
        made = kind(4, **{option: value})
        assert made.contains(made.sample(dtype=F64))
    for value in refused:
        with pytest.raises(OptionError, match=rf"\b{option}\b"):
            kind(4, **{option: value})


@pytest.mark.parametrize(
    ("option", "allowed", "refused"), [("lr", [1e-9, 2.0], [0.0, -1.0, math.nan]), ("alpha", [None, 0.0], [-1e-9, 1.0])]
)
def test_limits_of_the_step(option: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in allowed:
        assert StiefelStep([torch.eye(3)], **{option: value}).defaults[option] == value
    for value in refused:
        with pytest.raises(OptionError, match=f"{option} must be"):
            StiefelStep([torch.eye(3)], **{option: value})


WORDS = {
    "Exponential(4)": Exponential(4),
    "Exponential(4, init='henaff', rebase_every=3)": Exponential(4, init="henaff", rebase_every=3),
    "Cayley(4, rebase_every=7)": Cayley(4, rebase_every=7),
    "Givens(4, layers=4, complex=False)": Givens(4),
    "Givens(4, layers='fft', complex=True)": Givens(4, "fft", complex=True),
    "Householder(4, reflections=2)": Householder(4, 2),
    "ScaledCayley(4, rho=3)": ScaledCayley(4, rho=3),
    "ScaledCayley(4, complex=True)": ScaledCayley(4, complex=True),
    "Antisymmetric(4, gamma=0.25)": Antisymmetric(4, 0.25),
    "SoftOrthogonal(4, strength=0.5, norm='spectral')": SoftOrthogonal(4, 0.5, "spectral"),
    "SpectralMargin(4, margin=0.25)": SpectralMargin(4, 0.25),
    "SpectralReflections(4, margin=0.25, reflections=(1, 4))": SpectralReflections(4, 0.25, (1, None)),
    "Schur(4, mask='block', gamma_penalty=0.5, decay=0.25, gamma=2.0)": Schur(
        4, "block", gamma=2.0, gamma_penalty=0.5, decay=0.25
    ),
}


@pytest.mark.parametrize("words", WORDS)
def test_the_options_are_said(words: str) -> None:
    """In one line, without what is inside."""
    map = WORDS[words]
    assert f"{type(map).__name__}({map.extra_repr()})" == words
    tall = orthogonal(nn.Linear(3, 5)).parametrizations.weight[0]  # type: ignore[index,union-attr]
    assert tall.extra_repr() == "rows=5, columns=3"


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", [name for name in FAMILY if name not in ("free", "soft-orthogonal", "schur")])
def test_what_is_not_finite_is_in_no_map(name: str, value: float) -> None:
    """One entry is enough. (Any matrix is in the three left out.)"""
    map = FAMILY[name](4)
    matrix = map.sample(dtype=F64)
    matrix[1, 2] = value
    assert not map.contains(matrix)
    with pytest.raises(ManifoldError, match=r"one assigned is (inf|nan) away"):
        map.right_inverse(matrix)


@pytest.mark.parametrize("dtype", [F64, torch.complex128])
def test_the_nearest_unitary_matrix(dtype: torch.dtype) -> None:
    """Of Q P, P positive definite, it is Q: whatever P is."""
    unitary = haar(4, complex=dtype.is_complex)
    root = torch.randn(4, 4, dtype=dtype)
    matrix = unitary @ (root.mH @ root + 0.1 * torch.eye(4))
    torch.testing.assert_close(polar(matrix), unitary, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_rotations_of_signs(size: int) -> None:
    """Every diagonal of signs of determinant 1, alone and before a rotation, with and without layers to spare."""
    turned = haar(size, torch.Generator().manual_seed(size))
    turned[0] *= torch.linalg.det(turned).sign()
    for signs in product([1.0, -1.0], repeat=size):
        diagonal = torch.tensor(signs, dtype=F64).diag()
        if math.prod(signs) > 0:
            for matrix, layers in product((diagonal, diagonal @ turned), (size, size + 1)):
                map = Givens(size, layers).double()
                found: Any = map.right_inverse(matrix)
                torch.testing.assert_close(map(found), matrix, rtol=0, atol=1e-13)


def test_a_closure_is_called_with_gradients() -> None:
    """As torch's optimisers do: its loss comes back, and its gradient is that of the step."""
    weight = nn.Parameter(torch.eye(3, dtype=F64))
    optimiser = StiefelStep([weight], lr=0.5)
    target = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=F64)

    def closure() -> Tensor:
        assert torch.is_grad_enabled()
        optimiser.zero_grad()
        loss = (weight - target).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.no_grad():
        assert float(optimiser.step(closure)) == 4.0
    assert float((weight.detach() - target).square().sum()) < 4.0
    assert optimiser.step() is None


def test_cayley_where_torch_sees_into_it() -> None:
    """Q (I + A)^-1 (I - A) under vmap too, the base on the left."""
    root = torch.randn(5, 4, 4, dtype=F64)
    skews, bases, eye = root - root.mT, haar(4).expand(5, 4, 4), torch.eye(4, dtype=F64)
    expected = torch.stack([q @ torch.linalg.inv(eye + a) @ (eye - a) for q, a in zip(bases, skews, strict=True)])
    torch.testing.assert_close(torch.func.vmap(cayley_transform)(skews, bases), expected, rtol=0, atol=1e-12)
    found = torch.stack([cayley_transform(a, q) for q, a in zip(bases, skews, strict=True)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


REAL, COMPLEX = torch.eye(4), torch.eye(4, dtype=torch.complex64)
OTHER_NUMBERS = {
    "fourier": (MAPS["fourier"](4), REAL, "Fourier is a map to complex matrices, got torch.float32"),
    "givens": (Givens(4), COMPLEX, r"Givens\(complex=False\) got a matrix of torch.complex64. Set complex to match"),
    "givens, complex": (Givens(4, complex=True), REAL, r"Givens\(complex=True\) got a matrix of torch.float32"),
    "scaled-cayley": (ScaledCayley(4), COMPLEX, r"ScaledCayley\(complex=False\) got a matrix of torch.complex64"),
    "scaled-cayley, complex": (ScaledCayley(4, complex=True), REAL, r"complex=True\) got a matrix of torch.float32"),
    "schur": (Schur(4), COMPLEX, "Schur is a map to real matrices, got torch.complex64"),
    "antisymmetric": (Antisymmetric(4), COMPLEX, "Antisymmetric is a map to real matrices"),
    "spectral-margin": (SpectralMargin(4), COMPLEX, "SpectralMargin is a map to real matrices"),
}


@pytest.mark.parametrize("name", OTHER_NUMBERS)
def test_real_and_complex_are_not_mixed(name: str) -> None:
    map, matrix, words = OTHER_NUMBERS[name]
    assert not map.contains(matrix)
    with pytest.raises(DTypeError, match=words):
        map.right_inverse(matrix)


def test_a_complex_form_counts_no_signs() -> None:
    with pytest.raises(OptionError, match=r"the complex form learns phases\. Got rho=1"):
        ScaledCayley(4, rho=1, complex=True)


ANGLES = {  # of N = 4: how many numbers are angles, which learn at a rate of their own
    **dict.fromkeys(("free", "soft-orthogonal", "projected"), 0),
    **dict.fromkeys(("exponential", "cayley", "scaled-cayley", "givens"), 6),
    "householder": 4 + 3 + 2 + 1,
    "householder, m=2": 4 + 3,
    "fourier": 7 * 4,
    "exponential, complex": 16,
    "cayley, complex": 16,
    "scaled-cayley, complex": 16 + 4,
    "givens, complex": 2 * 6 + 4,
    **dict.fromkeys(("schur", "schur, block", "schur, gamma=0.9"), 6),  # A of P, and neither T, theta nor gamma
    "spectral-margin": 2 * 6,
    "spectral-reflections": 2 * 10,
    "spectral-reflections, m=1": 2 * 4,
}  # U and V


@pytest.mark.parametrize("name", ANGLES)
def test_which_parameters_are_angles(name: str) -> None:
    map = FAMILY[name](4)
    free = map.right_inverse(map.sample(dtype=F64))
    parts = (free,) if isinstance(free, Tensor) else free
    assert sum(part.numel() for part in parts[map.angles]) == ANGLES[name]

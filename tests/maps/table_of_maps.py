"""Every map of the family, real and complex, with its options: the table the tests of maps go through."""

from collections.abc import Callable
from functools import partial

from engram.maps import (
    MAPS,
    Cayley,
    Exponential,
    Givens,
    Householder,
    Map,
    ScaledCayley,
    Schur,
    SpectralReflections,
)

FAMILY: dict[str, Callable[[int], Map]] = {
    **MAPS,
    "exponential, henaff": partial(Exponential, init="henaff"),
    "exponential, cayley": partial(Exponential, init="cayley"),
    "exponential, complex": partial(Exponential, complex=True),
    "cayley, complex": partial(Cayley, complex=True),
    "scaled-cayley, rho=0": partial(ScaledCayley, rho=0),
    "scaled-cayley, complex": partial(ScaledCayley, complex=True),
    "householder, m=2": lambda n: Householder(n, min(n, 2)),
    "givens, L=3": partial(Givens, layers=3),
    "givens, complex": partial(Givens, complex=True),
    "givens, fft": partial(Givens, layers="fft"),
    "givens, fft, complex": partial(Givens, layers="fft", complex=True),
    "schur, block": partial(Schur, mask="block"),
    "schur, gamma=0.9": partial(Schur, mask="block", gamma=0.9),
    "schur, full, gamma=0.9": partial(Schur, mask="full", gamma=0.9),
    "spectral-reflections, m=1": lambda n: SpectralReflections(n, reflections=(1, 1)),
}

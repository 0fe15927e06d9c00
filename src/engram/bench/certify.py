"""``engram bench certify``: time and memory of a certificate, against FLINT's rank of a random matrix of its side."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from engram.bench._measure import geomean, interleaved, machine, spread
from engram.bench._memory import in_child, peak
from engram.certify import PRIME, RankClaim, TTEqualCoresClaim, certify, rac_claim
from engram.exact import FieldMatrix, sample

BASE = "FLINT rank, random matrix"
FULL, LOW, MEMORY = "full rank: certificate/random rank", "low rank: certificate/random rank", "memory/matrix"
TARGETS = {FULL: (None, 1.3), LOW: (None, 1.3), MEMORY: (None, 3.0)}
"""At most: the geometric mean, the worst case."""


def cases(side: int) -> dict[str, RankClaim]:
    """Matrices of this side, a power of 4: full rank costs the elimination most, long sequences the grid."""
    half = (side.bit_length() - 1) // 2
    return {
        f"circuit, M=R=4, T={2 * half}, L=3": rac_claim(4, 4, 2 * half, 3),
        f"circuit, M=2, R=4, T={4 * half}, L=3": rac_claim(2, 4, 4 * half, 3),
        f"train, n=r=4, d={2 * half}": TTEqualCoresClaim(4, 4, 2 * half),
        f"circuit, M=R=4, T={2 * half}, L=2": rac_claim(4, 4, 2 * half, 2),
        f"circuit, M=R=2, T={4 * half}, L=2": rac_claim(2, 2, 4 * half, 2),
        f"train, n=4, r=1, d={2 * half}": TTEqualCoresClaim(4, 1, 2 * half),
    }


def random_rank(side: int) -> Callable[[], object]:
    """FLINT's rank of a matrix that is already filled: the least time of a certificate of full rank."""
    matrix = FieldMatrix(side, side, PRIME)
    matrix.fill(0, sample(PRIME, 0, 0, side, side))
    return matrix.rank


def certificate_memory(name: str, side: int) -> float:
    """Megabytes by which a certificate raises the peak of a fresh process; FLINT's memory is in it."""
    return in_child(f"from engram.bench.certify import *; print(memory_rise({name!r}, {side}))")


def memory_rise(name: str, side: int) -> float:
    certify(TTEqualCoresClaim(2, 2, 4))  # loads what every certificate needs, before memory is measured
    before = peak()
    certify(cases(side)[name], max_side=side)
    return peak() - before


def bench_certify(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race certificates of side 4096 (quick: 1024) with one rank; returns ``summary``, ``rows`` and ``machine``.

    Seconds are processor time, since other programs disturb the wall time of calls that take half a minute.
    """
    side = 1024 if quick else 4096
    claims = cases(side)
    found: dict[str, int] = {}

    def prove(name: str) -> None:
        found[name] = certify(claims[name], max_side=side).rank

    calls = {name: partial(prove, name) for name in claims}
    times = interleaved({BASE: random_rank(side), **calls}, repeats, time.process_time)
    rows: list[dict[str, Any]] = []
    ratios: dict[str, list[float]] = {}
    for name, seconds in times.items():
        row = {"side": side, "contestant": name, **spread(seconds)}
        if name in claims:
            ratio = median(seconds) / median(times[BASE])
            memory = certificate_memory(name, side) * 2**20 / (8 * side**2)
            row |= {"rank": found[name], "ratio": ratio, "memory": memory}
            ratios.setdefault(FULL if found[name] == claims[name].side else LOW, []).append(ratio)
            ratios.setdefault(MEMORY, []).append(memory)
            tell(f"{name}: {ratio:.2f} of FLINT's rank, {memory:.2f} of the matrix in memory")
        rows.append(row)
    summary = {name: {"geomean": geomean(ratios[name]), "worst": max(ratios[name])} for name in TARGETS}
    return {"summary": summary, "rows": rows, "machine": machine()}

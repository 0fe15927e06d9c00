"""What a certificate costs, told before it starts."""

import os
import time
from math import log10

import numpy as np

from engram.certify._claim import RankClaim
from engram.certify._field import PRIME, FieldMatrix, draw
from engram.errors import OptionError

DAY = 86_400.0
SAMPLE = 512
LONGEST = 12
"""Digits of a number of rows."""


def check_size_of(claim: RankClaim, max_side: int | None, max_memory: float | None) -> None:
    """Refuse what is larger than asked for, or than the memory and a day allow."""
    letters, half = claim.shape
    if (digits := half * log10(letters)) > LONGEST:  # a number that Python itself could not hold or print
        raise OptionError(
            f"a matrix of {letters}^{half} rows needs about 10^{2 * digits - 4.8:.0f} MB: choose smaller sizes"
        )
    side, (words, operations) = claim.side, claim.building
    need = memory(side) + 8e-6 * words
    if max_side is not None and side > max_side:
        raise OptionError(f"the matrix has {side:,} rows, --max-side is {max_side:,}")
    limit = max_memory if max_memory is not None else free_memory()
    if not need <= limit:  # nor is NaN a limit
        raise OptionError(
            f"a matrix of {side:,} rows and its weights need {need:,.0f} MB, and there are {limit:,.0f}: choose "
            "smaller sizes, or raise --max-memory"
        )
    if max_side is None:
        seconds = 1e-9 * operations + (rank_seconds(side) if side > 8 * SAMPLE else 0)
        if seconds > DAY:
            raise OptionError(
                f"a matrix of {side:,} rows takes about {seconds / 3600:,.0f} hours; --max-side allows it"
            )


def memory(side: int) -> float:
    """In MB: FLINT's copy for the elimination, the matrix itself, and the blocks it is filled by."""
    return 2 * 8 * side**2 / 1e6 + 300


def rank_seconds(side: int) -> float:
    """From the time of a matrix of 512 rows: the work grows with the cube (a little less, by Strassen)."""
    matrix = FieldMatrix(SAMPLE, SAMPLE, PRIME)
    matrix.fill(0, draw(PRIME, 0, 0, SAMPLE, SAMPLE))
    begin = time.perf_counter()
    matrix.rank()
    return float((time.perf_counter() - begin) * np.float64(side / SAMPLE) ** 3)


def free_memory() -> float:
    """In MB; what cannot be told counts as 4 GB."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123 - a pseudo file
            return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (AttributeError, ValueError, OSError):
        return 4000.0


def check_work(words: float = 0, objects: float = 0, kept: float = 0) -> None:
    """Refuse what takes more than a day, or more than the free memory.

    words: operations on machine words, a nanosecond each; objects: on Python's numbers, 100 of them; kept: how many of
    the latter are in memory at once, 50 bytes each.
    """
    seconds, need = 1e-9 * words + 1e-7 * objects, 5e-5 * kept
    if seconds > DAY:
        raise OptionError(f"this takes about {seconds / 3600:,.0f} hours: choose smaller sizes")
    if need > free_memory():
        raise OptionError(f"this needs {need:,.0f} MB, and there are {free_memory():,.0f}: choose smaller sizes")

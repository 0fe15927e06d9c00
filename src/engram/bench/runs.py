"""``engram bench runs``: several runs at once, each with the default number of threads, against one run alone."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

from engram.bench._measure import geomean, interleaved, machine, spread

CASES = {
    "copy, delay 100, exprnn 128": ["copy", "--delay", "100", "--model", "exprnn", "--hidden", "128"],
    "copy, delay 100, lstm 128": ["copy", "--delay", "100", "--model", "lstm", "--hidden", "128"],
}
STEPS = 200
AT_ONCE = (1, 2, 4)
TARGETS = {"2 at once/1 at once": (1.25, None), "4 at once/1 at once": (2.4, None)}
"""At most, on two cores: the geometric mean, the worst case. Four runs on two cores cannot be below 2."""


def run_at_once(count: int, words: list[str], steps: int) -> None:
    """Start this many equal runs as a user would, and wait for all of them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "engram.cli",
            "train",
            *words,
            "--steps",
            str(steps),
            "--out",
            folder,
            "--name",
        ]
        started = [subprocess.Popen([*command, str(k)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                   for k in range(count)]  # fmt: skip
        codes = [process.wait() for process in started]
    if any(codes):
        raise RuntimeError(f"a run ended with exit code {max(codes)}: {' '.join(words)}")


def bench_runs(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race one, two and four runs at once; returns ``summary``, ``rows`` and ``machine``."""
    rows: list[dict[str, Any]] = []
    ratios: dict[str, list[float]] = {name: [] for name in TARGETS}
    for case in list(CASES)[:1] if quick else CASES:
        steps = STEPS // 4 if quick else STEPS
        calls = {f"{n} at once": lambda n=n: run_at_once(n, CASES[case], steps) for n in AT_ONCE}  # noqa: B023
        times = interleaved(calls, repeats)
        rows += [{"case": case, "contestant": who, **spread(seconds)} for who, seconds in times.items()]
        for name, found in ratios.items():
            several, one = name.split("/")
            found.append(median(times[several]) / median(times[one]))
            tell(f"{case}: {name} {found[-1]:.2f}")
    summary = {name: {"geomean": geomean(found), "worst": max(found)} for name, found in ratios.items()}
    return {"summary": summary, "rows": rows, "machine": machine()}

"""``engram bench tasks``: sequences of the relational tasks per second, against a generator that makes one by one."""

from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

import torch

from engram.bench._measure import geomean, interleaved, machine, spread
from engram.tasks import RelationalTask, make_task, seeded

CASES = ("same-different", "rmts", "dist3", "identity-rules")
HOLDOUT, BATCH, COUNT = 50, 32, 10_000
"""Shapes held out, sequences of a batch, sequences in all."""
PLAIN, FRESH, SET = "one by one, plain Python", "fresh batches of 32", "training set, in batches of 32"
WANTED = 20_000
"""Sequences per second, on one core."""
TARGETS: dict[str, tuple[float | None, float | None]] = {
    f"{FRESH}/{PLAIN}": (None, None),
    f"{SET}/{PLAIN}": (1.0, 1.0),
}
"""At most: the geometric mean, the worst case. A run reads a set; fresh batches are for validation."""


def one_trial(case: str, shapes: list[int], random: Random) -> tuple[list[int], int]:
    """A sequence and its answer, made in the obvious way; it need not be another one each time."""
    a, b, c, d, e = random.sample(shapes, 5)
    if case == "same-different":
        return random.choice([([a, a], 0), ([a, b], 1)])
    if case == "rmts":
        source, right, wrong = random.choice([([a, a], [b, b], [c, d]), ([a, b], [c, d], [e, e])])
        answer = random.randrange(2)
        return source + (right + wrong if answer == 0 else wrong + right), answer
    if case == "dist3":
        second, choices = random.sample([a, b, c], 3), random.sample([a, b, c, d], 4)
        return [a, b, c, *second[:2], *choices], choices.index(second[2])
    first, second = random.choice([([a, a, a], [b, b, b]), ([a, b, a], [c, d, c]), ([a, b, b], [c, d, d])])
    choices = random.sample([a, b, c, d], 4)
    return [*first, *second[:2], *choices], choices.index(second[2])


def plainly(case: str, count: int) -> None:
    """Make ``count`` sequences one by one, as batches of indices."""
    shapes, random = list(range(100 - HOLDOUT)), Random(0)
    for _ in range(count // BATCH):
        trials = [one_trial(case, shapes, random) for _ in range(BATCH)]
        torch.tensor([rows for rows, _ in trials]).T.contiguous()
        torch.tensor([answer for _, answer in trials])


def freshly(task: RelationalTask, count: int) -> None:
    """Sample ``count`` sequences, a batch at a time, each from a seed of its own."""
    for k in range(count // BATCH):
        task.sample(BATCH, seeded(0, "train", k))


def as_a_set(task: RelationalTask, count: int) -> None:
    """Make the training set of a run, none of it twice, and read ``count`` sequences of it in batches."""
    batches = task.batches("train", BATCH, size=count)
    for k in range(count // BATCH):
        batches[k]


def bench_tasks(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race the four basic tasks on one core; returns ``summary``, ``rows``, ``notes`` and ``machine``."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    ratios: dict[str, list[float]] = {name: [] for name in TARGETS}
    count, threads = COUNT // 4 if quick else COUNT, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for case in CASES:
            task = make_task(case, holdout=HOLDOUT)
            calls: dict[str, Callable[[], object]] = {
                PLAIN: lambda case=case: plainly(case, count),  # type: ignore[misc]
                FRESH: lambda task=task: freshly(task, count),  # type: ignore[misc]
                SET: lambda task=task: as_a_set(task, count),  # type: ignore[misc]
            }
            times = interleaved(calls, repeats)
            speeds = {who: count // BATCH * BATCH / median(seconds) for who, seconds in times.items()}
            for who, seconds in times.items():
                rows.append({"case": case, "contestant": who, **spread(seconds), "per_second": speeds[who]})
                is_enough = "" if speeds[who] >= WANTED or who == PLAIN else f", less than the {WANTED:,} asked for"
                notes.append(f"{case}, {who}: {speeds[who]:,.0f} sequences per second{is_enough}")
            for name, found in ratios.items():
                ours, plain = name.split("/")
                found.append(median(times[ours]) / median(times[plain]))
            tell(f"{case}: {speeds[FRESH]:,.0f} fresh sequences per second, {speeds[SET]:,.0f} of a set")
    finally:
        torch.set_num_threads(threads)
    summary = {name: {"geomean": geomean(found), "worst": max(found)} for name, found in ratios.items()}
    return {"summary": summary, "rows": rows, "notes": notes, "machine": machine()}

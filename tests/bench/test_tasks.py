"""``engram bench tasks``: the plain generator makes the same trials, and the ratios are what they say."""

from random import Random

import pytest
import torch

from engram.bench import TASK_TARGETS, bench_tasks, tasks
from engram.tasks import make_task


@pytest.mark.parametrize("case", ["same-different", "rmts", "identity-rules"])
def test_the_plain_generator_makes_such_trials(case: str) -> None:
    """Of five shapes: every sequence that it makes is one of the library's, with the same answer; and it makes all."""
    task = make_task(case, holdout=95)
    pool, random = task.shapes_of("train", 0), Random(0)
    ours: set[tuple[int, ...]] = set()
    for kind in task.kinds("train", pool):
        rows, answers = kind.sample(14 * kind.space, torch.Generator().manual_seed(1))
        ours |= {tuple(row) for row in torch.cat([rows, answers[:, None]], 1).tolist()}
    made = (tasks.one_trial(case, pool.tolist(), random) for _ in range(20 * len(ours)))
    assert {(*row, answer) for row, answer in made} == ours


def test_the_plain_distribution_of_three() -> None:
    """It has the first row's shapes in the second, and the missing one at the answer."""
    random = Random(0)
    for _ in range(500):
        row, answer = tasks.one_trial("dist3", list(range(9)), random)
        assert {*row[3:5], row[5 + answer]} == {*row[:3]}
        assert len({*row[5:]}) == 4


def test_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "COUNT", 256)
    lines: list[str] = []
    threads = torch.get_num_threads()
    result = bench_tasks(quick=True, repeats=1, tell=lines.append)
    assert result["summary"].keys() == TASK_TARGETS.keys()
    assert [row["case"] for row in result["rows"]] == [case for case in tasks.CASES for _ in range(3)]
    assert all(row["per_second"] == pytest.approx(64 / row["median_ms"] * 1000) for row in result["rows"])
    assert len(lines) == 4
    assert len(result["notes"]) == 12
    assert torch.get_num_threads() == threads


def test_ratio_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {tasks.PLAIN: [1.0, 2.0, 3.0], tasks.FRESH: [4.0], tasks.SET: [0.5]}
    monkeypatch.setattr(tasks, "interleaved", lambda contestants, repeats: times)
    result = bench_tasks(quick=False, repeats=3, tell=lambda line: None)
    assert [ratio["worst"] for ratio in result["summary"].values()] == [2.0, 0.25]
    assert result["notes"][1] == (
        "same-different, fresh batches of 32: 2,496 sequences per second, less than the 20,000 asked for"
    )

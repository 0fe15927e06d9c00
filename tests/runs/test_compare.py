"""Runs beside each other: groups over seeds, what differs, scores, cost."""

import csv
import io
import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from engram.errors import OptionError, RunError
from engram.runs import compare_csv, compare_json, compare_runs, compare_table
from engram.runs._compare_table import _cell
from made_runs import make_run


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three seeds of two sizes; the larger one is better."""
    return [
        make_run(tmp_path / f"h{hidden}-{seed}", hidden=hidden, seed=seed, accuracy=0.5 + hidden / 1000 + seed / 100)
        for hidden in (16, 64)
        for seed in range(3)
    ]


def test_seeds_are_one_group(runs: list[Path]) -> None:
    found = compare_runs(runs)
    assert found.differs == ("hidden",)
    assert [(group.number, group.settings, len(group.runs)) for group in found.groups] == [
        (1, {"hidden": 64}, 3),
        (2, {"hidden": 16}, 3),
    ]
    scores = [0.5 + 0.064 + seed / 100 for seed in range(3)]
    best = found.groups[0]
    assert best.score is not None
    assert best.score.mean == pytest.approx(mean(scores))
    assert best.score.deviation == pytest.approx(stdev(scores))
    assert (best.score.least, best.score.most) == pytest.approx((scores[0], scores[2]))
    assert best.label == "hidden 64"
    assert best.parameters == 449


def test_machine_settings_do_not_matter(tmp_path: Path) -> None:
    """Threads and how often is saved decide nothing; steps do."""
    for k, change in enumerate(({}, {"threads": 2}, {"save_every": 1.0})):
        folder = make_run(tmp_path / str(k), seed=k)
        facts = json.loads((folder / "run.json").read_text())
        facts["settings"]["machine"].update(change)
        (folder / "run.json").write_text(json.dumps(facts))
    make_run(tmp_path / "long", steps=9)
    found = compare_runs([*tmp_path.iterdir()])
    assert sorted(len(group.runs) for group in found.groups) == [1, 3]
    assert found.differs == ("steps",)


def test_one_run(runs: list[Path]) -> None:
    found = compare_runs(runs[:1])
    assert found.differs == ()
    assert found.groups[0].score is not None
    assert found.groups[0].score.deviation is None
    head, rows = compare_table(found)
    assert len(rows) == 1
    assert all(len(row) == len(head) for row in rows)
    assert "run" in head


def test_a_run_twice_is_one(runs: list[Path]) -> None:
    assert len(compare_runs([runs[0], runs[0], f"{runs[0]}/"]).runs) == 1


def test_the_median_is_that_of_the_runs_that_came_so_far(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / str(k), seed=k, accuracy=0.1 * (k + 1)) for k in range(3)]
    line = (folders[2] / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folders[2] / "metrics.jsonl").write_text("".join(line[:2]))
    (folders[1] / "metrics.jsonl").write_text("".join(line[:4]))
    (group,) = compare_runs(folders).groups
    middle = group.median("loss")
    assert [step for step, _ in middle] == [20, 40, 60, 80]  # at 100 only one of three is left
    assert middle[0] == (20, 2.0)


def test_the_median_of_half_of_the_runs(tmp_path: Path) -> None:
    """Half of them is enough."""
    folders = [make_run(tmp_path / str(k), seed=k, accuracy=0.1 * (k + 1)) for k in range(2)]
    lines = (folders[1] / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folders[1] / "metrics.jsonl").write_text("".join(lines[:2]))
    (group,) = compare_runs(folders).groups
    assert [step for step, _ in group.median("loss")] == [20, 40, 60, 80, 100]


def test_different_tasks(tmp_path: Path) -> None:
    one = make_run(tmp_path / "copy")
    other = make_run(tmp_path / "adding", task="adding", metric="mse", chance=0.17)
    found = compare_runs([one, other])
    assert found.tasks == ["copy", "adding"]
    assert found.metrics == ["accuracy", "mse"]
    assert [group.first.task for group in found.groups] == ["copy", "adding"]  # as given: scores cannot be compared
    assert "task" in found.differs


def test_smaller_is_better_for_an_error(tmp_path: Path) -> None:
    for k, mse in enumerate((0.3, 0.1, 0.2)):
        scores = {"loss": mse, "mse": mse}
        make_run(tmp_path / str(k), hidden=16 + k, metric="mse", results={"test": scores}, best={"step": 1, **scores})
    found = compare_runs(sorted(tmp_path.iterdir()))
    assert [group.first.score for group in found.groups] == [0.1, 0.2, 0.3]


def test_runs_without_metrics_and_diverged_runs(tmp_path: Path) -> None:
    new = make_run(tmp_path / "new", status="new", results=..., best=..., seconds=..., parameters=...)
    (new / "metrics.jsonl").unlink()
    bad = make_run(tmp_path / "bad", status="failed", diverged=True, results=..., best=None, seed=1)
    (bad / "metrics.jsonl").write_text('{"step": 1, "split": "valid", "loss": NaN, "accuracy": 0.1}\n')
    good = make_run(tmp_path / "good", seed=2)
    (group,) = compare_runs([new, bad, good]).groups
    assert [run.row.status for run in group.runs] == ["new", "diverged", "done"]
    assert [run.curve("loss") for run in group.runs[:2]] == [[], []]
    assert group.score is not None
    assert (group.score.mean, group.score.count) == (0.75, 1)
    _, rows = compare_table(compare_runs([new, bad, good]))
    assert "0.75 (1 of 3)" in rows[0]
    assert rows[0][-1] == "1 new, 1 diverged, 1 done"
    (nothing,) = compare_runs([new]).groups
    assert nothing.score is None


def test_tests_and_validations_are_not_mixed(tmp_path: Path) -> None:
    done = make_run(tmp_path / "done", accuracy=0.5)
    stopped = make_run(tmp_path / "stopped", status="stopped", results=..., accuracy=0.9, seed=1)
    (group,) = compare_runs([done, stopped]).groups
    assert group.score is not None
    assert (group.score.mean, group.score.count) == (0.5, 1)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no run to compare"):
        compare_runs([])
    with pytest.raises(RunError, match=r"none cannot be compared: No such file"):
        compare_runs([tmp_path / "none"])
    folder = make_run(tmp_path / "run")
    (folder / "metrics.jsonl").write_text("[1]\n")
    with pytest.raises(RunError, match=r"metrics.jsonl cannot be read"):
        compare_runs([folder])


def test_csv_and_json(runs: list[Path]) -> None:
    found = compare_runs(runs)
    table = list(csv.DictReader(io.StringIO(compare_csv(found))))
    assert len(table) == 6
    assert table[0] | {"run": str(runs[3]), "group": "1", "hidden": "64", "seed": "0", "status": "done"} == table[0]
    assert {float(row["test_accuracy"]) for row in table} == {run.row.score for run in found.runs}
    told = json.loads(json.dumps(compare_json(found), allow_nan=False))
    assert [group["score"]["count"] for group in told["groups"]] == [3, 3]
    assert told["differs"] == ["hidden"]


def test_a_spreadsheet_computes_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", model="=cmd|' /C calc'!A1", task="@x", options={"+1": "-2+3"})
    other = make_run(tmp_path / "other")
    text = compare_csv(compare_runs([folder, other]))
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    assert any("calc" in cell for cell in cells)
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+")) or cell == "-2+3"]


def test_what_people_look_for_first_comes_first(tmp_path: Path) -> None:
    """Sizes, the delay and the rate; then the others; last what follows from them, as the file has it before them."""
    folders = [make_run(tmp_path / name) for name in ("a", "b")]
    facts = json.loads((folders[1] / "run.json").read_text())
    settings = facts["settings"]
    settings["model"]["hidden"], settings["task"]["delay"] = 64, 9
    settings["optimiser"] |= {"lr": 0.5, "lr_orthogonal": 0.05, "clip": 2.0}
    settings["budget"] |= {"batch": 7, "validate_every": 3}
    (folders[1] / "run.json").write_text(json.dumps(facts))
    differs = compare_runs(folders).differs
    assert differs[:3] == ("hidden", "delay", "lr")
    assert {*differs[3:5]} == {"clip", "batch"}
    assert {*differs[5:]} == {"lr_orthogonal", "validate_every"}


@pytest.mark.parametrize("name", ["seed", "device", "threads", "save_every", "log_every", "probe_every", "tensorboard"])
def test_what_decides_no_score_makes_no_other_group(name: str, tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]
    facts = json.loads((folders[1] / "run.json").read_text())
    (facts["settings"] if name == "seed" else facts["settings"]["machine"])[name] = 12345
    (folders[1] / "run.json").write_text(json.dumps(facts))
    found = compare_runs(folders)
    assert (len(found.groups), found.differs) == (1, ())


def test_a_curve_is_that_of_the_validations(tmp_path: Path) -> None:
    """Of a score that was never validated, that of training."""
    folder = make_run(tmp_path / "run")
    lines = [
        {"step": 1, "split": "train", "loss": 7.0, "accuracy": 0.1, "seconds": 1.0, "lr": 0.1},
        {"step": 1, "split": "valid", "loss": 5.0, "seconds": 1.0},
        {"step": 2, "split": "test", "loss": 3.0, "accuracy": 0.3, "seconds": 1.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ((run,),) = (group.runs for group in compare_runs([folder]).groups)
    assert [run.curve(name) for name in ("loss", "accuracy", "lr")] == [[(1, 5.0)], [(1, 0.1)], []]


def test_digits_of_the_table(runs: list[Path]) -> None:
    """Mean and deviation: scores with four digits, seconds with three; steps and parameters with commas."""
    for k, folder in enumerate(runs[:3]):
        facts = json.loads((folder / "run.json").read_text())
        facts |= {"seconds": 1234.5 + k, "parameters": 12345, "step": 1000 + 3 * k, "chance": 1 / 3}
        (folder / "run.json").write_text(json.dumps(facts))
    head, (row,) = compare_table(compare_runs(runs[:3]))
    cells = dict(zip(head, row, strict=True))
    assert (cells["runs"], cells["chance"], cells["parameters"]) == ("3", "0.333", "12,345")
    assert (cells["steps taken"], cells["seconds"]) == ("1,003", "1.24e+03 ± 1")
    assert cells["accuracy"] == "0.526 ± 0.01"
    assert cells["loss"] == "0.474 ± 0.01"


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_how_a_formula_may_begin(begin: str) -> None:
    """Texts only: a number may be negative."""
    assert [_cell(value) for value in (f"{begin}1", f"a{begin}", -1, -0.5, "")] == [
        f"'{begin}1",
        f"a{begin}",
        -1,
        -0.5,
        "",
    ]

"""Lists, comparisons and folders at their limits, and what each cell says."""

import csv
import io
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from engram.errors import OptionError, RunError
from engram.runs import (
    Spread,
    archive_run,
    compare_csv,
    compare_json,
    compare_runs,
    compare_table,
    list_runs,
    read_row,
    remove_run,
    rename_run,
)
from engram.runs import _archive as archiving
from engram.runs import _change as change
from engram.runs import _folder as folders
from engram.runs import _index as index
from engram.runs._change import check_name
from engram.runs._row import LONGEST, MOST_VALUES, flat_settings
from made_runs import facts, make_run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path_factory.mktemp("cache")))


# Names and folders


@pytest.mark.parametrize("name", ["x" * 200, "ä" * 100, "a b", "a-b", "a.b", "x!", "0"])
def test_names_that_are_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["x" * 201, "ä" * 100 + "x", "a ", " a", "a\t", ".a", "-a", *(f"a{c}b" for c in '/\\:<>|"?*\x00\x7f\u202e')]
)
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(OptionError, match="a name"):
        check_name(name)


def test_a_folder_of_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run")
    (run / "sub").mkdir()
    (run / "link").symlink_to("nowhere")
    count = len([*run.rglob("*")])
    monkeypatch.setattr(folders, "MOST", count)
    found = folders.contents(run)
    assert len(found.files) + len(found.folders) + len(found.links) == count
    monkeypatch.setattr(folders, "MOST", count - 1)
    with pytest.raises(RunError, match=f"has more than {count - 1} files: that is no run"):
        remove_run(run)
    assert run.is_dir()


@pytest.mark.parametrize("what", ["rename", "archive", "remove"])
def test_it_is_locked_meanwhile_and_no_longer(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would start to train it then is refused; once that has failed, nobody is."""
    run, looked = make_run(tmp_path / "run"), []

    def look(*_: object) -> None:
        with pytest.raises(Timeout):
            FileLock(run / "lock").acquire(blocking=False)
        looked.append(what)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", look)
    monkeypatch.setattr(archiving, "_pack", look)
    act: Any = {"rename": lambda: rename_run(run, "new"), "archive": lambda: archive_run(run)}
    with pytest.raises((OSError, RunError)):
        act.get(what, lambda: remove_run(run))()
    assert looked == [what]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]  # a new name was given back
    with FileLock(run / "lock").acquire(blocking=False):
        pass


def test_what_could_not_be_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no run any more, and stands under a hidden name, which is told."""
    run = make_run(tmp_path / "run")

    def fails(path: Path) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(change.shutil, "rmtree", fails)  # type: ignore[attr-defined]
    with pytest.raises(RunError, match=r"run is no run any more, but not all of it .*Permission denied") as told:
        remove_run(run)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".removed-")
    assert str(told.value).endswith(f"see {left}")
    assert list_runs(tmp_path) == []


def test_an_archive_takes_no_name_that_comes_up_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor that of a link that leads nowhere; and where there are no hard links it gets its name all the same."""
    run = make_run(tmp_path / "run")
    path = tmp_path / "run.tar.gz"
    path.symlink_to("nowhere")
    with pytest.raises(RunError, match="is there already"):
        archive_run(run)
    path.unlink()
    real = archiving._compare

    def late(*args: Path) -> None:
        real(*args)
        path.write_text("mine")

    with monkeypatch.context() as patch:
        patch.setattr(archiving, "_compare", late)
        with pytest.raises(RunError, match="is there already"):
            archive_run(run)
    assert path.read_text() == "mine"
    path.unlink()

    def none(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    assert archive_run(run) == path
    assert [each.name for each in tmp_path.iterdir()] == ["run.tar.gz"]


# Rows


def test_texts_are_cut_and_cleaned(tmp_path: Path) -> None:
    assert LONGEST == 300
    make_run(tmp_path / "run", model="x" * 301, task="a\x1b[31mb\nc")
    (row,) = list_runs(tmp_path)
    assert len(row.model) <= 300
    assert "\x1b" not in row.task
    assert "\n" not in row.task
    many = flat_settings({"model": {"options": {f"o{k}": k for k in range(2 * MOST_VALUES)}}})
    assert len(many) == MOST_VALUES == 500


def test_a_name_with_hyphens_is_one_with_underscores(tmp_path: Path) -> None:
    make_run(tmp_path / "run", options={"two-words": 3}, results={"test-9": {"top-5": 0.5}})
    (row,) = list_runs(tmp_path)
    assert (row.get("two_words"), row.get("test_9_top_5")) == (3, 0.5)


STATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"status": "done"}, {"scored_on": "test", "score": 0.75, "step": 100, "seconds": 12.5}),
    ({"status": "stopped"}, {"scored_on": "valid", "score": 0.75, "step": 100, "seconds": 12.5}),  # tests of before
    ({"status": "failed", "diverged": True}, {"status": "diverged"}),
    ({"status": "failed", "diverged": False}, {"status": "failed"}),
    ({"status": "stopped", "seconds": ..., "step": ..., "best": ...}, {"score": 0.75, "step": 100, "seconds": 12.5}),
    ({"status": "stopped", "seconds": ..., "step": 7, "best": {"step": 3, "loss": 1.0, "accuracy": 0.5}},
     {"score": 0.5, "loss": 1.0, "step": 100}),
    ({"status": "new", "seconds": ..., "step": ..., "best": ..., "results": ..., "validations": 0},
     {"score": None, "scored_on": "", "step": 0, "seconds": 0.0}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), STATES)
def test_what_a_row_says_in_each_state(given: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", **{"results": {"test": {"loss": 0.25, "accuracy": 0.75}}, **given})
    row = read_row(folder, "run")
    assert {name: getattr(row, name) for name in expected} == expected


def test_a_score_that_is_not_finite_is_not_the_best(tmp_path: Path) -> None:
    """Nor a line of training; of the others the one with the least loss."""
    folder = make_run(tmp_path / "run", status="running", best=..., step=..., seconds=..., results=...)
    lines: list[dict[str, Any]] = [
        {"step": 1, "split": "valid", "loss": -math.inf, "accuracy": 1.0, "seconds": 1.0},
        {"step": 2, "split": "valid", "loss": math.nan, "accuracy": 1.0, "seconds": 2.0},
        {"step": 3, "split": "valid", "loss": 0.5, "accuracy": 0.25, "seconds": 3.0},
        {"step": 4, "split": "valid", "loss": 0.75, "accuracy": 0.5, "seconds": 4.0},
        {"step": 5, "split": "train", "loss": 0.125, "accuracy": 1.0, "seconds": 5.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = read_row(folder, "run")
    assert (row.loss, row.score, row.step, row.seconds) == (0.5, 0.25, 5, 5.0)


def test_a_run_json_of_any_length_that_is_read(tmp_path: Path) -> None:
    """Up to a megabyte, which a command of many words may take."""
    folder = tmp_path / "run"
    folder.mkdir()
    rest = len(json.dumps(facts()))
    for length, status in ((2**20, "done"), (2**20 + 1, "damaged")):
        (folder / "run.json").write_text(json.dumps(facts(command="x" * (length - rest))))
        assert (folder / "run.json").stat().st_size == length
        row = read_row(folder, "run")
        assert row.status == status
        assert row.created is not None


# The index


def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    real = index.write_index

    def write(out: Path, entries: Any) -> Any:
        found.append(len(entries))
        return real(out, entries)

    monkeypatch.setattr(index, "write_index", write)
    return found


def test_the_index_is_written_when_one_in_fifty_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = writes(monkeypatch)
    make_run(tmp_path / "r0")
    for k in range(1, 101):
        (tmp_path / f"r{k}").mkdir()
        shutil.copy(tmp_path / "r0" / "run.json", tmp_path / f"r{k}")
    for changed, count in ((0, 1), (0, 0), (2, 0), (3, 1)):  # of 101 runs
        for k in range(changed):
            os.utime(tmp_path / f"r{k}" / "run.json", (k, changed))
        written.clear()
        assert len(list_runs(tmp_path)) == 101
        assert written == [101] * count


@pytest.mark.parametrize("name", ["metrics.jsonl", "result.json"])
def test_a_run_that_is_not_done_is_read_again_when_it_goes_on(name: str, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", status="failed", diverged=..., seconds=...)
    assert [(row.status, row.step) for row in list_runs(tmp_path)] == [("failed", 100)]
    if name == "result.json":
        (folder / name).write_text(json.dumps({"status": "diverged"}))
        assert [row.status for row in list_runs(tmp_path)] == ["diverged"]
    else:
        with (folder / name).open("a") as file:
            file.write('{"step": 120, "split": "valid", "loss": 0.1, "accuracy": 0.9, "seconds": 15.0}\n')
        assert [row.step for row in list_runs(tmp_path)] == [120]


def test_what_changes_while_it_is_read_is_found_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(tmp_path / "run", status="stopped", seconds=...)
    real = index.read_row

    def and_change(path: Path, name: str) -> Any:
        row = real(path, name)
        with (folder / "metrics.jsonl").open("a") as file:
            file.write('{"step": 120, "split": "valid", "loss": 0.1, "accuracy": 0.9, "seconds": 15.0}\n')
        return row

    with monkeypatch.context() as patch:
        patch.setattr(index, "read_row", and_change)
        assert [row.step for row in list_runs(tmp_path)] == [100]
    assert [row.step for row in list_runs(tmp_path)] == [120]


def test_an_index_of_another_version_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "run")
    list_runs(tmp_path)
    assert index.read_index(tmp_path)
    monkeypatch.setattr(index, "VERSION", index.VERSION + 1)
    assert not index.read_index(tmp_path)


# Comparisons


def test_a_spread_by_hand() -> None:
    """2, 4 and 9 around 5: deviations -3, -1, 4, squares 26, over two."""
    assert Spread.of([None, None]) is None
    assert Spread.of([3.0, None]) == Spread(3.0, None, 3.0, 3.0, 1)
    two = Spread.of([2.0, 4.0])
    assert two is not None
    assert two.deviation == pytest.approx(math.sqrt(2))
    found = Spread.of(iter([2.0, None, 4.0, 9.0]))
    assert found is not None
    assert (found.mean, found.least, found.most, found.count) == (5.0, 2.0, 9.0, 3)
    assert found.deviation == pytest.approx(math.sqrt(13))


def test_groups_without_a_score_come_last(tmp_path: Path) -> None:
    """Whether a larger score is better or a smaller one."""
    for metric in ("accuracy", "mse"):
        for k, score in enumerate((None, 0.25, 0.75)):
            results = {"test": {"loss": 1.0} | ({metric: score} if score else {})}
            make_run(tmp_path / f"{metric}{k}", hidden=10 + k, metric=metric, results=results, best=None)
        found = compare_runs(sorted(tmp_path.glob(f"{metric}*")))
        scores = [None if group.score is None else group.score.mean for group in found.groups]
        assert scores == ([0.75, 0.25, None] if metric == "accuracy" else [0.25, 0.75, None])
        assert [group.number for group in found.groups] == [1, 2, 3]


def test_what_a_group_is_called(tmp_path: Path) -> None:
    """Task, model and optimizer say what they are; what is not there is left out; one alone has its own name."""
    for k, (model, lr) in enumerate((("lstm", 0.1), ("gru", 1e-5))):
        make_run(tmp_path / str(k), model=model, lr=lr, accuracy=0.9 - 0.1 * k, options={"rho": 3} if k else {})
    labels = [group.label for group in compare_runs([tmp_path / "0", tmp_path / "1"]).groups]
    assert labels == ["lstm, lr 0.1", "gru, lr 1e-05, rho 3"]
    (alone,) = compare_runs([tmp_path / "0"]).groups
    assert alone.label == "0"
    make_run(tmp_path / "2", model="lstm", lr=0.1, seed=4)
    (both,) = compare_runs([tmp_path / "0", tmp_path / "2"]).groups
    assert both.label == "lstm"


def test_a_run_that_was_killed_is_compared_as_such(tmp_path: Path) -> None:
    make_run(tmp_path / "run", status="running")
    assert [run.row.status for run in compare_runs([tmp_path / "run"]).runs] == ["killed"]


def test_the_table_names_what_is_mixed(tmp_path: Path) -> None:
    """Two tasks: their metrics stand in the cells; settings that are not there are a dash, floats have six digits."""
    one = make_run(tmp_path / "one", lr=0.12345678, options={"rho": 3})
    other = make_run(tmp_path / "other", task="adding", metric="mse", chance=None, step=50,
                     results={"test": {"loss": 0.5, "mse": 0.5}}, parameters=None, seconds=0.25)  # fmt: skip
    head, rows = compare_table(compare_runs([one, other]))
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    assert head[:3] == ["", "run", "task"]
    assert [cell["score"] for cell in cells] == ["accuracy 0.75", "mse 0.5"]
    assert [cell["rho"] for cell in cells] == ["3", "-"]
    assert [cell["lr"] for cell in cells] == ["0.123457", "0.002"]
    assert [cell["chance"] for cell in cells] == ["0.125", ""]
    assert [cell["parameters"] for cell in cells] == ["449", ""]
    assert [cell["steps taken"] for cell in cells] == ["100", "50"]
    assert [cell["seconds"] for cell in cells] == ["12.5", "0.25"]
    assert [cell["status"] for cell in cells] == ["done", "done"]


def test_all_runs_of_a_group_are_in_json_and_csv(tmp_path: Path) -> None:
    """With their own numbers; those of the group are means."""
    runs = [
        make_run(tmp_path / str(k), seed=k, hidden=9, step=90 + 10 * k, seconds=1.0 + k, accuracy=0.5 + 0.25 * k)
        for k in range(2)
    ]
    runs.append(make_run(tmp_path / "worse", hidden=3, accuracy=0.125))
    found = compare_runs(runs)
    told = compare_json(found)["groups"][0]
    assert [run["run"] for run in told["runs"]] == [str(folder) for folder in runs[:2]]
    assert [run["test_accuracy"] for run in told["runs"]] == [0.5, 0.75]
    assert (told["steps"], told["seconds"]["mean"], told["parameters"]) == (95, 1.5, 449)
    assert (told["score"]["mean"], told["loss"]["mean"]) == (0.625, 0.375)
    assert (told["score"]["least"], told["score"]["most"]) == (0.5, 0.75)
    assert {name: told[name] for name in ("task", "model", "metric", "chance", "label", "settings")} == {
        "task": "copy", "model": "exprnn", "metric": "accuracy", "chance": 0.125, "label": "hidden 9",
        "settings": {"hidden": 9},
    }  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(compare_csv(found))))
    assert [(line["group"], line["hidden"], line["seed"], line["step"], line["seconds"]) for line in lines] == [
        ("1", "9", "0", "90", "1.0"),
        ("1", "9", "1", "100", "2.0"),
        ("2", "3", "0", "100", "12.5"),
    ]
    head = compare_csv(found).splitlines()[0].split(",")
    assert len(head) == len(set(head))


def test_no_column_is_there_twice(tmp_path: Path) -> None:
    """Also where the task or the model is what differs."""
    folders = [make_run(tmp_path / "a", model="lstm"), make_run(tmp_path / "b", task="adding", metric="mse")]
    head = compare_csv(compare_runs(folders)).splitlines()[0].split(",")
    assert {"task", "model"} <= {*head}
    assert len(head) == len(set(head))


# What is damaged


def test_a_file_that_becomes_a_link_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was found to be none."""
    run = make_run(tmp_path / "run")
    real = archiving.contents

    def and_link(folder: Path) -> Any:
        found = real(folder)
        (folder / "stdout.log").unlink()
        (folder / "stdout.log").symlink_to(tmp_path / "outside")
        return found

    (tmp_path / "outside").write_text("mine")
    monkeypatch.setattr(archiving, "contents", and_link)
    with pytest.raises(RunError, match=r"stdout\.log: it is a symbolic link"):
        archive_run(run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "run"]


@pytest.mark.parametrize(
    "change", [{"hidden": "64"}, {"score": "0.5"}, {"status": None}, {"more": 1}, {"step": 1.5}, {"reason": 3}]
)
def test_a_row_of_the_index_of_another_form_is_read_again(change: dict[str, Any], tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    (before,) = list_runs(tmp_path)
    ((name, entry),) = index.read_index(tmp_path).items()
    values = json.loads(entry.row)
    index.write_index(tmp_path, {name: entry._replace(row=json.dumps({**values, **change}))})
    assert list_runs(tmp_path) == [before]
    index.write_index(tmp_path, {name: entry._replace(row=json.dumps({**values, "score": 1, "created": 5}))})
    (whole,) = list_runs(tmp_path)  # of a number that may have digits, a whole one is one too
    assert (whole.score, whole.created) == (1, 5)
    assert len(whole.settings) == len(before.settings) > 9


def test_lists_without_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SQLite that cannot write to memory is no reason to fail."""
    make_run(tmp_path / "run")

    def fails(entries: Any) -> bytes:
        raise AttributeError("serialize")

    monkeypatch.setattr(index, "_packed", fails)
    assert index.write_index(tmp_path, {}) is None
    assert [row.name for row in list_runs(tmp_path)] == ["run"]
    assert not index.read_index(tmp_path)


def test_metrics_that_cannot_be_read_leave_what_run_json_says(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", status="running")
    (folder / "metrics.jsonl").write_text("[1]\n")
    row = read_row(folder, "run")
    assert (row.status, row.score, row.step, row.seconds, row.task) == ("running", None, None, None, "copy")


def test_the_median_is_in_the_order_of_the_steps(tmp_path: Path) -> None:
    """Also where one run was validated between two validations of the other."""
    for name, steps in (("a", (10, 30)), ("b", (20, 40))):
        folder = make_run(tmp_path / name)
        lines = [{"step": step, "split": "valid", "loss": 1.0 * step, "seconds": 1.0} for step in steps]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (group,) = compare_runs([tmp_path / "a", tmp_path / "b"]).groups
    assert group.median("loss") == [(10, 10.0), (20, 20.0), (30, 30.0), (40, 40.0)]

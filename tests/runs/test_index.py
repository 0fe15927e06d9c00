"""The index: always equal to reading every directory, whatever happens to it or to the runs."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram.runs import Row, find_runs, list_runs, read_row
from engram.runs._index import LAYOUT, NAME, index_files, read_index
from engram.runs._row import with_actual_status
from made_runs import facts, make_run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path_factory.mktemp("cache")))


def truth(out: Path) -> list[Row]:
    """By reading every directory."""
    rows = [with_actual_status(read_row(place.folder, place.name), place.folder) for place in find_runs(out)]
    return sorted(rows, key=lambda row: (-(row.created or 0.0), row.name))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for k in range(4):
        make_run(tmp_path / "runs" / f"run-{k}", seed=k, hidden=16 + k)
    make_run(tmp_path / "runs" / "sweep" / "copy-exprnn-0123456789abcdef", seed=9)
    return tmp_path / "runs"


def test_rows_say_what_the_run_says(out: Path) -> None:
    row = next(row for row in list_runs(out) if row.name == "run-2")
    assert (row.task, row.model, row.hidden, row.layers, row.seed, row.status) == ("copy", "exprnn", 18, 1, 2, "done")
    assert (row.metric, row.score, row.scored_on, row.chance) == ("accuracy", 0.75, "test", 0.125)
    assert (row.parameters, row.seconds, row.step, row.steps) == (449, 12.5, 100, 100)
    assert row.created == 1794977039.0  # 2026-11-18T04:43:59 in Greenwich
    assert row.settings["delay"] == 5
    assert row.settings["lr"] == 0.002
    assert row.scores == {"valid_loss": 0.25, "valid_accuracy": 0.75, "test_loss": 0.25, "test_accuracy": 0.75}
    assert {row.name for row in list_runs(out)} == {
        *(f"run-{k}" for k in range(4)),
        "sweep/copy-exprnn-0123456789abcdef",
    }


@pytest.mark.parametrize(("zone", "hours"), [("+0100", -1), ("-0530", 5.5)])
def test_a_time_is_that_of_its_zone(zone: str, hours: float, tmp_path: Path) -> None:
    """East of Greenwich it is later by the clock: the same words are an earlier moment."""
    make_run(tmp_path / "first", created=f"2026-11-18T04:43:59{zone}")
    (row,) = list_runs(tmp_path)
    assert row.created == 1794977039.0 + 3600 * hours


def test_a_run_that_goes_on_shows_its_best_so_far(tmp_path: Path) -> None:
    """Not what run.json says from when it was interrupted; a line that is being written is not read yet."""
    before = {"step": 20, "loss": 2.0, "accuracy": 0.15}
    folder = make_run(tmp_path / "first", status="running", best=before, step=20, seconds=2.5, results=...)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 120, "split": "valid", "loss": 0.1, "accuracy": 0.9, "seconds": 15.0}))
    (row,) = list_runs(tmp_path)
    assert (row.score, row.loss, row.scored_on, row.step, row.seconds) == (0.75, 0.4, "valid", 100, 12.5)


def test_the_best_so_far_is_that_of_the_direction_asked_for(tmp_path: Path) -> None:
    """The loss falls, and stop_by says that a larger one is better: the first validation is the best."""
    make_run(tmp_path / "first", status="running", best=..., step=..., seconds=..., results=..., stop_by="max:loss")
    (row,) = list_runs(tmp_path)
    assert (row.loss, row.scored_on, row.step) == (2.0, "valid", 100)


def test_a_second_list_reads_no_run_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_runs(out)
    monkeypatch.setattr("engram.runs._index.read_row", lambda *_: pytest.fail("read again"))
    assert list_runs(out) == before == truth(out)
    assert len(before) == 5


def test_a_run_that_was_done_and_has_changed_is_read_again(out: Path) -> None:
    list_runs(out)
    path = out / "run-2" / "run.json"
    new = path.with_name("new")
    new.write_text(json.dumps(facts(seed=2, hidden=18, accuracy=0.85)))
    new.replace(path)  # as long as before
    (row,) = (row for row in list_runs(out) if row.name == "run-2")
    assert row.score == 0.85


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["make", "change", "same size", "remove", "running", "metrics", "damage", "list", "lose index"]
        ),
        st.integers(0, 3),
        st.integers(10, 99),
    ),
    max_size=25,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_always_equal_to_the_truth(steps: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever is done to runs between two lists."""
    out = tmp_path_factory.mktemp("runs")
    for what, k, value in steps:
        folder = out / (f"run-{k}" if k else "sweep/run-0")
        there, path = folder.exists(), folder / "run.json"
        if what == "make" and not there:
            make_run(folder, seed=value)
        elif what in ("change", "same size") and there:
            new = folder / "new"
            new.write_text(json.dumps(facts(seed=value)) + (" " if what == "change" else ""))
            new.replace(path)
        elif what == "running" and there:
            path.write_text(json.dumps(facts(seed=value, status="running", seconds=..., best=..., results=...)))
        elif what == "metrics" and there:
            with (folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"step": 200, "split": "valid", "loss": 0.01, "seconds": float(value)}) + "\n")
        elif what == "damage" and there:
            path.write_text("{" * value)
        elif what == "remove" and there:
            shutil.rmtree(folder)
        elif what == "list":
            assert list_runs(out) == truth(out)
        elif what == "lose index":
            (out / NAME).unlink(missing_ok=True)
    assert list_runs(out) == truth(out)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3000])


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(5000))


def flip(path: Path) -> None:
    content = path.read_bytes()
    place = content.index(b'"hidden": 17')
    path.write_bytes(content[: place + 10] + b"99" + content[place + 12 :])


def other_layout(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (name, hidden)")
        database.execute("INSERT INTO runs VALUES ('run-0', 3)")
    database.close()


def view(path: Path) -> None:
    """A table of ours that is a query of somebody else's."""
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE VIEW runs AS SELECT x'41' AS name, '' AS stamp, '' AS later, '{}' AS row")
        database.execute(LAYOUT[1])
    database.close()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "harm", [cut, noise, flip, other_layout, view, empty, folder, link, pipe], ids=lambda f: f.__name__
)
def test_a_damaged_index_is_thrown_away(harm: Callable[[Path], None], out: Path) -> None:
    before = list_runs(out)
    assert read_index(out)
    harm(out / NAME)
    assert not read_index(out)
    assert list_runs(out) == before == truth(out)
    assert read_index(out)  # made again, here or in the cache
    assert list_runs(out) == before


@given(place=st.integers(0, 10**6), value=st.integers(0, 255))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_byte_does_no_harm(place: int, value: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("runs")
    make_run(out / "one")
    before = list_runs(out)
    content = bytearray((out / NAME).read_bytes())
    content[place % len(content)] = value
    (out / NAME).write_bytes(content)
    assert list_runs(out) == before


def test_an_index_of_lies_opens_nothing_outside(out: Path) -> None:
    """Its seal is right, and its names lead out: only what is found below the folder is shown."""
    from engram.runs._index import Entry, write_index

    stored = read_index(out) or (list_runs(out) and read_index(out))
    some = next(iter(stored.values()))
    write_index(out, {**stored, b"../../etc": some, b"/etc": some, b"run-1": Entry(some.stamp, "", "[]", "1", "nope")})
    assert list_runs(out) == truth(out)
    lie = Entry(stored[b"run-1"].stamp, "", stored[b"run-1"].row, "no JSON", "[1]")
    write_index(out, {**stored, b"run-1": lie})
    assert next(row for row in list_runs(out) if row.name == "run-1").settings == {}  # shown, and nothing else


def test_locked_by_another_process(out: Path) -> None:
    """SQLite's locks do not matter: the file is never opened by SQLite."""
    before = list_runs(out)
    database = sqlite3.connect(out / NAME, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    try:
        assert list_runs(out) == before
        shutil.rmtree(out / "run-0")
        make_run(out / "new")
        assert list_runs(out) == truth(out)
    finally:
        database.close()


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_folder_that_cannot_be_written_has_its_index_in_the_cache(out: Path) -> None:
    program = "import sys; from engram.runs import list_runs; print(len(list_runs(sys.argv[1])))"
    (out / NAME).mkdir()  # as root, modes do not hold
    assert len(list_runs(out)) == 5
    assert not any((out / NAME).iterdir())
    assert index_files(out)[1].is_file()
    assert read_index(out)
    done = subprocess.run([sys.executable, "-c", program, str(out)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "5\n"


def test_no_place_for_an_index_at_all(out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path / "file"))
    (out / NAME).mkdir()
    assert list_runs(out) == list_runs(out) == truth(out)


def test_lists_while_runs_are_made_and_removed(out: Path) -> None:
    """No list fails, and none shows a run that is half there as whole."""
    stop = threading.Event()

    def change() -> None:
        k = 0
        while not stop.is_set():
            folder = make_run(out / f"new-{k % 7}", seed=k)
            shutil.rmtree(folder)
            k += 1

    def look() -> None:
        while not stop.is_set():
            list_runs(out)

    threads = [threading.Thread(target=each) for each in (change, look)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            found = {row.name: row for row in list_runs(out)}
            assert {f"run-{k}" for k in range(4)} <= found.keys()
            assert all(row.status in ("done", "damaged") for row in found.values())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert list_runs(out) == truth(out)


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_ten_thousand(tmp_path: Path) -> None:
    """All of them, from the files and from the index; how long it takes is measured by hand: docs/runs.md."""
    for k in range(10_000):
        folder = tmp_path / f"run-{k}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(facts(seed=k)))
    first = list_runs(tmp_path)
    assert {row.seed for row in first} == {*range(10_000)}
    assert list_runs(tmp_path) == first


def test_newest_first_and_by_name(tmp_path: Path) -> None:
    """One whose time nobody tells has that of its run.json."""
    for name, created in (("old", "2026-11-16"), ("b", "2026-11-18"), ("a", "2026-11-18"), ("new", "2026-11-20")):
        make_run(tmp_path / name, created=f"{created}T04:43:59+0000")
    path = make_run(tmp_path / "between", created="yesterday") / "run.json"
    os.utime(path, (1794977039.0 + 86400, 1794977039.0 + 86400))  # 2026-11-19
    assert [row.name for row in list_runs(tmp_path)] == ["new", "between", "a", "b", "old"]


def test_runs_that_are_gone_leave_the_index(out: Path) -> None:
    """Not one by one, which would write it each time: once they are more than those that are left."""
    names = [row.name for row in list_runs(out)]
    assert len(read_index(out)) == len(names) == 5
    for name in names[:2]:
        shutil.rmtree(out / name)
    assert len(list_runs(out)) == 3
    assert len(read_index(out)) == 5
    shutil.rmtree(out / names[2])
    assert len(list_runs(out)) == len(read_index(out)) == 2


def test_every_folder_has_an_index_of_its_own_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders of one name; and one folder has one, from wherever it is named."""
    assert index_files(tmp_path / "a" / "runs")[1] != index_files(tmp_path / "b" / "runs")[1]
    monkeypatch.chdir(tmp_path)
    assert index_files(Path("runs"))[1] == index_files(tmp_path / "runs")[1]


def test_hidden_folders_hold_no_runs(tmp_path: Path) -> None:
    """Those that are about to be deleted have hidden names, and so has what other programs keep."""
    for name in ("first", ".removed-1", "sweep/second", "sweep/.third", ".hidden/fourth", "a/b/too-deep"):
        make_run(tmp_path / name)
    assert sorted(row.name for row in list_runs(tmp_path)) == ["first", "sweep/second"]


def test_the_age_of_a_run() -> None:
    """A clock that was set back makes no run younger than nothing."""
    now = time.time()
    assert Row("", "new", created=now - 100).age == pytest.approx(100, abs=60)
    assert Row("", "new", created=now + 1e6).age == 0.0
    assert Row("", "damaged").age is None


@pytest.mark.parametrize(
    ("results", "split", "loss"),
    [
        ({"test-200": 0.5, "test": 0.25}, "test", 0.25),
        ({"test-200": 0.5, "test-400": 0.75}, "test-200", 0.5),
        ({}, "valid", 0.25),
    ],
)
def test_the_score_is_that_of_the_test(results: dict[str, float], split: str, loss: float, tmp_path: Path) -> None:
    """Else of the first exam, else of the best validation."""
    made = {name: {"loss": found, "accuracy": 1 - found} for name, found in results.items()}
    make_run(tmp_path / "run", results=made)
    (row,) = list_runs(tmp_path)
    assert (row.scored_on, row.loss, row.score) == (split, loss, 1 - loss)
    named = {f"{name}_{score}".replace("-", "_") for name in (*results, "valid") for score in ("loss", "accuracy")}
    assert {*row.scores} == named


def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    make_run(tmp_path / "run", status="failed", reason="no\nmemory " * 100)
    (row,) = list_runs(tmp_path)
    assert len(row.reason) <= 300
    assert row.reason.startswith("no memory no")

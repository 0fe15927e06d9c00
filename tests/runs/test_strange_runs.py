"""Run directories from strangers: read without harm, and never imported."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.runs import list_runs, read_row
from engram.runs._row import _number, _plain, _whole, flat_settings
from engram.tasks import Copy
from engram.train import RunDirectory, Settings, load_network, train
from engram.train._settings import FLAT
from made_runs import facts, make_run


def row_of(folder: Path, text: str | bytes) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_row(folder, "x")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("{", "not JSON"),
        ("[]", "no settings"),
        ("{}", "no settings"),
        (json.dumps({"settings": {}, "status": 3}), "the status 3"),
        (json.dumps({"settings": {}, "status": "\x1b[31mowned"}), "the status"),
        (json.dumps({"settings": {"model": "nnrnn"}, "status": "done"}), "made by engram 0.1"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 5000, ""),
        (" " * (2**20 + 1), "at most 1,048,576 are read"),
        (b"\xff\xfe", ""),
    ],
)
def test_damaged(text: str | bytes, reason: str, tmp_path: Path) -> None:
    row = row_of(tmp_path / "run", text)
    assert row.status == "damaged"
    assert reason in row.reason
    assert row.reason.isprintable()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = ("status", "settings", "metric", "chance", "best", "results", "seconds", "step", "created", "reason", "odd")


@settings(max_examples=100)
@given(
    changes=st.dictionaries(st.sampled_from(ENTRIES), ANYTHING, max_size=4),
    group=st.sampled_from(["task", "model", "optimiser", "budget", "machine"]),
)
def test_any_run_json_gives_a_row(
    changes: dict[str, Any], group: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever stands where, a row comes back that JSON can hold and that is read again the same."""
    found = facts()
    if "odd" in changes:
        found["settings"][group] = changes.pop("odd")
    out = tmp_path_factory.mktemp("runs")
    row_of(out / "run", json.dumps(found | changes))
    first = list_runs(out)
    assert list_runs(out) == first
    json.dumps(first[0].flat(), allow_nan=False)


def test_code_outside_is_listed_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    model = f"{tmp_path}/evil.py:Model"
    make_run(tmp_path / "runs" / "theirs", model=model, task="evil:Task")
    program = (
        "import sys; from engram.runs import list_runs, compare_runs\n"
        "(row,) = list_runs(sys.argv[1]); compare_runs([sys.argv[1] + '/theirs'])\n"
        "print(row.model, row.status, 'torch' in sys.modules, 'evil' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == (f"{model} done False False\n", "")


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
def test_links_are_not_followed(tmp_path: Path) -> None:
    make_run(tmp_path / "elsewhere" / "secret")
    out = tmp_path / "runs"
    make_run(out / "own")
    (out / "link").symlink_to(tmp_path / "elsewhere" / "secret")
    (out / "links").symlink_to(tmp_path / "elsewhere")
    (out / "round").mkdir()
    (out / "round" / "round").symlink_to(out)
    (out / "planted").mkdir()
    (out / "planted" / "run.json").symlink_to(tmp_path / "elsewhere" / "secret" / "run.json")
    (out / "pipe").mkdir()
    os.mkfifo(out / "pipe" / "run.json")
    found = {row.name: row for row in list_runs(out)}
    assert found.keys() == {"own", "planted", "pipe"}
    assert "symbolic link" in found["planted"].reason
    assert "a pipe" in found["pipe"].reason


@pytest.mark.skipif(os.name == "nt", reason="names of POSIX")
def test_names_of_any_bytes(tmp_path: Path) -> None:
    names = [b"a\nb", b"\x1b[31mred", b"\xff\xfe", b"-rf", b"[red]x", b" "]
    for name in names:
        make_run(tmp_path / os.fsdecode(name))
    make_run(tmp_path / ".hidden")
    for _ in range(2):
        assert {os.fsencode(row.name) for row in list_runs(tmp_path)} == {*names}


def test_a_run_that_nobody_works_on_was_killed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", status="running", seconds=..., best=..., results=...)
    (row,) = list_runs(tmp_path)
    assert (row.status, row.score, row.scored_on) == ("killed", 0.75, "valid")  # the best validation so far
    assert (row.seconds, row.step) == (12.5, 100)
    lock = FileLock(folder / "lock")
    with lock:
        assert [row.status for row in list_runs(tmp_path)] == ["running"]
    assert [row.status for row in list_runs(tmp_path)] == ["killed"]


def test_a_lease_from_another_machine(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", status="running")
    (folder / "lease.1").write_text("{}")
    assert [row.status for row in list_runs(tmp_path)] == ["running"]
    past = time.time() - 1000
    os.utime(folder / "lease.1", (past, past))
    assert [row.status for row in list_runs(tmp_path)] == ["killed"]
    (folder / "lease.2").write_text("{}")
    assert [row.status for row in list_runs(tmp_path)] == ["running"]
    os.utime(folder / "lease.2", (past, past))
    os.utime(folder / "lease.1")  # not the highest number
    assert [row.status for row in list_runs(tmp_path)] == ["killed"]


def test_looking_does_not_keep_a_run_from_starting(tmp_path: Path) -> None:
    """A thread looks at the lock all the time; the run that starts meanwhile gets it."""
    import threading

    from engram.train._files import locked

    folder = make_run(tmp_path / "run", status="running")
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            list_runs(tmp_path)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(200):
            with locked(folder):
                pass
    finally:
        stop.set()
        thread.join()


def test_of_a_sweep_that_diverged(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", status="failed", diverged=...)
    assert [row.status for row in list_runs(tmp_path)] == ["failed"]
    (folder / "result.json").write_text(json.dumps({"status": "diverged"}))
    assert [row.status for row in list_runs(tmp_path)] == ["diverged"]


def test_flat_names_are_those_of_the_flags() -> None:
    some = Settings.of(Copy(7), "scornn", options={"rho": 3}).resolved()
    found = flat_settings(some.to_dict())
    assert {*FLAT} - {"options"} <= found.keys()
    assert (found["model"], found["optimizer"], found["delay"], found["rho"]) == ("scornn", "adam", 7, 3)


def test_an_option_with_the_name_of_a_setting() -> None:
    found = flat_settings({"task": {"name": "t", "steps": 3}, "budget": {"steps": 9}, "model": {"options": {"lr": 1}},
                           "optimiser": {"lr": 2}})  # fmt: skip
    assert (found["steps"], found["task_steps"], found["lr"], found["model_lr"]) == (9, 3, 2, 1)


VALUES: list[tuple[Any, float | None, Any]] = [
    (1, 1, 1),
    (-0.5, -0.5, -0.5),
    (True, None, True),
    (None, None, None),
    ("7", None, "7"),
    (math.inf, None, "inf"),
    (math.nan, None, "nan"),
    ([1, 2], None, "[1, 2]"),
]


@pytest.mark.parametrize(("value", "number", "shown"), VALUES, ids=repr)
def test_what_is_a_number(value: Any, number: float | None, shown: Any) -> None:
    """True is none, and neither is what float64 cannot hold; a text stays one."""
    assert (_number(value), _plain(value)) == (number, shown)
    assert _number(10**400) is None


def test_what_is_a_whole_number() -> None:
    assert [_whole(value) for value in (3, -3, True, 3.0, "3", None, 2**63, 2**63 - 1)] == [
        3, -3, None, None, None, None, None, 2**63 - 1,
    ]  # fmt: skip


def test_a_real_run(tmp_path: Path) -> None:
    chosen = Settings.of(Copy(3, 2), "rnn", hidden=4, batch=4, steps=4, validate_every=2, test_samples=8, threads=1)
    run = train(chosen, tmp_path, "real")
    (row,) = list_runs(tmp_path)
    assert (row.status, row.metric, row.chance) == ("done", "accuracy", chosen.task.chance)
    assert row.memoryless_baseline == chosen.task.memoryless_baseline
    assert row.score == run.facts["results"]["test"]["accuracy"]
    assert row.scores["valid_loss"] == run.facts["best"]["loss"]
    assert row.seconds == RunDirectory(run.folder).facts["seconds"] > 0
    assert row.parameters == sum(p.numel() for p in load_network(run.folder).parameters())

"""Sweeps that run: serial, parallel, resumed and disturbed ones give the same table, byte for byte."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sweep.conftest import dead_process, run_here

from engram.errors import FileError
from engram.files import sealed, unseal
from engram.sweep import (
    FORMATS,
    Here,
    Local,
    Plan,
    Sweep,
    SweepFile,
    _job,
    make_plan,
    read_results,
    read_sweep,
    result_of,
    rows_of,
    units,
)
from engram.train import load_network
from tiers import slow


def run_local(plan: Plan, out: Path, workers: int = 2) -> str:
    return FORMATS["csv"](rows_of(plan, Sweep(plan, out, Local(workers)).run()))


def test_serial_and_parallel_give_the_same_bytes(small: Any, tmp_path: Path) -> None:
    plan = small()
    here = run_here(plan, tmp_path / "here")
    assert here.count("done") == 4
    assert run_local(plan, tmp_path / "local") == here
    assert run_local(plan, tmp_path / "local") == here  # again: nothing is trained


def test_done_runs_are_not_trained_again(small: Any, tmp_path: Path) -> None:
    plan, told = small(), []
    table = run_here(plan, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = Sweep(plan, tmp_path, Here(), observe=lambda what, *_: told.append(what))
    assert FORMATS["csv"](rows_of(plan, again.run())) == table
    assert told == []
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_runs_of_a_sweep_are_runs(small: Any, tmp_path: Path) -> None:
    plan = small()
    run_here(plan, tmp_path)
    for run in plan.runs:
        assert load_network(tmp_path / run.folder).core is not None
        assert list((tmp_path / run.folder).glob("lease.*")) == []


def test_ladder_stops_where_a_run_is_not_solved(small: Any, tmp_path: Path) -> None:
    ladder = "[ladder]\nover = 'delay'\nvalues = [2, 3]\nsolved = 'loss<{}'"
    for limit, trained in ((100.0, 8), (0.0, 4)):
        plan = small(rest=ladder.format(limit))
        results = Sweep(plan, tmp_path / str(limit), Here()).run()
        assert len(results) == trained


def test_diverged_run_is_a_result_and_is_not_tried_again(small: Any, tmp_path: Path) -> None:
    plan, told = small(base="lr = 1e30\nclip = 0.0\noptimizer = 'sgd'"), list[str]()
    sweep = Sweep(plan, tmp_path, Here(), observe=lambda what, *_: told.append(what))
    statuses = {result["status"] for result in sweep.run().values()}
    assert "diverged" in statuses
    assert told.count("started") == told.count("done")
    assert sweep.failed == {}
    assert run_here(plan, tmp_path) == FORMATS["csv"](rows_of(plan, sweep.results))


def test_run_that_fails_is_retried_and_then_named(small: Any, tmp_path: Path) -> None:
    plan, told = small(), list[str]()
    blocked = tmp_path / plan.runs[0].folder
    blocked.write_text("a file where the folder should be")
    sweep = Sweep(plan, tmp_path, Here(), observe=lambda what, *_: told.append(what))
    assert len(sweep.run()) == 3
    assert list(sweep.failed) == [plan.runs[0].identity]
    assert told.count("again") == plan.retries + 1  # one that trained together with it was started again too
    blocked.unlink()
    assert run_here(plan, tmp_path) == run_here(plan, tmp_path / "undisturbed")


def test_what_is_refused_is_not_tried_again(small: Any, tmp_path: Path) -> None:
    plan, told = small(base="device = 'cuda'"), list[str]()
    sweep = Sweep(plan, tmp_path, Here(), observe=lambda what, *_: told.append(what))
    if torch.cuda.is_available():
        pytest.skip("there is such a device here")
    assert sweep.run() == {}
    assert told.count("again") == 0
    assert "finds no cuda device" in next(iter(sweep.failed.values()))


def test_a_result_that_vanishes_at_once_is_the_reason(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_job, "write_whole", lambda *_: None)
    sweep = Sweep(small(), tmp_path, Here())
    assert sweep.run() == {}
    assert all("was taken away or changed" in reason for reason in sweep.failed.values())
    assert len(sweep.failed) == 4


def spoil_result(folder: Path) -> None:
    path = folder / "result.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove_result(folder: Path) -> None:
    (folder / "result.json").unlink()


def remove_run(folder: Path) -> None:
    shutil.rmtree(folder)


def spoil_facts(folder: Path) -> None:
    (folder / "result.json").unlink()
    (folder / "run.json").write_text("{")


def spoil_checkpoint(folder: Path) -> None:
    (folder / "result.json").unlink()
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"status": "running"}))
    for name in ("checkpoint.json", "checkpoint-before.json"):
        (folder / name).write_text("{}")


def change_result(folder: Path) -> None:
    path = folder / "result.json"
    path.write_text(path.read_text().replace("done", "diverged"))


def forge_result(folder: Path) -> None:
    """One whose seal is right, and which is no result."""
    found = unseal(json.loads((folder / "result.json").read_text()))
    (folder / "result.json").write_bytes(sealed(found | {"results": {"test": ["loss"]}}))


def forge_parameters(folder: Path) -> None:
    found = unseal(json.loads((folder / "result.json").read_text()))
    (folder / "result.json").write_bytes(sealed(found | {"parameters": "many"}))


def leave_dead_lease(folder: Path) -> None:
    (folder / "result.json").unlink()
    (folder / "lease.1").write_text(json.dumps(dead_process()))


FAULTS = [
    spoil_result, remove_result, remove_run, spoil_facts, spoil_checkpoint, change_result, forge_result,
    forge_parameters, leave_dead_lease,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_started_again_after_a_fault_the_table_is_the_same(small: Any, tmp_path: Path, fault: Any) -> None:
    plan = small()
    table = run_here(plan, tmp_path)
    fault(tmp_path / plan.runs[1].folder)
    assert run_here(plan, tmp_path) == table


def test_clock_that_is_set_back_changes_nothing(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small()
    table = run_here(plan, tmp_path / "a")
    clock, now = time.time, [0.0]

    def back() -> float:
        now[0] += 3600
        return clock() - now[0]

    monkeypatch.setattr(time, "time", back)
    assert run_here(plan, tmp_path / "b") == table


def test_result_of_another_run_is_not_taken(small: Any, tmp_path: Path) -> None:
    plan = small()
    run_here(plan, tmp_path)
    first, second = plan.runs[:2]
    shutil.copy(tmp_path / first.folder / "result.json", tmp_path / second.folder / "result.json")
    assert result_of(tmp_path / second.folder, second.identity) is None


@pytest.mark.slow
def test_two_sweeps_on_one_folder_share_the_work(small: Any, tmp_path: Path) -> None:
    plan = small(base="")
    expected = run_here(plan, tmp_path / "alone")
    out, tables = tmp_path / "shared", list[str]()
    threads = [threading.Thread(target=lambda: tables.append(run_local(plan, out, 1))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tables == [expected] * 2
    logs = [(out / run.folder / "stdout.log").read_text() for run in plan.runs]
    assert [log.count(" parameters, step ") for log in logs] == [1] * 4  # each was trained once


# Processes that are killed

PROGRAM = """
import sys
from pathlib import Path
from engram.sweep import *
plan = make_plan(read_sweep(Path(sys.argv[1])))
def observe(what, unit, facts):
    print(what, unit[0].folder, flush=True)
Sweep(plan, Path(sys.argv[2]), Local(2), observe=observe).run()
"""
LONG = "save_every = 0"


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
def test_controller_killed_in_the_middle(write: Any, small: Any, tmp_path: Path, times: int) -> None:
    small(base=LONG)
    file, out = tmp_path / "sweep.toml", tmp_path / "killed"
    file.write_text(file.read_text().replace("steps = 6", "steps = 300"))
    plan = make_plan(read_sweep(file))
    for _ in range(times):
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(file), str(out)], stdout=subprocess.PIPE, text=True
        ) as p:
            assert p.stdout is not None
            steps = sum(line.startswith("step") for line, _ in zip(p.stdout, range(8), strict=False))
            assert steps
            workers = children(p.pid)
            assert workers
            p.kill()
        wait_for(lambda workers=workers: not any(map(alive, workers)))  # they end when their controller dies
    assert run_local(plan, out) == run_here(plan, tmp_path / "undisturbed")


def test_a_worker_that_died_gets_no_other_job() -> None:
    """It is told as lost, with what it ended with, and the next job starts a new process."""
    engine = Local(1)
    try:
        engine.submit(7, {}, [])
        (first,) = engine.workers
        first.process.kill()  # before it has imported anything
        events: list[Any] = []
        wait_for(lambda: events.extend(engine.events(0.1)) or bool(events))
        assert events == [{"number": 7, "lost": -signal.SIGKILL}]
        assert engine.workers == []
        engine.submit(8, {}, [])
        assert engine.workers[0].process.pid != first.process.pid
    finally:
        engine.close()


@pytest.mark.slow
def test_worker_killed_in_the_middle_costs_no_run(small: Any, tmp_path: Path) -> None:
    small(base=LONG)
    file = tmp_path / "sweep.toml"
    file.write_text(file.read_text().replace("steps = 6", "steps = 300"))
    plan = make_plan(read_sweep(file))
    engine, told, killed, lost, done = Local(2), list[str](), list[int](), list[str](), list[str]()

    def observe(what: str, unit: Any, facts: Any) -> None:
        told.append(what)
        if what == "done":
            done.extend(run.key for run in unit)
        if what == "again":
            lost.remove(unit[0].key)  # of a worker that was killed, and once for each kill
        if what == "step" and len(killed) < 2 and told.count("step") > 2 * len(killed):
            worker = engine.workers[len(killed) % len(engine.workers)]
            lost.extend(run.key for run in sweep.running.get(worker.number or 0, ()))
            killed.append(worker.process.pid)
            os.kill(worker.process.pid, signal.SIGKILL)

    sweep = Sweep(plan, tmp_path / "killed", engine, observe=observe)
    table = FORMATS["csv"](rows_of(plan, sweep.run()))
    assert killed
    assert "again" in told
    assert sorted(done) == sorted(run.key for run in plan.runs)
    assert table == run_here(plan, tmp_path / "undisturbed")


@pytest.mark.slow
def test_folder_deleted_under_a_worker(small: Any, tmp_path: Path) -> None:
    small(base=LONG)
    file, out = tmp_path / "sweep.toml", tmp_path / "deleted"
    file.write_text(file.read_text().replace("steps = 6", "steps = 300"))
    plan = make_plan(read_sweep(file))
    deleted = list[str]()

    def observe(what: str, unit: Any, facts: Any) -> None:
        if what == "step" and not deleted:
            deleted.append(unit[0].folder)
            shutil.rmtree(out / unit[0].folder, ignore_errors=True)

    sweep = Sweep(plan, out, Local(2), observe=observe)
    sweep.run()
    assert deleted
    assert run_local(plan, out) == run_here(plan, tmp_path / "undisturbed")


@pytest.mark.slow
def test_full_disk(small: Any, tmp_path: Path) -> None:
    plan = small()
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n" + PROGRAM
    out = tmp_path / "full"
    done = subprocess.run(
        [sys.executable, "-c", limited, str(tmp_path / "sweep.toml"), str(out)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "failed" in done.stdout
    assert read_results(plan, out) == {}
    assert run_local(plan, out) == run_here(plan, tmp_path / "undisturbed")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True
        ).returncode
    ):
        pytest.skip("only root can make a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_disk_that_fills_up_in_the_middle(small: Any, tmp_path: Path, small_disk: Path) -> None:
    """Another program takes all that is left while runs are trained; with room again, they go on."""
    small(base="save_every = 0\nlog_every = 1")
    file, out = tmp_path / "sweep.toml", small_disk / "out"
    file.write_text(file.read_text().replace("steps = 6", "steps = 300"))
    plan, told, filler = make_plan(read_sweep(file)), list[str](), small_disk / "filler"

    def observe(what: str, unit: Any, facts: Any) -> None:
        told.append(what)
        if what == "step" and not filler.exists():
            with suppress(OSError), filler.open("wb", buffering=0) as taken:
                while taken.write(bytes(512)):
                    pass

    sweep = Sweep(plan, out, Local(2), observe=observe)
    sweep.run()
    assert filler.exists()
    assert sweep.failed
    assert all("No space left on device" in reason for reason in sweep.failed.values())
    filler.unlink()
    assert run_local(plan, out) == run_here(plan, tmp_path / "undisturbed")


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_goes_on(small: Any, tmp_path: Path) -> None:
    small()
    file, out = tmp_path / "sweep.toml", tmp_path / "stopped"
    file.write_text(file.read_text().replace("steps = 6", "steps = 500"))
    plan = make_plan(read_sweep(file))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as p:
        assert p.stdout is not None
        for line in p.stdout:
            if line.startswith("step"):
                break
        p.send_signal(signal.SIGINT)
        assert p.wait(timeout=60) != 0
        p.stdout.read()
        assert p.stderr is not None
        assert "KeyboardInterrupt" in p.stderr.read()
    statuses = [json.loads(path.read_text())["status"] for path in out.glob("*/run.json")]
    assert "stopped" in statuses
    assert list(out.glob("*/lease.*")) == []
    table = run_local(plan, out)
    assert table == run_here(plan, tmp_path / "undisturbed")


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(each) for each in found.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(true: Any, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    assert true()


RAISES = """
from engram.models import model_class


class Mine(model_class("rnn")):
    def forward(self, *given, **named):
        if self.training and given[0].shape[1] > 1:  # in training, not where its shapes are tried
            {does}
        return super().forward(*given, **named)
"""


@pytest.mark.parametrize(
    ("does", "told"), [slow("raise KeyError('mine')", "KeyError: 'mine'"), ("raise SystemExit(3)", "SystemExit: 3")]
)
def test_whatever_a_model_raises_is_the_reason(tmp_path: Path, does: str, told: str) -> None:
    code = tmp_path / "mine.py"
    code.write_text(RAISES.format(does=does))
    base = {"task": "copy", "model": f"{code}:Mine", "steps": 2, "batch": 2, "hidden": 4, "delay": 3}
    plan = make_plan(SweepFile(base=base, retries=0, together=False), [str(code)])
    sweep = Sweep(plan, tmp_path / "out", Local(1), [str(code)])
    assert sweep.run() == {}
    assert list(sweep.failed.values()) == [told]


@pytest.mark.slow
def test_a_model_that_changes_the_folder_of_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "mine.py").write_text("import os\n" + RAISES.format(does=f"os.chdir({str(tmp_path / 'other')!r})"))
    monkeypatch.chdir(tmp_path)
    base = {"task": "copy", "model": "mine.py:Mine", "steps": 2, "batch": 2, "hidden": 4, "delay": 3}
    plan = make_plan(SweepFile(base=base, seeds=(0, 1), retries=0, together=False), ["mine.py"])
    sweep = Sweep(plan, Path("out"), Local(1), ["mine.py"])
    assert len(sweep.run()) == 2, sweep.failed
    assert not list((tmp_path / "other").iterdir())


class Stopped:
    """An engine in which Ctrl-C comes while a job ends."""

    slots = 1

    def __init__(self) -> None:
        self.asked = False

    def submit(self, number: int, job: Any, stale: int) -> None:
        self.number, self.count = number, len(job["runs"])

    def events(self, seconds: float) -> list[Any]:
        if not self.asked:
            raise KeyboardInterrupt
        result = {"status": "done", "results": {}, "parameters": 1}
        return [{"number": self.number, "results": [result] * self.count}]

    def stop(self) -> None:
        self.asked = True

    def close(self) -> None:
        pass


def test_a_run_that_ends_while_the_sweep_is_stopped_counts(small: Any, tmp_path: Path) -> None:
    sweep = Sweep(small(), tmp_path / "out", Stopped())
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    assert set(sweep.results) == {run.identity for run in units(sweep.plan, (), 1)[0]}


@pytest.mark.parametrize("trap", [os.mkfifo, lambda path: path.symlink_to("elsewhere"), Path.mkdir])
def test_a_log_that_is_a_trap_is_refused(small: Any, tmp_path: Path, trap: Any) -> None:
    trap(tmp_path / ".workers.log")
    sweep = Sweep(small(), tmp_path / "out", Local(1, log=tmp_path / ".workers.log"))
    with pytest.raises(FileError, match=r".workers.log could not be written: it is a"):
        sweep.run()

"""The controller and what it starts, with engines that only play: who gets what, what is tried again, what it costs."""

import io
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engram.errors import DTypeError, OptionError, RunError, ShapeError
from engram.run_files import newest_lease
from engram.sweep import Local, Plan, Sweep, estimate, make_plan, read_sweep
from engram.sweep import _estimate as estimating
from engram.sweep import _job as jobs
from engram.sweep import _local as local
from engram.sweep import _ray as cluster
from engram.sweep import _sweep as controller
from engram.sweep import _worker as worker
from engram.sweep._lease import Lease
from engram.sweep._search import Trials, _suggested
from engram.sweep._search_file import Range
from engram.train import RUN_FILES

DONE = {"status": "done", "results": {}, "parameters": 1}


class Played:
    """An engine that answers job after job out of a list; and what it was asked."""

    def __init__(self, *answers: dict[str, Any], slots: int = 1) -> None:
        self.slots, self.answers = slots, deque(answers)
        self.jobs: list[list[str]] = []
        self.stale: list[list[int]] = []
        self.left: deque[int] = deque()

    def submit(self, number: int, job: Mapping[str, Any], stale: Sequence[int]) -> None:
        assert len(self.left) < self.slots
        self.jobs.append([Path(run["folder"]).name for run in job["runs"]])
        self.stale.append([*stale])
        self.left.append(number)

    def events(self, seconds: float) -> list[Any]:
        if not self.left:
            return []
        number = self.left.popleft()
        answer = self.answers.popleft() if self.answers else {}
        return [{"number": number, **(answer or {"results": [DONE] * len(self.jobs[number - 1])})}]

    def stop(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""


def seen(sweep: Sweep) -> list[tuple[str, int]]:
    """What the sweep tells: which event, of how many runs."""
    told: list[tuple[str, int]] = []
    sweep.observe = lambda what, unit, facts: told.append((what, len(unit)))
    return told


@pytest.fixture
def pair(small: Any) -> Plan:
    """Two runs of one kind."""
    plan = small(rest="[[when]]\nif = 'model=rnn'\nskip = true")
    assert len(plan.runs) == 2
    assert plan.runs[0].kind == plan.runs[1].kind != ""
    return plan  # type: ignore[no-any-return]


def test_runs_that_failed_together_are_tried_alone(pair: Plan, tmp_path: Path) -> None:
    """What is final for one of several need not be for each. Alone it is: that run is not tried a third time."""
    refused = {"failed": "no", "final": True}
    engine = Played(refused, {}, refused)
    sweep = Sweep(pair, tmp_path, engine)
    told = seen(sweep)
    results = sweep.run()
    a, b = (run.folder for run in pair.runs)
    assert engine.jobs == [[a, b], [a], [b]]
    assert told == [("started", 2), ("again", 1), ("again", 1), ("started", 1), ("done", 1), ("started", 1),
                    ("failed", 1)]  # fmt: skip
    assert ({*results}, sweep.failed) == ({pair.runs[0].key}, {pair.runs[1].key: "no"})


def test_as_often_as_the_file_says(small: Any, tmp_path: Path) -> None:
    """Twice again, unless it says otherwise: three attempts."""
    plan = small(rest="[[when]]\nif = 'model=rnn or seed=1'\nskip = true")
    engine = Played(*[{"lost": 9}] * 5)
    sweep = Sweep(plan, tmp_path, engine)
    sweep.run()
    assert len(engine.jobs) == 3
    assert [*sweep.failed.values()] == ["its process ended with code 9"]


def test_a_job_that_was_stopped_did_not_fail(pair: Plan, tmp_path: Path) -> None:
    sweep = Sweep(pair, tmp_path, Played({"stopped": True}))
    assert sweep.run() == {}
    assert sweep.failed == {}


def test_a_run_of_another_process_is_waited_for(pair: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it gives its lease back; then it is trained here, for it has left no result."""
    monkeypatch.setattr(controller, "AGAIN", 0.0)
    monkeypatch.setattr(Lease, "_beat", lambda lease: None)
    (tmp_path / pair.runs[1].folder).mkdir(parents=True)
    lease = Lease.take(tmp_path / pair.runs[1].folder)
    assert lease is not None
    engine, looks = Played(), [0]
    sweep = Sweep(pair, tmp_path, engine)
    told, events = seen(sweep), engine.events

    def then_released(seconds: float) -> list[Any]:
        looks[0] += 1
        if looks[0] == 5:
            assert engine.jobs == []
            lease.release()
        return events(seconds)

    monkeypatch.setattr(engine, "events", then_released)
    assert len(sweep.run()) == 2
    assert told == [("elsewhere", 2), ("started", 2), ("done", 2)]
    assert looks[0] >= 5


@pytest.mark.parametrize(
    ("workers", "threads", "cores", "slots"), [(3, 2, 8, 3), (0, 1, 8, 8), (0, 3, 8, 2), (0, 16, 8, 1)]
)
def test_as_many_workers_as_the_cores_have_room_for(
    workers: int, threads: int, cores: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "cores", lambda: cores)
    assert Local(workers, threads).slots == slots


def test_a_worker_has_the_threads_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Ended:
        def __init__(self, words: list[str], **options: Any) -> None:
            asked.update(options, words=words)
            self.stdin, self.stdout, self.returncode = io.StringIO(), ['{"number": 1, "results": []}\n', '{"numb'], 0

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            """It has ended."""

        def kill(self) -> None:
            """It has ended."""

    monkeypatch.setattr(subprocess, "Popen", Ended)
    engine = Local(1, threads=3)
    engine.submit(1, {"runs": []}, [0])
    assert [asked["env"][name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")] == ["3", "3"]
    assert asked["start_new_session"] is True
    assert asked["words"] == [sys.executable, "-P", "-m", "engram.sweep._worker"]
    assert asked["env"]["PYTHONPATH"] == os.pathsep.join(filter(None, sys.path))  # it imports what we import
    assert asked["stderr"] == subprocess.DEVNULL
    assert json.loads(engine.workers[0].process.stdin.getvalue()) == {"number": 1, "job": {"runs": []}, "stale": [0]}  # type: ignore[union-attr]
    engine.close()
    engine = Local(1, log=tmp_path / "log")
    engine.submit(1, {"runs": []}, [0])
    engine.close()
    assert Path(asked["stderr"].name) == tmp_path / "log"
    assert asked["stderr"].closed  # here; the process has its own


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a fifth of a second: the first one, and then one in half a second."""
    now = [0.0]

    def trained(job: Any, stale: Any, tell: Any) -> dict[str, Any]:
        for step in range(1, 8):
            tell(0, step, 1.0)
            now[0] += 0.2
        return {"results": []}

    monkeypatch.setattr(worker, "answer", trained)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now[0]))
    said = io.StringIO()
    found = worker._answer({"number": 4, "job": {}, "stale": []}, said)
    assert found == {"number": 4, "results": []}
    assert [json.loads(line)["step"] for line in said.getvalue().splitlines()] == [1, 4, 7]


# a job

ERRORS: list[tuple[BaseException, dict[str, Any]]] = [
    (OptionError("no"), {"failed": "OptionError: no", "final": True}),
    (DTypeError("no"), {"failed": "DTypeError: no", "final": True}),
    (ShapeError("no"), {"failed": "ShapeError: no", "final": True}),
    (RunError("no"), {"failed": "RunError: no", "final": False}),
    (OSError("no"), {"failed": "OSError: no", "final": False}),
    (KeyError("no"), {"failed": "KeyError: 'no'", "final": False}),
    (SystemExit(3), {"failed": "SystemExit: 3", "final": False}),
    (jobs.Held(), {"held": True}),
]


@pytest.mark.parametrize(("error", "said"), ERRORS, ids=lambda each: type(each).__name__)
def test_what_would_fail_again_is_final(
    error: BaseException, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(jobs, "work", refuse)
    assert jobs.answer({}) == said


def test_leases_of_all_runs_or_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "_beat", lambda lease: None)
    folders = [tmp_path / name for name in "abc"]
    folders[1].mkdir()
    other = Lease.take(folders[1])
    assert other is not None
    with pytest.raises(jobs.Held):
        jobs._leases(folders, ())
    assert [newest_lease(folder) for folder in folders[:2]] == [0, 1]
    other.release()
    assert len(jobs._leases(folders, (0, 0, 0))) == 3


def test_a_run_that_is_cleared(tmp_path: Path) -> None:
    """Its own files go, with what a search noted; the lease, the lock and files of the user stay."""
    kept = {"lock", "lease.1", "notes.txt"}
    for name in (*RUN_FILES, "result.json", "rung-100.json", *kept):
        (tmp_path / name).touch()
    jobs.clear(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_ladder_ends_where_any_run_before_failed(small: Any) -> None:
    plan = small(rest="[[when]]\nif = 'model=rnn or seed=1'\nskip = true\n[ladder]\nover = 'delay'\n"
                 "values = [3, 4, 5, 6]\nsolved = 'loss<1'")  # fmt: skip
    a, b, c, d = plan.runs
    assert [plan.comes_after(run, {b.identity}) for run in (a, b, c, d)] == [False, False, True, True]


# what it costs


def test_an_estimate_by_hand(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two shapes one can be measured: it takes 2 s a step. The other one has twice the steps in time and twice the
    layers, and is taken to cost as much for each unit of work: 8 s. Each run has 6 steps, and validations and a test of
    4 sequences, three batches of which cost a third of a step each: 7 steps in all."""
    plan = small(rest="[[when]]\nif = 'model=rnn'\nset = {layers = 2, delay = 10}")
    steps = {run.settings.model.name: run.settings.task.steps for run in plan.runs}
    assert (steps["exprnn"], steps["rnn"]) == (7, 14)

    def planned(settings: Any, measured: int) -> dict[str, float]:
        if settings.model.name == "rnn":
            raise KeyError("somebody's model")
        return {"seconds_a_step": 2.0}

    monkeypatch.setattr(estimating, "plan", planned)
    found = estimate(plan, {})
    assert (found.done, found.left) == (0, 4)
    assert found.longest == pytest.approx(7 * 8.0)
    assert found.total == pytest.approx(2 * 7 * 2.0 + 2 * 7 * 8.0)
    found = estimate(plan, {plan.runs[-1].key: DONE})
    assert (found.done, found.left, found.total) == (1, 3, pytest.approx(2 * 7 * 2.0 + 7 * 8.0))
    monkeypatch.setattr(estimating, "plan", lambda settings, measured: {"seconds_a_step": 1.0})
    assert estimate(plan, {}).total == pytest.approx(4 * 7 * 1.0)  # both shapes measured


def test_what_cannot_be_measured_costs_the_mean(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lengths, 7, 14 and 21 steps in time: 1 s and 6 s are 1/7 and 3/7 for each of them, so that the third one,
    at 2/7, takes 6 s. Seven steps of each."""
    plan = small(rest="delay = [3, 10, 17]\n[[when]]\nif = 'model=rnn or seed=1'\nskip = true")

    def planned(settings: Any, measured: int) -> dict[str, float]:
        return {"seconds_a_step": {7: 1.0, 14: 6.0}[settings.task.steps]}

    monkeypatch.setattr(estimating, "plan", planned)
    found = estimate(plan, {})
    assert (found.left, found.longest, found.total) == (3, pytest.approx(7 * 6.0), pytest.approx(7 * 13.0))


# Ray, of which nothing but its answers is needed


class Nodes:
    """A cluster of three machines, one of which is down."""

    class exceptions:
        RayError = type("RayError", (Exception,), {})
        TaskCancelledError = type("TaskCancelledError", (RayError,), {})
        NodeDiedError = type("NodeDiedError", (RayError,), {})
        LocalRayletDiedError = type("LocalRayletDiedError", (RayError,), {})
        TaskUnschedulableError = type("TaskUnschedulableError", (RayError,), {})
        OutOfMemoryError = type("OutOfMemoryError", (RayError,), {})

    def __init__(self) -> None:
        self.is_open, self.cancelled = True, list[Any]()

    def nodes(self) -> list[dict[str, Any]]:
        have = ((3.0, True), (64.0, False), (3.0, True), (None, True))
        return [{"Alive": alive, "Resources": {"CPU": count} if count else {}} for count, alive in have]

    def get(self, reference: Any) -> Any:
        if isinstance(reference, type):
            raise reference("what it says\nin two lines")
        return {"results": [DONE]}

    def cancel(self, reference: Any, force: bool = False) -> None:
        self.cancelled.append((reference, force))

    def shutdown(self) -> None:
        self.is_open = False


def rayed(most: int, threads: int, own: bool = True) -> Any:
    found: Any = object.__new__(cluster.Ray)
    found.ray, found.own, found.most, found.threads, found.aside, found.jobs = Nodes(), own, most, threads, None, {}
    return found


@pytest.mark.parametrize(("most", "threads", "slots"), [(0, 1, 6), (0, 2, 2), (1, 2, 1), (9, 2, 2), (0, 4, 0)])
def test_room_on_the_nodes(most: int, threads: int, slots: int) -> None:
    """A job is on one machine: two of three processors have room for one job of two threads each."""
    engine = rayed(most, threads)
    engine._look()
    assert engine.slots == slots


def test_how_tasks_end() -> None:
    engine, errors = rayed(0, 1), Nodes.exceptions
    ends: dict[Any, dict[str, Any]] = {
        "well": {"results": [DONE]},
        errors.TaskCancelledError: {"stopped": True},
        errors.NodeDiedError: {"held": True},
        errors.LocalRayletDiedError: {"held": True},
        errors.OutOfMemoryError: {"failed": "Ray ended it because its node ran out of memory"},
        errors.RayError: {"failed": "RayError: what it says"},
    }
    engine.jobs = {reference: (number, {}) for number, reference in enumerate(ends)}
    assert [engine._ended(reference) for reference in ends] == [
        {"number": number, **end} for number, end in enumerate(ends.values())
    ]
    assert engine.jobs == {}


@pytest.mark.parametrize("own", [True, False])
def test_a_cluster_that_others_connected_stays_connected(own: bool) -> None:
    engine = rayed(0, 1, own)
    engine.jobs = {"a": (1, {})}
    engine.stop()
    engine.close()
    assert engine.ray.cancelled == [("a", False), ("a", True)]
    assert engine.ray.is_open is not own
    assert engine.jobs == {}


# searches

RANGES: dict[str, tuple[Range, tuple[Any, ...]]] = {
    "whole": (Range(2, 8, step=3), ("int", 2, 8, 3, False)),
    "whole, every one": (Range(2, 8, log=True), ("int", 2, 8, 1, True)),
    "halves": (Range(2, 8, step=0.5), ("float", 2, 8, 0.5, False)),
    "floats": (Range(1e-4, 1.0, log=True), ("float", 1e-4, 1.0, None, True)),
    "choices": (Range(choices=("a", "b")), ("choice", ("a", "b"))),
}


@pytest.mark.parametrize("case", RANGES)
def test_what_the_sampler_is_asked(case: str) -> None:
    values, asked = RANGES[case]
    sampler = SimpleNamespace(
        suggest_int=lambda name, low, high, step, log: ("int", low, high, step, log),
        suggest_float=lambda name, low, high, step, log: ("float", low, high, step, log),
        suggest_categorical=lambda name, choices: ("choice", choices),
    )
    assert _suggested(sampler, "x", values) == asked


@pytest.mark.parametrize(("metric", "best"), [("valid_loss", 1), ("valid_accuracy", 3)])
def test_the_best_trial_is_the_first_of_equal_ones(metric: str, best: int, write: Any) -> None:
    """In the direction of the score; one that ended at its rung has no value of its end."""
    pytest.importorskip("optuna")
    text = "[base]\ntask = 'copy'\nsteps = 200\n[search]\nmethod = 'optuna'\ntrials = 6\nparallel = 6\nrungs = [100]\n"
    file = read_sweep(write(f"{text}metric = '{metric}'\n[search.space]\nlr = {{low = 1e-3, high = 1e-1}}"))
    trials = make_plan(file).search
    assert isinstance(trials, Trials)
    values = [[0.9], [0.5, 0.1], [0.1, 0.1], [0.5, 0.8], [0.1, 0.8], [0.0]]
    for trial, own in zip(trials.trials, values, strict=True):
        trial.values = own
    found = trials.best()
    assert found is not None
    assert found.number == best
    assert trials.study.direction.name == {"valid_loss": "MINIMIZE", "valid_accuracy": "MAXIMIZE"}[metric]

"""Ways through the sweep that a usual one does not take: what is held, lost, half done, asked to stop."""

import io
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engram.errors import OptionError
from engram.sweep import Lease, Plan, Sweep, SweepFile, Trials, Watch, grown, make_plan, over_seeds, read_sweep, rows_of
from engram.sweep import _lease as leases
from engram.sweep import _sweep as controller
from engram.sweep import _worker as worker
from engram.sweep._job import job_of, work
from engram.sweep._lines import line_of
from engram.train import Asked

DONE = {"status": "done", "results": {}, "parameters": 1}
LADDER = (
    "[[when]]\nif = 'model=rnn or seed=1'\nskip = true\n[ladder]\nover = 'delay'\nvalues = [3, 4]\nsolved = 'loss<1'"
)


class Answering:
    """An engine that answers each job by the folder of its first run."""

    def __init__(self, answers: dict[str, list[dict[str, Any]]], slots: int = 1) -> None:
        self.slots, self.answers, self.jobs = slots, answers, list[tuple[int, str]]()
        self.submitted: list[str] = []

    def submit(self, number: int, job: Any, stale: Any) -> None:
        name = Path(job["runs"][0]["folder"]).name
        self.jobs.append((number, name))
        self.submitted.append(name)

    def events(self, seconds: float) -> list[Any]:
        jobs, self.jobs = self.jobs, []
        return [{"number": number, **self.answers[name].pop(0)} for number, name in jobs]

    def stop(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""


def test_a_ladder_waits_and_ends_where_a_run_failed(small: Any, tmp_path: Path) -> None:
    """There is room for both, and the second one waits for the first; that one fails, and the second never starts."""
    plan = small(rest=LADDER)
    first, second = plan.runs
    engine = Answering({first.folder: [{"failed": "no", "final": True}]}, slots=2)
    sweep = Sweep(plan, tmp_path, engine)
    assert sweep.run() == {}
    assert engine.submitted == [first.folder]
    assert sweep.failed == {first.key: "no"}
    solved = {**DONE, "results": {"test": {"loss": 0.5}}}
    engine = Answering({first.folder: [{"results": [solved]}], second.folder: [{"results": [DONE]}]}, slots=2)
    assert {*Sweep(plan, tmp_path, engine).run()} == {first.key, second.key}
    assert engine.submitted == [first.folder, second.folder]


def test_a_job_that_somebody_else_holds(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left to him, and his result is taken; that is no attempt. What nobody asked for is not heard."""
    monkeypatch.setattr(controller, "AGAIN", 0.0)
    plan = small(rest="[[when]]\nif = 'model=rnn or seed=1'\nskip = true")
    (run,) = plan.runs
    engine = Answering({run.folder: [{"held": True}]})
    told, looks = list[str](), list[str]()

    def result_of(folder: Path, identity: str, until: int) -> Any:
        looks.extend(["look"] * ("elsewhere" in told))
        return DONE if len(looks) > 1 else None

    watch: Any = SimpleNamespace(stale=lambda folder: None if "elsewhere" in told else 0)
    sweep = Sweep(plan, tmp_path, engine, watch=watch, observe=lambda what, *_: told.append(what))
    sweep._hear({"number": 77, "results": [DONE]})
    monkeypatch.setattr(controller, "result_of", result_of)
    assert sweep.run() == {run.key: DONE}
    assert told == ["started", "elsewhere", "done"]
    assert (sweep.attempts, sweep.failed, engine.submitted) == ({}, {}, [run.folder])


# Leases


def test_a_lease_that_another_makes_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "_beat", lambda lease: None)
    monkeypatch.setattr(leases, "newest_lease", lambda folder: 0)  # what was seen just before
    (tmp_path / "lease.1").write_text("his")
    assert Lease.take(tmp_path) is None
    assert (tmp_path / "lease.1").read_text() == "his"


def test_nothing_is_left_where_a_lease_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(lease: Lease) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Lease, "_content", full)
    with pytest.raises(OSError, match="No space left"):
        Lease.take(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ended", [False, True])
def test_who_has_lost_his_lease_ends(ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one who gave it back meanwhile."""
    monkeypatch.setattr(leases, "BEAT", 0.0)
    lease, lost = Lease(tmp_path, 1), list[int]()
    lease.lost = lambda: lost.append(1)
    if ended:
        monkeypatch.setattr(lease, "beat", lambda: bool(lease._ended.set()))
    lease._beat()  # there is no file of it
    assert lost == [] if ended else [1]
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    Lease(tmp_path, 1).lost()
    assert codes == [75]


def test_a_lease_that_is_given_back_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "newest_lease", lambda folder: 3)
    assert Watch().stale(tmp_path) is None


# Searches


def search(tmp_path: Path, lines: str = "", base: str = "") -> SweepFile:
    path = tmp_path / "search.toml"
    path.write_text(
        f"seeds = 2\n[base]\ntask = 'copy'\nmodel = 'rnn'\nhidden = 4\nsteps = 6\nvalidate_every = 2\nthreads = 1\n"
        f"{base}\n[search]\nmethod = 'optuna'\ntrials = 5\nparallel = 2\n{lines}\n"
        "[search.space]\nlr = {low = 1e-3, high = 1e-1}\n"
    )
    return read_sweep(path)


def test_what_is_to_come_in_words(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    words = make_plan(search(tmp_path)).search.words
    assert words == "a search: at most 10 runs, 2 trials at a time"
    words = make_plan(search(tmp_path, "rungs = [2, 4]")).search.words
    assert words == "a search: at most 10 runs, 2 trials at a time, compared at the steps 2, 4"


def test_a_search_of_one_trial_more_than_its_batches(tmp_path: Path) -> None:
    """Two, two and one: five in all, and each batch once the one before is there."""
    pytest.importorskip("optuna")
    plan, results, sizes = make_plan(search(tmp_path)), dict[str, Any](), [0]
    while left := plan.left(results):
        sizes.append(len(plan.search.trials))
        for run in left:
            results[run.key] = {**DONE, "best": {"step": 6, "loss": run.values["lr"]}}
        plan = plan.grown(results)
    assert sizes == [0, 2, 4, 5]
    assert len(plan.runs) == 10
    values = [trial.values for trial in plan.search.trials]
    assert values == [[pytest.approx(trial.runs[0].values["lr"])] for trial in plan.search.trials]
    assert plan.left(results) == []


@pytest.mark.parametrize("score", ["loss", "accuracy"])
def test_the_median_ends_what_is_worse(score: str, tmp_path: Path) -> None:
    """Once five trials are done, which is optuna's own rule."""
    pytest.importorskip("optuna")
    file = search(tmp_path, f"rungs = [2]\npruner = 'median'\nmetric = 'valid_{score}'")
    file = SweepFile(**{**vars(file), "search": type(file.search)(**{**vars(file.search), "trials": 8, "parallel": 1})})
    plan, results = make_plan(file), dict[str, Any]()
    better = {0: 3, 1: 3, 2: 3, 3: 3, 4: 3, 5: 9, 6: 1, 7: 3}  # the sixth is the best, the seventh the worst
    while left := plan.left(results):
        for run in left:
            value = better[run.values["trial"]] * (1.0 if score == "accuracy" else -1.0)
            results[run.key] = {**DONE, "status": "reached" if run.until else "done", "best": {"step": 2, score: value}}
        plan = plan.grown(results)
    assert [trial.pruned for trial in plan.search.trials] == [0, 0, 0, 0, 0, 0, 2, 0]
    assert (plan.count, len(plan.ends)) == (len(plan.runs) - 2, 16)
    rows = rows_of(plan, results)
    assert [row["status"] for row in rows].count("pruned") == 2
    assert {row["pruned_at"] for row in rows} == {None, 2}
    (least,) = (row for row in over_seeds(plan, results) if row["trial"] == 6)
    assert (least["runs"], least["done"], least["pruned"]) == (2, 0, 2)
    assert all("pruned" not in row for row in over_seeds(plan, results) if row["trial"] != 6)


@pytest.mark.parametrize(("keep", "left"), [(0.5, 2), (0.4, 1), (0.3, 1), (0.05, 1), (0.7, 2), (0.9, 3)])
def test_the_share_that_goes_on_is_rounded(keep: float, left: int, tmp_path: Path) -> None:
    """Of three: 1.5 is 2 (to even), 1.2 is 1, 2.1 is 2; one at least."""
    pytest.importorskip("optuna")
    file = search(tmp_path, f"rungs = [2]\nkeep = {keep}")
    file = SweepFile(**{**vars(file), "search": type(file.search)(**{**vars(file.search), "trials": 3, "parallel": 3})})
    plan = make_plan(file)
    results = {run.key: {**DONE, "status": "reached", "best": {"step": 2, "loss": 1.0}} for run in plan.runs}
    plan = plan.grown(results)
    assert [trial.pruned for trial in plan.search.trials] == [0] * left + [2] * (3 - left)  # of equal ones the first


def test_directions_of_a_search(tmp_path: Path) -> None:
    """As the file says, or by the name of the score."""
    pytest.importorskip("optuna")
    for lines, larger in (
        ("direction = 'maximize'", True),
        ("direction = 'minimize'\nmetric = 'valid_accuracy'", False),
        ("metric = 'test_accuracy'", True),
        ("metric = 'valid_loss'", False),
    ):
        trials = make_plan(search(tmp_path, lines)).search
        assert trials.larger is larger
        assert trials.study.direction.name == ("MAXIMIZE" if larger else "MINIMIZE")
    with pytest.raises(OptionError, match=r"the file has no \[search\]"):
        Trials(SweepFile(base={"task": "copy"}))
    file = search(tmp_path, "rungs = [2]")
    for base in ({"validate_every": 0}, {"steps": 2}, {"validate_every": 4}):
        with pytest.raises(OptionError, match="a rung must be a multiple of validate_every"):
            make_plan(SweepFile(**{**vars(file), "base": {**file.base, **base}}))


def test_the_sampler_has_the_seed_of_the_file(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    found = [
        [run.values["lr"] for run in make_plan(search(tmp_path, f"sampler = '{name}'\nseed = {seed}")).runs]
        for name, seed in (("random", 0), ("random", 3), ("random", 3), ("tpe", 3))
    ]
    assert found[1] == found[2] != found[0]


# Lines and workers


def test_lines_of_names_in_braces() -> None:
    """Where a table is written in one line, the line of the name is told all the same."""
    text = "# lr = 1\nseeds = 2\nbase = {task = 'copy', 'lr' = 3, x-lr = 4}\n"
    assert line_of(text, "base", "task") == 3
    assert line_of(text, "base", "lr") == 1  # of a name in a comment too: it is a guess
    assert line_of(text, "base", "x-lr") == 3
    assert line_of(text, "base", "none") == 0
    assert line_of(text, "", "seeds") == 2
    assert line_of("[grid]\nlr = [1]\n[grid.more]\nlr = 2\n", "", "grid") == 1


def test_a_worker_from_its_first_job_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers go to what was standard output, what a model prints goes to the log; Ctrl-C is not for it; between two
    jobs SIGTERM ends it, within one it says which was stopped."""
    said, sent, handled = io.StringIO(), list[tuple[int, int]](), dict[int, Any]()
    monkeypatch.setattr(worker, "sys", SimpleNamespace(stdin=[], stdout=SimpleNamespace(fileno=lambda: 1),
                                                       stderr=SimpleNamespace(fileno=lambda: 2)))  # fmt: skip
    codes: list[int] = []
    monkeypatch.setattr(worker, "os", SimpleNamespace(
        dup=lambda file: 10 + file, fdopen=lambda file, mode: said if (file, mode) == (11, "w") else None,
        dup2=lambda one, two: sent.append((one, two)), _exit=codes.append))  # fmt: skip
    monkeypatch.setattr(worker.signal, "signal", lambda number, handler: handled.update({number: handler}))  # type: ignore[attr-defined]

    def put(jobs: Any) -> None:
        for number in (1, 2, 3):
            jobs.put({"number": number, "job": {}, "stale": []})

    monkeypatch.setattr(worker, "threading", SimpleNamespace(
        Thread=lambda target, args, daemon: SimpleNamespace(start=lambda: put(*args))))  # fmt: skip

    def answer(job: Any, stale: Any, tell: Any) -> dict[str, Any]:
        if said.getvalue().count("\n") == 1:
            raise KeyboardInterrupt
        return {"results": []}

    monkeypatch.setattr(worker, "answer", answer)
    worker.main()
    assert [json.loads(line) for line in said.getvalue().splitlines()] == [
        {"number": 1, "results": []},
        {"number": 2, "stopped": True},
    ]
    assert sent == [(2, 1)]
    assert handled == {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.default_int_handler}
    assert codes == []


def test_a_worker_ends_with_its_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the line of jobs ends, or nobody reads its answers."""
    codes, heard = list[int](), list[Any]()
    monkeypatch.setattr(worker.os, "_exit", codes.append)  # type: ignore[attr-defined]
    monkeypatch.setattr(worker, "sys", SimpleNamespace(stdin=['{"number": 1}\n', '{"number": 2}\n']))
    worker._listen(SimpleNamespace(put=heard.append))  # type: ignore[arg-type]
    assert (heard, codes) == ([{"number": 1}, {"number": 2}], [0])

    def broken(_: str) -> None:
        raise BrokenPipeError

    worker._say(SimpleNamespace(write=broken), {})  # type: ignore[arg-type]
    assert codes == [0, 0]


def test_a_plan_without_a_search_stays_as_it_is(small: Any, tmp_path: Path) -> None:
    plan = small()
    assert isinstance(plan, Plan)
    assert plan.grown({}) is plan
    assert grown(plan, tmp_path) is plan


@pytest.mark.parametrize("together", [False, True])
def test_settings_without_effect_do_not_start_a_run_again(small: Any, tmp_path: Path, together: bool) -> None:
    """A run that was stopped is the same run with another log_every or probe_every, and goes on from where it was."""
    plan, changed = small("probe_every = 2"), small("log_every = 2")
    runs, again = ([run for run in each.runs if run.settings.model.name == "rnn"] for each in (plan, changed))
    assert [run.identity for run in runs] == [run.identity for run in again]

    def stop(number: int, step: int, loss: float) -> None:
        if step >= 4:
            raise Asked

    steps = list[int]()
    job, other = ({**job_of(each, tmp_path), "together": together} for each in (runs, again))
    with pytest.raises(KeyboardInterrupt):
        work(job, tell=stop)
    results = work(other, tell=lambda number, step, loss: steps.append(step))
    assert [each["status"] for each in results] == ["done", "done"]
    assert steps[0] > 4

"""Searches: the same trials and the same table however they were run, stopped, started again or disturbed."""

import json
import re
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engram.cli import main
from engram.errors import OptionError
from engram.sweep import FORMATS, Here, Local, Plan, Sweep, grown, make_plan, read_results, read_sweep, rows_of
from engram.sweep._job import job_of, result_of, work
from engram.sweep._plan import plan_of_seeds
from engram.sweep._rung import standing
from engram.train import RunDirectory, settings_from_flat

optuna = pytest.importorskip("optuna")

FILE = """
seeds = {seeds}
[base]
task = "copy"
delay = 3
length = 2
steps = 6
batch = 4
hidden = 4
validate_every = 2
valid_samples = 4
test_samples = 4
log_every = 1
{base}
[search]
method = "optuna"
trials = 6
parallel = 3
seed = 5
{search}
[search.space]
lr = {{low = 1e-4, high = 1e-1, log = true}}
hidden = {{low = 3, high = 5}}
model = {{choices = ["exprnn", "rnn"]}}
{space}
"""
RUNGS = "rungs = [2, 4]"


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Write a file with a search of six trials; what is given are further lines."""

    def made(search: str = "", base: str = "", space: str = "", seeds: int = 1) -> Path:
        path = tmp_path / "search.toml"
        path.write_text(FILE.format(search=search, base=base, space=space, seeds=seeds))
        return path

    return made


def run(path: Path, out: Path, engine: Any = None) -> str:
    """The table of a search that is run to its end."""
    sweep = Sweep(make_plan(read_sweep(path)), out, engine or Here())
    sweep.run()
    assert sweep.failed == {}
    return table(sweep.plan, out)


def table(plan: Plan, out: Path) -> str:
    return FORMATS["csv"](rows_of(plan, read_results(plan, out)))


def rows(text: str) -> list[dict[str, str]]:
    head, *lines = (line.split(",") for line in text.splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def test_all_trials_are_trained(file: Any, tmp_path: Path) -> None:
    found = rows(run(file(), tmp_path / "out"))
    assert [row["trial"] for row in found] == [*"012345"]
    assert {row["status"] for row in found} == {"done"}
    for row in found:
        result = json.loads((tmp_path / "out" / row["run"] / "result.json").read_text())
        assert float(row["valid_loss"]) == result["best"]["loss"]
        assert 1e-4 <= float(row["lr"]) <= 1e-1
        assert int(row["hidden"]) in (3, 4, 5)
    assert len({row["lr"] for row in found}) == 6


def test_what_optuna_alone_would_ask(file: Any, tmp_path: Path) -> None:
    """A loop of optuna, written out: batches of three, told in the order of their numbers."""
    found = rows(run(file(), tmp_path / "out"))
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=5))
    for first in (0, 3):
        asked = [study.ask() for _ in range(3)]
        for k, trial in enumerate(asked, first):
            assert float(found[k]["lr"]) == trial.suggest_float("lr", 1e-4, 1e-1, log=True)
            assert int(found[k]["hidden"]) == trial.suggest_int("hidden", 3, 5)
            assert found[k]["model"] == trial.suggest_categorical("model", ["exprnn", "rnn"])
        for k, trial in enumerate(asked, first):
            study.tell(trial, float(found[k]["valid_loss"]))


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "search", [RUNGS, slow(""), slow(f"{RUNGS}\npruner = 'median'"), slow(f"{RUNGS}\nsampler = 'random'")]
)
def test_stopped_after_every_job_and_started_again(file: Any, tmp_path: Path, search: str) -> None:
    """No run that is done is done again, and the trials and the table are the same."""
    path = file(search)
    whole, jobs = tmp_path / "whole", list[str]()
    sweep = Sweep(make_plan(read_sweep(path)), whole, Here(), observe=lambda what, unit, _: note(jobs, what, unit))
    sweep.run()
    expected, again = table(sweep.plan, whole), list[str]()
    for _ in range(1000):
        if not one_job(path, tmp_path / "pieces", again):
            break
    assert again == jobs
    assert len(set(jobs)) == len(jobs)
    assert run(path, tmp_path / "pieces") == expected


def note(jobs: list[str], what: str, unit: Any) -> None:
    if what == "started":
        jobs.append(unit[0].key)


class Stop(Exception):
    """Of a test."""


def one_job(path: Path, out: Path, jobs: list[str]) -> bool:
    """One job of a search that then ends without a word; whether there was one to do."""

    def observe(what: str, unit: Any, _: Any) -> None:
        note(jobs, what, unit)
        if what == "done":
            raise Stop

    try:
        Sweep(make_plan(read_sweep(path)), out, Here(), observe=observe).run()
    except Stop:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("search", ["", RUNGS])
def test_parallel_and_serial_give_the_same_bytes(file: Any, tmp_path: Path, search: str) -> None:
    path = file(search, seeds=2)
    assert run(path, tmp_path / "local", Local(2)) == run(path, tmp_path / "here")


@pytest.mark.slow
def test_two_on_one_folder(file: Any, tmp_path: Path) -> None:
    path, tables = file(RUNGS), list[str]()
    threads = [threading.Thread(target=lambda: tables.append(run(path, tmp_path / "shared", Local(1)))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tables == [run(path, tmp_path / "alone")] * 2


def test_rungs_end_the_worse_half(file: Any, tmp_path: Path) -> None:
    """Of three two go on, of two one; compared by what they had come to."""
    out = tmp_path / "out"
    found = rows(run(file(RUNGS), out))
    for batch in (found[:3], found[3:]):
        at: dict[int, list[float]] = {
            rung: [best_until(out / row["run"], rung) for row in batch if row["pruned_at"] in ("", "4", str(rung))]
            for rung in (2, 4)
        }
        ends = {row["pruned_at"]: row for row in batch}
        assert sorted(ends) == ["", "2", "4"]
        assert float(ends["2"]["valid_loss"]) == max(at[2])
        assert float(ends["4"]["valid_loss"]) == max(at[4])
        assert [ends[rung]["status"] for rung in ("", "2", "4")] == ["done", "pruned", "pruned"]
        assert not (out / ends["2"]["run"] / "result.json").exists()
        assert RunDirectory(out / ends["2"]["run"]).facts["step"] == 3  # not trained further


def best_until(folder: Path, step: int) -> float:
    lines = RunDirectory(folder).metrics()
    return min(line["loss"] for line in lines if line["split"] == "valid" and line["step"] <= step)


def test_how_a_run_stood(file: Any, tmp_path: Path) -> None:
    """By its best validation so far, which is not the last; a run without any diverged before."""
    out = tmp_path / "out"
    folder = out / rows(run(file(RUNGS), out))[0]["run"]
    found = RunDirectory(folder)
    lines = [{"split": "valid", "step": k, "seconds": 1.0, "loss": loss} for k, loss in enumerate((3.0, 1.0, 2.0))]
    assert standing(found, lines, 2)["best"] == {"step": 1, "loss": 1.0}
    assert standing(found, lines, 2)["status"] == "reached"
    assert standing(found, lines, 9)["status"] == "reached"  # it ended before, by its patience for example
    assert standing(found, [], 2)["status"] == "diverged"


def test_a_run_that_diverged_before_a_rung_has_no_standing_there(tmp_path: Path) -> None:
    """However good it was at a validation before: it would take the place of a trial that can go on."""
    settings = settings_from_flat(
        {
            "task": "copy", "delay": 3, "model": "rnn", "activation": "identity", "hidden": 4, "batch": 4, "steps": 60,
            "optimizer": "sgd", "lr": 3.0, "clip": 0.0, "validate_every": 2, "valid_samples": 8, "threads": 1,
        }
    )  # fmt: skip
    (planned,) = plan_of_seeds(settings, [0], "lost").runs
    at_40 = replace(planned, until=40)
    (found,) = work(job_of([at_40], tmp_path))
    lines = RunDirectory(tmp_path / planned.folder).metrics()
    assert [line["step"] for line in lines if line["split"] == "valid"]
    assert found["status"] == "diverged"
    assert "best" not in found
    assert result_of(tmp_path / planned.folder, planned.identity)["status"] == "diverged"  # type: ignore[index]
    run = RunDirectory(tmp_path / planned.folder)
    later = [{"split": "valid", "step": k, "seconds": 1.0, "loss": 1.0} for k in (2, 40)]
    assert standing(run, later, 40)["status"] == "reached"  # it came to the step, and diverged after it


@pytest.mark.slow
def test_median_keeps_all_until_five_are_done(file: Any, tmp_path: Path) -> None:
    path = file(f"{RUNGS}\npruner = 'median'\ndirection = 'minimize'")
    path.write_text(path.read_text().replace("trials = 6", "trials = 12"))
    found = rows(run(path, tmp_path / "out"))
    assert {row["status"] for row in found[:6]} == {"done"}
    assert "pruned" in {row["status"] for row in found[6:]}


def test_a_pause_changes_no_bit(file: Any, tmp_path: Path) -> None:
    """A run that stopped at its rungs ends as one that did not."""
    out = tmp_path / "out"
    found = next(row for row in rows(run(file(RUNGS), out)) if row["status"] == "done")
    plan = make_plan(read_sweep(file()))
    whole = next(each for each in grown(plan, out).ends if each.folder == found["run"])
    (result,) = work(job_of([whole], tmp_path / "whole"))
    assert result_of(out / found["run"], whole.identity) == result
    lines = [
        [{name: value for name, value in line.items() if name != "seconds"} for line in RunDirectory(folder).metrics()]
        for folder in (out / found["run"], tmp_path / "whole" / found["run"])
    ]
    assert lines[0] == lines[1]


def test_the_value_of_a_trial_is_the_mean_over_seeds(file: Any, tmp_path: Path) -> None:
    path = file(seeds=2)
    sweep = Sweep(make_plan(read_sweep(path)), tmp_path / "out", Here())
    sweep.run()
    found = rows(table(sweep.plan, tmp_path / "out"))
    assert len(found) == 12
    for trial in sweep.plan.search.trials:
        values = [float(row["valid_loss"]) for row in found if row["trial"] == str(trial.number)]
        assert trial.values == [pytest.approx(sum(values) / 2)]
    best = min(sweep.plan.search.trials, key=lambda trial: trial.values[-1])
    assert sweep.plan.search.best() is best


@pytest.mark.slow
def test_trials_that_diverge_come_last(file: Any, tmp_path: Path) -> None:
    path = file(RUNGS, base="clip = 0.0\noptimizer = 'sgd'")
    path.write_text(path.read_text().replace("low = 1e-4, high = 1e-1", "low = 1e-4, high = 1e30"))
    found = rows(run(path, tmp_path / "out"))
    assert {"diverged", "done"} <= {row["status"] for row in found}
    assert all(row["valid_loss"] == "" for row in found if row["status"] == "diverged")
    assert run(path, tmp_path / "out") == run(path, tmp_path / "again")


def test_one_seed_that_diverges_spoils_its_trial(file: Any) -> None:
    """However good the other seed is: rates at which half of the runs diverge are not to be found best."""
    plan, results = make_plan(read_sweep(file(seeds=2))), dict[str, dict[str, Any]]()
    while left := plan.left(results):
        for run in left:
            trial, lost = run.values["trial"], run.values["trial"] == 0 and run.settings.seed == 0
            best = {"step": 6, "loss": 1.0 + trial if trial else 0.01}
            results[run.key] = {"status": "diverged" if lost else "done", "best": best, "results": {}, "parameters": 9}
        plan = plan.grown(results)
    assert [trial.values for trial in plan.search.trials] == [[], [2.0], [3.0], [4.0], [5.0], [6.0]]
    assert plan.search.best().number == 1


def test_a_trial_that_diverges_leaves_its_place_to_others(file: Any) -> None:
    """Of three trials two go on, also where one has diverged: the share is of those that came to the rung."""
    plan, results = make_plan(read_sweep(file(RUNGS))), dict[str, dict[str, Any]]()
    while left := plan.left(results):
        for run in left:
            status = "diverged" if run.values["trial"] == 0 else "reached" if run.until else "done"
            best = {"step": 2, "loss": 1.0 + run.values["trial"]}
            results[run.key] = {"status": status, "best": best, "results": {}, "parameters": 9}
        plan = plan.grown(results)
    assert [trial.pruned for trial in plan.search.trials] == [2, 0, 4, 0, 4, 2]


def test_equal_trials_are_one_run(file: Any, tmp_path: Path) -> None:
    path = file(RUNGS)
    text = path.read_text()
    path.write_text(text[: text.index("[search.space]")] + "[search.space]\nmodel = {choices = ['rnn', 'exprnn']}\n")
    found = rows(run(path, tmp_path / "out"))
    assert len(found) == len({row["run"] for row in found}) <= 2


def test_results_that_are_gone_or_spoilt(file: Any, tmp_path: Path) -> None:
    path, out = file(RUNGS), tmp_path / "out"
    expected = run(path, out)
    found = rows(expected)
    for row, name in zip(found, ["result.json", "rung-2.json", "run.json"] * 2, strict=True):
        spoilt = out / row["run"] / name
        spoilt.write_bytes(spoilt.read_bytes()[:20] if spoilt.exists() else b"{")
    shutil.rmtree(out / found[0]["run"])
    assert run(path, out) == expected


def test_runs_of_other_sweeps_change_nothing(file: Any, tmp_path: Path) -> None:
    """A trial that was pruned stays so, though its run was trained to the end by somebody else."""
    path, out = file(RUNGS), tmp_path / "out"
    plan = make_plan(read_sweep(path))
    expected = run(path, tmp_path / "alone")
    for each in grown(plan, tmp_path / "alone").ends:
        work(job_of([each], out))
    assert run(path, out) == expected


def test_optuna_can_read_the_journal(file: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = rows(run(file(RUNGS), out))
    backend = optuna.storages.journal.JournalFileBackend(str(out / "optuna.log"))
    study = optuna.load_study(study_name="search", storage=optuna.storages.JournalStorage(backend))
    assert [trial.params["lr"] for trial in study.trials] == [float(row["lr"]) for row in found]
    states = [trial.state.name.lower().replace("complete", "done") for trial in study.trials]
    assert states == [row["status"] for row in found]
    assert study.best_value == min(float(row["valid_loss"]) for row in found if row["status"] == "done")


def test_conditions_and_skipped_trials(file: Any, tmp_path: Path) -> None:
    path = file()
    path.write_text(path.read_text() + "[[when]]\nif = 'model=rnn'\nskip = true\n")
    found = rows(run(path, tmp_path / "out"))
    assert 0 < len(found) < 6
    assert {row["model"] for row in found} == {"exprnn"}


def test_what_is_asked_is_in_the_table_before_it_is_trained(file: Any, tmp_path: Path) -> None:
    plan = make_plan(read_sweep(file(RUNGS)))
    found = rows(table(plan, tmp_path / "out"))
    assert [(row["trial"], row["status"]) for row in found] == [("0", "missing"), ("1", "missing"), ("2", "missing")]


def test_the_file_of_the_documentation(tmp_path: Path) -> None:
    text = Path(__file__).parents[2].joinpath("docs", "sweeps.md").read_text(encoding="utf-8")
    (content,) = (block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[search]" in block)
    path = tmp_path / "search.toml"
    path.write_text(content)
    plan = make_plan(read_sweep(path))
    assert len(plan.ends) == 4 * 2
    assert {run.until for run in plan.runs} == {100}


# As typed.


@pytest.mark.slow
def test_the_command(file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(file(RUNGS)), "--out", str(tmp_path / "out")]
    assert main(["sweep", *words, "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert "a search: at most 6 runs, 3 trials at a time, compared at the steps 2, 4" in said.err
    assert said.err.count("] at step 2: trial ") == 6
    assert "best: trial " in said.out
    assert "[" not in said.out
    assert main(["sweep", "status", *words]) == 0
    assert "6 runs: 2 done, 4 pruned" in capsys.readouterr().out
    assert main(["sweep", "table", *words, "--json"]) == 0
    assert sum(row.get("pruned", 0) for row in json.loads(capsys.readouterr().out)) == 4
    assert main(["sweep", "export", *words]) == 0
    assert capsys.readouterr().out == run(tmp_path / "search.toml", tmp_path / "here")


def test_not_installed(file: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # an import raises
    assert main(["sweep", str(file())]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert said.err.endswith("method = \"optuna\" needs the package optuna: pip install 'engram[search]'\n")


WRONG: dict[str, tuple[Sequence[str], str]] = {
    "method": (("'optuna'", "'optuno'"), "line 16: unknown method 'optuno'.* Did you mean 'optuna'"),
    "unknown name": (("seed = 5", "sed = 5"), r"line 19: unknown name 'sed' in \[search\].* Did you mean 'seed'"),
    "trials": (("trials = 6", "trials = 0"), "line 17: trials must be at least 1, got 0"),
    "too many": (("trials = 6", "trials = 10_000_000"), "line 17: trials must be at most 100,000"),
    "parallel": (("parallel = 3", "parallel = 'all'"), "line 18: parallel must be a whole number"),
    "low and high": (
        ("low = 3, high = 5", "low = 5, high = 3"),
        "line 23: hidden: low must be below high, got 5",
    ),
    "log of 0": (("low = 1e-4", "low = 0"), "line 22: lr: log needs a low above 0"),
    "neither": (("low = 3, high = 5", "low = 3, choices = [1]"), r"line 23: hidden is \{low = ..., high = ...\} or"),
    "no choices": (("['exprnn', 'rnn']", "[]"), "line 24: model: choices must be a list of values"),
    "unknown setting": (
        ("hidden = {", "hiden = {"),
        "unknown setting 'hiden' of exprnn on copy.* mean 'hidden'",
    ),
    "a bad value": (("low = 3, high = 5", "low = 0, high = 5"), "hidden must be at least 1, got 0"),
    "metric": (
        ("seed = 5", "metric = 'valid_los'"),
        "unknown metric 'valid_los' of the search.* mean 'valid_loss'",
    ),
    "direction": (("seed = 5", "direction = 'up'"), "line 19: unknown direction 'up'"),
    "rungs": (("seed = 5", "rungs = [4, 2]"), "line 19: rungs must be a list of steps, each larger"),
    "no validation there": (
        ("seed = 5", "rungs = [3]"),
        r"a rung must be a multiple of validate_every \(2\) below",
    ),
    "rungs at the end": (("seed = 5", "rungs = [6]"), r"below steps \(6\), got 6"),
    "rungs of a test": (("seed = 5", "rungs = [2]\nmetric = 'test_loss'"), "rungs are for a metric of validation"),
    "keep": (("seed = 5", "keep = 1.5"), "line 19: keep must lie between 0 and 1"),
    "a grid too": (("[search]", "[grid]\nlr = [1]\n[search]"), r"\[search\] takes the place of \[grid\]"),
    "a seed": (("hidden = {low", "seed = {low"), "line 23: seeds are not searched"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str, file: Any) -> None:
    (old, new), words = WRONG[case]
    path = file()
    text = path.read_text().replace('"', "'")
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(OptionError, match=words):
        make_plan(read_sweep(path))

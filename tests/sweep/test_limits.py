"""Sweep files, plans, estimates, engines and tables at their limits."""

import csv
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engram.errors import BusyError, EngramError, OptionError, RunError
from engram.models import Model
from engram.runs import Where
from engram.sweep import FORMATS, Here, Plan, Sweep, SweepFile, estimate, identity, make_plan, over_seeds, read_sweep
from engram.sweep import _budget as budgets
from engram.sweep import _estimate as estimating
from engram.sweep import _job as jobs
from engram.sweep import _local as local
from engram.sweep import _ray as cluster
from engram.sweep import _sweep as controller
from engram.sweep import _together as together
from engram.sweep._file import Ladder
from engram.sweep._lease import Lease, Watch, is_dead, this_process
from engram.sweep._plan import plan_of_seeds
from engram.sweep._search_file import Range, Search
from engram.sweep._together import in_parts, kind_of
from engram.tasks import Copy
from engram.train import Settings

BASE = "[base]\ntask = 'copy'\nmodel = 'rnn'\nhidden = 4\nsteps = 4\nbatch = 4\nthreads = 1\n"
SEARCH = "[search]\nmethod = 'optuna'\n{}\n[search.space]\n{}\n"
SPACE = "lr = {low = 1e-3, high = 1e-1}"


def search(lines: str = "", space: str = SPACE) -> str:
    return BASE + SEARCH.format(lines, space)


# What a file may say

TAKEN: list[tuple[str, Callable[[SweepFile], Any], Any]] = [
    ("\ufeffseeds = 3\n" + BASE, lambda file: file.seeds, (0, 1, 2)),  # as editors of Windows write it
    (BASE, lambda file: (file.name, file.seeds, file.retries, file.together), ("sweep", (0,), 2, True)),
    ("seeds = [7, 0]\n" + BASE, lambda file: file.seeds, (7, 0)),
    ("seeds = 1\n" + BASE, lambda file: file.seeds, (0,)),
    ("seeds = 1000000\n" + BASE, lambda file: len(file.seeds), 10**6),
    ("retries = 0\n" + BASE, lambda file: file.retries, 0),
    ("retries = 1000\n" + BASE, lambda file: file.retries, 1000),
    (f"name = '{'x' * 200}'\n" + BASE, lambda file: len(file.name), 200),
    ("together = false\n" + BASE, lambda file: file.together, False),
    (BASE + "[grid]\nlr-orthogonal = ['None', 1.0]", lambda file: file.grid, {"lr_orthogonal": [None, 1.0]}),
    (BASE + "[ladder]\nvalues = [3]\nsolved = 'loss<1'\nover = 'valid-samples'", lambda file: file.ladder,
     Ladder("valid_samples", (3,), Where("loss<1"))),
    (BASE + "[[when]]\nif = 'clip=1'\nset = {rho = 3}\n[[when]]\nif = 'rho=3'\nset = {lr = 0.5}",
     lambda file: [row.get("lr") for row, _, _ in file.rows()], [0.5]),
    (BASE + "[[when]]\nif = 'task=copy'\nset = {clip-norm = 3}", lambda file: file.when[0].values, {"clip_norm": 3}),
    (search(), lambda file: file.search, Search({"lr": Range(1e-3, 1e-1)})),
    (search(), lambda file: vars(file.search) | {"space": 0}, {
        "space": 0, "trials": 20, "parallel": 4, "sampler": "tpe", "seed": 0, "metric": "valid_loss", "direction": "",
        "rungs": (), "pruner": "halving", "keep": 0.5}),
    (search("trials = 100000"), lambda file: file.search.trials, 100_000),  # type: ignore[union-attr]
    (search("parallel = 1"), lambda file: file.search.parallel, 1),  # type: ignore[union-attr]
    (search("seed = 4294967295"), lambda file: file.search.seed, 2**32 - 1),  # type: ignore[union-attr]
    (search("rungs = [1, 2, 5]"), lambda file: file.search.rungs, (1, 2, 5)),  # type: ignore[union-attr]
    (search("keep = 0.999"), lambda file: file.search.keep, 0.999),  # type: ignore[union-attr]
    (search("sampler = 'random'\npruner = 'median'\ndirection = 'maximize'"),
     lambda file: (file.search.sampler, file.search.pruner, file.search.direction),  # type: ignore[union-attr]
     ("random", "median", "maximize")),
    (search("", "lr-orthogonal = {low = 2, high = 8, step = 3}"), lambda file: file.search.space,  # type: ignore[union-attr]
     {"lr_orthogonal": Range(2, 8, step=3)}),
    (search("", "tensorboard = {choices = [true, false]}"), lambda file: file.search.space["tensorboard"].choices,  # type: ignore[union-attr]
     (True, False)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "expected"), TAKEN)
def test_what_a_file_says(write: Any, text: str, what: Callable[[SweepFile], Any], expected: Any) -> None:
    assert what(read_sweep(write(text))) == expected


REFUSED: list[tuple[str, str]] = [
    ("seeds = 1000001\n", "line 1: seeds must be at most 1,000,000, got 1000001"),
    ("seeds = []\n", "line 1: seeds must be"),
    ("seeds = true\n", "line 1: seeds must be a whole number"),
    ("seeds = [0, 1.5]\n", "line 1: a seed must be a whole number"),
    ("retries = 1001\n", "line 1: retries must be at most 1,000, got 1001"),
    (f"name = '{'x' * 201}'\n", "line 1: name must be that of a folder"),
    ("name = ''\n", "line 1: name must be that of a folder"),
    ("name = 'a/b'\n", "line 1: name must be that of a folder"),
    ("together = 'no'\n", "line 1: together must be"),
    ("list = []\n", "line 1: list is written as tables"),
    ("when = 3\n", "line 1: when is written as tables"),
    ("search = 3\n", "line 1: search must be a table"),
    ("ladder = 3\n", r"line 1: \[ladder\] has over"),
    ("[base]\nseeds = 3\n", "line 2: seeds stand at the top"),
    ("[grid]\nseed = [1]\n", "line 2: seeds stand at the top"),
    ("[[list]]\nlr = 1\n[[list]]\nseed = 1\n", "line 4: seeds stand at the top"),
    ("[ladder]\nover = 'delay'\nvalues = []\nsolved = 'loss<1'", r"line 2: \[ladder\] goes over"),
    ("[ladder]\nover = 3\nvalues = [1]\nsolved = 'loss<1'", r"line 2: \[ladder\] goes over"),
    ("[ladder]\nover = 'delay'\nvalues = [1]\nsolved = 'loss<'", "line 4: the condition 'loss<'"),
    ("[ladder]\nover = 'delay'\nvalues = [1]\nsolved = 'loss<1'\nmore = 1", r"line 1: \[ladder\] has over"),
    ("[[list]]\nlr = 1\n[[list]]\ndelay = 1\n[ladder]\nover = 'delay'\nvalues = [1]\nsolved = 'loss<1'",
     "line 6: the ladder goes over delay, which is in"),
    ("[[when]]\nif = 'task=copy'\nskip = 1", "line 3: skip must be true"),
    ("[[when]]\nset = {lr = 1}", r"\[\[when\]\] has if ="),
    (search().replace("method = 'optuna'", ""), "unknown method None: expected one of optuna"),
    (search().replace("[search.space]\n" + SPACE, ""), r"a search needs \[search.space\]"),
    (search("", ""), r"a search needs \[search.space\]"),
    (search("trials = 100001"), "trials must be at most 100,000"),
    (search("parallel = 0"), "parallel must be at least 1, got 0"),
    (search("parallel = 100001"), "parallel must be at most 100,000"),
    (search("seed = -1"), "seed must be at least 0"),
    (search("seed = 4294967296"), "seed must be at most 4,294,967,295"),
    (search("sampler = 'tp'"), "unknown sampler 'tp'.*Did you mean 'tpe'"),
    (search("pruner = 'medium'"), "unknown pruner 'medium'.*Did you mean 'median'"),
    (search("metric = 'loss'"), "metric must be a split and a score"),
    (search("metric = 3"), "metric must be a split and a score"),
    (search("keep = 0.0"), "keep must lie between 0 and 1"),
    (search("keep = 1.0"), "keep must lie between 0 and 1"),
    (search("rungs = [2, 2]"), "rungs must be a list of steps, each larger than the one before; got .2, 2."),
    (search("rungs = [3, 2]"), "rungs must be a list of steps"),
    (search("rungs = [0, 2]"), "a rung must be at least 1, got 0"),
    (search("rungs = 3"), "rungs must be a list of steps"),
    (search("", "seeds = {low = 1, high = 2}"), "seeds are not searched"),
    (search("", "lr = 3"), r"lr is \{low = ..., high = ...\} or"),
    (search("", "lr = {}"), r"lr is \{low = ..., high = ...\} or"),
    (search("", "lr = {low = 1, hihg = 2}"), "unknown name 'hihg' in the range of lr.*Did you mean 'high'"),
    (search("", "lr = {low = 1, high = 1}"), "lr: low must be below high, got 1 and 1"),
    (search("", "lr = {low = 1, high = 2, step = 0}"), "lr: step must be positive, got 0"),
    (search("", "lr = {low = 0, high = 2, log = true}"), "lr: log needs a low above 0, and no step"),
    (search("", "lr = {low = 1, high = 2, step = 1, log = true}"), "lr: log needs a low above 0, and no step"),
    (search("", "lr = {choices = [[1]]}"), "lr: a choice must be a text, a number, true or false"),
    (search() + "[ladder]\nover = 'delay'\nvalues = [1]\nsolved = 'loss<1'", r"\[search\] takes the place of"),
    (search() + "[[list]]\ndelay = 3", r"\[search\] takes the place of"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_what_a_file_may_not_say(write: Any, text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_sweep(write(text))


def test_a_million_runs_and_no_more() -> None:
    grid: dict[str, list[Any]] = {"lr": [1.0] * 1000}
    assert len(SweepFile(grid=grid, seeds=tuple(range(1000))).seeds) == 1000
    with pytest.raises(OptionError, match="has 1,001,000 runs"):
        SweepFile(grid=grid, seeds=tuple(range(1001)))


def test_the_columns_are_in_the_order_of_the_file(write: Any) -> None:
    """List, grid, ladder, what conditions set; each once, the seed last; the hidden size of a budget first."""
    text = (
        "[base]\ntask = 'copy'\nmodel = 'rnn'\n[[list]]\nclip = 1.0\nlr = 1.0\n[[list]]\nlayers = 2\n"
        "[grid]\nbatch = [4]\nsteps = [3]\n[ladder]\nover = 'delay'\nvalues = [3]\nsolved = 'loss<1'\n"
        "[[when]]\nif = 'clip=1'\nset = {warmup = 3, lr = 0.5}"
    )
    file = read_sweep(write(text))
    assert file.varied == ("clip", "lr", "layers", "batch", "steps", "delay", "warmup", "seed")
    assert make_plan(file).varied == file.varied
    (run,) = make_plan(read_sweep(write("[base]\ntask = 'copy'\nmodel = 'rnn'\nparameters = 300"))).runs
    assert [*run.values] == ["hidden", "seed"]
    assert read_sweep(write(search())).varied == ("trial", "lr", "seed")


def test_a_row_is_the_base_the_list_and_the_grid_in_that_order(write: Any) -> None:
    """Each overrides what is before; seeds are as given; the first run that is wrong is told by its number."""
    text = "seeds = [5, 2]\n[base]\ntask = 'copy'\nlr = 1.0\nclip = 2.0\n[[list]]\nlr = 3.0\n[grid]\nclip = [4.0]"
    rows = [row for row, _, _ in read_sweep(write(text)).rows()]
    assert [(row["lr"], row["clip"], row["seed"]) for row in rows] == [(3.0, 4.0, 5), (3.0, 4.0, 2)]
    with pytest.raises(OptionError, match=r"run 3 \(lr=-1, seed=0\)"):
        make_plan(read_sweep(write("[base]\ntask = 'copy'\n[grid]\nlr = [1, 2, -1, -2]")))


# Plans

USUAL = Settings.of(Copy(5), "rnn", hidden=4, batch=4, steps=4, threads=1)


@pytest.mark.parametrize("name", ["save_every", "log_every", "probe_every", "tensorboard"])
def test_what_changes_no_score_is_not_in_the_name(name: str) -> None:
    value: Any = True if name == "tensorboard" else 3
    assert identity(USUAL.replace(**{name: value})) == identity(USUAL)
    assert kind_of(USUAL.replace(**{name: value})) == kind_of(USUAL) != ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("threads", 2), ("device", "cpu:0"), ("precision", "64-true"), ("test_samples", 9), ("stop_at", 0.5), ("seed", 1)],
)
def test_what_may_change_a_score_is(name: str, value: Any) -> None:
    assert identity(USUAL.replace(**{name: value})) != identity(USUAL)


def test_a_folder_has_the_name_of_its_run() -> None:
    plan = plan_of_seeds(USUAL.replace(threads=0), [3, 4], "x")
    assert [run.folder for run in plan.runs] == [f"copy-rnn-{run.identity[:16]}" for run in plan.runs]
    assert [run.settings.machine.threads for run in plan.runs] == [1, 1]
    assert [run.values for run in plan.runs] == [{"seed": 3}, {"seed": 4}]
    assert plan.runs[0].kind == plan.runs[1].kind != ""
    assert (plan.varied, plan.count, plan.name) == (("seed",), 2, "x")


def test_two_places_of_a_ladder_that_are_one_run(write: Any) -> None:
    ladder = "[ladder]\nover = 'delay'\nvalues = [3, 4]\nsolved = 'loss<1'\n"
    plan = make_plan(read_sweep(write(BASE + ladder)))
    assert [run.kind for run in plan.runs] == ["", ""]  # one waits for the other
    assert len(plan.runs) == 2
    with pytest.raises(OptionError, match="two places of a ladder are the same run"):
        make_plan(read_sweep(write(BASE + ladder + "[[when]]\nif = 'delay=4'\nset = {delay = 3}")))


@pytest.mark.parametrize("hidden", [64, 128, 512])
def test_as_small_as_gains(hidden: int) -> None:
    """B H^2 up to 2^18, at 2^18 too."""
    assert kind_of(USUAL.replace(hidden=hidden, batch=2**18 // hidden**2)) != ""
    assert kind_of(USUAL.replace(hidden=hidden, batch=2**18 // hidden**2 + 1)) == ""


@pytest.mark.parametrize("name", ["lr", "lr_orthogonal", "weight_decay", "clip"])
def test_rates_make_no_other_kind(name: str) -> None:
    assert kind_of(USUAL.replace(**{name: 0.125})) == kind_of(USUAL)
    for other in ({"eps": 1e-3}, {"warmup": 2}, {"seed": 1, "validate_every": 7}, {"patience": 2}):
        assert kind_of(USUAL.replace(**other)) != kind_of(USUAL)


def test_runs_whose_bits_depend_on_others_train_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    together._fits.cache_clear()
    monkeypatch.setattr(together, "keeps_bits", lambda network, batch: False)
    try:
        assert kind_of(USUAL) == ""
    finally:
        together._fits.cache_clear()


def test_parts_are_as_few_as_their_workers() -> None:
    for count in range(1, 40):
        for workers in range(1, 10):
            parts = [range(count)[part] for part in in_parts(count, workers)]
            assert [k for part in parts for k in part] == [*range(count)]
            assert max(map(len, parts)) <= min(8, -(-count // workers))
            assert len(parts) <= max(workers, -(-count // 8))


def test_a_budget_and_its_width(write: Any) -> None:
    """Of another task, or another model, the same budget is another width: in one process, one after the other."""
    lines = {
        "[base]\ntask = 'copy'\nmodel = 'rnn'\nparameters = {}": lambda n: n * (10 + n + 1) + 9 * (n + 1),
        "[base]\ntask = 'adding'\nmodel = 'rnn'\nparameters = {}": lambda n: n * (2 + n + 1) + n + 1,
        "[base]\ntask = 'copy'\nmodel = 'rnn'\nlayers = 2\nparameters = {}": (
            lambda n: n * (10 + n + 1) + n * (2 * n + 1) + 9 * (n + 1)
        ),
    }
    for budget in (500, 3001):
        for text, count in lines.items():
            (run,) = make_plan(read_sweep(write(text.format(budget)))).runs
            assert count(run.settings.model.hidden) <= budget < count(run.settings.model.hidden + 1)


def test_budgets_that_are_refused(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()

    def none(task: Any, model: Model) -> Any:
        made.append(model.hidden)
        raise OptionError("reflections must be at most hidden")

    with pytest.raises(OptionError, match="parameters decides the width, so that hidden cannot be given too"):
        make_plan(read_sweep(write("[base]\ntask = 'adding'\nmodel = 'rnn'\nparameters = 100\nhidden = 3")))
    try:
        monkeypatch.setattr(budgets, "make_network", none)
        budgets.parameters_of.cache_clear()
        with pytest.raises(OptionError, match="reflections must be at most hidden"):
            make_plan(read_sweep(write("[base]\ntask = 'adding'\nmodel = 'rnn'\nparameters = 100")))
        assert max(made) == 2**11
        module = torch.nn.Linear(1, 1)
        monkeypatch.setattr(budgets, "make_network", lambda task, model: module)
        budgets.parameters_of.cache_clear()
        with pytest.raises(OptionError, match="parameters = 100 allows a width above 65,536: give hidden instead"):
            make_plan(read_sweep(write("[base]\ntask = 'adding'\nmodel = 'rnn'\nparameters = 100")))
    finally:
        budgets.parameters_of.cache_clear()


# Estimates


def test_one_of_each_shape_is_measured(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least, the largest, the one in the middle, ...; not those of other seeds; and nothing of it is printed."""
    plan = small(rest="hidden = [2, 3, 4, 5, 6]\n[[when]]\nif = 'model=rnn'\nskip = true").runs
    measured: list[int] = []

    def look(settings: Settings, measured_steps: int = 0, **_: Any) -> dict[str, float]:
        sys.stdout.write("somebody's model says something")
        measured.append(settings.model.hidden)
        return {"seconds_a_step": 1.0}

    monkeypatch.setattr(estimating, "plan", look)
    whole = Plan("x", plan, ("seed",))
    with pytest.MonkeyPatch.context() as patch:
        said = io.StringIO()
        patch.setattr(sys, "stdout", said)
        estimate(whole, {})
        assert said.getvalue() == ""
    assert measured == [2, 6, 4, 3, 5]  # 000, 100, 010, 001, 011: their bits the other way round
    measured.clear()
    assert estimate(whole, {}, seconds=-1.0).total > 0  # one at least
    assert measured == [2]
    measured.clear()
    assert estimate(whole, {run.key: {} for run in plan} | {"of another sweep": {}}).done == len(plan) == 10
    assert measured == []


@pytest.mark.parametrize(
    "other", [{"batch": 5}, {"hidden": 5}, {"task": Copy(6)}, {"model": "lstm"}, {"precision": "64-true"}]
)
def test_another_shape_takes_another_time(other: dict[str, Any]) -> None:
    def shape(settings: Settings) -> str:
        return estimating._shape(SimpleNamespace(settings=settings))  # type: ignore[arg-type]

    assert shape(USUAL.replace(**other)) != shape(USUAL)
    assert shape(USUAL.replace(seed=3, lr=0.5, clip=0.1, steps=99)) == shape(USUAL)


def test_work_by_hand() -> None:
    """25 steps in time, two layers, 4 rows, 8 x 58 numbers, and a fixed cost of 10^5 each."""
    assert estimating._work(USUAL.replace(hidden=8, layers=2)) == 25 * 2 * (4 * 8 * 58 + 1e5)


# Jobs and leases


def test_a_job_is_plain_and_absolute(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    job = jobs.job_of(small().runs[:2], Path("out"), ["mine.py", "package"])
    assert {*json.loads(json.dumps(job))} == {*job}
    assert [Path(run["folder"]).parent for run in job["runs"]] == [tmp_path / "out"] * 2
    assert job["allow"] == [str(tmp_path / "mine.py"), "package"]
    assert job["together"] is True
    assert jobs.job_of(small(base="processes = 2").runs[:1], Path("out"))["together"] is False


def test_leases_are_given_back(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the job, whether it went well or not; and those that were taken before one that is held."""
    plan = small(rest="[[when]]\nif = 'model=rnn'\nskip = true")

    def fails(*_: Any) -> None:
        assert len(list(tmp_path.glob("*/lease.*"))) == 2
        raise RunError("no")

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "_finish", fails)
        with pytest.raises(RunError):
            jobs.work(jobs.job_of(plan.runs, tmp_path))
    assert list(tmp_path.glob("*/lease.*")) == []
    (tmp_path / plan.runs[1].folder / "lease.4").write_text("{}")
    with pytest.raises(jobs.Held):
        jobs.work(jobs.job_of(plan.runs, tmp_path))
    assert [path.name for path in tmp_path.glob("*/lease.*")] == ["lease.4"]


def test_what_is_busy_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is damaged is started again, once; one that somebody trains is left alone."""
    run = jobs._Run(tmp_path, "x", {})
    (tmp_path / "run.json").write_text("{")
    asked: list[int] = []

    def busy(*_: Any) -> None:
        asked.append(1)
        raise BusyError("in use")

    def damaged(*_: Any) -> None:
        asked.append(2)
        raise RunError("damaged")

    monkeypatch.setattr(jobs, "_train_each", busy)
    with pytest.raises(BusyError):
        jobs._finish([run], False, (), None)
    assert (asked, (tmp_path / "run.json").exists()) == ([1], True)
    monkeypatch.setattr(jobs, "_train_each", damaged)
    with pytest.raises(RunError):
        jobs._finish([run], False, (), None)
    assert (asked, (tmp_path / "run.json").exists()) == ([1, 2, 2], False)


def test_an_error_in_code_of_somebody_is_shown_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of ours is a sentence already."""
    for error, shown in ((KeyError("theirs"), True), (RunError("ours"), False), (OSError("disk"), False)):

        def fails(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(jobs, "work", fails)
        jobs.answer({})
        assert ("Traceback" in capsys.readouterr().err) is shown


def test_runs_of_a_job_are_told_apart(small: Any, tmp_path: Path) -> None:
    """By their places, and each step is told with its loss."""
    plan, told = small(base="log_every = 1\nprobe_every = 3", rest="[[when]]\nif = 'model=rnn'\nskip = true"), []
    job = jobs.job_of(plan.runs, tmp_path) | {"together": False}
    jobs.work(job, (), lambda *said: told.append(said))
    assert [(run, step) for run, step, _ in told] == [(run, step) for run in (0, 1) for step in range(1, 7)]
    for place, run in enumerate(plan.runs):
        text = (tmp_path / run.folder / "metrics.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [loss for k, _, loss in told if k == place] == [
            line["loss"] for line in lines if line["split"] == "train"
        ]
        assert [line["step"] for line in lines if line["split"] == "probe"] == [3, 6]


def test_members_of_a_job_are_measured(small: Any, tmp_path: Path) -> None:
    plan = small(base="probe_every = 3", rest="[[when]]\nif = 'model=rnn'\nskip = true")
    assert len(jobs.work(jobs.job_of(plan.runs, tmp_path))) == 2
    for run in plan.runs:
        assert (tmp_path / run.folder / "metrics.jsonl").read_text().count('"split": "probe"') == 2


def test_a_run_of_other_settings_is_started_again(small: Any, tmp_path: Path) -> None:
    plan = small(rest="[[when]]\nif = 'model=rnn or seed=1'\nskip = true")
    other = small(base="lr = 0.5", rest="[[when]]\nif = 'model=rnn or seed=1'\nskip = true")
    job, wrong = (jobs.job_of(each.runs, tmp_path) | {"together": False} for each in (plan, other))
    wrong["runs"][0]["folder"] = job["runs"][0]["folder"]
    jobs.work(wrong)
    (tmp_path / plan.runs[0].folder / "result.json").unlink()
    (result,) = jobs.work(job)
    facts = json.loads((tmp_path / plan.runs[0].folder / "run.json").read_text())
    assert facts["settings"]["optimiser"]["lr"] == plan.runs[0].settings.optimiser.lr
    assert result["identity"] == plan.runs[0].identity


def test_a_reason_is_one_sentence() -> None:
    """The advice after it names a rate and a step that another machine would not."""
    facts = {"diverged": True, "reason": "the loss is nan at step 5. The state of step 3 is kept; ...", "parameters": 7}
    found = jobs._outcome(SimpleNamespace(status="failed", facts=facts))  # type: ignore[arg-type]
    assert found == {"status": "diverged", "results": {}, "reason": "the loss is nan at step 5", "parameters": 7}
    with pytest.raises(EngramError, match="a full disk"):
        jobs._outcome(SimpleNamespace(status="failed", facts={"reason": "a full disk", "parameters": 7}))  # type: ignore[arg-type]


def test_a_lease_gives_back_its_own_and_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "_beat", lambda lease: None)
    (tmp_path / "lease.1").write_text("{}")
    lease = Lease.take(tmp_path, stale=1)
    assert lease is not None
    (tmp_path / "lease.3").write_text("{}")  # of one that took over
    lease.release()
    assert [path.name for path in tmp_path.iterdir()] == ["lease.3"]
    assert lease.beat()  # one that was given back is not lost
    assert [path.name for path in tmp_path.iterdir()] == ["lease.3"]


def test_a_full_disk_ends_no_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "_beat", lambda lease: None)
    lease = Lease.take(tmp_path)
    assert lease is not None

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("engram.sweep._lease.write_whole", full)
        assert lease.beat()
    assert lease.beat()
    lease.release()


def test_who_watches_waits_anew_for_every_lease(tmp_path: Path) -> None:
    """Exactly as long as it says; what was seen of one that was given back does not count for the next."""
    now = [0.0]
    watch = Watch(seconds=30, clock=lambda: now[0])
    path = tmp_path / "lease.1"
    text = json.dumps({"machine": "another", "pid": 1, "started": "1"})
    path.write_text(text)
    assert watch.stale(tmp_path) is None
    now[0] = 30.0
    assert watch.stale(tmp_path) is None
    path.unlink()
    assert watch.stale(tmp_path) == 0
    path.write_text(text)
    now[0] = 60.0
    assert watch.stale(tmp_path) is None
    now[0] = 90.5
    assert watch.stale(tmp_path) == 1
    assert Watch(seconds=0.0, clock=lambda: 1.0).seconds == 0.0
    assert not is_dead(this_process() | {"pid": "1"})
    assert not is_dead(this_process() | {"started": ""})


# Engines and the controller


def test_nothing_is_left_of_an_engine_that_was_stopped(small: Any, tmp_path: Path) -> None:
    for end in ("stop", "close"):
        here = Here()
        here.submit(1, jobs.job_of(small().runs[:1], tmp_path), [0])
        getattr(here, end)()
        assert here.events(0.0) == []
        assert list(tmp_path.glob("*/run.json")) == []


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux tells which processors a process may use")
def test_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5, 7})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert local.cores() == 3


def test_a_log_grows(tmp_path: Path) -> None:
    for k in range(2):
        with local.open_log(tmp_path / "log") as file:
            file.write(b"%d\n" % k)
    assert (tmp_path / "log").read_bytes() == b"0\n1\n"
    (tmp_path / "link").symlink_to("log")
    with pytest.raises(EngramError, match="link could not be written: it is a symbolic link"):
        local.open_log(tmp_path / "link")


def test_a_worker_that_has_answered_gets_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is no answer; of one that dies without a job nothing is told."""
    made: list[Any] = []

    class Worker:
        def __init__(self, heard: Any, threads: int, log: Any) -> None:
            self.heard, self.number, self.signals = heard, None, list[Any]()
            self.process = SimpleNamespace(send_signal=self.signals.append, kill=lambda: self.signals.append("kill"))
            self.hearing = SimpleNamespace(join=lambda: self.signals.append("join"))
            made.append(self)

        def send(self, number: int, job: Any, stale: Any) -> None:
            self.number = number  # type: ignore[assignment]

    monkeypatch.setattr(local, "_Worker", Worker)
    engine: Any = local.Local(2)
    engine.submit(1, {}, [])
    made[0].heard.put((made[0], {"number": 1, "step": 3}))
    assert engine.events(0.0) == [{"number": 1, "step": 3}]
    engine.submit(2, {}, [])
    assert len(made) == 2  # the first one is at work still
    made[0].heard.put((made[0], {"number": 1, "results": []}))
    assert engine.events(0.0) == [{"number": 1, "results": []}]
    engine.submit(3, {}, [])
    assert (len(made), made[0].number, made[1].number) == (2, 3, 2)
    made[0].number = None
    made[0].heard.put((made[0], {"ended": -9}))
    made[0].heard.put((made[1], {"ended": 1}))
    assert engine.events(0.0) == [{"number": 2, "lost": 1}]
    assert engine.workers == []
    engine.submit(4, {}, [])
    engine.stop()
    assert made[2].signals == [15]
    engine.close()
    assert (made[2].signals, engine.workers) == ([15, "kill", "join"], [])


class Scripted:
    """An engine that answers out of a list of lists of events."""

    slots = 1

    def __init__(self, *events: list[Any]) -> None:
        self.script, self.said = [*events], list[str]()

    def submit(self, number: int, job: Any, stale: Any) -> None:
        self.said.append(f"submit {number}")

    def events(self, seconds: float) -> list[Any]:
        if not self.script:
            raise KeyboardInterrupt
        return self.script.pop(0)

    def stop(self) -> None:
        self.said.append("stop")

    def close(self) -> None:
        self.said.append("close")


def test_ctrl_c_waits_for_what_is_being_saved(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has just ended counts; then the engine is closed; steps are told, those of unknown jobs are not."""
    plan = small(rest="[[when]]\nif = 'model=rnn or seed=1'\nskip = true")
    result = {"status": "done", "results": {}, "parameters": 1}
    engine, told = Scripted([{"number": 1, "step": 2, "run": 0}, {"number": 9, "step": 3}]), list[str]()
    sweep = Sweep(plan, tmp_path, engine, observe=lambda what, *_: told.append(what))
    stop = engine.stop

    def then(*_: Any) -> None:
        stop()
        engine.script = [[{"number": 1, "step": 3}], [], [{"number": 1, "results": [result]}]]

    monkeypatch.setattr(engine, "stop", then)
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    assert engine.said == ["submit 1", "stop", "close"]
    assert told == ["started", "step", "done"]
    assert sweep.results == {plan.runs[0].key: result}
    assert sweep.running == {}


def test_an_answer_with_too_few_results_is_a_failure(small: Any, tmp_path: Path) -> None:
    plan = small(base="processes = 1", rest="[[when]]\nif = 'model=rnn'\nskip = true")
    result = {"status": "done", "results": {}, "parameters": 1}
    engine = Scripted([{"number": 1, "results": [result]}])
    sweep, told = Sweep(plan, tmp_path, engine), list[str]()
    sweep.observe = lambda what, *_: told.append(what)
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    assert told == ["started", "again", "again", "started"]
    assert sweep.results == {}


def test_a_part_of_a_unit_that_is_done_is_not_all_of_it(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two runs that another process has, one has a result: the unit is waited for."""
    plan = small(rest="[[when]]\nif = 'model=rnn'\nskip = true")
    sweep = Sweep(plan, tmp_path, Scripted())
    sweep.elsewhere.append(plan.runs)
    monkeypatch.setattr(controller, "result_of", lambda folder, *_: {} if folder.name == "" else None)
    monkeypatch.setattr(sweep, "_stale", lambda unit: None)
    sweep._look_elsewhere()
    assert (len(sweep.elsewhere), len(sweep.waiting)) == (1, 0)
    sweep.looked = -controller.AGAIN
    first = plan.runs[0].folder
    monkeypatch.setattr(controller, "result_of", lambda folder, *_: {"a": 1} if folder.name == first else None)
    sweep._look_elsewhere()
    assert (len(sweep.elsewhere), sweep.results) == (1, {})
    sweep.looked = -controller.AGAIN
    sweep.waiting.append(plan.runs[:1])
    monkeypatch.setattr(sweep, "_stale", lambda unit: [0, 3])
    sweep._look_elsewhere()
    assert [*sweep.waiting] == [plan.runs, plan.runs[:1]]  # it was first


def test_leases_of_a_unit(small: Any, tmp_path: Path) -> None:
    plan = small()
    sweep = Sweep(plan, tmp_path, Scripted())
    found: dict[str, int | None] = {run.folder: k for k, run in enumerate(plan.runs)}
    sweep.watch = SimpleNamespace(stale=lambda folder: found[folder.name])  # type: ignore[assignment]
    assert sweep._stale(plan.runs) == [0, 1, 2, 3]
    found[plan.runs[2].folder] = None
    assert sweep._stale(plan.runs) is None


# Ray


class Cluster:
    """Answers as ray does, of one node; and what it was asked."""

    def __init__(self, cpus: float = 4.0, is_open: bool = False) -> None:
        self.cpus, self.is_open, self.asked = cpus, is_open, list[Any]()
        self.exceptions = SimpleNamespace()

    def is_initialized(self) -> bool:
        return self.is_open

    def init(self, **given: Any) -> None:
        self.asked.append(("init", given["address"]))

    def shutdown(self) -> None:
        self.asked.append("shutdown")

    def nodes(self) -> list[Any]:
        return [{"Alive": True, "Resources": {"CPU": self.cpus}}]

    def remote(self, function: Any) -> Any:
        assert function is cluster._train
        return self

    def options(self, **given: Any) -> Any:
        self.asked.append(given)
        return SimpleNamespace(remote=lambda job, stale: f"task {job['name']} {stale}")

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> Any:
        return references[:num_returns], references[num_returns:]

    def get(self, reference: Any) -> Any:
        return {"results": [reference]}


def test_what_ray_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As many processors as a run has threads, and no second attempt of its own; standard output is given back."""
    ray = Cluster()
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    before = sys.stdout
    monkeypatch.setattr(sys, "stdout", before)  # it is put back whatever fails
    engine = cluster.Ray("auto", threads=2, log=tmp_path / "log")
    assert (engine.slots, engine.own, sys.stdout is before) == (2, True, False)
    engine.submit(7, {"name": "a", "runs": []}, [0])
    assert ray.asked == [("init", "auto"), {"num_cpus": 2, "max_retries": 0, "name": "engram run"}]
    assert engine.events(0.0) == [{"number": 7, "results": ["task a [0]"]}]
    printed = threading.Thread(target=lambda: sys.stdout.write("of ray\n"), name="ray_print_logs")
    printed.start()
    printed.join()
    engine.close()
    assert sys.stdout is before
    assert (tmp_path / "log").read_text() == "of ray\n"
    assert ray.asked[-1] == "shutdown"


def test_a_cluster_without_room_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_open in (False, True):
        ray = Cluster(cpus=1.0, is_open=is_open)
        monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
        before = sys.stdout
        with pytest.raises(OptionError, match="has no node with 2 processors, as a run needs"):
            cluster.Ray("auto", threads=2)
        assert sys.stdout is before
        assert ("shutdown" in ray.asked) is not is_open


def test_a_task_of_ray_that_is_interrupted_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "answer", interrupted)
    assert cluster._train({}, []) == {"held": True}


def test_progress_of_jobs_on_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Now and then, of those that go on, by what they have written."""
    engine: Any = object.__new__(cluster.Ray)
    now, slept = [100.0], list[float]()
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=slept.append)
    monkeypatch.setattr(cluster, "time", clock)
    engine.ray, engine.most, engine.threads, engine.jobs, engine.looked = Cluster(), 0, 1, {}, 99.0
    assert engine.events(0.25) == []
    assert slept == [0.25]
    engine.ray.wait = lambda references, **_: ([], references)
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "loss": 0.5}\n')
    engine.jobs = {"a": (7, {"runs": [{"folder": str(tmp_path / "none")}, {"folder": str(tmp_path)}]})}
    assert engine.events(0.25) == []
    now[0] = 101.0
    assert engine.events(0.25) == [{"number": 7, "run": 1, "step": 3, "loss": 0.5}]
    assert engine.looked == 101.0


def test_an_address_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked before ray, which would try for minutes; an error without words is told by its name."""
    ray = Cluster()
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]

    def refuses(address: Any, timeout: float) -> None:
        assert (address, timeout) == (("host", 6379), 10.0)
        raise ConnectionRefusedError

    monkeypatch.setattr(cluster.socket, "create_connection", refuses)  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=r"at address 'host:6379' \(ConnectionRefusedError\)\. ray start"):
        cluster._connected("host:6379")
    assert ray.asked == []
    assert cluster._connected("auto") == (ray, True)


# Tables


def test_what_is_not_known_yet_is_missing(write: Any) -> None:
    """On a ladder, a run whose turn has not come; one that will not come is not needed."""
    text = BASE + "[ladder]\nover = 'delay'\nvalues = [3, 4]\nsolved = 'loss<1'"
    plan = make_plan(read_sweep(write("seeds = 2\n" + text)))
    bad = {"status": "done", "results": {"test": {"loss": 2.0}}, "parameters": 1}
    from engram.sweep import rows_of

    rows = rows_of(plan, {plan.runs[0].key: bad})
    assert [row["status"] for row in rows] == ["done", "not needed", "missing", "missing"]
    assert [row["solved"] for row in rows] == [False, None, None, None]


def test_cells_of_every_kind() -> None:
    """None is empty, a flag and a list are as in JSON; csv has all digits, others four; each escapes in its way."""
    row = {"a": None, "b": True, "c": [1, 2.5], "d": 1 / 3, "e": 12345678.9, "f": 5, "g": "x,y"}
    assert [*csv.reader(io.StringIO(FORMATS["csv"]([row])))][1] == [
        "", "true", "[1, 2.5]", str(1 / 3), "12345678.9", "5", "x,y",
    ]  # fmt: skip
    assert "\r" not in FORMATS["csv"]([row])
    assert FORMATS["markdown"]([row]).splitlines()[2] == "|  | true | [1, 2.5] | 0.3333 | 1.235e+07 | 5 | x,y |"
    assert FORMATS["latex"]([{"#": "a & b_c"}]).splitlines() == [
        r"\begin{tabular}{l}", r"\# \\", r"\hline", r"a \& b\_c \\", r"\end{tabular}",
    ]  # fmt: skip
    assert FORMATS["csv"]([{"a": 1}, {"b": 2}]) == "a,b\n1,\n,2\n"
    assert json.loads(FORMATS["json"]([{"a": float("nan"), "b": None, "c": 0.1}])) == [{"a": None, "b": None, "c": 0.1}]


def test_settings_that_differ_late_are_different_rows(write: Any) -> None:
    """Means over seeds are of one setting, and only of runs that are done."""
    plan = make_plan(read_sweep(write("seeds = 2\n" + BASE + "[grid]\nclip = [1.0]\nlr = [1.0, 2.0]")))
    scores = {"valid": {"loss": 1.0}, "test": {"loss": 3.0}}
    results: dict[str, Any] = {run.key: {"status": "done", "results": scores, "parameters": 1} for run in plan.runs[:2]}
    results[plan.runs[2].key] = {"status": "diverged", "results": {}, "parameters": 1}
    first, second = over_seeds(plan, results)
    assert (first["lr"], first["runs"], first["done"], first["diverged"]) == (1.0, 2, 2, 0)
    assert (first["valid_loss"], first["test_loss"], first["test_loss_min"], first["test_loss_max"]) == (1.0, 3, 3, 3)
    assert (second["lr"], second["runs"], second["done"], second["diverged"]) == (2.0, 2, 0, 1)
    assert "test_loss" not in second

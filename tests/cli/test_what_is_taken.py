"""Parts of commands by themselves: which weights, which run, which rows, which threads."""

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from engram.cli import _min_width, _probe, _sweep_run, _verdict, main
from engram.cli._bench import Bench
from engram.cli._demo import Runner
from engram.cli._find_lr import _say, _table
from engram.cli._mistakes import _opposite
from engram.cli._model_options import _fits
from engram.cli._run_words import newest_run, runs_below
from engram.cli._settings_file import overridden
from engram.cli._sweep_status import status_of
from engram.cli._train_words import names_in, same
from engram.errors import OptionError
from engram.sweep import _local, make_plan, read_sweep
from engram.sweep._lease import Lease
from engram.tasks import TASKS, Copy
from engram.train import RateTest
from made_runs import make_run

# which weights


@pytest.mark.parametrize("last", [False, True])
def test_probe_of_a_run(last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the best validation, unless the last ones are asked for."""
    asked: dict[str, Any] = {}

    def measured(model: str, **given: Any) -> Any:
        asked.update(given)
        raise OptionError("enough")

    monkeypatch.setattr(_probe, "profile_run", measured)
    words = ["probe", str(make_run(tmp_path / "run")), "--length", "7", "--seed", "3", *["--last"] * last]
    assert main(words) == 2
    assert (asked["best"], asked["length"], asked["seed"]) == (not last, 7, 3)


def test_probe_of_a_factory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its weights are those of the seed, whatever was sampled before."""
    found: list[Any] = []

    def measured(module: nn.Module, **given: Any) -> Any:
        found.append((next(module.parameters()).detach().clone(), given))
        raise OptionError("enough")

    monkeypatch.setattr(_probe, "profile", measured)
    for seed in ("3", "3", "4"):
        torch.rand(7)
        words = ["--option", "input_size=2", "hidden_size=4", "--length", "9", "--input-size", "2", "--seed", seed]
        assert main(["probe", "torch.nn:GRU", *words]) == 2
    (a, given), (b, _), (c, _) = found
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert (given["length"], given["input_size"], given["batch_first"], given["seed"]) == (9, 2, None, 3)


@pytest.mark.parametrize("best", [True, False])
def test_the_verdict_is_on_the_weights_that_failed(best: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def loaded(folder: Path, **given: Any) -> Any:
        asked.append(given)
        raise KeyError

    monkeypatch.setattr(_verdict, "load_network", loaded)
    run: Any = SimpleNamespace(folder=Path("run"), allow=("mine",))
    with pytest.raises(KeyError):
        _verdict.verdict(run, Copy(3), best=best)
    assert asked == [{"best": best, "allow": ("mine",)}]


# which run


def test_the_newest_run_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, when in (("runs/old", 1e9), ("runs/new", 3e9), ("middle", 2e9)):
        os.utime(make_run(tmp_path / name) / "run.json", (when, when))
    assert runs_below() == [Path("runs/new"), Path("middle"), Path("runs/old")]
    assert newest_run() == Path("runs/new")
    assert runs_below(Path("none")) == []


def test_the_last_value_of_a_flag_counts() -> None:
    named = names_in(["copy", "--model", "lstm", "--config", "a.toml", "--model=gru", "--config", "b.toml"])
    assert (named.task, named.model, named.config) == ("copy", "gru", Path("b.toml"))
    assert names_in(["copy", "lstm", "--model", "gru"]).second == "lstm"
    assert names_in(["--out", "adding", "copy"]).task == "copy"
    assert names_in(["--dry-run", "copy"]).task == "copy"
    assert same("mine.py:Net", f"{Path('mine.py').absolute()}:Net")
    assert not same("mine.py:Net", "mine.py:Other")


# sweeps


def test_runs_under_way_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "_beat", lambda lease: None)
    (tmp_path / "small.toml").write_text("seeds = 3\n[base]\ntask = 'copy'")
    plan = make_plan(read_sweep(tmp_path / "small.toml"))
    folder = tmp_path / plan.runs[1].folder
    folder.mkdir()
    assert status_of(plan, tmp_path) == {"missing": 3}
    lease = Lease.take(folder)
    assert lease is not None
    assert status_of(plan, tmp_path) == {"under way": 1, "missing": 2}
    lease.release()
    assert status_of(plan, tmp_path) == {"missing": 3}


def test_workers_have_room_for_the_largest_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_local, "cores", lambda: 8)
    runs = [SimpleNamespace(settings=SimpleNamespace(machine=SimpleNamespace(threads=count))) for count in (1, 4, 2)]
    plan: Any = SimpleNamespace(runs=runs)
    engine: Any = _sweep_run.engine_for(plan, tmp_path)
    assert (engine.slots, engine.threads, engine.log) == (2, 4, tmp_path / ".workers.log")


# rates


def rate_test(count: int, fallen: int, exploded: float | None) -> RateTest:
    rates = tuple(1e-3 * 2.0**k for k in range(count))
    losses = tuple(9.0 - k / 10 for k in range(count))
    return RateTest(rates, losses, losses, rates[fallen], exploded, rates[fallen] / 10, rates[fallen] / 100)


def test_rows_of_a_rate_test() -> None:
    """About twelve rows of fifty: every fifth, that of the fall, the last one, and where it exploded."""
    text = io.StringIO()
    Console(file=text, width=100).print(_table(rate_test(50, 31, 7.0)))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.getvalue().splitlines() if "│" in line]
    shown = [*range(0, 50, 5), 31, 49]
    assert [row[0] for row in rows] == [f"{1e-3 * 2.0**k:.3g}" for k in sorted(shown)] + ["7"]
    assert [row for row in rows if row[3]] == [
        [f"{1e-3 * 2.0**31:.3g}", "5.9", "5.9", "95 % of the fall"], ["7", "", "", "exploded"],
    ]  # fmt: skip


@pytest.mark.parametrize(("fallen", "exploded", "said"), [(8, None, True), (3, None, False), (8, 7.0, False)])
def test_a_range_that_ends_too_early(
    fallen: int, exploded: float | None, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of ten rates, each twice the one before: within a tenth of the largest, and without an explosion."""
    _say(rate_test(10, fallen, exploded))
    assert ("The loss still fell near the largest rate, 0.512: a larger" in capsys.readouterr().out) is said


# other parts


def test_what_was_typed_for_a_bench() -> None:
    """Without files, which are this machine's."""
    assert Bench("maps", repeats=3, figure=Path("a.svg"))._command() == "bench maps --repeats 3 --json"
    assert Bench("cells", quick=True, only=("LSTM", "GRU"))._command() == (
        "bench cells --quick --repeats 7 --only LSTM GRU --json"
    )
    assert Bench("layers", against=Path("old"))._command() == "bench layers --repeats 7 --against DIR --json"


def test_circuits_have_an_even_length(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def found(**given: Any) -> Any:
        asked.append(given)
        raise OptionError("enough")

    monkeypatch.setattr(_min_width, "min_width", found)
    made = {name: kind() for name, kind in TASKS.items() if not kind.is_data_set}
    for name in made:
        with pytest.raises(OptionError, match="enough"):
            _min_width.MinWidth(task=name).run()
    assert [each["steps"] for each in asked] == [2 * (task.steps // 2) for task in made.values()]
    assert any(task.steps % 2 for task in made.values())
    with pytest.raises(OptionError, match="enough"):
        _min_width.MinWidth(task="copy", steps=6, outputs=2).run()
    assert (asked[-1]["steps"], asked[-1]["outputs"]) == (6, 2)


FITS: list[tuple[Any, Any, bool]] = [
    (True, float, False), (1, float, True), (0.5, int, False), (True, int, False), (True, bool, True), (1, bool, False),
    ([1, 2], tuple[int, int], True), ([1, 2, 3], tuple[int, int], False), ([1], tuple[int, int], False),
    ([1, 2, 3], tuple[int, ...], True), ([1, "a"], tuple[int, ...], False), (3, tuple[int, ...], False),
    (None, int | None, True), ("a", int | None, False),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind", "fits"), FITS, ids=repr)
def test_whether_a_value_is_of_a_type(value: Any, kind: Any, fits: bool) -> None:
    """True is no number, and a list of TOML is a tuple, of as many."""
    assert _fits(value, kind) is fits


FOLLOWS: dict[str, tuple[set[str], set[str]]] = {
    "nothing": (set(), set()),
    "a rate": ({"lr"}, {"lr_orthogonal"}),
    "an optimizer": ({"optimizer"}, {"alpha", "momentum"}),
    "steps": ({"steps"}, {"cosine_steps", "epochs"}),
    "epochs": ({"epochs"}, {"epochs"}),
    "a plateau": ({"plateau"}, {"schedule"}),
    "steps of a rate": ({"step_size"}, {"schedule"}),
}


@pytest.mark.parametrize("case", FOLLOWS)
def test_what_a_flag_takes_out_of_a_file(case: str) -> None:
    given, dropped = FOLLOWS[case]
    optimiser = {
        "lr": 1.0,
        "lr_orthogonal": 0.5,
        "alpha": 0.5,
        "momentum": 0.1,
        "cosine_steps": 9,
        "schedule": "cosine",
    }
    values = {"optimiser": optimiser, "budget": {"epochs": 3, "batch": 4}, "seed": 7}
    left = overridden(values, given)
    assert {*left["optimiser"]} == {*optimiser} - dropped
    assert {*left["budget"]} == {"epochs", "batch"} - dropped
    assert values["optimiser"] == optimiser  # as it was


def test_rates_of_the_demo_fall_to_nothing() -> None:
    """Along half a cosine: a quarter of the way down at one third."""
    task = Copy(3)
    runner = Runner(nn.LSTM(task.input_size, 128), task, updates=3)
    batch = task.sample(4, torch.Generator().manual_seed(0))
    rates = []
    for _ in range(3):
        runner.update(batch)
        rates.append(runner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([2e-3 * 0.75, 2e-3 * 0.25, 0.0])
    assert len(runner.history) == 3


@pytest.mark.parametrize("word", ["false", "No", "OFF", "0"])
def test_how_a_flag_is_turned_off(word: str) -> None:
    assert _opposite("--bias", word) == ": write --no-bias"
    assert _opposite("--no-bias", word) == _opposite("--bias", "true") == _opposite("--bias", "1") == ""

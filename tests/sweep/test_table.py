"""The table: what it says of done, diverged, missing and unneeded runs, and its formats."""

import csv
import io
import json
from typing import Any

import pytest

from engram.sweep import FORMATS, Plan, make_plan, over_seeds, read_sweep, rows_of


@pytest.fixture
def plan(write: Any) -> Plan:
    return make_plan(read_sweep(write("seeds = 2\n[base]\ntask = 'copy'\n[grid]\nlr = [1.0, 2.0]")))


def done(loss: float) -> dict[str, Any]:
    return {"status": "done", "results": {"test": {"loss": loss, "accuracy": 1 - loss}}, "parameters": 7}


def test_one_row_per_run_in_the_order_of_the_file(plan: Plan) -> None:
    a, b, c, _ = (run.identity for run in plan.runs)
    rows = rows_of(plan, {c: {"status": "diverged", "results": {}, "parameters": 7}, a: done(0.1), b: done(0.3)})
    assert [(row["lr"], row["seed"], row["status"], row["test_loss"]) for row in rows] == [
        (1.0, 0, "done", 0.1),
        (1.0, 1, "done", 0.3),
        (2.0, 0, "diverged", None),
        (2.0, 1, "missing", None),
    ]


def test_order_of_arrival_changes_no_byte(plan: Plan) -> None:
    results = {run.identity: done(k / 10) for k, run in enumerate(plan.runs)}
    backwards = dict(reversed(results.items()))
    for made in FORMATS.values():
        assert made(rows_of(plan, results)) == made(rows_of(plan, backwards))


def test_mean_and_range_over_seeds(plan: Plan) -> None:
    a, b, c, _ = (run.identity for run in plan.runs)
    first, second = over_seeds(plan, {a: done(0.3), b: done(0.1), c: {"status": "diverged", "parameters": 7}})
    assert first == {
        "lr": 1.0, "runs": 2, "done": 2, "diverged": 0, "test_loss": 0.2, "test_loss_min": 0.1, "test_loss_max": 0.3,
        "test_accuracy": 0.8, "test_accuracy_min": 0.7, "test_accuracy_max": 0.9,
    }  # fmt: skip
    assert (second["done"], second["diverged"]) == (0, 1)


def test_longest_value_of_a_ladder(write: Any) -> None:
    text = "seeds = 3\n[base]\ntask = 'copy'\n[ladder]\nover = 'delay'\nvalues = [5, 9]\nsolved = 'accuracy>0.5'"
    plan = make_plan(read_sweep(write(text)))
    good, bad = done(0.1), done(0.9)
    scores = [good, good, good, bad, bad]  # seed 0: both; seed 1: the first only; seed 2: none
    results = {run.identity: score for run, score in zip(plan.runs, scores, strict=False)}
    (row,) = over_seeds(plan, results)
    assert row == {"seeds": 3, "not finished": 0, "longest delay": [9, 5, None], "median": 5}
    assert [each["status"] for each in rows_of(plan, results)] == ["done"] * 5 + ["not needed"]
    (row,) = over_seeds(plan, {run.identity: good for run in plan.runs[:3]})
    assert (row["not finished"], row["longest delay"]) == (2, [9, 5, None])


@pytest.mark.parametrize(("seeds", "median"), [(1, 9), (2, 5), (3, 5)])
def test_the_median_of_a_ladder(write: Any, seeds: int, median: int) -> None:
    """A value that was tried: of two in the middle the smaller."""
    text = f"seeds = {seeds}\n[base]\ntask = 'copy'\n[ladder]\nover = 'delay'\nvalues = [5, 9]\nsolved = 'accuracy>0.5'"
    plan = make_plan(read_sweep(write(text)))
    good, bad = done(0.1), done(0.9)
    scores = [good, good, good, bad, good, bad]  # seed 0: both; the others: the first only
    (row,) = over_seeds(plan, {run.identity: score for run, score in zip(plan.runs, scores, strict=False)})
    assert row["median"] == median


def test_a_budget_is_not_the_number_of_parameters(write: Any) -> None:
    text = "seeds = 2\n[base]\ntask = 'copy'\nmodel = 'rnn'\n[grid]\nparameters = [900, 2000]"
    plan = make_plan(read_sweep(write(text)))
    rows = rows_of(plan, {plan.runs[0].identity: done(0.1)})
    assert [(row["budget"], row["parameters"]) for row in rows] == [(900, 7), (900, None), (2000, None), (2000, None)]
    first, second = over_seeds(plan, {plan.runs[0].identity: done(0.1)})
    assert (first["budget"], first["runs"], first["done"]) == (900, 2, 1)
    assert (second["budget"], second["runs"], second["done"]) == (2000, 2, 0)


def test_a_width_that_changes_along_a_ladder(write: Any) -> None:
    """With length 2 x data, start-end has one symbol less, and a budget allows one unit more."""
    text = (
        "[base]\ntask = 'start-end'\ndata = 3\nmodel = 'rnn'\nparameters = 1000\n[grid]\nlayers = [1, 2]\n"
        "[ladder]\nover = 'length'\nvalues = [6, 8]\nsolved = 'accuracy>0.5'"
    )
    plan = make_plan(read_sweep(write(text)))
    widths = [run.settings.model.hidden for run in plan.runs]
    assert widths[0] != widths[1]
    rows = over_seeds(plan, {run.identity: done(0.1) for run in plan.runs})
    assert [(row["layers"], row["hidden"], row["longest length"]) for row in rows] == [
        (1, widths[0], [8]),
        (2, widths[2], [8]),
    ]


def test_formats(plan: Plan) -> None:
    rows = rows_of(plan, {run.identity: done(1 / 3) for run in plan.runs})
    (first, *_) = csv.DictReader(io.StringIO(FORMATS["csv"](rows)))
    assert float(first["test_loss"]) == 1 / 3
    assert json.loads(FORMATS["json"](rows))[0]["test_loss"] == 1 / 3
    assert "| 0.3333 |" in FORMATS["markdown"](rows)
    latex = FORMATS["latex"]([{"a_b": "50 % & {x} \\ ~^#$"}])
    assert r"a\_b \\" in latex
    assert r"50 \% \& \{x\} \textbackslash{} \textasciitilde{}\textasciicircum{}\#\$ \\" in latex
    assert FORMATS["markdown"]([{"a": "x|y"}]).splitlines()[2] == r"| x\|y |"


def test_a_setting_whose_name_looks_like_a_score(write: Any) -> None:
    plan = make_plan(read_sweep(write("seeds = 2\n[base]\ntask = 'copy'\n[grid]\nvalid_samples = [4, 6]")))
    rows = over_seeds(plan, {run.identity: done(0.1) for run in plan.runs})
    assert [row["valid_samples"] for row in rows] == [4, 6]
    assert not any(name.startswith("valid_samples_") for row in rows for name in row)


def test_scores_that_are_not_finite_are_null_in_json(plan: Plan) -> None:
    rows = rows_of(plan, {plan.runs[0].identity: done(float("nan"))})
    assert json.loads(FORMATS["json"](rows))[0]["test_loss"] is None
    for bound in (float("inf"), -float("inf")):
        assert json.loads(FORMATS["json"]([{"a": bound, "b": 0.5}])) == [{"a": None, "b": 0.5}]
    assert ",nan," in FORMATS["csv"](rows)


def test_line_breaks_do_not_break_a_table() -> None:
    for name in ("markdown", "latex"):
        assert "a b" in FORMATS[name]([{"x": "a\nb"}])


def test_ladder_downwards(write: Any) -> None:
    text = "[base]\ntask = 'copy'\n[ladder]\nover = 'delay'\nvalues = [9, 5, 2]\nsolved = 'accuracy>0.5'"
    plan = make_plan(read_sweep(write(text)))
    (row,) = over_seeds(plan, {run.identity: done(0.1) for run in plan.runs[:2]})
    assert row["longest delay"] == [5]

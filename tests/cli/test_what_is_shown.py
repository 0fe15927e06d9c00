"""Numbers on the screen, from numbers that are known: tables of benches, sweeps and runs, and lines about one run."""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from engram.certify import rac_claim
from engram.cli import _sweep_show
from engram.cli._bench_show import show
from engram.cli._certify import _cure, _text
from engram.cli._min_width import told
from engram.cli._runs_plan import show_plan as show_plan_of_runs
from engram.cli._runs_table import score, size
from engram.cli._show_run import show_run
from engram.cli._sweep_show import Live, show_best, show_plan, show_table
from engram.cli._text_table import table
from engram.runs import Row
from engram.sweep import Estimate, Plan, make_plan, read_sweep
from made_runs import make_run


def cells(text: str) -> list[list[str]]:
    """The rows of rich's tables, without their lines."""
    rows = [re.split("[│┃]", line)[1:-1] for line in text.splitlines() if re.search("[│┃]", line)]
    return [[cell.strip() for cell in row] for row in rows]


# benches


def test_a_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each size the fastest first, over the base of that size."""
    monkeypatch.delenv("COLUMNS", raising=False)
    times = {(20, "slow"): 4.0, (20, "base"): 2.0, (20, "fast"): 0.5, (40, "base"): 8.0, (40, "fast"): 6.0}
    rows = [
        {"T": steps, "contestant": name, "median_ms": ms, "min_ms": ms / 2, "max_ms": 2 * ms, "memory_mb": 1000 * ms,
         "share": None if name == "base" else ms / 10}
        for (steps, name), ms in times.items()
    ]  # fmt: skip
    summary: dict[str, Any] = {"fast/base": {"geomean": 0.5, "worst": 0.75}, "other": {"geomean": 1.0, "worst": 2.0}}
    summary["exponents"] = {"dense": 1.5}
    machine = {"processor": "none", "cores": 2, "load_average": [0.25, 3.0, 4.0], "torch": "2.13.0"}
    peer = {"T": 9, "contestant": "scan", "median_ms": 1.5}
    result = {
        "rows": rows,
        "summary": summary,
        "machine": machine,
        "shares": {"fast": {"geomean": 0.25, "median": 0.5, "least": 0.125}},
        "peers": [{**peer, "compile_s": 7.25}, {**peer, "compile_s": None}, {"T": 9, "contestant": "x", "note": "no"}],
        "notes": ["one is left out"],
    }
    show(result, ("T",), "base", {"fast/base": (0.6, None)})
    out = capsys.readouterr().out
    assert cells(out) == [
        ["T", "contestant", "ms", "range", "/ base", "share of best", "peak MB"],
        ["20", "fast", "0.5", "0.25 - 1", "0.25", "5%", "500.0"],
        ["20", "base", "2", "1 - 4", "1.00", "", "2,000.0"],
        ["20", "slow", "4", "2 - 8", "2.00", "40%", "4,000.0"],
        ["40", "fast", "6", "3 - 12", "0.75", "60%", "6,000.0"],
        ["40", "base", "8", "4 - 16", "1.00", "", "8,000.0"],
        ["ratio", "geometric mean", "worst", "asked for"],
        ["fast/base", "0.50", "0.75", "mean <= 0.6"],
        ["other", "1.00", "2.00", ""],
        ["contestant", "geometric mean", "least"],
        ["fast", "25%", "12%"],
        ["T", "contestant", "ms", "seconds to compile"],
        ["9", "scan", "1.5", "7.2"],
        ["9", "scan", "1.5", ""],
        ["9", "x", "no", ""],
    ]
    assert "time over N: dense measured N^1.50\n" in out
    assert "one is left out\n" in out
    assert out.endswith("none, 2 cores, load 0.25, torch 2.13.0\n")


# sweeps


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "small.toml"
    path.write_text("seeds = 2\n[base]\ntask = 'copy'\nsteps = 300\n[grid]\nlr = [1.0, 2.0]")
    return make_plan(read_sweep(path))


def done(loss: float) -> dict[str, Any]:
    return {"status": "done", "results": {"test": {"loss": loss, "accuracy": 1 - loss}}, "parameters": 7}


def test_a_line_for_what_happens_in_a_sweep(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """One run was done before; those that train as one are counted one by one."""
    live, (_, b, c, d) = Live(plan, 1), plan.runs
    live("started", (b, c), {})
    live("done", (b, c), {"results": [done(0.25), {"status": "diverged", "results": {}, "parameters": 7}]})
    live("again", (d,), {"reason": "killed\n by somebody"})
    live("elsewhere", (d,), {})
    live("failed", (d,), {"reason": "no memory"})
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "[2/4] done: lr 1.0, seed 1, loss 0.25, accuracy 0.75",
        "[3/4] diverged: lr 2.0, seed 0",
        "[3/4] failed, started again: lr 2.0, seed 1: killed  by somebody",
        "[3/4] another process works on lr 2.0, seed 1: waiting for it",
        "[3/4] FAILED: lr 2.0, seed 1: no memory",
    ]
    assert live.failed == 1


def test_the_picture_of_a_sweep(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four runs one was done before, and one in the last ten seconds: two are left, for twenty."""
    now = [100.0]
    monkeypatch.setattr(_sweep_show, "time", SimpleNamespace(monotonic=lambda: now[0]))
    live, shown = Live(plan, 1), io.StringIO()
    draw = Console(file=shown, width=100).print
    live.screen = SimpleNamespace(update=lambda what, refresh: draw(what))  # type: ignore[assignment]
    a, b, c, _ = plan.runs
    now[0] += 10
    live("done", (a,), {"results": [done(0.25)]})
    now[0] += 0.1
    live("started", (b,), {})  # too soon for another picture
    assert shown.getvalue().count("2 of 4 runs, about 20 s left") == 1
    now[0] += 9.9
    live("step", (b, c), {"step": 30, "loss": 0.123456})
    assert "2 of 4 runs, about 40 s left" in shown.getvalue()
    assert re.search(r"seed 1 \(and 1 more, as one model\) +step 30 of 300 +loss 0\.1235", shown.getvalue())


@pytest.mark.parametrize(("workers", "time"), [(1, "30 s with 1 worker"), (2, "15 s with 2"), (9, "12 s with 9")])
def test_what_is_left_of_a_sweep(workers: int, time: str, plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a minute in all, its longest run twelve seconds. Of four runs one is done and two are left."""
    show_plan(plan, Path("out"), Estimate(done=1, left=2, longest=12.0, total=30.0), workers, every=True)
    said = capsys.readouterr().out
    assert "small: 4 runs in out, 1 of them done, 1 not needed\n" in said
    assert f"what is left takes about {time}" in said


def test_the_table_of_a_sweep(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c, _ = (run.identity for run in plan.runs)
    show_table(plan, {a: done(0.25), b: done(0.75), c: done(0.125)}, as_json=False)
    head, *lines = (re.split(r"\s{2,}", line) for line in capsys.readouterr().out.splitlines())
    assert head == ["lr", "runs", "done", "test_loss", "test_accuracy"]
    assert lines == [
        ["1", "2", "2", "0.5 (0.25 to 0.75)", "0.5 (0.25 to 0.75)"],
        ["2", "2", "1", "0.125", "0.875"],
    ]
    show_table(plan, {a: {"status": "diverged", "results": {}, "parameters": 7}}, as_json=False)
    assert capsys.readouterr().out.split()[3] == "diverged"


def test_the_best_trial_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    values = {"trial": 3, "weight_decay": 0.1, "lr": 0.01, "seed": 0}
    best: Any = SimpleNamespace(number=3, values=[0.9, 0.25], runs=[SimpleNamespace(values=values)])
    searched: Any = SimpleNamespace(search=SimpleNamespace(best=lambda: best, metric="valid_loss"))
    show_best(searched)
    assert capsys.readouterr().out == "best: trial 3, valid_loss 0.25: --weight-decay 0.1 --lr 0.01\n"


# runs


def test_a_run_and_what_to_type_next(capsys: pytest.CaptureFixture[str]) -> None:
    """A quarter of the loss without memory; names are quoted for the shell."""
    run: Any = SimpleNamespace(
        settings=SimpleNamespace(task=SimpleNamespace(memoryless_baseline=2.0)),
        facts={"results": {"test": {"loss": 0.5, "accuracy": 0.75}}},
        folder=Path("runs/a b"),
        allow=("mine.py:Mine", "own"),
    )
    show_run(run, as_json=False)
    assert capsys.readouterr().out == (
        "test: loss 0.5, accuracy 0.75 (25.0% of the memoryless baseline)\n"
        "run: runs/a b (engram evaluate 'runs/a b' --allow mine.py --allow own --plot shows its curves)\n"
    )
    for baseline, shown in ((0.0, ""), (0.05, " (10 times the memoryless baseline)")):
        run.settings.task.memoryless_baseline = baseline
        show_run(run, as_json=False)
        assert capsys.readouterr().out.startswith(f"test: loss 0.5, accuracy 0.75{shown}\n")


ROWS: dict[str, Row] = {
    "accuracy 0.5 (chance 0.125)": Row("", "done", metric="accuracy", score=0.5, chance=0.125, scored_on="test"),
    "accuracy 0.5 valid": Row("", "stopped", metric="accuracy", score=0.5, scored_on="valid"),
    "loss 0.25 (without memory 2)": Row(
        "", "done", metric="loss", score=0.25, loss=0.25, chance=7.0, memoryless_baseline=2.0, scored_on="test"
    ),
    "loss 0.25 valid": Row("", "done", metric="accuracy", loss=0.25, scored_on="valid"),
    "": Row("", "new", metric="accuracy", chance=0.5),
}


@pytest.mark.parametrize("said", ROWS)
def test_the_score_of_a_run(said: str) -> None:
    assert score(ROWS[said]) == said


def test_the_size_of_a_run() -> None:
    sizes = [size(Row("", "done", hidden=hidden, layers=layers)) for hidden, layers in ((32, 2), (32, 1), (32, None))]
    assert [*sizes, size(Row("", "damaged"))] == ["32x2", "32", "32", ""]


def test_what_is_about_to_be_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of the user are counted over all runs, three of them are named; megabytes are a million bytes."""
    folders = [make_run(tmp_path / name) for name in ("a", "b")]
    for name in ("one", "two"):
        (folders[0] / name).write_bytes(bytes(1_250_000))
        (folders[1] / name).touch()
    assert show_plan_of_runs("Remove", folders) == "Remove 2 runs and 4 other files, 2.5 MB?"
    said = capsys.readouterr().err
    named = ", ".join(str(folders[k] / name) for k, name in ((0, "one"), (0, "two"), (1, "one")))
    assert f"There are 4 files that engram did not make: {named} and 1 more\n" in said
    assert show_plan_of_runs("Remove", folders[1:]) == "Remove 1 run and 2 other files, 0.0 MB?"
    assert f"There are 2 files that engram did not make: {folders[1] / 'one'}, {folders[1] / 'two'}\n" in (
        capsys.readouterr().err
    )
    (folders[1] / "two").unlink()
    assert show_plan_of_runs("Archive", folders[1:]) == "Archive 1 run and 1 other file, 0.0 MB?"
    assert "There is 1 file that engram did not make: " in capsys.readouterr().err
    (folders[1] / "one").unlink()
    assert show_plan_of_runs("Remove", folders[1:]) == "Remove 1 run, 0.0 MB?"
    assert "did not make" not in capsys.readouterr().err


def test_a_table_in_a_narrow_terminal() -> None:
    """Words and numbers stand at their sides; the first column gives way, down to twenty letters, and none too many."""
    rows = [["x" * 30, "a", "7"], ["y", "bcd", "1,234"]]
    wide = ["run" + " " * 27 + "  what  count", "x" * 30 + "  a         7", "y" + " " * 29 + "  bcd   1,234"]
    head = ("run", "what", "count")
    assert table(head, rows, ("count",)).splitlines() == wide
    assert table(head, rows, ("count",), width=43).splitlines() == wide
    narrower = table(head, rows, ("count",), width=42).splitlines()
    assert narrower[1] == "x" * 28 + "…  a         7"
    assert {len(line) for line in narrower} == {42}
    assert table(head, rows, ("count",), width=10).splitlines()[1] == "x" * 19 + "…  a         7"


# circuits


def test_what_one_layer_needs() -> None:
    """Numbers from 10^12 on are told by their size."""
    found: dict[str, Any] = {
        "sizes": {"depth": 3, "channels": 4, "modes": 5, "outputs": 1, "steps": 100},
        "certified": {"width": 4000, "steps": 6, "templates": 5},
        "proven": {"width": 1326},
        "conjectured": {"width": 10**12 - 1},
        "width": 4000,
        "parameters": {"deep": 1234, "shallow": 56789, "shallow_if_conjectured": 2 * 10**15},
    }
    assert told(found).splitlines() == [
        "deep circuit: depth 3, 4 channels, 5 modes, 1 output: 1,234 parameters",
        "certified:    a circuit of depth 1 needs 4,000 channels or more to imitate almost every such circuit over "
        "6 steps (rank found with 5 templates)",
        "theorem:      1,326 or more over 100 steps",
        "so its width is at least 4,000: 56,789 parameters",
        "conjecture:   999,999,999,999 or more over 100 steps, about 10^15 parameters (Conjecture 1, not proven)",
    ]


@pytest.mark.parametrize(("sizes", "templates", "enough"), [((3, 3, 6, 3), 2, 3), ((2, 2, 4, 3), 1, 2)])
def test_the_grid_that_is_large_enough(sizes: tuple[int, ...], templates: int, enough: int) -> None:
    """The least one with which the conjecture can be reached, if only just (2^2 = 4 rows); then nothing is said."""
    claim: Any = rac_claim(*sizes, templates)
    assert claim.upper < claim.bound
    assert _cure(claim) == [f"A grid of {templates} templates cannot reach it: --templates {enough} may."]
    large: Any = rac_claim(*sizes, enough)
    assert large.upper >= large.bound
    assert _cure(large) == []


def test_the_values_of_a_certificate() -> None:
    assert [_text(value) for value in (True, False, "x", [1, 2])] == ["yes", "NO", "x", "[1, 2]"]

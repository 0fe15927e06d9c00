"""Every figure of the package, and every figure of docs/results: readable, as SVG and as PNG, and in our colours."""

import importlib
import json
import shutil
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from engram import bench, report
from engram.errors import RunError
from engram.maps import haar
from engram.nn import RelRNN
from engram.runs import compare_runs
from engram.sweep import make_plan, read_sweep, rows_of
from engram.tasks import Copy, IdentityRules
from engram.theory import sizings
from engram.train import RateTest, RunDirectory, Settings
from made_runs import make_run
from readable import strange_colors
from tiers import slow, slow_but

HERE = Path(__file__).parents[2]
RESULTS, EXPERIMENTS = HERE / "docs" / "results", HERE / "experiments"
PLOTTED = ("atlas", *(f"bench-{name}" for name in ("attention", "cells", "certify", "ensemble", "layers", "linear")),
           "bench-maps", "bench-products", "bench-runs", "bench-tasks", "bench-token", "bench-train", "identification",
           "attention-gradients", "attention-heat", "attention-trained", "relational-symmetry", "training-copy",
           *(path.stem for path in sorted((EXPERIMENTS / "sweeps").glob("*.toml"))
             if (RESULTS / f"{path.stem}.svg").exists()))  # fmt: skip
"""From the numbers beside them."""
MADE = ("rac", "demo", "probe-exprnn", "probe-lstm", *(f"spectrum-{name}" for name in ("exprnn", "nnrnn", "rnn")),
        "spectrum-scornn", "spectrum-urnn")  # fmt: skip
"""By commands that other tests run."""


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def curves(path: Path) -> None:
    run = RunDirectory.create(path.with_suffix(""), Settings.of(Copy(delay=3), "nnrnn", hidden=7, seed=5))
    lines = [
        {"step": step, "split": split, "loss": 2.3 / step, "accuracy": 1 - 1 / step, "seconds": 1.0}
        for step in range(1, 200, 20)
        for split in ("train", "valid", *(["test", *(f"test-{k}" for k in range(9))] if step == 181 else []))
    ]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report.plot_curves(run, path)


def recall(path: Path) -> None:
    ends_together = {"engram.nn.RNN": [0.1, 0.5, 0.13], "torch.nn.LSTM": [0.2, 0.0, 0.12], "third": [0.0, 1.0, 0.125]}
    report.plot_recall(ends_together, 0.125, "Copying problem, 100 blank steps", path)


def compare(path: Path) -> None:
    runs = [make_run(path.with_name(f"r{k}"), hidden=16 + k // 2, seed=k % 2, accuracy=0.1 * k) for k in range(6)]
    report.plot_compare(compare_runs(runs), path)


def attention_weights(path: Path) -> None:
    *_, attention = RelRNN(3, 4, nu=3, rho=2)(torch.randn(12, 2, 3), return_attention=True)
    report.plot_attention_weights(attention, path, "relrnn on copy")


PLOTS = {
    **{f"plot_{name}": lambda path, name=name: getattr(bench, f"plot_{name}")(stored(f"bench-{name}"), path)
       for name in ("attention", "cells", "certify", "ensemble", "layers", "linear", "maps", "products", "runs",
                    "tasks", "token", "train")},
    "plot_atlas": lambda path: report.plot_atlas(stored("atlas"), path),
    "plot_attention_weights": attention_weights,
    "plot_compare": compare,
    "plot_curves": curves,
    "plot_rates": lambda path: report.plot_rates(
        RateTest((1e-4, 1e-3, 1e-2, 1e-1), (2.0, 1.5, 0.3, 9.0), (2.0, 1.7, 0.9, 4.0), 1e-2, 1e-1, 1e-3, 1e-4), path,
        "lstm on copy"),
    "plot_rac": lambda path: report.plot_rac(3, 6, path),
    "plot_recall": recall,
    "plot_sizes": lambda path: report.plot_sizes(sizings(200, 1, None), path, "linear RNNs that copy, lag 200"),
    "plot_task": lambda path: report.plot_task(IdentityRules(50, "glyphs"), path),
    "plot_spectrum": lambda path: report.plot_spectrum(haar(12) + torch.randn(12, 12), path, "twelve"),
}  # fmt: skip


def test_no_plot_is_left_out() -> None:
    public = {name for room in (bench, report) for name in room.__all__ if name.startswith("plot_")}
    assert public == {*PLOTS}


PAIRS = [*product(PLOTS, ["svg", "png"])]
QUICK = [(name, "svg") for name in PLOTS if name != "plot_atlas"]  # which tests/report plots too
QUICK += [("plot_recall", "png"), ("plot_spectrum", "png")]


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize(("name", "ending"), slow_but(PAIRS, QUICK))
def test_every_plot(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"figure.{ending}"
    PLOTS[name](path)
    content = path.read_bytes()
    if ending == "png":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    else:
        assert strange_colors(content.decode()) == set()


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize(("depth", "steps"), [(1, 2), (1, 24), slow(2, 20), (4, 4)])
def test_circuits_of_all_shapes(depth: int, steps: int, tmp_path: Path) -> None:
    report.plot_rac(depth, steps, tmp_path / "rac.svg")


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize("lag", [1, 3, 10_000])
def test_sizes_of_all_lags(lag: int, tmp_path: Path) -> None:
    report.plot_sizes(sizings(lag, 2, 40), tmp_path / "sizes.svg", f"linear RNNs that copy with a lag of {lag}")


@pytest.fixture(scope="module")
def plot_results() -> Any:
    if not EXPERIMENTS.exists():
        pytest.skip("the experiments are not part of a wheel")
    sys.path.insert(0, str(EXPERIMENTS))
    yield importlib.import_module("plot_results")
    sys.path.remove(str(EXPERIMENTS))


def test_every_figure_of_the_results_can_be_plotted_again(plot_results: Any) -> None:
    assert {*plot_results.FIGURES} == {*PLOTTED, *MADE} == {path.stem for path in RESULTS.glob("*.svg")}


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize("name", [name for name in PLOTTED if not name.startswith(("bench-", "atlas"))])
def test_figures_of_experiments(plot_results: Any, name: str, tmp_path: Path) -> None:
    for table in RESULTS.glob("*.json"):
        shutil.copy(table, tmp_path)
    plot_results.FIGURES[name](tmp_path)
    assert strange_colors((tmp_path / f"{name}.svg").read_text()) == set()


def pretended(name: str) -> list[dict[str, Any]]:
    """The table of a sweep whose runs had scores that depend on depth, width and seed."""
    plan = make_plan(read_sweep(EXPERIMENTS / "sweeps" / f"{name}.toml"), ("experiments/as_printed.py",))
    results: dict[str, Any] = {}
    for run in plan.runs:
        model, seed = run.settings.model, run.settings.seed
        units = model.hidden * model.layers
        scores = {
            "accuracy": 1.0 if run.place + seed < model.layers else 0.9,
            "mse": 0.5 * 10 ** -(units / 40 + seed / 9),
        }
        done = {"status": "done", "results": {"test": scores}, "parameters": units**2}
        diverged = {"status": "diverged", "results": {}, "parameters": units**2}
        results[run.identity] = diverged if plan.solved is None and seed == 2 and model.layers == 8 else done
    return rows_of(plan, results)


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize(
    "name", ["ziv-copying-delay", slow("ziv-copying-bits"), slow("ziv-start-end"), slow("depth-lag-copy"),
             "depth-sinus", slow("depth-copy-sinus"), "depth-parity"]
)  # fmt: skip
def test_figures_and_tables_of_sweeps(
    plot_results: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose sweeps are not run to their end, too."""
    monkeypatch.chdir(HERE)
    figures, pages = importlib.import_module("sweep_figures"), importlib.import_module("pages")
    rows = pretended(name)
    (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    figures.PLOTS[name](name, tmp_path)
    assert strange_colors((tmp_path / f"{name}.svg").read_text()) == set()
    lines = pages.MAKERS["ladder" if name.startswith("ziv") else "widths"](tmp_path, name).splitlines()
    if name.startswith("ziv"):
        assert len(lines) == 2 + 3  # a line per depth
        assert "none" in lines[2]  # the second seed of one layer fails the first value
    else:
        assert len(lines) == 2 + len({(row.get("model"), row["layers"], row["hidden"]) for row in rows})
        assert any("2, 1 diverged" in line for line in lines)
    rows[0]["status"] = "missing"
    (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    with pytest.raises(RunError, match=f"{name} is not finished, 1 of {len(rows)} runs"):
        figures.PLOTS[name](name, tmp_path)


@pytest.mark.usefixtures("readable")
def test_figure_of_sample_efficiency(plot_results: Any, tmp_path: Path) -> None:
    figures = importlib.import_module("relational_figures")
    rows = [
        {"model": model, "task": task, "samples": samples, "seed": seed, "status": "done", "test_accuracy": 0.9}
        for model in ("corelnet", "esbn", "transformer")
        for task in figures.CHANCE
        for samples in (30, 3000)
        for seed in range(2)
    ]
    (tmp_path / "relational-samples.json").write_text(json.dumps(rows))
    figures.plot_samples("relational-samples", tmp_path)
    assert strange_colors((tmp_path / "relational-samples.svg").read_text()) == set()


@pytest.mark.parametrize("name", [*PLOTTED, *MADE])
def test_stored_figures_are_in_our_colours(name: str) -> None:
    """Those in the repository, so that none is left of an older style."""
    content = (RESULTS / f"{name}.svg").read_text()
    assert "prefers-color-scheme: dark" in content
    assert strange_colors(content) == set()

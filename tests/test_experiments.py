"""The settings of experiments/ that docs/results calls a paper's are the paper's."""

import math
import sys
from pathlib import Path

import pytest
import torch

from engram.sweep import Plan, make_plan, read_sweep
from engram.tasks import make_task

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="the experiments are not part of a wheel")
SWEEPS = sorted(path.stem for path in (EXPERIMENTS / "sweeps").glob("*.toml"))


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield
    for name in ("as_printed", "training", "kept"):
        sys.modules.pop(name, None)


def close(tensor, deviation):
    """The sample deviation of n normal numbers is within 5/sqrt(2n) of its own, relative, but for one case in 10^6."""
    return abs(tensor.std() / deviation - 1) < 5 / math.sqrt(2 * tensor.numel())


def test_glorot_of_the_baselines():
    import as_printed

    torch.manual_seed(0)
    rnn = as_printed.GlorotRNN(40, 120)
    assert rnn.cells[0].activation == "modrelu"
    assert close(rnn.weight_hh_l0, 1 / math.sqrt(120))
    assert close(rnn.weight_ih_l0, math.sqrt(2 / 160))
    lstm = as_printed.GlorotLSTM(40, 120)
    for weight in (lstm.weight_hh_l0, lstm.weight_ih_l0):
        assert close(weight, math.sqrt(2 / (2 * 120 + 40)))


def test_scornn_of_ziv():
    import as_printed

    layer = as_printed.ZivScoRNN(5, 30, 2)
    for cell in layer.cells:
        assert cell.weight_ih.abs().max() <= 0.01
        assert cell.mod_bias.count_nonzero() == 0
    first, second = layer.initial_state(400), layer.initial_state(400)
    assert not torch.equal(first, second)
    assert first.abs().max() <= math.sqrt(3 / 30)
    assert abs(first.square().sum(-1).mean() - 1) < 0.05  # unit length on average; deviation 0.16/sqrt(800)


def plan_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Of a sweep file; its paths are those from the repository's folder."""
    monkeypatch.chdir(EXPERIMENTS.parent)
    return make_plan(read_sweep(EXPERIMENTS / "sweeps" / f"{name}.toml"), ("experiments/as_printed.py",))


ZIV = {  # the options of the task that the thesis fixes, the sizes, what grows, and the values it was tried at
    "ziv-copying-delay": ({"length": 30, "symbols": 32}, "delay", (*range(0, 1001, 50), *range(1100, 1501, 100)), 13),
    "ziv-copying-bits": ({"delay": 0, "symbols": 32}, "length", (*range(30, 201, 5),), 13),
    "ziv-start-end": ({"data": 30, "symbols": 32}, "length", (*range(60, 1501, 30),), 14),
}


@pytest.mark.parametrize("name", ZIV)
def test_protocol_of_ziv(name, monkeypatch):
    plan, (options, over, values, least) = plan_of(name, monkeypatch), ZIV[name]
    for run in plan.runs:
        task, optimiser, budget = run.settings.task, run.settings.optimiser, run.settings.resolved().budget
        assert task == make_task(task.name, **options, **{over: getattr(task, over)})
        assert run.settings.model.label == "ZivScoRNN"
        assert (optimiser.name, optimiser.alpha, optimiser.clip) == ("rmsprop", 0.9, 0)
        assert (optimiser.lr, optimiser.lr_orthogonal, budget.batch) == (1e-3, 1e-4, 128)
        assert (budget.samples, budget.valid_samples, budget.test_samples) == (0, 4992, 9984)
        assert budget.steps <= 200_000
        assert run.values["budget"] in [2**size for size in range(least, least + 4)]
    assert plan.solved.text == "accuracy>0.99"
    tried = sorted({getattr(run.settings.task, over) for run in plan.runs})
    assert tried == list(values[: len(tried)])  # from the smallest on, without a gap
    assert {run.settings.model.layers for run in plan.runs} == {1, 2, 3}
    assert {run.settings.seed for run in plan.runs} == {0, 1, 2}


WIDTHS_OF_ZIV = {"ziv-copying-delay": [76, 48, 39], "ziv-copying-bits": [76, 48, 39], "ziv-start-end": [148, 81, 63]}


@pytest.mark.parametrize("name", WIDTHS_OF_ZIV)
def test_widths_of_ziv(name, monkeypatch):
    """By the formula of the parameters of stacked scoRNNs, computed by hand."""
    plan = plan_of(name, monkeypatch)
    first = {run.settings.model.layers: run.settings.model.hidden for run in plan.runs if run.place == 0}
    assert [first[depth] for depth in (1, 2, 3)] == WIDTHS_OF_ZIV[name]


def test_the_first_runs_of_both_panels_are_the_same(monkeypatch):
    """150 bits without a delay: trained once, if both sweeps have one folder."""
    delay, bits = (plan_of(f"ziv-copying-{panel}", monkeypatch) for panel in ("delay", "bits"))
    first = {run.identity for run in delay.runs if run.place == 0}
    assert first == {run.identity for run in bits.runs if run.place == 0}
    assert len(first) == 9


DEPTH = {  # the task as the paper has it, its network, its rates
    "depth-lag-copy": ({"lag": 8, "features": 5, "length": 16}, {"linear-rnn"}, (1e-3, 2e-3)),
    "depth-sinus": ({"features": 5, "length": 16, "frequency": 3.0}, {"depth-rnn"}, (1e-3, 2e-3)),
    "depth-copy-sinus": ({"lag": 4, "features": 5, "length": 16, "frequency": 3.0}, {"depth-rnn"}, (1e-3, 2e-3)),
    "depth-parity": ({"features": 5, "length": 20}, {"depth-rnn", "rnn", "2rnn"}, (5e-4, 1e-3)),
}


@pytest.mark.parametrize("name", DEPTH)
def test_protocol_of_the_role_of_depth(name, monkeypatch):
    plan, (options, networks, rates) = plan_of(name, monkeypatch), DEPTH[name]
    for run in plan.runs:
        task, optimiser, budget = run.settings.task, run.settings.optimiser, run.settings.resolved().budget
        assert task == make_task(task.name, **options)
        assert (optimiser.name, optimiser.clip, budget.batch) == ("adam", 0, 128)
        assert rates[0] <= optimiser.lr <= rates[1]
        assert (budget.samples, budget.valid_samples, budget.test_samples) == (10_000, 2000, 2000)
        assert budget.validate_every == 78  # an epoch
        assert budget.steps <= 1000 * 78
        assert run.settings.model.options.get("init", "uniform") == "uniform"
    assert {run.settings.model.name for run in plan.runs} == networks
    for network in networks - {"2rnn"}:
        assert {run.settings.model.layers for run in plan.runs if run.settings.model.name == network} == {1, 2, 4, 8}
    assert {run.settings.seed for run in plan.runs} == {0, 1, 2}


def test_widths_of_parity(monkeypatch):
    runs = [run.settings.model for run in plan_of("depth-parity", monkeypatch).runs]
    assert max(model.hidden for model in runs if model.name == "depth-rnn" and model.layers == 8) > 50
    assert {model.hidden for model in runs if model.name == "2rnn"} == {5}
    assert {model.options.get("activation") for model in runs if model.name == "2rnn"} == {"identity"}


def test_shakespeare_of_the_role_of_depth():
    """Without a plan, which reads the text."""
    file = read_sweep(EXPERIMENTS / "sweeps" / "depth-shakespeare.toml")
    rows = {(row["model"], row["layers"]): row for row, _, _ in file.rows()}
    assert {(row["batch"], row["lr"]) for (model, _), row in rows.items() if model != "s4"} == {(128, 1e-3)}
    assert rows["cprnn", 1]["rank"] == 2 * rows["cprnn", 1]["hidden"]
    assert [rows["s4", 2][name] for name in ("lr", "batch", "block_dropout")] == [1e-4, 32, 0.1]
    assert {row["clip"] for row in rows.values()} == {0}


def test_no_sweep_is_left_out():
    assert {*ZIV, *DEPTH, "depth-shakespeare"} == {*SWEEPS}


def test_copy_follows_table_a1():
    import training

    printed = {name: command for name, (_, command) in training.ROWS.items() if name.startswith("copy-printed")}
    assert len(printed) == 5
    for command in printed.values():
        assert "--delay 200 --batch 10 --steps 1500 --optimizer rmsprop --clip 0" in command
    assert "--lr 5e-4 --lr-orthogonal 1e-6" in printed["copy-printed-nnrnn"]
    assert "--gamma-penalty 1e-4 --decay 1e-6" in printed["copy-printed-nnrnn"]
    assert "--init cayley --gamma-penalty 0.15 --decay 1e-4" in training.ROWS["psmnist-nnrnn"][1]

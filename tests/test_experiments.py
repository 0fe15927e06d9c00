"""The settings of experiments/ that docs/results calls a paper's are the paper's."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engram.sweep import Plan, make_plan, read_sweep
from engram.tasks import make_task
from tiers import slow_but

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="the experiments are not part of a wheel")
SWEEPS = sorted(path.stem for path in (EXPERIMENTS / "sweeps").glob("*.toml"))


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield
    for name in ("as_printed", "training", "kept", "attention_figures", "attention_tables", "sweep_figures",
                 "relational_tables"):  # fmt: skip
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


def test_attention_starts_as_in_its_program():
    import as_printed

    torch.manual_seed(0)
    for layer in (as_printed.HenaffRelRNN(40, 600), as_printed.HenaffMemRNN(40, 600)):
        weight = layer.weight_hh_l0.double()
        eps = torch.finfo(torch.float32).eps
        assert (weight @ weight.T - torch.eye(600)).abs().max() < 600 * eps
        assert weight.count_nonzero() == 2 * 600  # planes turned: two entries in a row
        assert close(layer.weight_ih_l0, math.sqrt(2 / 640))
        assert close(layer.weight_align_l0, math.sqrt(2 / 601))
        assert layer.cells[0].combine == "mean"


def test_the_start_on_denoise_is_another():
    """W_ih Kaiming normal, the bias within 1/sqrt(D); all else as on copying."""
    import as_printed

    torch.manual_seed(0)
    for layer in (as_printed.KaimingRelRNN(40, 600), as_printed.KaimingOrthRNN(40, 600)):
        assert layer.weight_hh_l0.count_nonzero() == 2 * 600
        assert close(layer.weight_ih_l0, math.sqrt(2 / 40))
        assert 0.9 / math.sqrt(40) < layer.bias_l0.abs().max() <= 1 / math.sqrt(40)
    assert as_printed.KaimingRelRNN(4, 8).cells[0].combine == "mean"
    assert as_printed.KaimingOrthRNN(4, 8).cells[0].activation == "modrelu"


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


@pytest.mark.slow
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


# Kerg (2022), Tables B.3 and B.4: optimiser, rate, activation; None where the table prints nothing.
COPYING = {
    "HenaffRelRNN": ("adam", 2e-4, "tanh"),
    "GlorotLSTM": ("adam", 2e-4, None),
    "exprnn": ("rmsprop", 2e-4, "modrelu"),
    "orth-init": ("rmsprop", 2e-4, "modrelu"),
}
DENOISING = {
    "KaimingRelRNN": ("rmsprop", 2e-4, "modrelu"),
    "GlorotLSTM": ("adam", 2e-4, None),
    "exprnn": ("rmsprop", 2e-4, "modrelu"),
    "KaimingOrthRNN": ("rmsprop", 2e-4, "modrelu"),
    "goru": ("rmsprop", 1e-3, None),
}
ATTENTION = {  # the task, its delays, its table
    "attention-transfer-copy": ("transfer-copy", {100}, COPYING),
    "attention-copy": ("copy", {200, 300}, COPYING),
    "attention-denoise": ("denoise", {100, 300}, DENOISING),
    "attention-screening": ("", {100}, {}),
    "attention-memrnn": ("transfer-copy", {100}, {}),
}
SHORT_ATTENTION = {"attention-psmnist", "attention-ptb", "attention-sparsity", "attention-search"}


@pytest.mark.parametrize("name", slow_but(ATTENTION, {"attention-transfer-copy"}))
def test_protocol_of_attention(name, monkeypatch):
    plan, (task, delays, printed) = plan_of(name, monkeypatch), ATTENTION[name]
    networks = {run.settings.model.label for run in plan.runs}
    assert {*printed} <= networks
    for run in plan.runs:
        model, optimiser, budget = run.settings.model, run.settings.optimiser, run.settings.resolved().budget
        assert run.settings.task.name in ((task,) if task else ("transfer-copy", "denoise"))
        assert (model.hidden, budget.batch, optimiser.clip, budget.samples) == (128, 10, 1.0, 0)  # fresh sequences
        if model.label in printed:
            name_, rate, activation = printed[model.label]
            assert (optimiser.name, optimiser.lr) == (name_, rate)
            assert activation is None or model.options.get("activation", activation) == activation
        if optimiser.name == "rmsprop":
            assert optimiser.alpha == 0.99
        assert {key: model.options.get(key, 10) for key in ("nu", "rho")} == {"nu": 10, "rho": 10}
    assert {run.settings.task.delay for run in plan.runs} == delays
    assert {run.settings.seed for run in plan.runs} == ({0} if name == "attention-memrnn" else {0, 1, 2})
    if name == "attention-transfer-copy":
        assert {run.settings.task.tests for run in plan.runs} == {(200, 400, 2000, 5000)}


def test_memrnn_has_the_settings_of_relrnn(monkeypatch):
    """But for the test with a delay of 5000."""

    def settings(name, label):
        found = [run.settings for run in plan_of(f"attention-{name}", monkeypatch).runs]
        return next(one for one in found if one.model.label == label and one.seed == 0)

    own, other = settings("memrnn", "HenaffMemRNN"), settings("transfer-copy", "HenaffRelRNN")
    assert own.task == replace(other.task, tests=(200, 400, 2000))
    assert own.optimiser == other.optimiser
    assert own.budget == other.budget
    assert own.model.options["activation"] == other.model.options["activation"]


def test_copying_at_100_is_in_the_sweep_of_its_transfer():
    """The same sequences: a longer delay of the tests changes none of the training."""
    for split in ("train", "valid", "test"):
        one, two = (make_task(name, delay=100).batches(split, 10, 0, 20)[1] for name in ("copy", "transfer-copy"))
        assert one.inputs.equal(two.inputs)
        assert one.targets.equal(two.targets)


def test_screening_trains_the_paper_s_rule_once(monkeypatch):
    """The rows of the paper's rule are runs of the other two sweeps, if all have one folder."""
    runs = {name: plan_of(f"attention-{name}", monkeypatch).runs for name in ("screening", "transfer-copy", "denoise")}
    own = [run for run in runs["screening"] if run.settings.model.options["screen"] == "relevance"]
    assert len(own) == 6
    there = {run.identity for name in ("transfer-copy", "denoise") for run in runs[name]}
    assert {run.identity for run in own} <= there


def test_sizes_of_figure_b1():
    file = read_sweep(EXPERIMENTS / "sweeps" / "attention-sparsity.toml")
    sizes = {(row["nu"], row["rho"]) for row, _, _ in file.rows()}
    assert sizes == {(15, rho) for rho in (3, 8, 18, 25)} | {(nu, 15) for nu in (3, 8, 18, 25)}


def test_short_runs_of_attention():
    """Tables B.5 and B.6; without a plan, which reads the data."""
    digits, text = (
        {
            row["model"].rpartition(":")[2]: row
            for row, _, _ in read_sweep(EXPERIMENTS / "sweeps" / f"{name}.toml").rows()
        }
        for name in ("attention-psmnist", "attention-ptb")
    )
    assert {(row["hidden"], row["batch"], row["permutation"]) for row in digits.values()} == {(100, 100, 100)}
    names = ("orth-init", "exprnn", "GlorotLSTM", "HenaffRelRNN")
    assert [digits[name]["lr"] for name in names] == [1e-4, 1e-4, 2e-4, 3e-4]
    assert [text[name]["lr"] for name in names] == [1e-3, 3e-3, 2e-4, 3e-4]
    assert [text["HenaffRelRNN"][key] for key in ("nu", "rho", "bptt")] == [10, 5, 150]


def test_tables_of_attention_beside_what_was_reported(tmp_path):
    """From made-up scores: which cell is whose, the range over seeds, what diverged."""
    import json

    import attention_tables as tables

    rows = [
        {"model": f"experiments/as_printed.py:{model}", "seed": seed, "status": "done", "delay": 100,
         "test_accuracy": 0.5 + 0.1 * seed, **{f"test-{delay}_accuracy": 0.25 for delay in (200, 400, 2000)}}
        for model in ("HenaffRelRNN", "GlorotLSTM") for seed in range(3)
    ]  # fmt: skip
    rows[-1] |= {"status": "diverged", "test_accuracy": None}
    (tmp_path / "attention-transfer-copy.json").write_text(json.dumps(rows))
    (tmp_path / "attention-denoise.json").write_text(json.dumps(rows))
    lines = tables.transfer(tmp_path, "attention-transfer-copy")
    assert lines[1] == ["RelRNN", "60.0 (50.0 - 70.0)", *["25.0 (25.0 - 25.0)"] * 3, "-", "100, 99, 99, 99, 99"]
    assert lines[2][0] == "LSTM"
    assert lines[2][1] == "55.0 (50.0 - 60.0), 1 diverged"
    assert tables.delays(tmp_path, "attention-denoise")[1] == ["RelRNN", "60.0 (50.0 - 70.0) (100)"]
    assert {*tables.TABLES} | {"attention-search"} == {*ATTENTION} | SHORT_ATTENTION


def test_gradient_norms_of_every_state():
    """dL/dh_t against a network that starts at step t from that state."""
    import attention_figures
    from torch.nn import functional as F

    from engram.models import Model, make_network

    torch.manual_seed(0)
    task = make_task("copy", delay=3, length=2)
    for name in ("rnn", "relrnn"):
        network = make_network(task, Model(name, hidden=5)).double()
        batch = task.sample(3, torch.Generator().manual_seed(1))
        batch = batch._replace(inputs=batch.inputs.double())
        norms = attention_figures.gradient_norms(network, batch, asked=2)
        assert len(norms) == task.steps
        if name == "rnn":
            output, _ = network.core(batch.inputs)
            h = output[3].detach().requires_grad_()
            later, _ = network.core(batch.inputs[4:], h[None])
            logits = network.head(later)
            loss = sum(F.cross_entropy(logits[-k], batch.targets[-k]) for k in (1, 2)) / task.steps
            (grad,) = torch.autograd.grad(loss, h)
            assert math.isclose(norms[task.steps - 1 - 3], float(grad.norm()), rel_tol=1e-10)
        assert all(norm > 0 for norm in norms[1:])


def test_no_sweep_is_left_out():
    relational = {f"relational-{name}" for name in RUNS_OF_RELATIONAL}
    assert {*ZIV, *DEPTH, "depth-shakespeare", *ATTENTION, *SHORT_ATTENTION, *relational} == {*SWEEPS}


def test_copy_follows_table_a1():
    import training

    printed = {name: command for name, (_, command) in training.ROWS.items() if name.startswith("copy-printed")}
    assert len(printed) == 5
    for command in printed.values():
        assert "--delay 200 --batch 10 --steps 1500 --optimizer rmsprop --clip 0" in command
    assert "--lr 5e-4 --lr-orthogonal 1e-6" in printed["copy-printed-nnrnn"]
    assert "--gamma-penalty 1e-4 --decay 1e-6" in printed["copy-printed-nnrnn"]
    assert "--init cayley --gamma-penalty 0.15 --decay 1e-4" in training.ROWS["psmnist-nnrnn"][1]


RELATIONAL = {  # the largest m of the thesis, by task
    "same-different": 98,
    "rmts": 95,
    "dist3": 95,
    "identity-rules": 95,
    "rmts3": 94,
    "same-different6": 98,
    "identity-rules4": 94,
    "dist-n": 89,
}
RUNS_OF_RELATIONAL = {"basic": 180, "context": 75, "holdout": 85, "ablations": 120, "unseen": 150, "spurious": 120,
                      "separated": 75, "comparison": 60, "games": 84, "samples": 300, "printed": 40,
                      "unseen-printed": 40}  # fmt: skip


@pytest.mark.parametrize("name", RUNS_OF_RELATIONAL)
def test_protocol_of_the_relational_tasks(name, monkeypatch):
    """Kerg (2022), Table C.1: Adam at 5e-4, batch 32, no clipping, at most 5,000 steps, 2,500 for the games."""
    plan = plan_of(f"relational-{name}", monkeypatch)
    assert len(plan.runs) == RUNS_OF_RELATIONAL[name]
    for run in plan.runs:
        settings, task = run.settings, run.settings.task
        optimiser, budget = settings.optimiser, settings.resolved().budget
        assert (optimiser.name, optimiser.lr, optimiser.clip, budget.batch) == ("adam", 5e-4, 0, 32)
        assert budget.steps == 2500 if task.name == "relational-game" else budget.steps <= 5000
        assert task.options().get("shapes", "esbn") == "esbn"
        if name in ("basic", "printed", "unseen-printed", "context", "ablations", "unseen", "spurious"):
            assert task.holdout == RELATIONAL[task.name]
        if "printed" in name:
            assert (budget.steps, budget.patience, budget.validate_every) == (5000, 0, 0)
        assert (settings.model.name == "lstm") <= (settings.model.hidden == 512)
    seeds = {run.settings.seed for run in plan.runs}
    assert seeds == set(range({"printed": 10, "games": 3}.get(name, 5)))


def test_strength_of_the_penalty_of_spurious_colours(monkeypatch):
    """5 for RMTS, 1 for the other three."""
    runs = plan_of("relational-spurious", monkeypatch).runs
    found = {(run.settings.task.name, run.settings.model.l1) for run in runs}
    assert {pair for pair in found if pair[1]} == {
        *(("rmts", 5.0), ("same-different", 1.0), ("dist3", 1.0), ("identity-rules", 1.0))
    }
    assert all(run.settings.task.spurious for run in runs)


def test_the_curves_over_held_out_shapes_share_the_runs_of_the_table(monkeypatch):
    plans = (plan_of(f"relational-{name}", monkeypatch) for name in ("basic", "holdout"))
    basic, curves = ({run.identity for run in plan.runs} for plan in plans)
    assert len(basic & curves) == 4 * 5


def test_tables_of_relational_sweeps(tmp_path):
    """From made-up scores: which cell is whose, runs of two sweeps in one table, what was reported."""
    import json

    import relational_tables as tables

    def store(name, *runs):
        rows = [{"seed": 0, "status": "done", **run} for run in runs]
        (tmp_path / f"relational-{name}.json").write_text(json.dumps(rows))

    basic = {"model": "corelnet", "task": "rmts", "test_accuracy": 0.9}
    store("basic", basic, {**basic, "seed": 1, "test_accuracy": 0.7}, {**basic, "model": "rn", "test_accuracy": 0.5})
    changed = {**basic, "similarity": None, "sensory": None, "encoder": None, "test_accuracy": 0.6}
    store("ablations", {**changed, "sensory": True}, {**changed, "task": "dist3", "encoder": "random"})
    assert tables.accuracies(tmp_path, "relational-basic") == [
        ["", "rmts"], ["corelnet", "80.0 (70.0 - 90.0)"], ["rn", "50.0"],
    ]  # fmt: skip
    assert tables.accuracies(tmp_path, "relational-ablations") == [
        ["", "rmts", "dist3"],
        ["corelnet", "80.0 (70.0 - 90.0)", "-"],
        ["corelnet, with codes", "60.0", "-"],
        ["corelnet, random encoder", "-", "60.0"],
    ]
    game = {"model": "esbn", "test_accuracy": 0.6, "test-stripes_accuracy": 0.55}
    store("games", *({**game, "rule": rule} for rule in tables.REPORTED))
    lines = tables.accuracies(tmp_path, "relational-games")
    assert lines[1:3] == [["same", "hexominoes", "60.0 [60.9]"], ["same", "stripes", "55.0 [60.5]"]]
    assert lines[-1] == ["left-of", "hexominoes", "60.0 [49.9]"]
    assert {*tables.LAYOUTS, "relational-games"} == {f"relational-{name}" for name in RUNS_OF_RELATIONAL}

"""The settings of experiments/ that docs/results calls a paper's are the paper's."""

import math
import sys
from pathlib import Path

import pytest
import torch

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="the experiments are not part of a wheel")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield
    for name in ("as_printed", "depth_memory", "role_of_depth", "training", "kept"):
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


@pytest.mark.parametrize("task", ["copying-memory", "start-end"])
def test_protocol_of_ziv(task):
    import depth_memory

    given = depth_memory.settings(task, 2, 20, 0).resolved()
    optimiser, budget = given.optimiser, given.budget
    assert (optimiser.name, optimiser.alpha, optimiser.clip) == ("rmsprop", 0.9, 0)
    assert (optimiser.lr, optimiser.lr_orthogonal, budget.batch) == (1e-3, 1e-4, 128)
    assert (budget.samples, budget.valid_samples, budget.test_samples) == (0, 4992, 9984)


def test_protocol_of_the_role_of_depth():
    import role_of_depth

    parity, text = role_of_depth.ITEMS["parity"], role_of_depth.ITEMS["shakespeare"]
    assert parity.settings.items() >= {"samples": 10_000, "clip": 0, "lr": 1e-3}.items()
    widths = {case.layers: case.widths for case in parity.cases if case.model == "depth-rnn"}
    assert min(*widths[4], *widths[8]) > 50
    for name in ("sinus", "copy-sinus"):
        assert {case.layers for case in role_of_depth.ITEMS[name].cases} == {1, 2, 4, 8}
    cases = {case.model: case for case in text.cases}
    assert cases["cprnn"].options["rank"] == 2 * cases["cprnn"].widths[0]
    assert cases["s4"].options["block_dropout"] == 0.1
    assert cases["s4"].settings == {"lr": 1e-4, "batch": 32}


def test_copy_follows_table_a1():
    import training

    printed = {name: command for name, (_, command) in training.ROWS.items() if name.startswith("copy-printed")}
    assert len(printed) == 5
    for command in printed.values():
        assert "--delay 200 --batch 10 --steps 1500 --optimizer rmsprop --clip 0" in command
    assert "--lr 5e-4 --lr-orthogonal 1e-6" in printed["copy-printed-nnrnn"]
    assert "--gamma-penalty 1e-4 --decay 1e-6" in printed["copy-printed-nnrnn"]
    assert "--init cayley --gamma-penalty 0.15 --decay 1e-4" in training.ROWS["psmnist-nnrnn"][1]

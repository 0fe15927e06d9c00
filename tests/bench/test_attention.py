"""``engram bench attention`` at a tiny size: what it returns, the loop it restates, the exponents it fits."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.bench import ATTENTION_TARGETS, attention, bench_attention, plot_attention
from engram.bench import _attention_layers as layers
from engram.bench._markdown import markdown
from engram.bench._per_sample import PerSampleRelRNN
from engram.nn import RelRNN


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sizes, and memory without processes: linear, but for MemRNN as autograd differentiates it."""
    for name, value in {"B": 2, "H": 6, "D": 3}.items():
        monkeypatch.setattr(layers, name, value)
    monkeypatch.setattr(layers, "step_memory", lambda name, steps: steps ** (2 if "plain" in name else 1) / 10)
    monkeypatch.setattr(layers, "stream_growth", lambda name, steps: 1.0)
    monkeypatch.setattr(attention, "LENGTHS", (6, 12, 24))
    monkeypatch.setattr(attention, "AT", (5, 3))


def test_result(tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = layers.installed()[:1]  # none without the extra bench
    monkeypatch.setattr(layers, "installed", lambda: peers)
    told: list[str] = []
    result = bench_attention(repeats=1, tell=told.append)
    assert [line.partition(",")[0] for line in told] == ["T=6", "T=12", "T=24"]
    assert {row["contestant"] for row in result["rows"]} == {*layers.LAYERS, *peers}
    assert all(row["median_ms"] > 0 for row in result["rows"])
    assert math.isclose(result["exponents"]["MemRNN, plain loop"]["memory_mb"], 2)
    assert math.isclose(result["summary"]["memory exponent, RelRNN"]["geomean"], 1)
    asked = {name.replace("T=4000", "T=24").replace("T=250", "T=6").replace("T=400 B=64", "T=5 B=3")
             for name in ATTENTION_TARGETS}  # fmt: skip
    assert asked <= result["summary"].keys()
    assert "LRU-pytorch is not installed, and left out" in result["notes"]
    plot_attention(result, tmp_path / "attention.svg")
    assert (tmp_path / "attention.svg").stat().st_size > 5000
    page = markdown("attention", "bench attention", result, ("T", "B", "H", "D"), ATTENTION_TARGETS)
    assert "Peak memory of a training step" in page
    assert "| memory exponent, RelRNN | 1.00 | 1.00 | mean ≤ 1.05 | yes |" in page


def test_the_summary_by_hand() -> None:
    """The ratio to the authors' loop is worst where it is largest; where that loop was left out there is none."""
    times = {"RelRNN": {10: 2.0, 20: 3.0, 40: 8.0}, attention.LOOP: {10: 20.0, 20: 60.0}, "RNN": {40: 1.0}}
    rows = [
        {"T": steps, "contestant": name, "median_ms": found, "memory_mb": 5.0 * steps if name == "RelRNN" else 50.0}
        for name, by_length in times.items()
        for steps, found in by_length.items()
    ]
    found = attention._summary(rows)
    assert found[f"RelRNN/{attention.LOOP}"] == pytest.approx({"geomean": 0.075, "worst": 0.1})
    assert found["RelRNN, time per step, T=40/T=10"] == pytest.approx({"geomean": 1.0, "worst": 1.0})
    assert found["peak memory, T=40, RelRNN/RNN"]["worst"] == 4.0


def test_what_would_take_too_long_is_left_out(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"T": steps, "contestant": name, "median_ms": 100.0 * steps**power, "memory_mb": 1.0 * steps**power}
        for steps in (10, 20)
        for name, power in (("RNN", 1), ("MemRNN", 2))
    ]
    monkeypatch.setattr(attention, "LONGEST", 100.0)
    notes: list[str] = []
    assert attention._fit(["RNN", "MemRNN"], rows, 40, notes) == ["RNN"]  # 4 s, and 160 s
    assert notes == ["MemRNN is left out from T=40 on: it would take about 160 s per step"]
    monkeypatch.setattr(attention, "LONGEST", 1e6)
    monkeypatch.setattr(attention, "free_memory", lambda: 1000.0)
    assert attention._fit(["RNN", "MemRNN"], rows, 40, notes) == ["RNN"]
    assert notes[-1].endswith("about 1,600 MB")


def test_the_authors_loop_computes_a_relrnn() -> None:
    """Values and gradients: the restated loop is a fair contestant, with a mean of h and context as they ran it."""
    torch.manual_seed(3)
    theirs = PerSampleRelRNN(3, 5, nu=3, rho=2).double()
    ours = RelRNN(3, 5, nu=3, rho=2, combine="mean", dtype=torch.float64)
    cell: Any = ours.cells[0]
    pairs = {
        "weight_ih": theirs.input.weight, "bias": theirs.input.bias, "weight_hh": theirs.recurrent.weight,
        "weight_query": theirs.query.weight, "weight_key": theirs.key.weight, "weight_align": theirs.align,
    }  # fmt: skip
    with torch.no_grad():
        for name, weight in pairs.items():
            getattr(cell, name).copy_(weight)
    x = torch.randn(14, 4, 3, dtype=torch.float64)
    outputs = [theirs(x)[0], ours(x)[0]]
    torch.testing.assert_close(*outputs, atol=1e-12, rtol=0)
    for output in outputs:
        output.square().sum().backward()
    for name, weight in pairs.items():
        torch.testing.assert_close(weight.grad, getattr(cell, name).grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", layers.PEERS)
def test_peers_have_at_most_the_parameters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(layers.PEERS[name])
    peer = layers.matched(name, 6000)
    assert 3000 < layers.count(peer) <= 6000
    output = peer(torch.randn(5, 2, layers.D))[0]
    assert output.shape == (5, 2, peer.input.out_features)
    output.sum().backward()
    assert all(p.grad is not None for p in peer.input.parameters())


@pytest.mark.slow
def test_memory_of_a_child_and_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"B": 16, "H": 64, "D": 3}.items():
        monkeypatch.setattr(layers, name, value)
    short, long = (layers.step_memory("RNN", steps) for steps in (1000, 4000))
    assert 1.5 < long / short < 6  # linear, in pages of a process that has some memory free
    assert 0.9 < layers.stream_growth("RelRNN", 40_000) < 1.1


@pytest.mark.slow
def test_only_the_tape_of_autograd_grows_with_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the steps: about four times the memory of our MemRNN, about sixteen times that of the tape."""
    for name, value in {"B": 8, "H": 64, "D": 3}.items():
        monkeypatch.setattr(layers, name, value)
    names = ("MemRNN", "MemRNN, plain loop")
    grown = {name: layers.step_memory(name, 800) / layers.step_memory(name, 200) for name in names}
    assert grown["MemRNN"] < 8 < grown["MemRNN, plain loop"]

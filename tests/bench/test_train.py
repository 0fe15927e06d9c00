"""``engram bench train``: what it returns, and that both loops train the same."""

import re
from pathlib import Path

import pytest
import torch

from engram.bench import TRAIN_TARGETS, bench_train, plot_train, train
from engram.bench.train import CASES, bare_loop, engram_loop
from engram.cli import main
from engram.tasks import Parity
from engram.train import RunDirectory, Settings

TINY = Settings.of(Parity(length=4), "exprnn", hidden=4, batch=2, validate_every=0, save_every=0)


def test_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "STEPS", 2)
    lines: list[str] = []
    result = bench_train(quick=True, repeats=1, tell=lines.append)
    assert result.keys() == {"summary", "rows", "machine"}
    assert result["summary"].keys() == TRAIN_TARGETS.keys()
    (ratio,) = result["summary"].values()
    assert ratio["geomean"] == pytest.approx(ratio["worst"])  # one case
    assert ratio["worst"] > 0
    assert [row["contestant"] for row in result["rows"]] == ["bare loop", "engram train"]
    assert {row["case"] for row in result["rows"]} == {list(CASES)[-1]}
    assert all(0 < row["min_ms"] <= row["median_ms"] <= row["max_ms"] for row in result["rows"])
    (line,) = lines
    assert re.fullmatch(r"parity, length 20, rnn 32: \d+\.\d{3} of a bare loop", line)
    plot_train(result, tmp_path / "train.svg")
    assert (tmp_path / "train.svg").read_text().count("<svg") == 1


def test_ratio_is_ours_over_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round by round, then the median: 3, 2, 1 over 1, 1, 2."""
    times = {"bare loop": [1.0, 1.0, 2.0], "engram train": [3.0, 2.0, 1.0]}
    monkeypatch.setattr(train, "interleaved", lambda contestants, repeats: times)
    result = bench_train(quick=True, repeats=3, tell=lambda line: None)
    assert result["summary"]["engram train/bare loop"] == {"geomean": pytest.approx(2.0), "worst": 2.0}


def test_every_case_is_raced(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {name: case.replace(hidden=4, batch=2) for name, case in CASES.items()}
    monkeypatch.setattr(train, "CASES", tiny)
    monkeypatch.setattr(train, "STEPS", 1)
    told: list[str] = []
    result = bench_train(repeats=1, tell=told.append)
    assert [line.split(":")[0] for line in told] == list(CASES)
    assert len(result["rows"]) == 2 * len(CASES)


@pytest.mark.parametrize("model", ["exprnn", "nnrnn", "lstm"])
def test_both_loops_train_the_same_network(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same shapes, the same rates, every parameter trained, as many steps; only what is around differs."""
    monkeypatch.setattr(train, "STEPS", 3)
    settings = TINY.replace(model=model)
    hand = bare_loop(settings)
    held = dict(zip(hand.__code__.co_freevars, (cell.cell_contents for cell in hand.__closure__ or ()), strict=True))

    def rates(optimizers: list[torch.optim.Optimizer]) -> tuple[set[float], int]:
        groups = [group for optimizer in optimizers for group in optimizer.param_groups if group["params"]]
        return {group["lr"] for group in groups}, sum(p.numel() for group in groups for p in group["params"])

    with engram_loop(settings, tmp_path / "run") as ours:
        cells = zip(ours.__code__.co_freevars, ours.__closure__ or (), strict=True)
        worker = {name: cell.cell_contents for name, cell in cells}["worker"]
        shapes = {name: p.shape for name, p in held["network"].named_parameters()}
        assert shapes == {name: p.shape for name, p in worker.loop.network.named_parameters()}
        assert rates([held["optimizer"]]) == rates(worker.loop.optimizers.all)
        before = [p.detach().clone() for p in held["network"].parameters()]
        hand()
        ours()
        assert any(not torch.equal(p, old) for p, old in zip(held["network"].parameters(), before, strict=True))
        assert worker.loop.step == 3
        ours()
        assert worker.loop.step == 6
    assert (tmp_path / "run" / "checkpoint.json").exists()
    assert RunDirectory(tmp_path / "run").status == "running"


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "STEPS", 1)
    assert main(["bench", "train", "--quick", "--repeats", "1"]) == 0
    said = capsys.readouterr()
    assert "engram train/bare loop" in said.out
    assert "mean <= 1.05" in said.out
    assert "figure: bench-train.svg" in said.err
    assert (tmp_path / "bench-train.svg").exists()

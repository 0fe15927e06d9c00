"""``engram bench runs``: real runs, as many at once as it says."""

import shutil
import sys
from pathlib import Path

import pytest

from engram.bench import RUNS_TARGETS, bench_runs, plot_runs, runs

TINY = ["parity", "--length", "4", "--hidden", "4", "--batch", "2", "--test-samples", "2"]


@pytest.mark.slow
def test_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven processes and what they took."""
    monkeypatch.setattr(runs, "CASES", {"parity": TINY})
    monkeypatch.setattr(runs, "STEPS", 4)
    lines: list[str] = []
    result = bench_runs(quick=True, repeats=1, tell=lines.append)
    assert result["summary"].keys() == RUNS_TARGETS.keys()
    assert [row["contestant"] for row in result["rows"]] == ["1 at once", "2 at once", "4 at once"]
    assert all(ratio["geomean"] == pytest.approx(ratio["worst"]) for ratio in result["summary"].values())
    assert len(lines) == 2
    plot_runs(result, tmp_path / "runs.svg")
    assert (tmp_path / "runs.svg").read_text().count("<svg") == 1


@pytest.mark.slow
def test_a_run_that_is_refused_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match=r"a run ended with exit code 2: parity --hidden 0"):
        runs.run_at_once(1, ["parity", "--hidden", "0"], 4)


@pytest.mark.skipif(shutil.which("false") is None, reason="a program of POSIX")
def test_a_run_that_fails_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))  # in place of Python
    with pytest.raises(RuntimeError, match=r"a run ended with exit code 1: parity --length 4"):
        runs.run_at_once(2, ["parity", "--length", "4"], 4)


def test_ratio_is_several_over_one(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"1 at once": [1.0, 2.0, 3.0], "2 at once": [3.0, 2.0, 2.5], "4 at once": [9.0, 5.0, 5.0]}
    monkeypatch.setattr(runs, "interleaved", lambda contestants, repeats: times)
    result = bench_runs(quick=True, repeats=3, tell=lambda line: None)
    assert [ratio["worst"] for ratio in result["summary"].values()] == [1.25, 2.5]

"""``engram bench maps`` at tiny sizes: what it returns, and that every contestant builds."""

from pathlib import Path

import pytest

from engram.bench import MAP_TARGETS, bench_maps, maps, plot_maps


def test_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(maps, "SIZES", (8, 12))
    monkeypatch.setattr(maps, "OPERATOR_SIZES", (8, 16, 32, 64))
    lines: list[str] = []
    result = bench_maps(repeats=2, tell=lines.append)
    assert len(lines) == 2
    assert result["summary"].keys() >= {*MAP_TARGETS, "exponents"}
    assert set(result["summary"]["exponents"]) == set(maps.OPERATORS)
    assert {row["contestant"] for row in result["rows"]} >= {*maps.OURS, "torch.linalg.matrix_exp", "torch cayley"}
    assert all(row["median_ms"] > 0 for row in result["rows"])
    plot_maps(result, tmp_path / "maps.svg")
    assert (tmp_path / "maps.svg").stat().st_size > 5000

"""``engram bench token`` at a tiny size: what it returns, and that every contestant steps."""

from pathlib import Path

import pytest

from engram.bench import TOKEN_TARGETS, bench_token, plot_token, token


def test_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(token, "SIZES", (4, 6))
    monkeypatch.setattr(token, "TOKENS", 2)
    lines: list[str] = []
    result = bench_token(repeats=2, tell=lines.append)
    assert [line.partition(",")[0] for line in lines] == ["H=4", "H=6"]
    assert result["summary"].keys() == {f"{name}/torch.nn.LSTM" for name in token.OURS} >= TOKEN_TARGETS.keys()
    assert {row["contestant"] for row in result["rows"]} == {*token.OURS, "torch.nn.LSTM", "torch.nn.RNN"}
    assert all(row["median_ms"] > 0 for row in result["rows"])
    plot_token(result, tmp_path / "token.svg")
    assert (tmp_path / "token.svg").stat().st_size > 5000

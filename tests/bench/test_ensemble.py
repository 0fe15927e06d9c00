"""``engram bench ensemble``: what it returns."""

from pathlib import Path

import pytest

from engram.bench import ENSEMBLE_TARGETS, bench_ensemble, plot_ensemble
from engram.bench.ensemble import MODELS


@pytest.mark.slow
def test_result(tmp_path: Path) -> None:
    told: list[str] = []
    result = bench_ensemble(quick=True, repeats=1, tell=told.append)
    assert [row["contestant"] for row in result["rows"]] == ["1 alone", "8 as one", "2 workers of 4"]
    assert all(row["median_ms"] > 0 for row in result["rows"])
    assert result["summary"].keys() == {"exprnn: 8 as one/1 alone", "exprnn: 8 as one/2 workers of 4"}
    assert result["summary"].keys() <= ENSEMBLE_TARGETS.keys()
    assert len(told) == 1
    plot_ensemble(result, tmp_path / "ensemble.svg")
    assert (tmp_path / "ensemble.svg").stat().st_size > 1000


@pytest.mark.slow
def test_all_models() -> None:
    result = bench_ensemble(repeats=1, tell=lambda line: None)
    assert [row["case"] for row in result["rows"]] == [model for model in MODELS for _ in range(3)]
    assert result["summary"].keys() == {
        *ENSEMBLE_TARGETS, "corelnet: 8 as one/1 alone", "corelnet: 8 as one/2 workers of 4",
    }  # fmt: skip

"""``engram bench certify``: what it returns, and that its cases are what they are called."""

from pathlib import Path

import pytest

from engram.bench import CERTIFY_TARGETS, bench_certify, certify, plot_certify
from engram.bench.certify import BASE, cases, certificate_memory, random_rank


@pytest.mark.parametrize("side", [1024, 4096])
def test_cases(side: int) -> None:
    """All of one side; half of them can have full rank, half cannot."""
    claims = list(cases(side).values())
    assert {claim.side for claim in claims} == {side}
    assert [claim.upper == side for claim in claims] == [True] * 3 + [False] * 3


def test_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tiny = cases(64)
    monkeypatch.setattr(certify, "cases", lambda side: tiny)
    monkeypatch.setattr(certify, "random_rank", lambda side: random_rank(64))
    monkeypatch.setattr(certify, "certificate_memory", lambda name, side: 256.0)
    told: list[str] = []
    result = bench_certify(quick=True, repeats=1, tell=told.append)
    assert [line.rpartition(":")[0] for line in told] == list(tiny)
    assert [row["contestant"] for row in result["rows"]] == [BASE, *tiny]
    assert [row["rank"] for row in result["rows"][1:]] == [64, 64, 64, 64, 14, 1]
    assert all(row["memory"] == 32.0 for row in result["rows"][1:])  # 256 MB over 8 x 1024^2 bytes
    assert result["summary"].keys() == CERTIFY_TARGETS.keys()
    plot_certify(result, tmp_path / "certify.svg")
    assert (tmp_path / "certify.svg").read_text().count("<svg") == 1


@pytest.mark.slow
def test_memory_is_that_of_the_matrices() -> None:
    """The matrix and FLINT's copy, 8 MB each, and little more."""
    name = next(iter(cases(1024)))
    assert 12 < certificate_memory(name, 1024) < 64

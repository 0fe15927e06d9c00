"""``engram bench linear`` from end to end, on lengths of seconds: the asked-for keys, and a figure."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engram.bench import linear, plot_linear


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "LENGTHS", (8, 16))
        told: list[str] = []
        found = linear.bench_linear(repeats=2, tell=told.append)
    assert len(told) == 2
    return found


def test_rows_and_ratios(result: dict[str, Any]) -> None:
    names = {row["contestant"] for row in result["rows"]}
    assert len(result["rows"]) == 2 * len(names)
    assert {name for pair in linear.PAIRS for name in pair} == names
    assert set(linear.TARGETS) <= result["summary"].keys()
    assert sum(key.startswith("time per step of ") for key in result["summary"]) == len(names)
    assert all(row["min_ms"] <= row["median_ms"] <= row["max_ms"] for row in result["rows"])
    assert json.loads(json.dumps(result)) == result


def test_figure(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "new" / "linear.svg"
    plot_linear(result, path)
    assert ElementTree.parse(path).getroot().tag.endswith("svg")

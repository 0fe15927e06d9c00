"""Tables on standard output when that is a pipe: nothing is cut."""

import pytest

from engram.cli._bench_show import show

NAME = "a layer with a long name / another layer whose name is as long as this one is, and a word more"


def test_no_name_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    row = {"T": 784, "contestant": NAME, "median_ms": 1.0, "min_ms": 0.5, "max_ms": 2.0, "share": None}
    machine = {"processor": "none", "cores": 2, "load_average": [0.0], "torch": "2.13.0"}
    result = {"rows": [row], "summary": {NAME: {"geomean": 1.0, "worst": 1.0}}, "machine": machine}
    show(result, ("T",), NAME, {NAME: (0.6, 0.9)})
    printed = capsys.readouterr().out
    assert printed.count(NAME) == 3  # a row, the head of its ratio, the summary
    assert "…" not in printed

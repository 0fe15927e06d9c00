"""What the figures of the benches show: the ratios and the costs that follow from known times, by hand."""

from pathlib import Path
from typing import Any

import pytest

from engram.bench import _figure, _figure_attention, plot_attention

SIZE = {"T": 20, "B": 3, "H": 4, "D": 2}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was handed to the drawing of bars, dots and labels at the right, which are drawn all the same."""
    calls: list[Any] = []
    for name in ("bars", "dots", "label_right"):
        draw = getattr(_figure, name)
        monkeypatch.setattr(
            _figure, name, lambda axes, what, *more, draw=draw: (calls.append(what), draw(axes, what, *more))
        )
    return calls


def rows(times: dict[str, dict[str, float]], **more: Any) -> dict[str, Any]:
    """A result with these milliseconds, by case and contestant."""
    return {
        "rows": [
            {"case": case, "contestant": who, "median_ms": found, **more}
            for case, by_name in times.items()
            for who, found in by_name.items()
        ]
    }


def test_train(shown: list[Any], tmp_path: Path) -> None:
    _figure.plot_train(rows({"a": {"bare loop": 2.0, "engram train": 3.0}}), tmp_path / "a.svg")
    assert shown == [{"a": 1.5}]


def test_runs(shown: list[Any], tmp_path: Path) -> None:
    """A name may have commas of its own."""
    times = {"copy, delay 9": {"1 at once": 2.0, "2 at once": 5.0}, "copy, delay 8": {"1 at once": 4.0}}
    _figure.plot_runs(rows(times), tmp_path / "a.svg")
    assert shown == [{"copy, delay 9, 1 at once": 1.0, "copy, delay 9, 2 at once": 2.5, "copy, delay 8, 1 at once": 1}]


def test_tasks(shown: list[Any], tmp_path: Path) -> None:
    """Over the first contestant, which is not shown itself."""
    times = {"rmts": {"plain": 4.0, "fresh": 2.0}, "dist3": {"plain": 1.0, "fresh": 3.0}}
    _figure.plot_tasks(rows(times), tmp_path / "a.svg")
    assert shown == [{"rmts, fresh": 0.5, "dist3, fresh": 3.0}]


def test_ensemble(shown: list[Any], tmp_path: Path) -> None:
    _figure.plot_ensemble(rows({"lstm": {"1 alone": 2.0, "8 as one": 3.0}}), tmp_path / "a.svg")
    assert shown == [{"lstm, 1 alone": 1.0, "lstm, 8 as one": 1.5}]


def test_token_and_certify(shown: list[Any], tmp_path: Path) -> None:
    summary = {"LSTM/torch.nn.LSTM": {"geomean": 0.5, "worst": 0.7}, "GRU/torch.nn.LSTM": {"geomean": 2.0, "worst": 3}}
    _figure.plot_token({"summary": summary}, tmp_path / "a.svg")
    found = [{"contestant": "FLINT", "side": 64}, {"contestant": "train", "side": 64, "rank": 9, "ratio": 1.25}]
    _figure.plot_certify({"rows": found}, tmp_path / "b.svg")
    assert shown == [{"LSTM": 0.5, "GRU": 2.0}, {"train, rank 9": 1.25}]


def test_layers(shown: list[Any], tmp_path: Path) -> None:
    """One panel for each number of threads, over torch's layer with as many."""
    result: dict[str, Any] = {"rows": []}
    for threads, ours, theirs in ((1, 2.0, 4.0), (2, 3.0, 2.0)):
        result["rows"] += rows({"": {"torch.nn.RNN": theirs, "engram": ours}}, threads=threads, **SIZE)["rows"]
    _figure.plot_layers(result, tmp_path / "a.svg")
    place = "T=20 B=3 H=4 D=2"
    assert shown == [{place: {"torch.nn.RNN": 1.0, "engram": 0.5}}, {place: {"torch.nn.RNN": 1.0, "engram": 1.5}}]


def test_maps(shown: list[Any], tmp_path: Path) -> None:
    """Milliseconds as they are; the fastest at the largest size comes first."""
    found = [rows({"": times}, N=n)["rows"] for n, times in ((8, {"a": 1.0, "b": 2.0}), (16, {"a": 6.0, "b": 5.0}))]
    _figure.plot_maps({"rows": [row for each in found for row in each]}, tmp_path / "a.svg")
    assert [list(table.items()) for table in shown] == [
        [("b", {"N = 8": 2.0, "N = 16": 5.0}), ("a", {"N = 8": 1.0, "N = 16": 6.0})]
    ]


def test_linear(shown: list[Any], tmp_path: Path) -> None:
    """Two milliseconds for twenty steps are 100 microseconds a step; the label stands at the longest."""
    found = [rows({"": {"S4D": ms}}, T=steps, B=2, H=4, N=8)["rows"][0] for steps, ms in ((20, 2.0), (40, 8.0))]
    _figure.plot_linear({"rows": found}, tmp_path / "a.svg")
    ((label,),) = shown
    assert (label.y, label.text) == (pytest.approx(200.0), "S4D")


def test_cells(shown: list[Any], tmp_path: Path) -> None:
    """Ratios to named layers are bars; those to the plain loop and the bare products are dots, each of its kind."""
    ratios = {"LSTM/torch.nn.LSTM": 0.5, "LSTM/plain loop": 0.25, "memory LSTM/plain loop": 0.3, "GRU/plain loop": 0.2,
              "LSTM without a compiler/plain loop": 0.6, "LSTM/bare products": 1.25}  # fmt: skip
    summary = {name: {"geomean": ratio, "worst": 9.0} for name, ratio in ratios.items()}
    _figure.plot_cells({"summary": summary}, tmp_path / "a.svg")
    assert shown == [
        {"LSTM/torch.nn.LSTM": 0.5},
        {
            "LSTM": {
                "time / plain loop": 0.25, "memory / plain loop": 0.3, "time without a compiler / plain loop": 0.6,
                "time / bare products": 1.25,
            },
            "GRU": {"time / plain loop": 0.2},
        },
    ]  # fmt: skip


def test_attention(tmp_path: Path) -> None:
    """Per step in microseconds, memory as it is; the lines that guide the eye grow with T and with its square."""
    row = {"contestant": "RNN", **SIZE, "median_ms": 5.0, "memory_mb": 7.0}
    assert [value(row) for value in _figure_attention.PANELS.values()] == [250.0, 7.0]
    drawn: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_figure_attention, "plain_log", lambda axis: drawn.append(axis.axes))
        plot_attention({"rows": [row, {**row, "T": 80, "memory_mb": 9.0}]}, tmp_path / "a.svg")
    guides = {line.get_label(): list(line.get_ydata()) for line in drawn[1].lines if line.get_label() != "RNN"}
    assert guides == {"T": [7.0, 28.0], "T^2": [7.0, 112.0]}

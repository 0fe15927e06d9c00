"""``engram bench cells`` at a tiny size: every figure that is asked for, of the right contestants."""

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.bench import CELL_TARGETS, _peers, bench_cells, cells, token
from engram.bench._cells import CELLS, PEERS, LeakyRNN
from engram.bench._size import Size
from engram.checks import check_contract
from engram.cli import main
from engram.errors import OptionError

TINY = (Size(6, 7, 8, 3),)


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Small sizes; torch.compile without its compiler, which takes half a minute; memory without processes."""
    compile = torch.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "SIZES", TINY)
        patch.setattr(cells, "QUICK", TINY[:1])
        patch.setattr(cells, "SIDE", 16)
        patch.setattr(cells, "peak_memory", lambda kind, size, executor="auto": 2.0 if executor == "plain" else 1.0)
        patch.setattr(token, "SIZES", (4,))
        patch.setattr(token, "QUICK", (4,))
        patch.setattr(_peers, "SIZE", Size(T=20, B=3, H=4, D=4))
        patch.setattr(torch, "compile", lambda run, **options: compile(run, **{"backend": "eager", **options}))
        yield


@pytest.fixture(scope="module")
def printed(small: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, Path]:
    """The result of the command with all cells, what it told, and the folder of its page and figure."""
    folder = tmp_path_factory.mktemp("bench")
    out, err = io.StringIO(), io.StringIO()
    words = [
        "--json",
        "--repeats",
        "1",
        "--figure",
        str(folder / "cells.svg"),
        "--markdown",
        str(folder / "a" / "b.md"),
    ]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(["bench", "cells", *words]) == 0
    return json.loads(out.getvalue()), err.getvalue(), folder


@pytest.mark.slow
def test_every_figure_is_there(printed: tuple[dict[str, Any], str, Path]) -> None:
    result, told, _ = printed
    assert result.keys() == {"summary", "shares", "rows", "peers", "notes", "machine"}
    assert result["summary"].keys() >= CELL_TARGETS.keys()
    assert all(0 < ratio["geomean"] <= ratio["worst"] * (1 + 1e-9) for ratio in result["summary"].values())
    assert told.count("thread(s) (") == 2 * len(TINY)
    assert told.count("memory of a training step") == len(CELLS)


@pytest.mark.slow
def test_every_contestant_at_every_size(printed: tuple[dict[str, Any], str, Path]) -> None:
    rows = printed[0]["rows"]
    places = {cells._key(row) for row in rows}
    assert places == {(threads, *size) for threads in (1, 2) for size in TINY}
    wanted = {name + kind for name in CELLS for kind in ("", cells.PLAIN, cells.BARE, cells.NO_COMPILER)} | {cells.BEST}
    wanted |= {name for name in PEERS if name.startswith("torch.nn")}
    for place in places:
        assert {row["contestant"] for row in rows if cells._key(row) == place} >= wanted


@pytest.mark.slow
def test_shares_follow_from_the_rows(printed: tuple[dict[str, Any], str, Path]) -> None:
    """flops / time, over that of the best product with as many threads; torch's layers do the same products."""
    rows = printed[0]["rows"]
    for threads in (1, 2):
        mine = [row for row in rows if row["threads"] == threads]
        rate = max(row["flops"] / row["min_ms"] for row in mine if row["contestant"] == cells.BEST)
        for row in mine:
            assert row["share"] == pytest.approx(row["flops"] / row["median_ms"] / rate), row["contestant"]
    flops = {row["contestant"]: row["flops"] for row in rows if cells._key(row) == (1, *TINY[0])}
    assert flops["torch.nn.LSTM"] == flops["LSTM"] == flops["LSTM" + cells.BARE] > flops["GRU"] > flops["RNN"]


@pytest.mark.slow
def test_peers(printed: tuple[dict[str, Any], str, Path]) -> None:
    """Each has a time, or says why not; what is compiled says how long that took."""
    rows = [row for row in printed[0]["peers"] if row["threads"] == 1]
    names = {row["contestant"] for row in rows}
    assert names >= {"torch.nn.LSTM", "engram.nn.LSTM", "torch.compile, step", "torch.compile, 16 steps", "torch scan",
                     "torch.compile, whole loop of 20", "minGRU-pytorch"}  # fmt: skip
    for row in rows:
        assert ("note" in row) != ("median_ms" in row)
    by_name = {row["contestant"]: row for row in rows}
    for name in ("torch.compile, step", "torch.compile, 16 steps", "torch.compile, whole loop of 20"):
        assert by_name[name]["compile_s"] is not None, by_name[name]
    assert by_name["engram.nn.LSTM"]["compile_s"] is None


@pytest.mark.slow
def test_page_and_figure(printed: tuple[dict[str, Any], str, Path]) -> None:
    result, _, folder = printed
    page = (folder / "a" / "b.md").read_text()
    for name in result["summary"]:
        assert f"| {name} |" in page
    assert "`engram bench cells --repeats 1 --json`" in page
    assert str(folder) not in page
    assert "<svg" in (folder / "cells.svg").read_text()


@pytest.mark.slow
def test_wrong_gradients_are_told(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contestant that computes something else has no time, but a row."""
    monkeypatch.setattr(_peers, "scanned", lambda: lambda d, h, c, w: _peers.steps(d, h, c, w.detach() * 1.0 + 0 * w))
    rows = {row["contestant"]: row for row in _peers.race_peers(1, 1, lambda line: None, quick=True)}
    assert rows["torch scan"]["note"].startswith("wrong gradient of weight_hh_l0")
    assert not any("whole loop" in name for name in rows)  # quick
    monkeypatch.setattr(_peers, "scanned", lambda: 1 / 0)
    rows = {row["contestant"]: row for row in _peers.race_peers(1, 1, lambda line: None, quick=True)}
    assert rows["torch scan"]["note"] == "fails: ZeroDivisionError: division by zero"


@pytest.mark.slow
def test_some_cells_and_the_tables(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        figure = str(tmp_path / "a.png")
        assert main(["bench", "cells", "--quick", "--repeats", "1", "--figure", figure, "--only", "LSTM", "GORU"]) == 0
    out = capsys.readouterr().out
    for said in ("LSTM/torch.nn.LSTM", "mean <= 0.6, worst <= 0.9", "GORU/bare products", "GORU/torch.nn.GRU"):
        assert said in out
    for said in ("Share of the best", "Other ways to run an LSTM", "torch.compile, 16 steps", "engram.nn.MinGRU"):
        assert said in out
    assert "MIRNN" not in out


def test_without_lstm(small: None) -> None:
    """Neither its peers nor its tokens; torch's GRU has the products of ours, which does not race."""
    result = bench_cells(True, 1, lambda line: None, only=("GORU",))
    assert result["peers"] == []
    assert "one token, LSTM/torch.nn.LSTM" not in result["summary"]
    flops = {row["contestant"]: row["flops"] for row in result["rows"]}
    assert "GRU" not in flops
    assert flops["torch.nn.GRU"] == flops["GORU"]  # three products each way


@pytest.mark.slow
def test_heavy_cells_are_left_out(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MOST_FLOPS", 3e4)
    result = bench_cells(True, 1, lambda line: None, only=("RNN", "CPRNN"))
    assert "CPRNN" not in {row["contestant"] for row in result["rows"]}
    assert any("CPRNN needs more than" in note for note in result["notes"])
    assert "RNN/plain loop" in result["summary"]


def test_unknown_cells() -> None:
    with pytest.raises(OptionError, match=r"unknown cell 'LSTN': expected one of .*LSTM"):
        bench_cells(only=("LSTN",))


def test_threads_are_restored(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(cells, "_race", lambda *a: 1 / 0)
    try:
        torch.set_num_threads(3)
        with pytest.raises(ZeroDivisionError):
            bench_cells(only=("RNN",))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_cell_of_a_user() -> None:
    check_contract(LeakyRNN)

"""``engram bench layers`` from end to end, on sizes of seconds: one JSON, the asked-for keys, a figure."""

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import engram
from engram.bench import LAYER_TARGETS as TARGETS
from engram.bench import bench_layers, layers, plot_layers
from engram.bench._contestants import ENGRAM
from engram.bench._memory import peak_memory
from engram.bench._size import Size
from engram.bench._worker_program import version_in
from engram.cli import main

ORIGINAL = layers.SIZES, layers.QUICK
TINY = (Size(6, 3, 8, 1), Size(4, 2, 5, 3))
MEMORY = Size(400, 32, 64, 1)  # tens of megabytes for the Python loop: far above the noise of a process
ASKED = ("engram/torch.nn.RNN", "engram-uncompiled/torch.nn.RNN", "engram/python-loop", "engram/floor")
AGAINST = "engram/earlier engram"
ROW = {"threads", "T", "B", "H", "D", "contestant", "median_ms", "min_ms", "max_ms"}


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """The bench with small sizes, without the runs at T=4000, and with memory that is not measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "SIZES", TINY)
        patch.setattr(layers, "QUICK", TINY[:1])
        patch.setattr(layers, "MEMORY", MEMORY)
        patch.setattr(layers, "_growth", lambda repeats: 1.0)
        patch.setattr(layers, "peak_memory", lambda kind, size: 1.0 if kind == ENGRAM["engram"] else 4.0)
        yield


@pytest.fixture(scope="module")
def printed(small: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """Standard output and standard error of ``engram bench layers --json``, and its figure."""
    figure = tmp_path_factory.mktemp("bench") / "new folder" / "layers.svg"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(["bench", "layers", "--json", "--repeats", "2", "--figure", str(figure)]) == 0
    return out.getvalue(), err.getvalue(), figure


@pytest.fixture(scope="module")
def result(printed: tuple[str, str, Path]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed[0])
    return found


def test_standard_output_is_one_json(printed: tuple[str, str, Path]) -> None:
    """Progress goes to standard error, a line a size and thread count."""
    out, err, _ = printed
    assert out.count("\n") == 1
    assert err.count("torch.nn.RNN") == len(TINY) * 2


def test_keys(result: dict[str, Any]) -> None:
    assert result.keys() == {"summary", "rows", "machine"}
    assert result["summary"].keys() >= {*ASKED, *TARGETS} - {AGAINST}  # which needs an earlier version
    assert AGAINST not in result["summary"]
    for name, ratio in result["summary"].items():
        assert ratio.keys() == {"geomean", "worst"}, name
        assert 0 <= ratio["geomean"] <= ratio["worst"], name
    assert all(result["summary"][name]["geomean"] > 0 for name in ASKED)


def test_rows(result: dict[str, Any]) -> None:
    """Every contestant at every size and with one thread and two."""
    rows = result["rows"]
    assert all(row.keys() == ROW for row in rows)
    assert all(0 < row["min_ms"] <= row["median_ms"] <= row["max_ms"] for row in rows)
    raced = {(row["threads"], row["T"], row["B"], row["H"], row["D"]) for row in rows}
    assert raced == {(threads, *size) for threads in (1, 2) for size in TINY}
    names = {row["contestant"] for row in rows}
    assert len(rows) == len(raced) * len(names)
    assert names >= {"engram", "engram-modrelu", "torch.nn.RNN", "torch.nn.LSTM", "python-loop", "floor"}


def test_summary_follows_from_the_rows(result: dict[str, Any]) -> None:
    times = {name: [row["median_ms"] for row in result["rows"] if row["contestant"] == name] for name in
             ("engram", "torch.nn.RNN")}  # fmt: skip
    ratios = [a / b for a, b in zip(times["engram"], times["torch.nn.RNN"], strict=True)]
    assert result["summary"]["engram/torch.nn.RNN"]["worst"] == pytest.approx(max(ratios))


def test_memory_is_ours_over_that_of_the_loop(result: dict[str, Any]) -> None:
    assert result["summary"]["memory engram/python-loop"]["geomean"] == pytest.approx(1 / 4)


@pytest.mark.slow
def test_memory_of_the_loop_is_that_of_its_tensors() -> None:
    """At least the states and the pre-activations of all steps; ours is less (half of it at the full size)."""
    of_loop = peak_memory(("engram.bench._contestants:LoopRNN", {}), MEMORY)
    assert of_loop > 2 * MEMORY.T * MEMORY.B * MEMORY.H * 4 / 2**20
    assert peak_memory(ENGRAM["engram"], MEMORY) < of_loop


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_figure(result: dict[str, Any], tmp_path: Path, ending: str) -> None:
    path = tmp_path / "figures" / f"layers{ending}"
    plot_layers(result, path)
    if ending == ".png":
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert path.stat().st_size > 5000


def test_figure_of_the_command(printed: tuple[str, str, Path]) -> None:
    assert "<svg" in printed[2].read_text()


def test_quick_and_the_table(small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json: a table of times, a table of ratios with what was asked for; one size, one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        assert main(["bench", "layers", "--quick", "--repeats", "1", "--figure", str(tmp_path / "a.png")]) == 0
    told = capsys.readouterr()
    assert told.err.count("1 thread(s)") == 1
    for said in ("Times", "Summary", "engram/torch.nn.RNN", "mean <= 0.6, worst <= 1.0"):
        assert said in told.out
    assert (tmp_path / "a.png").exists()


def test_threads_are_restored(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a contestant fails."""
    before = torch.get_num_threads()
    monkeypatch.setattr(layers, "contestants", lambda size: {"engram": lambda: 1 / 0})
    try:
        torch.set_num_threads(3)  # neither of the two that are raced
        with pytest.raises(ZeroDivisionError):
            bench_layers(tell=lambda line: None)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_sizes_asked_for() -> None:
    """Ten in all; two of them, with one thread, for --quick."""
    shapes = ((220, 10, 128), (784, 128, 128), (200, 128, 256), (200, 100, 512), (2000, 16, 128))
    assert set(ORIGINAL[0]) == {Size(*shape, features) for shape in shapes for features in (1, 64)}
    assert len(ORIGINAL[1]) == 2
    assert set(ORIGINAL[1]) <= set(ORIGINAL[0])


@pytest.mark.slow
def test_against_an_earlier_version(small: None, tmp_path: Path) -> None:
    """The earlier layers are those of the folder: here our own, copied, as an unpacked wheel of another version."""
    copy = tmp_path / "old"
    shutil.copytree(Path(engram.__file__).parent, copy / "engram", ignore=shutil.ignore_patterns("__pycache__"))
    facts = copy / "engram-0.0.1.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text("Metadata-Version: 2.1\nName: engram\nVersion: 0.0.1\n")
    result = bench_layers(True, 1, lambda line: None, copy)
    assert result["machine"]["against"] == "0.0.1"
    names = {row["contestant"] for row in result["rows"]}
    assert {f"earlier {name}" for name in ENGRAM} <= names
    assert result["summary"][AGAINST]["geomean"] > 0


def test_version_of_a_src(tmp_path: Path) -> None:
    """Not that of the engram which is installed."""
    assert version_in(tmp_path / "src") == "unknown"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "engram"\nversion = "0.0.2"\n')
    assert version_in(tmp_path / "src") == "0.0.2"


def test_against_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "layers", "--against", str(tmp_path), "--figure", str(tmp_path / "a.svg")]) == 2
    assert "must hold the package engram" in capsys.readouterr().err
    assert main(["bench", "maps", "--against", str(tmp_path), "--figure", str(tmp_path / "a.svg")]) == 2
    assert "--against needs 'engram bench layers', got maps" in capsys.readouterr().err

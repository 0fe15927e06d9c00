"""The learning curves of a run."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from engram.errors import OptionError, RunError
from engram.report import plot_curves
from engram.tasks import Adding, Copy, Task, TransferCopy
from engram.train import RunDirectory, Settings
from tiers import slow

LINES = [
    {"step": 1, "split": "train", "loss": 2.0, "accuracy": 0.1, "lr": 0.01, "seconds": 0.1},
    {"step": 2, "split": "train", "loss": 1.5, "accuracy": 0.2, "lr": 0.01, "seconds": 0.2},
    {"step": 2, "split": "valid", "loss": 1.6, "accuracy": 0.2, "seconds": 0.3},
    {"step": 4, "split": "valid", "loss": 1.1, "accuracy": 0.4, "seconds": 0.5},
    {"step": 4, "split": "test", "loss": 1.2, "accuracy": 0.3, "seconds": 0.6},
]


def make_run(folder: Path, lines: list[dict[str, object]], task: Task | None = None) -> RunDirectory:
    """A run that was never trained, with these lines."""
    run = RunDirectory.create(folder / "run", Settings.of(task or Copy(delay=3), "nnrnn", hidden=7, seed=5))
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def drawn(run: RunDirectory, path: Path) -> str:
    """The words of the picture: matplotlib draws letters as shapes and leaves the words as comments."""
    plot_curves(run, path)
    content = path.read_text(encoding="utf-8")
    assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    return " | ".join(re.findall(r"<!-- (.*?) -->", content))


def test_what_the_picture_says(tmp_path: Path) -> None:
    said = drawn(make_run(tmp_path, LINES), tmp_path / "curves.svg")
    for word in ("nnrnn on copy, 7 hidden units, seed 5", "train", "valid", "test", "loss", "accuracy", "step"):
        assert word in said
    assert "without | memory" in said
    assert "chance" in said


def test_lines_and_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line per split, an exam as one mark, nothing of a probe; each panel has its own level without memory."""
    figures: list[Figure] = []
    monkeypatch.setattr("engram.figures._style.save_figure", lambda figure, path: figures.append(figure))
    task = Copy(delay=3)
    plot_curves(
        make_run(tmp_path, [*LINES, {"step": 3, "split": "probe", "loss": 9.0, "accuracy": 0.9}], task),
        tmp_path / "a.svg",
    )
    expected = {
        "loss": {"train": [(1, 2.0), (2, 1.5)], "valid": [(2, 1.6), (4, 1.1)], "test": [(4, 1.2)]},
        "accuracy": {"train": [(1, 0.1), (2, 0.2)], "valid": [(2, 0.2), (4, 0.4)], "test": [(4, 0.3)]},
    }
    for axes, curves in zip(figures[0].axes, expected.values(), strict=True):
        lines = {line.get_label(): line for line in axes.lines if line.get_linestyle() != ":"}
        assert {name: list(zip(*line.get_data(), strict=True)) for name, line in lines.items()} == curves
        assert [bool(line.get_marker().strip()) for line in lines.values()] == [False, False, True]  # type: ignore[union-attr]
    levels = [line.get_ydata()[0] for axes in figures[0].axes for line in axes.lines if line.get_linestyle() == ":"]
    assert levels == [task.memoryless_baseline, task.chance]
    assert [axes.get_yscale() for axes in figures[0].axes] == ["log", "linear"]


def test_png(tmp_path: Path) -> None:
    plot_curves(make_run(tmp_path, LINES), tmp_path / "curves.png")
    content = (tmp_path / "curves.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 10_000


def test_same_run_same_picture(tmp_path: Path) -> None:
    """Byte for byte, so that it can be kept under version control."""
    run = make_run(tmp_path, LINES)
    plot_curves(run, tmp_path / "a.svg")
    plot_curves(run, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("line", [LINES[0], slow(LINES[2]), slow(LINES[4])])
def test_one_line_is_enough(tmp_path: Path, line: dict[str, object]) -> None:
    said = drawn(make_run(tmp_path, [line]), tmp_path / "curves.svg")
    assert str(line["split"]) in said.split(" | ")
    assert {"train", "valid", "test"} & {*said.split(" | ")} == {line["split"]}
    assert not re.search(r"\| \d\.\d+ \| step", said)  # there is no half step


def test_exams_of_other_delays(tmp_path: Path) -> None:
    longer = [*LINES, {"step": 4, "split": "test-200", "loss": 3.0, "accuracy": 0.15, "seconds": 1.0}]
    said = drawn(make_run(tmp_path, longer, TransferCopy(delay=3, tests=(200,))), tmp_path / "curves.svg")
    assert "test-200" in said


def test_a_task_whose_metric_is_its_loss(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"step": 1, "split": "train", "loss": 0.2, "mse": 0.2, "seconds": 0.1}]
    assert "mse" in drawn(make_run(tmp_path, lines, Adding(length=8)), tmp_path / "curves.svg")


def test_a_perfect_loss(tmp_path: Path) -> None:
    """Zero has no place on a logarithmic axis; the others do."""
    lines = [*LINES, {"step": 5, "split": "train", "loss": 0.0, "accuracy": 1.0, "seconds": 1.0}]
    assert "without | memory" in drawn(make_run(tmp_path, lines), tmp_path / "curves.svg")


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="run has no metrics yet: nothing to plot"):
        plot_curves(make_run(tmp_path, []), tmp_path / "curves.svg")
    assert not (tmp_path / "curves.svg").exists()


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.svg or \.png, got .*curves\.pdf"):
        plot_curves(make_run(tmp_path, LINES), tmp_path / "curves.pdf")

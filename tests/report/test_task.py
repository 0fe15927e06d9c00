"""Sheets of examples: of every task, readable; the right choice is the one that is framed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from engram.errors import DTypeError, OptionError
from engram.figures import ORANGE
from engram.report import plot_task
from engram.report._task import _options
from engram.tasks import (
    TASKS,
    Copy,
    Distribution3,
    DistributionN,
    RelationalGame,
    RelationalMatch,
    SameDifferent,
    Task,
    TransferCopy,
    make_task,
)
from engram.tasks.relational import OneAnswer
from readable import strange_colors
from tiers import slow_but

QUICK = ["copy", "adding", "ptb", "mnist-patches", "rmts", "dist-n", "relational-game"]


@pytest.mark.usefixtures("data_sets")
@pytest.mark.parametrize("name", slow_but(list(TASKS), QUICK))
def test_of_every_task(name: str, tmp_path: Path) -> None:
    path = tmp_path / "sheet.svg"
    assert plot_task(make_task(name), path) >= 1
    text = path.read_text()
    assert strange_colors(text) == set()
    assert f"<!-- {name}, train" in text


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    """The panels of the figure that is saved."""
    found: list[Axes] = []
    monkeypatch.setattr("engram.figures._style.save_figure", lambda figure, path: found.extend(figure.axes))
    return found


def framed(panel: Axes) -> list[int]:
    """Which images of a panel have the frame of the right choice, in the order in which they are shown."""
    return [place for place, patch in enumerate(panel.patches) if to_hex(patch.get_edgecolor()) == ORANGE]


@pytest.mark.parametrize("task", [RelationalMatch(50, "glyphs"), DistributionN(50, "glyphs", number=4)], ids=repr)
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_the_right_choice_is_framed(task: OneAnswer, split: str, panels: list[Axes]) -> None:
    count = plot_task(task, Path("sheet.svg"), 8, split, seed=3)
    batch = task.batches(split, count, 3, count)[0]
    first = task.steps - task.choice * task.output_size
    assert len(panels) >= count == 8
    for panel, answer in zip(panels, batch.targets[0].tolist(), strict=False):
        assert len(panel.patches) == len(panel.images) == task.steps
        assert framed(panel) == [first + answer * task.choice + k for k in range(task.choice)]
        assert panel.get_title("left") == f"choice {answer + 1}"


def test_the_images_are_those_of_the_trial(panels: list[Axes]) -> None:
    task = SameDifferent(50, "glyphs", spurious=True)
    plot_task(task, Path("sheet.svg"), 3)
    batch = task.batches("train", 3, 0, 3)[0]
    for row, panel in enumerate(panels[:3]):
        for step, image in enumerate(panel.images):
            expected = (task.objects()[batch.inputs[step, row]] * 255).round().permute(1, 2, 0)
            assert torch.equal(torch.as_tensor(image.get_array()).float(), expected)
        assert panel.get_title("left") == ("same", "different")[int(batch.targets[0, row])]
        assert framed(panel) == []


@pytest.mark.parametrize("view", ["crop", "canvas"])
def test_a_game_is_a_grid(view: Any, panels: list[Axes]) -> None:
    assert plot_task(RelationalGame("left-of", view), Path("sheet.svg"), 2, "test") == 2
    corners = {(image.get_extent()[0], image.get_extent()[3]) for image in panels[0].images}
    assert len(corners) == 9
    assert len({x for x, _ in corners}) == len({y for _, y in corners}) == 3


def test_rows_stand_below_each_other(panels: list[Axes]) -> None:
    """3, 2 and 4 images with a gap of 1/8, the first row at the top; the question is where the second row ends."""
    plot_task(Distribution3(50, "glyphs"), Path("sheet.svg"), 1)
    side = 1 + 1 / 8
    places = [(column * side, row * side) for row, many in enumerate((3, 2, 4)) for column in range(many)]
    for image, (x, y) in zip(panels[0].images, places, strict=True):
        assert image.get_extent() == pytest.approx((x, x + 1, y + 1, y))
    assert panels[0].get_ylim() == pytest.approx((3 * side, -1 / 8))
    (mark,) = panels[0].texts
    assert (mark.get_text(), mark.get_position()) == ("?", pytest.approx((2.5 * side, 1.5 * side)))
    assert not any(axes.axison for axes in panels[1:])


def test_an_exam_is_plotted_with_its_own_options(panels: list[Axes]) -> None:
    """Two symbols after 3 blank steps in training, after 40 in the exam."""
    for split, steps in (("train", 3), ("test-40", 40)):
        panels.clear()
        plot_task(TransferCopy(3, 2, tests=(40,)), Path("strip.svg"), 1, split)
        assert panels[0].images[0].get_array().shape[1] == steps + 4  # type: ignore[union-attr]


def test_only_options_that_are_on_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"delay": 0, "masked": True, "open": False, "tests": (), "rule": "xor"}
    monkeypatch.setattr(Copy, "options", lambda task: given)
    assert _options(Copy(3, 2)) == "delay 0, masked, rule xor"


@dataclass(frozen=True)
class Flags(Task):
    """A task of somebody else with images: no names of its answers, no rows."""

    input_shape, output_size, steps, chance, memoryless_baseline = (1, 8, 8), 2, 3, 0.5, 0.69
    answer = "last"
    sample = loss = metrics = None  # type: ignore[assignment]

    def batches(self, split: str, batch_size: int, seed: int = 0, size: int = 0) -> Any:
        one = torch.ones(1, batch_size, dtype=torch.long)
        return [(torch.rand(3, batch_size, 1, 8, 8), one, one.bool())]


def test_images_of_another_task(panels: list[Axes], monkeypatch: pytest.MonkeyPatch) -> None:
    from engram.tasks import Batch

    made = Flags.batches
    monkeypatch.setattr(Flags, "batches", lambda *args: [Batch(*made(*args)[0])])
    assert plot_task(Flags(), Path("sheet.svg"), 2) == 2
    assert panels[0].get_title("left") == "class 1"
    assert len(panels[0].images) == 3


def test_strips_have_what_is_seen_and_what_is_asked(panels: list[Axes]) -> None:
    task = Copy(5, 3)
    plot_task(task, Path("strip.svg"), 2)
    batch = task.batches("train", 2, 0, 2)[0]
    seen, asked = panels[0].images
    strength = torch.as_tensor(seen.get_array())[..., 3]
    assert torch.equal(strength.float(), batch.inputs[:, 0].T)
    shown = torch.as_tensor(asked.get_array())[..., 3].argmax(0)[-3:]
    assert torch.equal(shown, batch.targets[-3:, 0])


WRONG = {
    "ending": ({"path": Path("sheet.gif")}, OptionError, "must end in .svg or .png"),
    "split": ({"split": "tset"}, OptionError, "unknown split 'tset': expected one of test, train, valid"),
    "too many": ({"examples": 1000}, OptionError, "examples must be at most 48, got 1000"),
    "a half": ({"examples": 1.5}, DTypeError, "examples must be a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls(case: str, tmp_path: Path) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        plot_task(Copy(3, 2), **{"path": tmp_path / "sheet.svg", **options})  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())

"""The relational games: every answer found again from the pixels, and the frequencies counted in the public files."""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch

from engram.errors import OptionError
from engram.tasks import RelationalGame
from engram.tasks.relational._polyominoes import COLOURS, cells, object_sets, polyominoes
from engram.tasks.relational._rules import LINES, ON_A_LINE, Source

SETS = {"valid": "pentominoes", "test": "hexominoes", "test-stripes": "stripes"}
COUNT = 1500


class Seen(NamedTuple):
    """What is in a cell: all its pixels, where it is not black, its colours."""

    pixels: bytes
    shape: bytes
    colours: frozenset[tuple[int, int, int]]


@cache
def everything() -> list[Seen | None]:
    """What each object of the table is seen as; None for a blank cell."""
    table = RelationalGame().objects()
    assert table is not None
    return [look(image) for image in table[:, :, ::3, ::3].contiguous().numpy()]


def look(image: npt.NDArray[np.float32]) -> Seen | None:
    lit = image.max(0) > 0
    if not lit.any():
        return None
    colours = {tuple(colour) for colour in (255 * image[:, lit].T).round().astype(int).tolist()}
    return Seen(image.tobytes(), lit.tobytes(), frozenset(colours))


def grids(rule: str, split: str, seed: int = 0) -> list[tuple[list[Seen | None], int]]:
    task = RelationalGame(rule)  # type: ignore[arg-type]
    batches, known = task.batches(split, 100, seed, COUNT), everything()
    whole = [batches[k] for k in range(batches.per_epoch)]
    rows = torch.cat([batch.inputs for batch in whole], 1).T.tolist()
    answers = torch.cat([batch.targets for batch in whole], 1)[0].tolist()
    return [([known[row] for row in grid], answer) for grid, answer in zip(rows, answers, strict=True)]


def filled(grid: list[Seen | None]) -> list[tuple[int, Seen]]:
    return [(place, seen) for place, seen in enumerate(grid) if seen is not None]


def same(grid: list[Seen | None]) -> int:
    (_, one), (_, two) = filled(grid)
    return int(one == two)


def in_line(places: list[int]) -> bool:
    (a, b, c) = sorted(places)
    step = (b // 3 - a // 3, b % 3 - a % 3)
    return step == (c // 3 - b // 3, c % 3 - b % 3)


def between(grid: list[Seen | None]) -> int:
    (a, first), (b, middle), (c, last) = filled(grid)
    holds = in_line([a, b, c]) and first == last and first != middle
    assert holds or len({first, middle, last}) == 3
    return int(holds)


def above_and_below(grid: list[Seen | None]) -> tuple[Seen, list[Seen]]:
    (place, above), *below = filled(grid)
    assert place < 3
    assert [place for place, _ in below] == [6, 7, 8]
    return above, [seen for _, seen in below]


def occurs(grid: list[Seen | None]) -> int:
    above, below = above_and_below(grid)
    return int(above in below)


def xoccurs(grid: list[Seen | None]) -> int:
    above, below = above_and_below(grid)
    return int(below.count(above) == 1 and len({*below}) == 3)


def row_matching(grid: list[Seen | None]) -> int:
    assert grid[3:6] == [None] * 3
    top, bottom = ([row.index(seen) for seen in row] for row in (grid[:3], grid[6:]))
    return int(top == bottom)


def colour_shape(grid: list[Seen | None]) -> int:
    (_, one), (_, two) = filled(grid)
    return 2 * int(one.shape != two.shape) + int(one.colours != two.colours)


def left_of(grid: list[Seen | None]) -> int:
    (a, one), (b, two) = filled(grid)
    assert a % 3 != b % 3

    def luminance(seen: Seen) -> float:
        ((r, g, b),) = seen.colours
        return 0.299 * r + 0.587 * g + 0.114 * b

    darker, lighter = (a, b) if luminance(one) < luminance(two) else (b, a)
    assert abs(luminance(one) - luminance(two)) > 0.01
    return int(darker % 3 < lighter % 3)


RULES: dict[str, Callable[[list[Seen | None]], int]] = {
    "same": same,
    "between": between,
    "occurs": occurs,
    "xoccurs": xoccurs,
    "row-matching": row_matching,
    "colour-shape": colour_shape,
    "left-of": left_of,
}
CASES = [(rule, split) for rule in RULES for split in RelationalGame(rule).exams() | {"valid": None}]  # type: ignore[arg-type]


@pytest.mark.parametrize(("rule", "split"), CASES)
def test_the_answer_is_what_looking_finds(rule: str, split: str) -> None:
    found = grids(rule, split)
    assert sum(RULES[rule](grid) != answer for grid, answer in found) == 0
    classes = 4 if rule == "colour-shape" else 2
    share = torch.bincount(torch.tensor([answer for _, answer in found])) / COUNT
    assert (share - 1 / classes).abs().max() < 4.5 * ((1 - 1 / classes) / classes / COUNT) ** 0.5


@pytest.mark.parametrize("split", ["valid", "test"])
def test_another_shape_is_another_free_polyomino(split: str) -> None:
    """Of "colour-shape": none of its eight rotations and reflections is the first one's."""
    pairs = [filled(grid) for grid, answer in grids("colour-shape", split) if answer >= 2]
    for (_, one), (_, two) in pairs:
        units = [torch.frombuffer(bytearray(seen.shape), dtype=torch.bool).view(12, 12) for seen in (one, two)]
        first, second = (unit[1:10:3, 1:10:3] for unit in units)
        assert not any(torch.rot90(side, k).equal(second) for k in range(4) for side in (first, first.T))


def test_stripes_are_asked_where_an_object_may_have_two_colours() -> None:
    assert {rule for rule, split in CASES if split == "test-stripes"} == {*RULES} - {"colour-shape", "left-of"}
    with pytest.raises(OptionError, match="unknown split 'test-stripes': expected one of test, train, valid"):
        RelationalGame("left-of").batches("test-stripes", 4, size=4)


@pytest.mark.parametrize("split", SETS)
def test_every_split_has_its_objects_and_no_other(split: str) -> None:
    first, forms, colours = object_sets()[SETS[split]]
    inputs = RelationalGame("row-matching").batches(split, 3000, size=3000)[0].inputs
    shown = {*inputs.unique().tolist()} - {0}
    assert shown <= {*range(first, first + len(forms) * colours)}
    assert len(shown) > 0.95 * len(forms) * colours


def test_polyominoes_of_the_public_files() -> None:
    """8 free hexominoes in 48 bitmaps, which are all connected sets of six; 8 free pentominoes in 37."""
    for units, count in ((5, 37), (6, 48)):
        bitmaps = polyominoes(units)
        assert bitmaps.cells.shape == (count, 9)
        assert bitmaps.cells.sum(1).eq(units).all()
        assert len(bitmaps.cells.unique(dim=0)) == count
        assert bitmaps.forms.unique().tolist() == list(range(8))
        for form in range(8):  # with a bitmap, its eight rotations and reflections
            own = {tuple(row) for row in bitmaps.cells[bitmaps.forms == form].tolist()}
            square = next(iter(bitmaps.cells[bitmaps.forms == form])).view(3, 3)
            turned = [torch.rot90(side, k).flatten() for k in range(4) for side in (square, square.T)]
            assert {tuple(each.tolist()) for each in turned} == own
    six = {tuple(k for k in range(9) if row[k]) for row in polyominoes(6).cells.tolist()}
    assert six == {chosen for chosen in combinations(range(9), 6) if connected(chosen)}
    assert sum(connected(chosen) for chosen in combinations(range(9), 5)) == 49  # the P and the U at another edge too


def connected(units: tuple[int, ...]) -> bool:
    """Whether each two are joined: powers of the matrix of neighbours."""
    beside = torch.tensor([[abs(a // 3 - b // 3) + abs(a % 3 - b % 3) <= 1 for b in units] for a in units]).float()
    return bool(torch.linalg.matrix_power(beside, len(units)).gt(0).all())


def test_pixels_of_a_cell() -> None:
    """Black but for 9 x 9 pixels, with one before and two after them; 25 colours; stripes A B A."""
    images = (cells() * 255).round()
    assert images.shape == (2751, 3, 12, 12)
    assert images[0].eq(0).all()
    edge = torch.ones(12, 12, dtype=torch.bool)
    edge[1:10, 1:10] = False
    assert images[:, :, edge].eq(0).all()
    assert len(images[1:].flatten(1).unique(dim=0)) == 37 * 25 + 48 * 25 + 625
    assert len({*COLOURS}) == 25
    assert {value for colour in COLOURS for value in colour} == {64, 144, 192}
    stripes = images[object_sets()["stripes"].first :]
    assert stripes[:, :, 1:10, 1:4].equal(stripes[:, :, 1:10, 7:10])
    assert stripes[:, :, 1:10, 1:10].gt(0).all()
    alike = stripes[:, :, 1, 1].eq(stripes[:, :, 1, 4]).all(1)
    assert alike.float().mean() == 1 / 25


def test_free_polyominoes_and_colours_are_uniform() -> None:
    source = Source("pentominoes", torch.Generator().manual_seed(0))
    objects = source.some(40_000)
    for values, many in ((source.forms[source.bitmap(objects)], 8), (source.colour(objects), 25)):
        counts = torch.bincount(values, minlength=many)
        assert (counts - 40_000 / many).abs().max() < 4.5 * (40_000 / many) ** 0.5
    bitmaps = torch.bincount(source.bitmap(objects), minlength=37)
    sizes = torch.bincount(source.forms)[source.forms]  # the X has one orientation, others four or eight
    expected = 40_000 / 8 / sizes
    assert ((bitmaps - expected).abs() < 4.5 * expected**0.5).all()


@pytest.mark.parametrize(("split", "name"), [("test", "hexominoes"), ("test-stripes", "stripes")])
def test_lines_of_between(split: str, name: str) -> None:
    """The row in the middle twice as often as each of the seven others; 78 % and 53 % of the wrong ones in a line."""
    found = [*grids("between", split, 0), *grids("between", split, 1)]
    places = {answer: [tuple(p for p, _ in filled(grid)) for grid, own in found if own == answer] for answer in (0, 1)}
    lines = {tuple(line) for line in LINES.tolist()}
    assert len(lines) == 8
    for line in lines:
        share = 2 / 9 if line == (3, 4, 5) else 1 / 9
        many = len(places[1])
        assert abs(places[1].count(line) - share * many) < 4.5 * (share * many) ** 0.5
    off = sum(each not in lines for each in places[0]) / len(places[0])
    share = 1 - ON_A_LINE[name]
    assert abs(off - share) < 4.5 * (share * (1 - share) / len(places[0])) ** 0.5


def test_patterns_of_row_matching_are_uniform() -> None:
    shown = [row for grid, _ in grids("row-matching", "valid") for row in (grid[:3], grid[6:])]
    rows = [[row.index(seen) for seen in row] for row in shown]
    counts = [rows.count(each) for each in ([0, 0, 0], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2])]
    assert sum(counts) == 2 * COUNT
    assert max(abs(count - 2 * COUNT / 5) for count in counts) < 4.5 * (2 * COUNT / 5) ** 0.5


def test_wrong_answers_of_xoccurs() -> None:
    """Half of them have it not at all, half have it beside two equal ones."""
    wrong = [above_and_below(grid) for grid, answer in grids("xoccurs", "valid") if answer == 0]
    assert {(below.count(above), len({*below})) for above, below in wrong} == {(0, 3), (1, 2)}
    held = sum(above in below for above, below in wrong) / len(wrong)
    assert abs(held - 0.5) < 4.5 * (0.25 / len(wrong)) ** 0.5


def test_crop_and_canvas_show_the_same_cells() -> None:
    """A crop is its cell three times as large; on the canvas the cell stands in its place and all else is black."""
    crop, canvas = RelationalGame("occurs"), RelationalGame("occurs", view="canvas")
    table = crop.objects()
    assert table is not None
    assert canvas.objects() is None
    one, two = (task.batches("test", 20, size=20)[0] for task in (crop, canvas))
    assert one.targets.equal(two.targets)
    assert two.inputs.shape == (9, 20, 3, 36, 36)
    small = table[one.inputs][..., ::3, ::3]
    for place in range(9):
        y, x = 12 * (place // 3), 12 * (place % 3)
        assert two.inputs[place, :, :, y : y + 12, x : x + 12].equal(small[place])
    assert two.inputs.sum() == pytest.approx(float(small.sum()), rel=1e-5)


def test_training_is_fresh_and_of_pentominoes() -> None:
    batches = RelationalGame().batches("train", 50)
    assert batches.per_epoch == 0
    last = object_sets()["hexominoes"].first
    assert max(int(batches[k].inputs.max()) for k in range(5)) < last


def test_unknown_rule_and_view() -> None:
    known = "between, colour-shape, left-of, occurs, row-matching, same, xoccurs"
    with pytest.raises(OptionError, match=f"unknown rule 'left': expected one of {known}"):
        RelationalGame("left")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="unknown view 'cell': expected one of canvas, crop"):
        RelationalGame(view="cell")  # type: ignore[arg-type]


def test_the_answers_in_words() -> None:
    """What is said of a grid is what is seen in it."""
    for grid, answer in grids("same", "valid")[:50]:
        (_, one), (_, two) = filled(grid)
        assert RelationalGame("same").answers[answer] == ("yes" if one == two else "no")
    for grid, answer in grids("colour-shape", "valid")[:50]:
        (_, one), (_, two) = filled(grid)
        others = [word for word in ("shape", "colour") if getattr(one, word.replace("colour", "colours"))
                  != getattr(two, word.replace("colour", "colours"))]  # fmt: skip
        expected = "other " + " and ".join(others) if others else "same shape and colour"
        assert RelationalGame("colour-shape").answers[answer] == expected

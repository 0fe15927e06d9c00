"""The rules of the relational games: from answers to grids of 3 x 3 cells that have them.

Every rule is given answers ``(n,)`` and gives objects ``(n, 9)``, row by row of the grid, 0 where a cell is blank.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from engram.tasks.relational._choose import one_of, orders, pick
from engram.tasks.relational._patterns import letters
from engram.tasks.relational._polyominoes import BLANK, COLOURS, GRID, object_sets

PLACES = GRID**2
ROWS, COLUMNS = [[3 * k, 3 * k + 1, 3 * k + 2] for k in (0, 1, 1, 2)], [[k, k + 3, k + 6] for k in range(3)]
LINES = torch.tensor([*ROWS, *COLUMNS, [0, 4, 8], [2, 4, 6]])
"""Three cells in a straight line; the row in the middle is twice as frequent as the others, as in the public data."""
ON_A_LINE = {"pentominoes": 0.78, "hexominoes": 0.78, "stripes": 0.53}
"""The share of the wrong answers of "between" that stand in a line all the same, as counted in the public data."""
PATTERNS = torch.tensor([letters(pattern) for pattern in ("AAA", "AAB", "ABA", "ABB", "ABC")])


class Source:
    """Random objects of one set: a free polyomino, its orientation and its colour are each uniform.

    Args:
        name: ``"pentominoes"``, ``"hexominoes"`` or ``"stripes"``.
        generator: of the random numbers.
    """

    def __init__(self, name: str, generator: torch.Generator) -> None:
        self.name, self.generator = name, generator
        self.first, forms, self.colours = object_sets()[name]
        each = [(forms == form).nonzero()[:, 0] for form in range(int(forms.max()) + 1)]
        self.turned = torch.stack([bitmaps.repeat(8 // len(bitmaps)) for bitmaps in each])  # 1, 4 or 8 different ones
        self.forms = forms

    def some(self, count: int) -> Tensor:
        """Objects ``(count,)``."""
        form, turn = one_of(count, len(self.turned), self.generator), one_of(count, 8, self.generator)
        return self.of(self.turned[form, turn], one_of(count, self.colours, self.generator))

    def of(self, bitmap: Tensor, colour: Tensor) -> Tensor:
        """The objects of these bitmaps and colours."""
        return self.first + bitmap * self.colours + colour

    def bitmap(self, objects: Tensor) -> Tensor:
        """Which bitmap each of these objects has."""
        return (objects - self.first) // self.colours

    def colour(self, objects: Tensor) -> Tensor:
        """Which colour each of these objects has."""
        return (objects - self.first) % self.colours

    def where(self, count: int, wrong: Callable[[Tensor], Tensor]) -> Tensor:
        """Random objects ``(count,)``, those sampled again that are ``wrong``: a mask ``(count,)`` of all of them."""
        found = self.some(count)
        while len(again := wrong(found).nonzero()[:, 0]):
            found[again] = self.some(len(again))
        return found

    def different(self, count: int, many: int) -> Tensor:
        """``many`` objects, no two of them identical: ``(count, many)``."""
        found = self.some(count)[:, None]
        while found.shape[1] < many:
            found = torch.cat([found, self._another(found)[:, None]], 1)
        return found

    def _another(self, taken: Tensor) -> Tensor:
        return self.where(len(taken), lambda new: (new[:, None] == taken).any(1))


def same(source: Source, answers: Tensor) -> Tensor:
    """Two objects: identical, or not."""
    first, second = source.different(len(answers), 2).T
    return _in_cells(torch.stack([first, torch.where(answers == 1, first, second)], 1), source)


def between(source: Source, answers: Tensor) -> Tensor:
    """Three objects in a line, the outer two identical and the middle another one; or three different objects."""
    first, middle, last = source.different(len(answers), 3).T
    true = answers == 1
    line = LINES[one_of(len(answers), len(LINES), source.generator)]
    off = torch.rand(len(answers), dtype=torch.float64, generator=source.generator) >= ON_A_LINE[source.name]
    places = torch.where((true | ~off)[:, None], line, _off_lines(len(answers), source.generator))
    return _grid(torch.stack([first, middle, torch.where(true, first, last)], 1), places)


def occurs(source: Source, answers: Tensor) -> Tensor:
    """One object above and three below: it is identical to one of these, or to none."""
    objects = source.different(len(answers), 4)
    above, below = objects[:, 0], objects[:, 1:]
    chosen = one_of(len(answers), GRID, source.generator)
    below[answers == 1, chosen[answers == 1]] = above[answers == 1]
    return _above_and_below(above, below, source)


def xoccurs(source: Source, answers: Tensor) -> Tensor:
    """One object above and three different ones below, with it among them; or it is not, or the other two are equal."""
    objects = source.different(len(answers), 4)
    above, below = objects[:, 0], objects[:, 1:]
    order = orders(len(answers), GRID, source.generator)
    twins = (answers == 0) & (one_of(len(answers), 2, source.generator) == 1)
    held = (answers == 1) | twins
    below[held, order[held, 0]] = above[held]
    below[twins, order[twins, 1]] = below[twins, order[twins, 2]]
    return _above_and_below(above, below, source)


def row_matching(source: Source, answers: Tensor) -> Tensor:
    """Three objects above and three below: their patterns (AAA, AAB, ABA, ABB or ABC) are the same, or not."""
    count, many = len(answers), len(PATTERNS)
    first = one_of(count, many, source.generator)
    other = (first + 1 + one_of(count, many - 1, source.generator)) % many
    second = torch.where(answers == 1, first, other)
    rows = [source.different(count, GRID).gather(1, PATTERNS[pattern]) for pattern in (first, second)]
    return torch.cat([rows[0], torch.full((count, GRID), BLANK), rows[1]], 1)


def colour_shape(source: Source, answers: Tensor) -> Tensor:
    """Two objects; class 2 [other shape] + [other colour]. A shape is the same in the same orientation, and another
    where it is another free polyomino."""
    first = source.some(len(answers))
    form, colour = source.forms[source.bitmap(first)], source.colour(first)
    other_form = source.where(len(answers), lambda new: source.forms[source.bitmap(new)] == form)
    other_colour = source.where(len(answers), lambda new: source.colour(new) == colour)
    bitmap = torch.where(answers >= 2, source.bitmap(other_form), source.bitmap(first))
    second = source.of(bitmap, torch.where(answers % 2 == 1, source.colour(other_colour), colour))
    return _in_cells(torch.stack([first, second], 1), source)


def left_of(source: Source, answers: Tensor) -> Tensor:
    """Two objects in different columns: the darker one is on the left, or on the right."""
    light = torch.tensor([299 * r + 587 * g + 114 * b for r, g, b in COLOURS])  # thousandths of the luminance
    first = source.some(len(answers))
    second = source.where(len(answers), lambda new: light[source.colour(new)] == light[source.colour(first)])
    columns = pick(torch.arange(GRID), len(answers), 2, source.generator).sort(1).values
    places = GRID * torch.randint(GRID, columns.shape, generator=source.generator) + columns
    is_darker = light[source.colour(first)] < light[source.colour(second)]
    left = torch.where(is_darker == (answers == 1), first, second)
    right = torch.where(is_darker == (answers == 1), second, first)
    return _grid(torch.stack([left, right], 1), places)


def _in_cells(objects: Tensor, source: Source) -> Tensor:
    """Each in a cell of its own, at random."""
    return _grid(objects, pick(torch.arange(PLACES), len(objects), objects.shape[1], source.generator))


def _above_and_below(above: Tensor, below: Tensor, source: Source) -> Tensor:
    """One anywhere in the first row, three in the last."""
    column = one_of(len(above), GRID, source.generator)[:, None]
    bottom = torch.arange(PLACES - GRID, PLACES).expand(len(above), -1)
    return _grid(torch.cat([above[:, None], below], 1), torch.cat([column, bottom], 1))


def _grid(objects: Tensor, places: Tensor) -> Tensor:
    return torch.full((len(objects), PLACES), BLANK).scatter_(1, places, objects)


def _off_lines(count: int, generator: torch.Generator) -> Tensor:
    """Three cells that are not in a line."""
    lines = LINES.unique(dim=0)
    found = pick(torch.arange(PLACES), count, GRID, generator)
    while len(again := (found.sort(1).values[:, None] == lines).all(2).any(1).nonzero()[:, 0]):
        found[again] = pick(torch.arange(PLACES), len(again), GRID, generator)
    return found


Rule = Callable[[Source, Tensor], Tensor]
RULES: dict[str, Rule] = {
    "same": same,
    "between": between,
    "occurs": occurs,
    "xoccurs": xoccurs,
    "row-matching": row_matching,
    "colour-shape": colour_shape,
    "left-of": left_of,
}

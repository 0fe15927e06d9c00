"""The objects of the relational games: coloured pentominoes and hexominoes in a grid of 3 x 3, and striped squares."""

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

GRID, CELL, SIDE = 3, 12, 36
"""Units of an object along a side; pixels of a cell; pixels of an image."""
UNIT, MARGIN = 3, 1
"""Pixels of a unit; pixels before an object in its cell."""
BLANK = 0
"""The row of the table that shows nothing."""
ANCHORED = {frozenset({0, 1, 2, 3, 4}), frozenset({0, 1, 2, 3, 5})}
"""Of the P and the U, which do not fill the grid, those that have the side of three units at its edge."""

COLOURS = [
    (r, g, b)
    for r in (64, 144, 192)
    for g in (64, 144, 192)
    for b in (64, 144, 192)
    if (r, g, b) not in ((64, 64, 64), (192, 192, 192))
]


class Bitmaps(NamedTuple):
    """Polyominoes of one size in every orientation.

    cells: ``(n, 9)``, which units each has. forms: ``(n,)``, which free polyomino it is, turned and mirrored or not.
    """

    cells: Tensor
    forms: Tensor


@lru_cache
def polyominoes(units: int) -> Bitmaps:
    """The 8 free polyominoes of 5 or 6 units that fit into 3 x 3, in all orientations: 37 and 48 bitmaps.

    A P or a U of five units leaves a row of the grid free: its side of three units is at the edge of the grid.
    """
    cells, forms = [], []
    seen: dict[frozenset[frozenset[int]], int] = {}
    for chosen in map(frozenset, combinations(range(GRID**2), units)):
        orbit = frozenset(_turned(chosen))
        if not _is_connected(chosen) or (_is_narrow(chosen) and units == 5 and not ANCHORED & orbit):
            continue
        forms.append(seen.setdefault(orbit, len(seen)))
        cells.append([float(unit in chosen) for unit in range(GRID**2)])
    return Bitmaps(torch.tensor(cells), torch.tensor(forms))


def _turned(cells: frozenset[int]) -> list[frozenset[int]]:
    """The eight rotations and reflections of a bitmap about its centre."""
    found = []
    for _ in range(4):
        cells = frozenset(GRID * (unit % GRID) + GRID - 1 - unit // GRID for unit in cells)
        found += [cells, frozenset(unit - unit % GRID + GRID - 1 - unit % GRID for unit in cells)]
    return found


def _is_narrow(cells: frozenset[int]) -> bool:
    """Whether a row or a column of the grid is empty."""
    return len({unit // GRID for unit in cells}) < GRID or len({unit % GRID for unit in cells}) < GRID


def _is_connected(cells: frozenset[int]) -> bool:
    reached, border = set(), {min(cells)}
    while border:
        unit = border.pop()
        reached.add(unit)
        border |= {other for other in cells - reached if _are_beside(unit, other)}
    return reached == cells


def _are_beside(one: int, other: int) -> bool:
    return abs(one // GRID - other // GRID) + abs(one % GRID - other % GRID) == 1


class Objects(NamedTuple):
    """One set of objects: rows ``first .. first + bitmaps * colours`` of the table, colour by colour of each bitmap."""

    first: int
    forms: Tensor
    colours: int


@lru_cache
def object_sets() -> dict[str, Objects]:
    """Where pentominoes, hexominoes and stripes are in the table; of stripes the form is the outer colour."""
    five, six, colours = polyominoes(5).forms, polyominoes(6).forms, len(COLOURS)
    sets = {"pentominoes": Objects(1, five, colours)}
    sets["hexominoes"] = Objects(1 + len(five) * colours, six, colours)
    sets["stripes"] = Objects(sets["hexominoes"].first + len(six) * colours, torch.arange(colours), colours)
    return sets


@lru_cache
def cells() -> Tensor:
    """Every object in its cell, ``(2751, 3, 12, 12)`` in 0..1 on black; the first is a blank cell."""
    colours = torch.tensor(COLOURS) / 255
    bitmaps = torch.cat([polyominoes(5).cells, polyominoes(6).cells])
    solid = bitmaps[:, None, None] * colours[None, :, :, None]  # (bitmap, colour, 3, 9)
    stripes = torch.stack([colours[:, None].expand(-1, len(colours), -1)] * 3, 3)  # (outer, inner, 3, column)
    stripes[..., 1] = colours[None]
    striped = stripes[..., None, :].expand(-1, -1, -1, GRID, -1).flatten(3)
    units = torch.cat([solid.flatten(0, 1), striped.flatten(0, 1)]).unflatten(2, (GRID, GRID))
    pixels = units.repeat_interleave(UNIT, 2).repeat_interleave(UNIT, 3)
    after = CELL - MARGIN - GRID * UNIT
    return torch.cat([torch.zeros(1, 3, CELL, CELL), F.pad(pixels, (MARGIN, after, MARGIN, after))])


@lru_cache
def magnified() -> Tensor:
    """Every cell three times as large: ``(2751, 3, 36, 36)``."""
    return cells().repeat_interleave(SIDE // CELL, 2).repeat_interleave(SIDE // CELL, 3)


def on_canvas(rows: Tensor) -> Tensor:
    """For nine cells ``(9, B)`` nine images ``(9, B, 3, 36, 36)``, each of the whole canvas with one cell filled."""
    images = torch.zeros(*rows.shape, 3, SIDE, SIDE)
    for place in range(GRID**2):
        y, x = (CELL * part for part in divmod(place, GRID))
        images[place, :, :, y : y + CELL, x : x + CELL] = cells()[rows[place]]
    return images

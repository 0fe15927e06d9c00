"""A hundred distinct glyphs made from a seed, which the relational tasks show where the published shapes are missing.

Only sums, products and quotients of float64 are taken, which every processor rounds in the same way, so that the images
have the same bits everywhere.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engram.tasks._seeds import seeded

COUNT, SIDE, FINE = 100, 32, 4
"""Glyphs; pixels of a side; points along the side of a pixel, whose mean is its grey value."""
LOW, HIGH = 3, 29
"""Between these the vertices of strokes are chosen, in pixels."""
LEAST_INK, MOST_INK, LEAST_DISTANCE = 0.03, 0.45, 0.13
"""The mean darkness of a glyph, and the root mean square difference of any two."""
KAPPA = 565 / 1024
"""Where the inner points of a cubic curve lie that is nearly a quarter of a circle."""

Points = npt.NDArray[np.float64]


@lru_cache
def glyphs() -> Tensor:
    """``(100, 32, 32)`` in 0..1: black strokes on white.

    Each has 3 to 5 strokes, 2 or 3 pixels wide: lines, polygons, arcs of circles and cubic curves. One with too little
    or too much ink, or too like an earlier one, is made again.
    """
    found: list[npt.NDArray[np.float64]] = []
    for number in range(COUNT):
        generator = seeded("glyph", number)
        while not _is_fit(glyph := 1 - _ink(generator), found):
            pass
        found.append(glyph)
    return torch.from_numpy(np.stack(found)).float()


def _is_fit(glyph: npt.NDArray[np.float64], earlier: list[npt.NDArray[np.float64]]) -> bool:
    if not LEAST_INK <= 1 - glyph.mean() <= MOST_INK:
        return False
    return all(((glyph - other) ** 2).mean() >= LEAST_DISTANCE**2 for other in earlier)


def _ink(generator: torch.Generator) -> npt.NDArray[np.float64]:
    """The share of each pixel that a few random strokes cover, ``(32, 32)``."""
    fine = np.zeros((SIDE * FINE, SIDE * FINE), dtype=bool)
    for _ in range(_whole(3, 6, generator)):
        half = _whole(2, 4, generator) / 2
        points = _stroke(generator)
        for start, end in pairwise(points):
            _draw(fine, start, end, half)
    return fine.reshape(SIDE, FINE, SIDE, FINE).mean((1, 3))


def _stroke(generator: torch.Generator) -> Points:
    """The corners of a random stroke, ``(n, 2)``: a line, a closed polygon, a cubic curve or an arc."""
    kind = _whole(0, 4, generator)
    if kind == 0:
        return _vertices(2, generator)
    if kind == 1:
        corners = _vertices(_whole(3, 5, generator), generator)
        return np.concatenate([corners, corners[:1]])
    if kind == 2:
        return _curve(_vertices(4, generator))
    return _arc(generator)


def _arc(generator: torch.Generator) -> Points:
    """One to four quarters of a circle within the frame, each a cubic curve."""
    radius = _whole(4, (HIGH - LOW) // 2 + 1, generator)
    centre = np.array([_whole(LOW + radius, HIGH - radius + 1, generator) for _ in range(2)], dtype=np.float64)
    first, quarters = _whole(0, 4, generator), _whole(1, 5, generator)
    corners = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float64)
    pieces = []
    for quarter in range(first, first + quarters):
        a, b = corners[quarter % 4], corners[(quarter + 1) % 4]
        pieces.append(_curve(centre + radius * np.stack([a, a + KAPPA * b, b + KAPPA * a, b]), 6))
    return np.concatenate(pieces)


def _curve(control: Points, pieces: int = 12) -> Points:
    """Points on the cubic Bézier curve of four control points."""
    t = np.arange(pieces + 1)[:, None] / pieces
    s = 1 - t
    return s * s * s * control[0] + 3 * s * s * t * control[1] + 3 * s * t * t * control[2] + t * t * t * control[3]


def _draw(fine: npt.NDArray[np.bool_], start: Points, end: Points, half: float) -> None:
    """Blacken the points that are at most ``half`` pixels from a line; those far off are not looked at."""
    low = np.floor((np.minimum(start, end) - half) * FINE).astype(int).clip(0)
    high = np.ceil((np.maximum(start, end) + half) * FINE).astype(int) + 1
    y = (np.arange(low[1], min(high[1], len(fine)))[:, None] + 0.5) / FINE - start[1]
    x = (np.arange(low[0], min(high[0], len(fine)))[None, :] + 0.5) / FINE - start[0]
    dx, dy = end - start
    length = dx * dx + dy * dy
    along = ((x * dx + y * dy) / length).clip(0, 1) if length else np.zeros_like(x + y)
    near = (x - along * dx) ** 2 + (y - along * dy) ** 2 <= half * half
    fine[low[1] : low[1] + len(near), low[0] : low[0] + near.shape[1]] |= near


def _vertices(count: int, generator: torch.Generator) -> Points:
    return torch.randint(LOW, HIGH + 1, (count, 2), generator=generator).double().numpy()


def _whole(low: int, high: int, generator: torch.Generator) -> int:
    """A random whole number, ``low <= n < high``."""
    return int(torch.randint(low, high, (), generator=generator))

"""The 100 shapes of the relational tasks, and the images made of them: coloured, sized, patches of colour."""

import colorsys
import io
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from engram.errors import check_choice
from engram.tasks._data import find, read
from engram.tasks.relational._glyphs import COUNT, SIDE, glyphs

Shapes = Literal["auto", "esbn", "glyphs"]
COLOURS = 100
SIZES = (10, 18, 28)
"""The sides of a small, a medium and a large shape, in pixels."""


def which_shapes(shapes: Shapes) -> Shapes:
    """``"esbn"`` or ``"glyphs"``; for ``"auto"``, the published shapes if they are on this machine, else our glyphs."""
    check_choice("shapes", shapes, ("auto", "esbn", "glyphs"))
    if shapes != "auto":
        return shapes
    return "esbn" if all(find(f"esbn_shapes/{number}.png") for number in range(COUNT)) else "glyphs"


@lru_cache
def published() -> Tensor:
    """The shapes of Webb et al. (2021): ``(100, 32, 32)`` in 0..1, black characters on white."""
    from PIL import Image

    images = [np.array(Image.open(io.BytesIO(read(f"esbn_shapes/{number}.png")))) for number in range(COUNT)]
    return torch.from_numpy(np.stack(images)).float() / 255


def grey(shapes: Shapes) -> Tensor:
    """``(100, 32, 32)`` in 0..1."""
    return published() if shapes == "esbn" else glyphs()


@lru_cache
def colours() -> Tensor:
    """``(100, 3)``: hue k/100, saturation 0.6, value 1."""
    return torch.tensor([colorsys.hsv_to_rgb(k / COLOURS, 0.6, 1.0) for k in range(COLOURS)])


@lru_cache
def plain_table(shapes: Shapes) -> Tensor:
    """Every shape as an image of three equal channels: ``(100, 3, 32, 32)``."""
    return grey(shapes)[:, None].expand(-1, 3, -1, -1).contiguous()


@lru_cache
def coloured_table(shapes: Shapes) -> Tensor:
    """Every shape, black, on every colour: ``(10000, 3, 32, 32)``, shape s on colour k is row 100 s + k (123 MB)."""
    return (grey(shapes)[:, None, None] * colours()[None, :, :, None, None]).flatten(0, 1)


@lru_cache
def separated_table(shapes: Shapes) -> Tensor:
    """The shapes, then the colours, each filling an image: ``(200, 3, 32, 32)``."""
    return torch.cat([plain_table(shapes), colours()[:, :, None, None].expand(-1, -1, SIDE, SIDE)])


@lru_cache
def sized_table(shapes: Shapes) -> Tensor:
    """Every shape small, medium and large: ``(300, 3, 32, 32)``, shape s of size z is row 3 s + z.

    The pixels of a smaller image are means over areas of the larger one; it stands in the middle, on white.
    """
    table = torch.ones(COUNT, len(SIZES), SIDE, SIDE)
    for place, side in enumerate(SIZES):
        mean, start = _mean_over(side), (SIDE - side) // 2
        small = (mean @ grey(shapes).double() @ mean.T).float()
        table[:, place, start : start + side, start : start + side] = small
    return table.flatten(0, 1)[:, None].expand(-1, 3, -1, -1).contiguous()


def _mean_over(side: int) -> Tensor:
    """``(side, 32)``: row i has the shares in which 32 pixels make up the i-th of ``side`` pixels."""
    edges = torch.arange(side + 1, dtype=torch.float64) * SIDE / side
    pixel = torch.arange(SIDE, dtype=torch.float64)
    overlap = torch.minimum(edges[1:, None], pixel + 1) - torch.maximum(edges[:-1, None], pixel)
    return overlap.clamp(min=0) * side / SIDE

"""Is a figure readable? Measured on what matplotlib draws: boxes of texts, paths of lines, colours of the SVG."""

import re
from itertools import combinations
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from engram.figures import DARK

TOUCH = 0.5
"""Pixels, at 100 per inch, by which boxes may overlap: the box of a text is a little larger than its letters."""


def drawn_texts(figure: Figure) -> dict[Text, Bbox]:
    """The texts that are really drawn (not those of ticks out of view), with their boxes in pixels."""
    seen: list[Text] = []
    draw = Text.draw

    def record(text: Text, renderer: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            seen.append(text)
        draw(text, renderer)

    Text.draw = record  # type: ignore[method-assign]
    try:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    finally:
        Text.draw = draw  # type: ignore[method-assign]
    return {text: Text.get_window_extent(text, canvas.get_renderer()).padded(-TOUCH) for text in seen}


def faults(figure: Figure) -> list[str]:
    """Texts that overlap, leave the figure, or stand upon a line without a ground of their own."""
    boxes = drawn_texts(figure)
    found = [
        f"{a.get_text()!r} overlaps {b.get_text()!r}"
        for (a, one), (b, other) in combinations(boxes.items(), 2)
        if one.overlaps(other)
    ]
    framed = {text for legend in figure.findobj(Legend) if legend.get_frame_on() for text in legend.get_texts()}
    for text, box in boxes.items():
        if not (figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1):
            found.append(f"{text.get_text()!r} leaves the figure at its side")
        if not (figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1):
            found.append(f"{text.get_text()!r} leaves the figure above or below")
        if text.get_bbox_patch() is not None or text in framed:
            continue
        for axes in figure.axes:
            if not axes.get_window_extent().overlaps(box):
                continue
            for line in axes.lines:
                path = line.get_transform().transform_path(line.get_path())
                if line.get_linestyle() != "None" and path.intersects_bbox(box, filled=False):
                    found.append(f"{text.get_text()!r} stands upon a line")
    return found


def strange_colors(svg: str) -> set[str]:
    """Colours of an SVG that are not of the palette, so have no dark form."""
    body = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # the rules of the dark form name them all
    return {*re.findall(r"(?:fill|stroke): (#\w+)", body)} - {color for color in DARK if color != "#000000"}


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """From here on every figure that is written must be readable; gives the list that they are added to."""
    written: list[Figure] = []
    savefig = Figure.savefig

    def check(figure: Figure, *args: Any, **options: Any) -> None:
        assert faults(figure) == []
        savefig(figure, *args, **options)
        written.append(figure)

    monkeypatch.setattr(Figure, "savefig", check)
    return written

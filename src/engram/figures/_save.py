"""How a figure becomes a file: one way for all of them."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from engram.errors import OptionError
from engram.figures._palette import dark_rules
from engram.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png")
DOTS_PER_INCH = 150
"""Of a PNG."""


def check_figure(path: Path, name: str = "a figure") -> Path:
    """Return the path if it ends in .svg or .png; else raise, with ``name`` as what the caller calls it."""
    if path.suffix not in ENDINGS:
        raise OptionError(f"{name} must end in .svg or .png, got {path}")
    return path


def save_figure(figure: "Figure", path: Path) -> None:
    """Write SVG or PNG, by the ending; the same figure gives the same bytes.

    An SVG has a light and a dark form and follows the reader's system; a PNG is light.
    """
    if check_figure(path).suffix == ".svg":
        content = svg_text(figure).encode()
    else:
        written = BytesIO()
        figure.savefig(written, format="png", dpi=DOTS_PER_INCH)
        content = written.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


def svg_text(figure: "Figure", salt: str = "engram") -> str:
    """The SVG file as text. Figures on one page need different salts: their inner names are made from them."""
    from matplotlib import rc_context  # slow to import, and only needed here

    written = BytesIO()
    with rc_context({"svg.hashsalt": salt}):
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue().decode().replace("</style>", f"{dark_rules()}</style>", 1)

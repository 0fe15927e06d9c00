"""How a picture becomes a file: one way for all of them."""

from io import BytesIO
from pathlib import Path
from typing import Any

from engram.errors import OptionError
from engram.files import write_whole

ENDINGS = (".svg", ".png")


def check_picture(path: Path, name: str = "a picture") -> Path:
    """Return a path that ends in .svg or .png."""
    if path.suffix not in ENDINGS:
        raise OptionError(f"{name} must end in .svg or .png, got {path}")
    return path


def save_picture(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, SVG or PNG by the ending; the same figure gives the same bytes."""
    from matplotlib import rc_context  # slow to import, and only needed here

    kind = check_picture(path).suffix[1:]
    content = BytesIO()
    with rc_context({"svg.hashsalt": "engram"}):
        figure.savefig(content, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.getvalue())

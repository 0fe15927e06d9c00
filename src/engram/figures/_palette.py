"""The colours of every figure, once, each in a light and a dark form.

Series colours have a contrast of at least 3 against the background of their form (WCAG 2.1, success criterion 1.4.11)
and stay apart for people who do not see red, green or blue; text has at least 4.5. ``tests/figures`` computes both.
"""

PAPER = "#ffffff"
INK = "#1f2328"
MUTED = "#6a717a"
FAINT = "#d5dae0"
"""Background; text; reference lines, axes and what is of second rank; grid lines."""

BLUE, ORANGE, GREEN = "#0a4fa3", "#dd6b20", "#063c1f"
MAGENTA, SKY, RED = "#8f1268", "#3a93cb", "#c0361b"
SERIES = (BLUE, ORANGE, GREEN, MAGENTA, SKY, RED)
"""In the order in which series take them."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""The shape that goes with each colour, so that no two series differ by colour alone."""

HEAT = SKY
"""Heat maps go from nothing to this. They are bitmaps, which have one form only, so it must be seen on both grounds."""

DARK = {
    PAPER: "#0d1117",
    INK: "#e6edf3",
    "#000000": "#e6edf3",  # what matplotlib takes for ink in figures that are not in our style
    MUTED: "#9aa2ab",
    FAINT: "#2b313a",
    BLUE: "#4178e8",
    ORANGE: "#f5893a",
    GREEN: "#a6ecbd",
    MAGENTA: "#b0629d",
    SKY: "#7cc4f5",
    RED: "#d8452a",
}
"""What each colour becomes where the reader's system asks for dark pages."""


def dark_rules() -> str:
    """CSS that gives an SVG its dark form where the reader prefers it; programs without CSS show the light one.

    matplotlib writes colours into ``style`` attributes, so rules find them there and must override them; black letters
    have no such attribute and take the colour of the whole.
    """
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark){{svg{{fill:{DARK[INK]}}}{rules}}}"

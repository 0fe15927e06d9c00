"""Words to the terminal as they are."""

import os

from rich.console import Console


def terminal(stderr: bool = False) -> Console:
    """No markup: the name of a folder may be ``[red]x``. No wrapping: a path stays in one piece."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)


def for_tables() -> Console:
    """In a pipe or a file a table is as wide as it needs to be: at 80 columns, rich's default there, names are cut."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=1000)

"""Words to the terminal as they are."""

from rich.console import Console


def terminal(stderr: bool = False) -> Console:
    """No markup: the name of a folder may be ``[red]x``. No wrapping: a path stays in one piece."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)

"""How far a benchmark is, and how long it will take."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from engram.bench._measure import after_round
from engram.cli._duration import duration

TOTAL = 1000


class BenchProgress:
    """A bar on a terminal; in a file each line says how much is done and what is left.

    Args:
        console: where it is told.
        races: how many sizes are raced. They differ in length, so that the time left is about right only.
    """

    def __init__(self, console: Console, races: int) -> None:
        self.console, self.races = console, races
        self.done, self.share, self.start = 0, 0.0, time.monotonic()
        columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=TOTAL)

    @contextmanager
    def shown(self) -> Iterator[Callable[[str], None]]:
        """A block that is watched; what it is given prints a line."""
        token = after_round.set(self.round)
        try:
            with self.bar:
                yield self.tell
        finally:
            after_round.reset(token)

    def round(self, share: float) -> None:
        """A race has gone on."""
        self.share = share
        if share >= 1:
            self.done, self.share = self.done + 1, 0.0
        self.bar.update(self.task, completed=TOTAL * self.part(), description=self.left())

    def part(self) -> float:
        """The share of the whole that is done; what comes after the last size is short."""
        return min((self.done + self.share) / self.races, 0.99)

    def left(self) -> str:
        """The time left, if the rest goes on as before."""
        part = self.part()
        if not part:
            return ""
        seconds = (time.monotonic() - self.start) * (1 - part) / part
        return f"about {duration(seconds)} left"

    def tell(self, line: str) -> None:
        """A result, as it is found."""
        more = "" if self.console.is_terminal else f" [{self.part():.0%} done, {self.left() or 'time left unknown'}]"
        self.console.print(line + more, highlight=False, soft_wrap=True, markup=False)

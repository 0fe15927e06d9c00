"""The engine that is this process: one job after another, for notebooks and tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from engram.sweep._job import answer
from engram.sweep._local import Event


class Here:
    """Trains jobs where it is. Ctrl-C saves the run under way, as in ``engram train``."""

    slots = 1

    def __init__(self) -> None:
        self.job: tuple[int, Mapping[str, Any], Sequence[int]] | None = None

    def submit(self, number: int, job: Mapping[str, Any], stale: Sequence[int]) -> None:
        self.job = (number, job, stale)

    def events(self, seconds: float) -> list[Event]:
        if self.job is None:
            return []
        (number, job, stale), self.job = self.job, None
        return [{"number": number, **answer(job, stale)}]

    def stop(self) -> None:
        self.job = None

    def close(self) -> None:
        self.job = None

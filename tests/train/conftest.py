"""A run that takes a second, and what may be compared of two runs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.tasks import Copy, Task
from engram.train import RunDirectory, Settings

Small = Callable[..., Settings]
Lines = list[dict[str, Any]]


def _small(task: Task | None = None, model: str = "exprnn", **changes: Any) -> Settings:
    usual: dict[str, Any] = {
        "hidden": 6,
        "batch": 4,
        "steps": 12,
        "validate_every": 5,
        "valid_samples": 8,
        "test_samples": 8,
        "log_every": 1,
        "save_every": 0,
        "threads": 1,
    }
    return Settings.of(task or Copy(3, 2), model, **(usual | changes))


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fsync guards against, a machine that loses its power, no test can see; and it takes half of the time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def small() -> Small:
    """Settings of a tiny run; give what is to be different."""
    return _small


def _metrics(folder: Path | RunDirectory) -> Lines:
    run = folder if isinstance(folder, RunDirectory) else RunDirectory(folder)
    return [{name: value for name, value in line.items() if name != "seconds"} for line in run.metrics()]


@pytest.fixture
def metrics() -> Callable[[Path | RunDirectory], Lines]:
    """The lines of metrics.jsonl without the seconds."""
    return _metrics

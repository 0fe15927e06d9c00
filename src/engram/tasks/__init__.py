"""Seeded generators; each states its chance level and its memoryless baseline."""

from engram.tasks._copy import Copy
from engram.tasks._task import Batch, Task

__all__ = ["Batch", "Copy", "Task"]

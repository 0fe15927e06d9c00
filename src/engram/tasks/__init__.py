"""Seeded generators and data sets; each states its chance level and its memoryless baseline."""

from engram.tasks._batches import Batches
from engram.tasks._copy import Copy
from engram.tasks._seeds import seed_of, seeded
from engram.tasks._task import Batch, Task
from engram.tasks._tasks import TASKS, make_task

__all__ = ["TASKS", "Batch", "Batches", "Copy", "Task", "make_task", "seed_of", "seeded"]

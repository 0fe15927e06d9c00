"""Batches that no memory of this machine can hold are refused before they are made."""

from engram.places import check_fits, free_memory
from engram.tasks._batches import BLOCK
from engram.train._settings import Settings


def check_batches(settings: Settings) -> None:
    """Refuse batches too large for the memory: their inputs, and their outputs where every step has one.

    A data set is as large as it is, and a batch is at most all of it.
    """
    for task in (settings.task, *settings.task.exams().values()):
        if not task.is_data_set:
            sequences = max(settings.budget.batch, settings.budget.samples, BLOCK)  # samples are kept
            features = task.input_size + (task.output_size if task.answer == "every" else 0)
            check_fits("a batch", task.steps * sequences * features, free_memory(), "sequences or shorter ones")

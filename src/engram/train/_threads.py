"""How many threads a run is worth."""

import torch

from engram.train._settings import Settings

WORK = 2**22
"""Multiplications in one time step that keep one thread busy: below this, waking another costs what it saves."""


def threads_for(settings: Settings) -> int:
    """The number of threads given, or else one for every 2^22 multiplications in a time step, at most torch's number.

    A time step of a layer multiplies B H^2 numbers. Runs are small as a rule, and several small runs on one thread
    each use a machine far better than one run on all of it, whose threads wait for each other at every step.
    """
    if settings.threads:
        return settings.threads
    worth = settings.batch // settings.processes * settings.hidden**2 // WORK
    return max(1, min(worth, torch.get_num_threads() // settings.processes))

"""How many threads a run is worth."""

import torch

WORK = 2**22
"""Multiplications in one time step that keep one thread busy: below this, waking another costs what it saves."""


def threads_for(batch: int, hidden: int, processes: int = 1) -> int:
    """One thread for every 2^22 multiplications in a time step, at most torch's number.

    A time step of a layer multiplies B H^2 numbers. Runs are small as a rule, and several small runs on one thread
    each use a machine far better than one run on all of it, whose threads wait for each other at every step.
    """
    worth = batch // processes * hidden**2 // WORK
    return max(1, min(worth, torch.get_num_threads() // processes))

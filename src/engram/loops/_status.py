"""What would run on this machine, in words."""

import torch

from engram.loops._build import RUNTIME, reason
from engram.loops._choice import chosen


def status() -> dict[str, str]:
    """The executor in force, and for each dtype on the CPU where its compiled runtime comes from, or why there is none.

    >>> sorted(status())
    ['executor', 'float32', 'float64']
    """
    found = {str(d).removeprefix("torch."): reason("runtime", RUNTIME, d) for d in (torch.float32, torch.float64)}
    return {"executor": chosen(), **found}

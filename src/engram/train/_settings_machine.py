"""Where a run computes, how exactly, and what it writes while it does."""

from dataclasses import dataclass
from math import inf
from typing import Literal

from engram.errors import LARGEST, DTypeError, OptionError, check_choice, check_number, check_size

PRECISIONS = ("32-true", "64-true", "bf16-mixed")
MOST = {"processes": 128, "threads": 1024}
"""More than any machine of today has; with 100,000 threads a process has no memory for their stacks."""


@dataclass(frozen=True)
class Machine:
    """Device, processes, precision and logs. ``Machine(processes=2, precision="64-true")``; checked when made."""

    device: str = "cpu"
    """Where to compute: cpu, cuda, cuda:1, mps or auto."""
    processes: int = 1
    """Number of processes; each takes a part of every batch."""
    threads: int = 0
    """Number of threads; 0: chosen by the size of the work (1 for small runs), at most torch's own number."""
    precision: Literal["32-true", "64-true", "bf16-mixed"] = "32-true"
    """Precision of the arithmetic."""
    save_every: float = 10.0
    """Seconds between checkpoints; 0 saves at every step. What is computed does not depend on it."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    probe_every: int = 0
    """Steps between short memory measurements (engram probe), written to metrics.jsonl; 0: none."""
    tensorboard: bool = False
    """Also write events for TensorBoard."""

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, PRECISIONS)
        for name, least in {"processes": 1, "log_every": 1, "threads": 0, "probe_every": 0}.items():
            check_size(name, getattr(self, name), least, MOST.get(name, LARGEST))
        if not isinstance(self.tensorboard, bool):
            raise DTypeError(f"tensorboard must be true or false, got {self.tensorboard!r}")
        if not isinstance(self.device, str):
            raise DTypeError(f"device must be a name such as cpu or cuda:1, got {self.device!r}")
        if not 0 <= check_number("save_every", self.save_every) < inf:
            raise OptionError(f"save_every must not be negative, got {self.save_every}")

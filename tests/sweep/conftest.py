"""Sweeps that take a second."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import engram.sweep._lease as lease
from engram.sweep import FORMATS, Here, Plan, Sweep, make_plan, read_sweep, rows_of

SMALL = """
seeds = 2
[base]
task = "copy"
delay = 3
length = 2
steps = 6
batch = 4
hidden = 4
validate_every = 3
valid_samples = 4
test_samples = 4
{base}
[grid]
model = ["exprnn", "rnn"]
{rest}
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a sweep file, and give its path."""

    def written(text: str, name: str = "sweep.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


@pytest.fixture
def small(write: Any) -> Any:
    """The plan of four short runs; ``base`` and ``rest`` are further lines of the file."""

    def made(base: str = "", rest: str = "") -> Plan:
        return make_plan(read_sweep(write(SMALL.format(base=base, rest=rest))))

    return made


def run_here(plan: Plan, out: Path) -> str:
    """The table of a sweep, as CSV, trained in this process."""
    return FORMATS["csv"](rows_of(plan, Sweep(plan, out, Here()).run()))


def dead_process() -> dict[str, Any]:
    """What the lease of a process says that is gone."""
    process = subprocess.Popen(["sleep", "60"])
    found = {"machine": lease._machine(), "pid": process.pid, "started": lease._started(process.pid), "token": "x"}
    process.kill()
    process.wait()
    return found

"""What is about to be done to runs, before it is."""

from collections.abc import Sequence
from pathlib import Path

from engram.cli._console import terminal
from engram.cli._runs_chosen import rows_of
from engram.cli._runs_table import runs_table
from engram.files import printable
from engram.runs import check_run_folder, contents

SHOWN = 3
"""Names of files that are not of a run, at most."""


def show_plan(verb: str, folders: Sequence[Path]) -> str:
    """Print the runs to standard error, refuse what cannot be done to all of them; returns the question to ask."""
    size, others = 0, list[str]()
    for folder in folders:
        check_run_folder(folder)
        found = contents(folder)
        size += found.size
        others += [printable(str(folder / name)) for name in found.others]
    console = terminal(stderr=True)
    console.print(runs_table(Path(), rows_of(folders)))
    if others:
        more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
        verbs = "is 1 file" if len(others) == 1 else f"are {len(others):,} files"
        console.print(f"There {verbs} that engram did not make: {', '.join(others[:SHOWN])}{more}")
    what = f"{len(folders):,} run{'s' * (len(folders) != 1)}"
    files = f" and {len(others):,} other file{'s' * (len(others) != 1)}" if others else ""
    return f"{verb} {what}{files}, {size / 1e6:,.1f} MB?"

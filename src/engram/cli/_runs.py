"""``engram runs``: a list, and what can be done to runs."""

from engram.cli._command import Group
from engram.cli._runs_archive import ArchiveRuns
from engram.cli._runs_list import ListRuns
from engram.cli._runs_remove import RemoveRuns
from engram.cli._runs_rename import RenameRun

RUNS = Group(
    """List runs, newest first: task, model, size, status, best score beside that without memory, time, age.

    A condition compares settings, options of task and model, and scores: --where "task=copy and hidden>64",
    "status=killed", "test_accuracy>0.9 or not model=lstm", "age<3600".

    Examples:
        engram runs
        engram runs --where "task=copy and hidden>64" --sort -score
        engram runs --out sweeps/delay --json
        engram runs remove runs/first
    """,
    "action",
    {"remove": RemoveRuns, "rename": RenameRun, "archive": ArchiveRuns},
    default=ListRuns,
)

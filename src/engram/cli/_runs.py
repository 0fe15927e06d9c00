"""``engram runs``: a list, and what can be done to runs."""

from engram.cli._command import Group
from engram.cli._runs_archive import ArchiveRuns
from engram.cli._runs_list import ListRuns
from engram.cli._runs_remove import RemoveRuns
from engram.cli._runs_rename import RenameRun

RUNS = Group(
    """List runs, newest first: task, model, size, status, best score and what is reached without memory, time, age.

    --where compares settings, options of task and model, scores and columns of the list.

    Examples:
        engram runs
        engram runs --where "task=copy and hidden>64" --sort -score
        engram runs --where "status=killed and age<3600"      (age in seconds)
        engram runs --out sweeps/delay --json
        engram runs remove runs/first
    """,
    "action",
    {"remove": RemoveRuns, "rename": RenameRun, "archive": ArchiveRuns},
    default=ListRuns,
)

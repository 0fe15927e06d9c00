"""Runs as a collection: listed through an index, chosen by conditions, compared, removed, renamed and archived.

Nothing here imports torch, nor anything that a run directory names.
"""

from engram.runs._archive import archive_run
from engram.runs._change import remove_run, rename_run
from engram.runs._compare import ComparedRun, Comparison, Group, Spread, compare_runs
from engram.runs._compare_table import compare_csv, compare_json, compare_table
from engram.runs._folder import Contents, check_run_folder, contents
from engram.runs._index import list_runs
from engram.runs._row import STATUSES, Row, read_row
from engram.runs._scan import Place, find_runs
from engram.runs._select import names_of, select
from engram.runs._where import Where

__all__ = [
    "STATUSES",
    "ComparedRun",
    "Comparison",
    "Contents",
    "Group",
    "Place",
    "Row",
    "Spread",
    "Where",
    "archive_run",
    "check_run_folder",
    "compare_csv",
    "compare_json",
    "compare_runs",
    "compare_table",
    "contents",
    "find_runs",
    "list_runs",
    "names_of",
    "read_row",
    "remove_run",
    "rename_run",
    "select",
]

"""Many runs: a file says which, an engine trains them, a table holds what came out.

``engram sweep FILE`` on the command line; in Python::

    plan = make_plan(read_sweep(Path("copy.toml")))
    Sweep(plan, Path("sweeps/copy"), Local()).run()
"""

from engram.sweep._estimate import Estimate, estimate
from engram.sweep._file import SweepFile
from engram.sweep._here import Here
from engram.sweep._job import job_of, result_of, work
from engram.sweep._lease import Lease, Watch
from engram.sweep._local import Engine, Event, Local, cores
from engram.sweep._outdated import outdated
from engram.sweep._plan import Plan, Planned, identity, is_solved, make_plan, plan_of_seeds, scores_of
from engram.sweep._ray import Ray
from engram.sweep._read import read_sweep
from engram.sweep._search import Trials
from engram.sweep._search_file import Range, Search
from engram.sweep._sweep import Sweep, Unit, grown, read_results, units
from engram.sweep._table import FORMATS, columns, over_seeds, rows_of
from engram.sweep._together import MOST as MOST_TOGETHER

__all__ = [
    "FORMATS",
    "MOST_TOGETHER",
    "Engine",
    "Estimate",
    "Event",
    "Here",
    "Lease",
    "Local",
    "Plan",
    "Planned",
    "Range",
    "Ray",
    "Search",
    "Sweep",
    "SweepFile",
    "Trials",
    "Unit",
    "Watch",
    "columns",
    "cores",
    "estimate",
    "grown",
    "identity",
    "is_solved",
    "job_of",
    "make_plan",
    "outdated",
    "over_seeds",
    "plan_of_seeds",
    "read_results",
    "read_sweep",
    "result_of",
    "rows_of",
    "scores_of",
    "units",
    "work",
]

"""Runs with the settings of a sweep that a folder has from another version of engram, or from other own code."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from engram.errors import EngramError
from engram.files import read_json, seal
from engram.run_files import MOST_FACTS
from engram.sweep._plan import HASH, Plan, deciding
from engram.train import versions


def outdated(plan: Plan, out: Path) -> list[str]:
    """Folders of runs that would be runs of the plan, but for their code: such runs are trained again beside them.

    One letter more in a file of one's own gives all runs with a class of it another hash. To train for hours a second
    time is right then, and not what everybody expects.
    """
    left = [run for run in plan.runs if not (out / run.folder).exists()]
    wanted = {seal(deciding(run.settings.resolved().to_dict())): _code(versions(run.settings)) for run in left}
    stems = {run.folder[:-HASH] for run in left}
    folders = sorted(out.iterdir()) if wanted and out.is_dir() else []
    found = []
    for folder in (each for each in folders if each.name[:-HASH] in stems):
        with suppress(OSError, EngramError, ValueError, KeyError, TypeError, AttributeError):  # no run, or damaged
            facts = read_json(folder / "run.json", MOST_FACTS, finite=False)
            code = wanted.get(seal(deciding(facts["settings"])))
            if code is not None and code != _code(facts["versions"]):
                found.append(folder.name)
    return found


def _code(names: Mapping[str, str]) -> dict[str, str]:
    """Of the versions that a run notes: engram's, and the hashes of own code."""
    return {name: version for name, version in names.items() if name == "engram" or name.startswith("code of ")}

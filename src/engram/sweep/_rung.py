"""How a run stood at a step: what a search compares before all of it is trained."""

from pathlib import Path
from typing import Any

from engram.errors import RunError
from engram.run_files import RUNGS
from engram.train import RunDirectory, Score


def rung_name(until: int) -> str:
    """The file with how a run stood at a step."""
    return RUNGS.replace("*", str(until))


def validations(folder: Path, until: int, allow: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The lines of a run's validations up to a step."""
    try:
        lines = RunDirectory(folder, allow).metrics()
    except RunError:  # not begun, or damaged
        return []
    return [line for line in lines if line["split"] == "valid" and line["step"] <= until]


def standing(run: RunDirectory, lines: list[dict[str, Any]], until: int) -> dict[str, Any]:
    """What the result of a run would be if it had ended at the step ``until``.

    A run that diverged before that step has no standing, however good it was earlier. One that ended earlier by itself
    (its patience is over, or it reached its goal) is compared by what it had reached.

    Args:
        run: its directory.
        lines: its validations up to that step.
        until: the step at which runs are compared.
    """
    lost = not lines or (bool(run.facts.get("diverged")) and lines[-1]["step"] < until)
    found = {"status": "diverged" if lost else "reached", "results": {}, "parameters": run.facts["parameters"]}
    if not lost:
        names = [name for name in lines[0] if name not in ("split", "seconds")]
        score = Score(run.settings.budget.stop_by, names)
        best = lines[0]
        for line in lines[1:]:
            best = line if score.better(line, best) else best
        found["best"] = {name: best[name] for name in names}
    return found

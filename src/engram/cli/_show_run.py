"""A run that has ended, in words or as JSON."""

import json
from shlex import quote

from engram.cli._console import terminal
from engram.train import RunDirectory, allowing


def show_run(run: RunDirectory, as_json: bool) -> None:
    """Its scores beside what can be reached without memory, and what to type next."""
    if as_json:
        names = ("status", "step", "parameters", "results", "best")
        print(json.dumps({"run": str(run.folder), **{name: run.facts.get(name) for name in names}}))
        return
    task, console = run.settings.task, terminal()
    for split, scores in run.facts["results"].items():
        shown = ", ".join(f"{name} {score:.4g}" for name, score in scores.items())
        baseline = task.memoryless_baseline
        share = f" ({_share(scores['loss'] / baseline)} the memoryless baseline)" if baseline else ""
        console.print(f"{split}: {shown}{share}")
    evaluate = f"engram evaluate {quote(str(run.folder))}{allowing(run.allow)}"
    console.print(f"run: {run.folder} ({evaluate} --plot shows its curves)")


def _share(ratio: float) -> str:
    """``25.0% of``, and of a large ratio ``456 times``."""
    return f"{ratio:.1%} of" if ratio < 10 else f"{ratio:,.0f} times"

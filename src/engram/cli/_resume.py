"""``engram resume``."""

from dataclasses import KW_ONLY, dataclass

from engram.cli._run_words import Allow, Run, check_run
from engram.cli._show_run import show_run
from engram.probe import watch
from engram.train import resume


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, killed or failed, as if nothing had happened.

    Example: engram resume runs/copy-nnrnn-20261115-120000
    """

    folder: Run
    """The run directory."""
    _: KW_ONLY
    steps: int | None = None
    """Train a run that is done further, to this many steps in all."""
    allow: Allow = ()
    """A package or file of the run's own code, which is not imported otherwise; may be repeated."""
    json: bool = False
    """Print one JSON object at the end."""

    def run(self) -> None:
        check_run(self.folder)
        show_run(resume(self.folder, steps=self.steps, show=True, observe=watch, allow=self.allow), self.json)

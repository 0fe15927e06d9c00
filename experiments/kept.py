"""Runs that are kept: what is done is not done again, what was stopped goes on."""

from pathlib import Path

from engram.train import RunDirectory, Settings, resume, train


def kept(settings: Settings, out: Path, name: str) -> RunDirectory:
    """The run of these settings in ``out / name``, to its end; one that failed (diverged) stays so."""
    folder = out / name
    if not (folder / "run.json").exists():
        return train(settings, out, name)
    allow = [str(Path(__file__).parent / "as_printed.py")]
    run = RunDirectory(folder, allow)
    return run if run.status in ("done", "failed") else resume(folder, allow=allow)

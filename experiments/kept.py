"""Runs that are kept: what is done is not done again, what was stopped goes on."""

from pathlib import Path

from engram.train import RunDirectory, Settings, resume, train


def kept(settings: Settings, out: Path, name: str) -> RunDirectory:
    """The finished run of these settings in ``out / name``."""
    folder = out / name
    if not (folder / "run.json").exists():
        return train(settings, out, name)
    run = RunDirectory(folder)
    return run if run.status == "done" else resume(folder)

"""How many threads a run gets, and that a run computes the same bits again with several of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.tasks import Copy
from engram.train import RunDirectory, Settings, plan, train
from engram.train._threads import threads_for
from prepared import Prepared
from tiers import slow


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of eight threads."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("batch", "hidden", "processes", "threads"),
    [(64, 128, 1, 1), (64, 256, 1, 1), (128, 256, 1, 2), (64, 512, 1, 4), (1, 512, 1, 1), (256, 1024, 1, 8),
     (128, 512, 2, 4), (256, 1024, 4, 2), (1, 1, 1, 1)],
)  # fmt: skip
def test_threads_follow_the_work(batch: int, hidden: int, processes: int, threads: int) -> None:
    settings = Settings.of(Copy(10), batch=batch, hidden=hidden, processes=processes)
    assert threads_for(batch, hidden, processes) == settings.resolved().machine.threads == threads
    assert settings.replace(threads=5).resolved().machine.threads == 5  # what is asked for is what is done


def test_the_number_is_kept_with_the_run(tmp_path: Path, small: Any) -> None:
    """A run goes on with as many as it began with, and a plan says how many."""
    run = train(small(threads=0), tmp_path, "run")
    assert run.settings.machine.threads == RunDirectory(run.folder).settings.machine.threads == 1
    assert plan(small(threads=0), measured=1)["settings"]["machine"]["threads"] == 1


@pytest.mark.parametrize("threads", [2, slow(3)])
def test_equal_settings_give_equal_bits(threads: int, tmp_path: Path, prepared: Prepared) -> None:
    """Twice in processes of their own, at a size where the threads have something to share."""
    program = """
import json, sys
from engram.train import Settings, train
train(Settings.from_dict(json.loads(sys.argv[1])), sys.argv[2], sys.argv[3])
"""
    settings = Settings.of(Copy(10), hidden=96, steps=6, log_every=1, threads=threads, valid_samples=8, test_samples=8)
    words = [json.dumps(settings.to_dict()), str(tmp_path)]
    for name in ("one", "two"):
        done = prepared.run(program, *words, name)
        assert done.returncode == 0, done.stderr
    lines = [
        [
            {key: value for key, value in line.items() if key != "seconds"}
            for line in RunDirectory(tmp_path / name).metrics()
        ]
        for name in ("one", "two")
    ]
    assert len(lines[0]) >= 6
    assert lines[0] == lines[1]
    name = "checkpoint.safetensors"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

"""Runs of the same settings and other code are told: they are trained again."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engram.cli._sweep_show import show_plan
from engram.sweep import Estimate, Here, Plan, Sweep, SweepFile, make_plan, outdated

MINE = """
import engram

class Mine(engram.nn.RNN):
    pass
"""
BASE = {"task": "copy", "model": "mine.py:Mine", "steps": 1, "batch": 2, "hidden": 4, "delay": 3, "length": 2}


def planned(**base: object) -> Plan:
    """As another process would read it: the file anew."""
    for name in [
        name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).endswith("mine.py")
    ]:
        del sys.modules[name]
    return make_plan(SweepFile(base={**BASE, **base}, seeds=(0, 1), together=False), ["mine.py"])


def test_a_changed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    first, out = planned(), tmp_path / "out"
    assert outdated(first, out) == []
    Sweep(first, out, Here(), ["mine.py"]).run()
    before = sorted(run.folder for run in first.runs)
    assert outdated(first, out) == []
    Path("mine.py").write_text(MINE + "\n\nclass Another(Mine):\n    pass\n")
    second = planned(log_every=3)  # which changes no score
    assert outdated(second, out) == before
    assert outdated(planned(hidden=5), out) == []  # other settings
    left = Estimate(done=0, left=2, longest=1.0, total=2.0)
    show_plan(second, out, left, 1, every=True)
    assert "2 runs there have settings of this sweep and other code" in " ".join(capsys.readouterr().out.split())
    show_plan(second, out, left, 1, as_json=True)
    assert json.loads(capsys.readouterr().out)["outdated"] == before
    (out / before[0] / "run.json").write_text("{}")
    assert outdated(second, out) == before[1:]
    Sweep(second, out, Here(), ["mine.py"]).run()
    assert outdated(second, out) == []


def test_another_version(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small()
    Sweep(plan, tmp_path / "out", Here()).run()
    monkeypatch.setattr("engram.sweep._plan.__version__", "9.9")
    monkeypatch.setattr("engram.train._directory.__version__", "9.9")
    later = small()
    assert not {run.folder for run in plan.runs} & {run.folder for run in later.runs}
    assert outdated(later, tmp_path / "out") == sorted(run.folder for run in plan.runs)

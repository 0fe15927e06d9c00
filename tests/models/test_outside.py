"""A model and a task of one's own in a run: trained, resumed bit for bit, evaluated; and what a run may not do."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.errors import EngramError
from engram.imports import full_name
from engram.probe import profile_run
from engram.tasks import Copy, make_task
from engram.train import RunDirectory, Settings, evaluate, load_network, resume, train
from tiers import slow

MODEL = """
import torch, engram.nn

class LeakyCell(engram.nn.Cell):
    def step(self, drive, state):
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)

class LeakyRNN(engram.nn.Recurrent):
    cell = LeakyCell
"""
TASK = """
from dataclasses import dataclass
from engram.tasks import Copy

@dataclass(frozen=True)
class Short(Copy):
    delay: int = 4
    length: int = 2
    name = "short"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mymodel.py").write_text(MODEL)
    (tmp_path / "mytask.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(**changes: Any) -> Settings:
    quick = {"hidden": 6, "batch": 4, "steps": 6, "valid_samples": 8, "test_samples": 8, "save_every": 0, "threads": 1}
    task = changes.get("task") or make_task("mytask.py:Short")
    return Settings.of(**{"task": task, "model": "mymodel.py:LeakyRNN", **quick, **changes})


def test_a_run_of_ones_own_code(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained, stopped, gone on with from another folder: the same bits as a run that was never stopped."""
    whole = train(settings(), folder / "runs", "whole")
    train(settings(steps=3), folder / "runs", "part")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    allow = [str(folder / "mymodel.py"), "../mytask.py"]
    part = resume("../runs/part", steps=6, allow=allow)
    assert part.facts["results"] == whole.facts["results"]
    networks = [load_network(run.folder, allow=allow) for run in (whole, part)]
    for a, b in zip(*(network.parameters() for network in networks), strict=True):
        assert a.equal(b)
    assert evaluate(part.folder, allow=allow) == whole.facts["results"]
    longer = evaluate(part.folder, allow=allow, delay=9)
    assert longer["test"].keys() == whole.facts["results"]["test"].keys()
    stored = json.loads((whole.folder / "run.json").read_text())["settings"]
    assert str(folder / "mymodel.py") in json.dumps(stored)  # found from anywhere


def test_it_is_probed(folder: Path) -> None:
    run = train(settings(), folder / "runs", "first")
    found = profile_run(run.folder, parts=("gradient_reach",), allow=["mymodel.py", "mytask.py"])
    assert found.name == "LeakyRNN on short, 6 steps trained"


def test_the_folder_of_a_run_has_a_short_name(folder: Path) -> None:
    run = train(settings(), folder / "runs")
    assert run.folder.parent == folder / "runs"
    assert run.folder.name.startswith("short-LeakyRNN-")


@pytest.mark.parametrize("table", [False, True])
def test_a_run_on_images(table: bool, folder: Path) -> None:
    """Trained, resumed and evaluated; a table of objects is the task's and is made again."""
    file = Path(__file__).parent / "test_encoders.py"
    quick = {"task": make_task(f"{file}:Images", table=table), "model": "gru", "embedding": 5, "lr": 1e-2}
    whole = train(settings(**quick, steps=8), folder / "runs", "whole")
    train(settings(**quick, steps=4), folder / "runs", "part")
    part = resume(folder / "runs" / "part", steps=8, allow=[str(file)])
    assert part.facts["results"] == whole.facts["results"] == evaluate(part.folder, allow=[str(file)])
    if table:  # and of the images themselves, the same
        images = evaluate(part.folder, allow=[str(file)], table=False)
        assert images["test"] == pytest.approx(whole.facts["results"]["test"], rel=1e-4)
    with pytest.raises(EngramError, match="with 192 inputs and 2 outputs; with these options Images has 243 and 2"):
        evaluate(part.folder, allow=[str(file)], side=9)
    with pytest.raises(
        EngramError, match=r"Images shows inputs of the shape \(3, 8, 8\) at a step: a probe needs vectors or symbols"
    ):
        profile_run(part.folder, allow=[str(file)])


def test_of_a_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "my_package_of_models").mkdir()
    (folder / "my_package_of_models" / "__init__.py").write_text(MODEL)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    run = train(settings(model="my_package_of_models:LeakyRNN", task=Copy(3, 2)), folder / "runs", "first")
    with pytest.raises(EngramError, match="--allow my_package_of_models "):
        load_network(run.folder)
    for allow in (["my_package_of_models"], "my_package_of_models"):
        assert type(load_network(run.folder, allow=allow).core).__name__ == "LeakyRNN"


@pytest.mark.slow
def test_two_processes(folder: Path) -> None:
    """Each imports the files again."""
    one, two = (train(settings(processes=n, steps=3), folder / "runs", f"run{n}") for n in (1, 2))
    assert two.facts["results"]["test"]["loss"] == pytest.approx(one.facts["results"]["test"]["loss"], rel=1e-4)


READERS: dict[str, Callable[[Path], Any]] = {
    "open": RunDirectory,
    "load": load_network,
    "evaluate": evaluate,
    "evaluate with options": lambda run: evaluate(run, delay=9),
    "resume": resume,
    "resume further": lambda run: resume(run, steps=20),
    "probe": profile_run,
    "allow another": lambda run: load_network(run, allow=["evil", "mymodel.py", str(run), ""]),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of engram's own model and task."""
    return train(settings(task=Copy(3, 2), model="rnn"), tmp_path_factory.mktemp("runs"), "first").folder


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", ["model", "task"])
@pytest.mark.parametrize("form", ["file", slow("package"), "beside"])
def test_a_run_never_causes_an_import(form: str, place: str, reader: str, folder: Path, trained: Path) -> None:
    """run.json names code that would leave a marker if it were imported: refused in one line, and no marker."""
    run = Path(shutil.copytree(trained, folder / "runs" / "first"))
    marker = folder / "marker"
    content = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n{MODEL if place == 'model' else TASK}"
    where = run if form == "beside" else folder
    (where / "evil_module.py").write_text(content)
    kind = "LeakyRNN" if place == "model" else "Short"
    name = {"package": "evil_module", "file": "evil_module.py", "beside": f"{run}/evil_module.py"}[form] + f":{kind}"
    change_name(run / "run.json", place, full_name(name))
    with pytest.raises(EngramError, match=r"is code outside engram.*--allow .*evil_module") as told:
        READERS[reader](run)
    assert "\n" not in str(told.value)
    assert not marker.exists()
    assert "evil_module" not in sys.modules


def change_name(path: Path, place: str, name: str) -> None:
    """Put the name of a model or a task into run.json, whatever its form."""
    facts = json.loads(path.read_text())
    found = facts["settings"][place]
    if isinstance(found, dict):
        found["name"] = name
    else:
        facts["settings"][place] = name
    path.write_text(json.dumps(facts))


def test_the_marker_works(folder: Path) -> None:
    """The test above can fail: allowed, the same file is imported and leaves its marker."""
    run = train(settings(task=Copy(3, 2), model="rnn"), folder / "runs", "first").folder
    marker = folder / "marker"
    (folder / "evil_module.py").write_text(f"from pathlib import Path\nPath({str(marker)!r}).touch()\n{MODEL}")
    change_name(run / "run.json", "model", full_name("evil_module.py:LeakyRNN"))
    assert RunDirectory(run, ["evil_module.py"]).settings.model.kind
    assert marker.exists()


def test_the_weights_are_those_of_the_seed(folder: Path) -> None:
    """A model of one's own is sampled as engram's are: a run starts where the same settings start."""
    starts = [train(settings(steps=0, seed=seed), folder / "runs", f"run{k}") for k, seed in enumerate((1, 1, 2))]
    allow = ["mymodel.py", "mytask.py"]
    first, same, other = (load_network(run.folder, allow=allow).head.weight for run in starts)
    assert first.equal(same)
    assert not first.equal(other)

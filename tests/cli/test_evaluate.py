"""``engram evaluate`` of several runs, and its warning of a loss that no answer without memory would have."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engram.cli import _evaluate, _verdict, main
from engram.tasks import LagCopy, TransferCopy
from engram.train import RunDirectory, Settings, _trained, train


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two small runs, of other seeds."""
    monkeypatch.chdir(tmp_path)
    sizes: dict[str, Any] = {"hidden": 4, "batch": 4, "steps": 2, "valid_samples": 8, "test_samples": 8, "threads": 1}
    task = LagCopy(lag=2, length=20)
    return [
        str(train(Settings.of(task, "linear-rnn", seed=seed, **sizes), "runs", name).folder)
        for seed, name in enumerate(("a", "b"))
    ]


def test_several_runs(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each line begins with the name of its run; JSON has the scores by run, as one run alone has them."""
    capsys.readouterr()
    assert main(["evaluate", *runs, "--plot"]) == 0
    said = capsys.readouterr()
    assert [line.split(" test: loss ")[0] for line in said.out.splitlines()] == runs
    assert all(f"figure: {run}/curves.svg" in said.err for run in runs)
    assert main(["evaluate", *runs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == runs
    for run in runs:
        assert main(["evaluate", run, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == found[run]
    assert found[runs[0]] != found[runs[1]]


def test_flags_may_stand_between(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["evaluate", runs[0], "--json", runs[1]], ["evaluate", "--json", *runs]):
        capsys.readouterr()
        assert main(words) == 0
        assert list(json.loads(capsys.readouterr().out)) == runs


def test_one_that_is_no_run_stops_all(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["evaluate", runs[0], "runs/c"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "runs/c is not a run" in said.err


def test_files_among_runs(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """``runs/*`` names archives too; a file alone is refused."""
    Path("runs/old.tar.gz").write_bytes(b"")
    capsys.readouterr()
    assert main(["evaluate", runs[0], "runs/old.tar.gz", runs[1], "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == runs
    assert main(["evaluate", "runs/old.tar.gz"]) == 2
    assert "runs/old.tar.gz is not a run: it is a file" in capsys.readouterr().err
    assert main(["probe", runs[0], "runs/old.tar.gz", "--parts", "structure", "--json"]) == 0
    assert "structure" in json.loads(capsys.readouterr().out)


def test_a_loss_far_above_the_baseline(
    runs: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network whose state doubles: one line says how far, and what the probe says of it. A good loss: no word."""
    capsys.readouterr()
    assert main(["evaluate", runs[0]]) == 0
    assert "warning" not in capsys.readouterr().err

    def doubled(folder: Path, **options: Any) -> Any:
        network = original(folder, **options)
        with torch.no_grad():
            network.core.cells[0].weight_hh.copy_(2 * torch.eye(4))
        return network

    original = _trained.load_network
    monkeypatch.setattr(_trained, "load_network", doubled)
    monkeypatch.setattr(_verdict, "load_network", doubled)
    assert main(["evaluate", runs[0], "--option", "length=60", "--json"]) == 0
    said = capsys.readouterr()
    loss = json.loads(said.out)["test"]["loss"]
    baseline = RunDirectory(runs[0]).settings.task.memoryless_baseline
    assert loss > 1e6 * baseline
    assert said.err.count("\n") == 1
    told = re.search(
        r"warning: runs/a, test: a loss of (\S+) is (\S+) times that of an answer without memory", said.err
    )
    assert told is not None
    assert float(told[1]) == pytest.approx(loss, rel=1e-3)
    assert float(told[2].replace(",", "")) == pytest.approx(loss / baseline, rel=1e-2)
    assert "The probe: " in said.err
    assert "explodes" in said.err
    assert "unstable" in said.err


SCORES = {"test": {"loss": 0.123456789, "accuracy": 1.0}, "test-400": {"loss": float("inf")}}


@pytest.mark.parametrize("last", [False, True])
def test_what_is_printed(
    last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every split of every run; a loss without end is beyond all measure; the verdict is on the same weights."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).mkdir()
        (Path(name) / "run.json").touch()
    task = SimpleNamespace(memoryless_baseline=0.5, metric="mse", output_size=1, options=dict, exams=dict)
    monkeypatch.setattr(
        _evaluate,
        "RunDirectory",
        lambda folder, allow: SimpleNamespace(folder=folder, settings=SimpleNamespace(task=task)),
    )
    monkeypatch.setattr(_evaluate, "evaluate", lambda *_, **__: SCORES)
    asked: list[bool] = []
    monkeypatch.setattr(_evaluate, "verdict", lambda run, task, best: asked.append(best) or "Why.")
    plotted: list[Any] = []
    monkeypatch.setattr(_evaluate, "plot_curves", lambda run, path: plotted.append(path))
    for words in (["a"], ["a", "b"]):
        assert main(["evaluate", *words, *["--last"] * last]) == 0
        told = capsys.readouterr()
        lines = [(f"{name} " if len(words) > 1 else "") for name in words]
        assert told.out.splitlines() == [
            line + said for line in lines for said in ("test: loss 0.12346, accuracy 1", "test-400: loss inf")
        ]
        assert told.err.splitlines() == [
            f"engram: warning: {name}, test-400: a loss of inf is beyond that of an answer without memory (0.5). Why."
            for name in words
        ]
    assert asked == 3 * [not last]
    assert plotted == []
    assert main(["evaluate", "a", "b", "--plot", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a": SCORES, "b": SCORES}
    assert plotted == [Path("a/curves.svg"), Path("b/curves.svg")]


@pytest.mark.parametrize(("times", "warns"), [(1.0, False), (1.9, False), (2.1, True), (float("nan"), True)])
def test_when_it_warns(
    times: float, warns: bool, runs: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above twice the loss of an answer without memory: a network that has just begun is no reason."""
    baseline = RunDirectory(runs[0]).settings.task.memoryless_baseline
    assert baseline > 0.7  # more than log 2, the other thing that is compared with
    monkeypatch.setattr(_evaluate, "evaluate", lambda *_, **__: {"test": {"loss": times * baseline}})
    capsys.readouterr()
    assert main(["evaluate", runs[0]]) == 0
    assert ("warning" in capsys.readouterr().err) == warns


@pytest.mark.parametrize("name", ["name", "best", "folder", "allow", "self"])
def test_options_that_only_the_library_has(name: str, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An option of the task, not any argument of the functions below."""
    capsys.readouterr()
    assert main(["evaluate", runs[0], "--option", f"{name}=3"]) == 2
    assert capsys.readouterr().err.startswith(f"engram: unknown option '{name}' of lag-copy: expected one of ")


@pytest.mark.parametrize(
    ("metric", "classes", "baseline", "loss", "warns"),
    [
        ("mse", 9, 0.25, 0.49, False),
        ("mse", 9, 0.25, 0.51, True),
        ("accuracy", 9, 0.25, 4.3, False),
        ("accuracy", 9, 0.25, 4.5, True),
        ("accuracy", 1, 0.25, 1.3, False),
        ("accuracy", 1, 0.25, 1.5, True),
        ("accuracy", 2, 5.0, 9.0, False),
        ("accuracy", 2, 5.0, 11.0, True),
        ("accuracy", 2, 0.0, 99.0, False),
    ],
)
def test_twice_the_loss_of_a_guess(
    metric: str, classes: int, baseline: float, loss: float, warns: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A guess has log C of C classes, log 2 at least, or the loss without memory if that is more. Numbers have no
    classes. Of a task without such a loss nothing is said."""
    monkeypatch.setattr(_evaluate, "verdict", lambda run, task, best: "Why.")
    run: Any = SimpleNamespace(folder=Path("run"))
    task: Any = SimpleNamespace(metric=metric, output_size=classes, memoryless_baseline=baseline)
    _evaluate.Evaluate((Path("run"),))._warn(run, task, "test", loss)
    assert ("warning" in capsys.readouterr().err) is warns


def test_the_exam_of_other_options() -> None:
    """Options that were typed go before those of the training; a split by name is that exam."""
    run: Any = SimpleNamespace(settings=SimpleNamespace(task=LagCopy(lag=2, length=20)))
    changed: Any = _evaluate._exam(run, "test", {"lag": 5})
    assert (changed.lag, changed.length) == (5, 20)
    assert _evaluate._exam(run, "test", {}) == run.settings.task
    run.settings.task = TransferCopy()
    assert _evaluate._exam(run, "test-400", {}) == TransferCopy().exams()["test-400"]
    assert _evaluate._exam(run, "valid", {}) == TransferCopy()

"""``engram plot spectrum``: of a new model, and of a trained run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engram.cli import _plot_attention, _plot_spectrum, main
from engram.nn import GRU, RNN
from engram.tasks import Copy
from engram.train import Settings, load_network, train


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was handed to the picture, which is made all the same."""
    calls: list[Any] = []
    plot = _plot_spectrum.plot_spectrum

    def watched(matrix: torch.Tensor, path: Path, title: str) -> None:
        calls.append((matrix.detach().clone(), title))
        plot(matrix, path, title)

    monkeypatch.setattr(_plot_spectrum, "plot_spectrum", watched)
    return calls


@pytest.mark.parametrize("model", ["exprnn", "rnn", "urnn"])
def test_of_a_trained_run(model: str, shown: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix is the one that was trained, and the title says of what."""
    monkeypatch.chdir(tmp_path)
    settings = Settings.of(Copy(3, 2), model, hidden=6, batch=4, steps=5, test_samples=8, threads=1)
    run = train(settings, "runs", "first")
    assert main(["plot", "spectrum", "runs/first", "--last", "-o", "a.svg"]) == 0
    assert Path("a.svg").read_text().startswith("<?xml")
    ((matrix, title),) = shown
    network: Any = load_network(run.folder, best=False)
    cell = network.core.cells[0]
    trained = cell.rotation if hasattr(cell, "rotation") else cell.weight_hh
    assert torch.equal(matrix, trained)
    assert title == f"{model}, N = 6, after 5 steps on copy"


def test_of_a_new_model(shown: list[Any], tmp_path: Path) -> None:
    assert (
        main(["plot", "spectrum", "--model", "rnn", "--hidden", "5", "--seed", "3", "-o", str(tmp_path / "a.png")]) == 0
    )
    ((matrix, title),) = shown
    torch.manual_seed(3)
    assert torch.equal(matrix, RNN(1, 5).cells[0].weight_hh)
    assert title == "rnn, N = 5, as initialised"


def test_layers_with_and_without_a_matrix() -> None:
    assert _plot_spectrum.square_matrix(torch.nn.RNN(2, 3)) is not None
    assert _plot_spectrum.square_matrix(torch.nn.LSTM(2, 3)) is None
    assert _plot_spectrum.square_matrix(GRU(2, 3)) is None
    assert _plot_spectrum.square_matrix(torch.nn.Linear(2, 3)) is None


@pytest.mark.parametrize("words", [["plot", "spectrum"], ["demo", "--updates", "1", "--delay", "3"]], ids=" ".join)
@pytest.mark.parametrize(("seed", "fault"), [("-1", "at least 0"), (str(2**64), "at most 9,223,372,036,854,775,807")])
def test_seeds_that_torch_would_not_take(words: list[str], seed: str, fault: str, capsys: Any) -> None:
    assert main([*words, "--seed", seed]) == 2
    assert capsys.readouterr().err == f"engram: --seed must be {fault}, got {seed}\n"


def test_task_with_its_options(tmp_path: Path, capsys: Any) -> None:
    """The options of the task that is named are options of the command."""
    path = tmp_path / "sheet.png"
    words = ["plot", "task", "same-different", "--holdout", "98", "--spurious", "--shapes", "glyphs"]
    assert main([*words, "--examples", "3", "--split", "test", "-o", str(path)]) == 0
    assert capsys.readouterr().out.split("\n")[0] == "3 examples"
    assert path.read_bytes().startswith(b"\x89PNG")


TASK_MISTAKES = {
    "no task": ([], "engram plot task needs TASK, one of copy, "),
    "unknown task": (["copi"], "unknown task 'copi'"),
    "holdout": (["rmts", "--holdout", "97"], "--holdout must be 0 or from 5 to 95: of the 100 shapes rmts needs 5 "),
    "number": (["dist-n", "--number", "60"], "--number must be from 2 to 49 with holdout=50: "),
    "rule": (["relational-game", "--rule", "left"], "unknown --rule 'left': expected one of between, colour-shape, "),
    "another's option": (["copy", "--spurious"], "unknown option --spurious of engram plot task"),
    "split": (["copy", "--split", "tset"], "unknown split 'tset': expected one of test, train, valid"),
}


@pytest.mark.parametrize("case", TASK_MISTAKES)
def test_mistakes_of_plot_task(case: str, capsys: Any) -> None:
    words, message = TASK_MISTAKES[case]
    assert main(["plot", "task", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_help_of_a_task_shows_its_options(capsys: Any) -> None:
    assert main(["plot", "task", "dist-n", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--restricted" in out
    assert "--number" in out
    assert main(["plot", "task", "--help"]) == 0
    assert "--restricted" not in capsys.readouterr().out


def test_attention_of_a_trained_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.of(Copy(3, 2), "relrnn", hidden=6, batch=4, steps=2, test_samples=8, threads=1)
    run = train(settings.replace(options={"nu": 3, "rho": 2}), "runs", "first")
    plot, shown = _plot_attention.plot_attention_weights, []
    monkeypatch.setattr(
        _plot_attention,
        "plot_attention_weights",
        lambda *what, cell: (shown.append((*what, cell)), plot(*what, cell=cell)),
    )
    assert main(["plot", "attention", "runs/first", "--option", "delay=9", "--sequence", "2", "-o", "a.svg"]) == 0
    ((attention, _, title, cell),) = shown
    network: Any = load_network(run.folder)
    inputs = Copy(9, 2).batches("test", 2, 0, 2)[0].inputs  # the second one of two
    assert (title, cell) == (f"relrnn, layer 1, {len(inputs)} steps of copy", 0)
    with torch.no_grad():
        *_, expected = network.core(network.encode(inputs[:, 1:]), return_attention=True)
    assert torch.equal(attention.over_time(), expected.over_time())
    assert "Attention weight" in Path("a.svg").read_text()
    assert main(["plot", "attention", "runs/first", "--layer", "2"]) == 2
    assert "--layer must be at most 1, got 2" in capsys.readouterr().err
    train(Settings.of(Copy(3, 2), "rnn", hidden=6, batch=4, steps=2, test_samples=8, threads=1), "runs", "plain")
    assert main(["plot", "attention", "runs/plain"]) == 2
    assert "has no attention in its recurrence" in capsys.readouterr().err

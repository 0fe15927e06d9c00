"""``engram convert``: saved runs and files become others that compute the same, and say by how much they differ."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from engram.cli import main
from engram.convert import WeightedAutomaton
from engram.tasks import Copy, LagCopy, PAutomaC, Task
from engram.train import RunDirectory, Settings, evaluate, load_network, train
from tiers import slow_but

MODEL = "I:\n(0) 1.0\nF:\n(1) 0.5\nS:\n(0,0) 1.0\n(1,0) 0.25\n(1,1) 0.75\nT:\n(0,0,1) 1.0\n(1,0,1) 1.0\n(1,1,0) 1.0\n"
SMALL: dict[str, Any] = {"hidden": 4, "layers": 2, "steps": 3, "test_samples": 8, "valid_samples": 8, "threads": 1}


def trained(folder: Path, task: Task | None = None, **settings: Any) -> Path:
    settings = {"precision": "64-true", **SMALL, **settings}
    return train(Settings.of(task or LagCopy(), **settings), folder, "old").folder


def convert(capsys: Any, *words: object) -> Any:
    assert main(["convert", *map(str, words), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def refused(capsys: Any, *words: object) -> str:
    assert main(["convert", *map(str, words)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return str(said.err)


RUNS: dict[str, dict[str, Any]] = {
    "linear": {"model": "linear-rnn"},
    "no bias, trained start": {"model": "linear-rnn", "options": {"bias": False, "initial_state": "trained"}},
    "a map": {"model": "exprnn", "options": {"activation": "identity"}},
    "one answer": {"model": "linear-rnn", "task": Copy(delay=3)},
    "embedded": {"model": "linear-rnn", "task": PAutomaC(24), "embedding": 5},
}


CONVERTED = [*product(RUNS, ["flat", "deepen"])]
QUICK = [
    ("linear", "flat"),
    ("no bias, trained start", "deepen"),
    ("a map", "flat"),
    ("one answer", "deepen"),
    ("embedded", "flat"),
]


@pytest.mark.parametrize(("case", "conversion"), slow_but(CONVERTED, QUICK))
def test_depth(case: str, conversion: str, tmp_path: Path, capsys: Any) -> None:
    """The new run has other sizes, the same outputs and scores, and can be trained further."""
    old, new = trained(tmp_path, **RUNS[case]), tmp_path / "new"
    said = convert(capsys, conversion, old, "-o", new)
    sizes = {"flat": (1, 8), "deepen": (3, 4)}[conversion]
    assert (said["layers"], said["hidden"]) == ([2, sizes[0]], [4, sizes[1]])
    assert said["sequences"] == 8
    assert said["difference"] < 1e-12 * max(1, said["largest_output"])
    run = RunDirectory(new)
    assert run.status == "done"
    assert (run.settings.model.name, run.settings.task) == ("linear-rnn", RunDirectory(old).settings.task)
    before, after = evaluate(old, "test"), evaluate(new, "test")
    assert after["test"]["loss"] == pytest.approx(before["test"]["loss"], rel=1e-10)
    assert said["results"] == after
    assert main(["resume", str(new), "--steps", "2"]) == 0
    assert RunDirectory(new).facts["step"] == 2


def test_relu_is_deepened(tmp_path: Path, capsys: Any) -> None:
    old = trained(tmp_path, model="rnn", options={"activation": "relu", "dropout": 0.5})
    said = convert(capsys, "deepen", old, "-o", tmp_path / "new")
    assert said["difference"] == 0
    assert RunDirectory(tmp_path / "new").settings.model.options["activation"] == "relu"


def test_words(tmp_path: Path, capsys: Any) -> None:
    old = trained(tmp_path, model="linear-rnn")
    assert main(["convert", "flat", str(old), "-o", str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert "2 x 4 units -> 1 x 8 units" in said
    assert "on 8 test sequences" in said


NOT_LINEAR: dict[str, tuple[dict[str, Any], str]] = {
    "tanh": ({"model": "rnn"}, "a run of rnn: activation='tanh' cannot be flattened"),
    "lstm": ({"model": "lstm"}, "a run of lstm: layer must be an engram.nn.RNN; got LSTM"),
}


@pytest.mark.parametrize("case", ["tanh", "lstm"])
def test_not_linear(case: str, tmp_path: Path, capsys: Any) -> None:
    settings, words = NOT_LINEAR[case]
    assert words in refused(capsys, "flat", trained(tmp_path, **settings), "-o", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_run_is_not_overwritten(tmp_path: Path, capsys: Any) -> None:
    old = trained(tmp_path, model="linear-rnn")
    assert "holds a run already" in refused(capsys, "flat", old, "-o", old)


# torch and ONNX


TO_TORCH: dict[str, dict[str, Any]] = {
    "exprnn": {"activation": "tanh"},
    "gru": {},
    "lstm": {"proj_size": 2},
    "torch-lstm": {},
}


@pytest.mark.parametrize("model", slow_but(TO_TORCH, TO_TORCH.keys() - {"lstm"}))
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_torch(model: str, tmp_path: Path, capsys: Any) -> None:
    options = TO_TORCH[model]
    old, path = trained(tmp_path, model=model, options=options), tmp_path / "rnn.safetensors"
    said = convert(capsys, "torch", old, "-o", path)
    assert said["difference"] < 1e-12
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    sizes = [int(facts[name]) for name in ("input_size", "hidden_size", "num_layers")]
    more = {"proj_size": int(facts["proj_size"])} if "proj_size" in facts else {}
    layer = getattr(torch.nn, facts["class"])(*sizes, bias=facts["bias"] == "True", dtype=torch.float64, **more)
    layer.load_state_dict(load_file(path))
    x = torch.randn(5, 3, layer.input_size, dtype=torch.float64)
    torch.testing.assert_close(layer(x)[0], load_network(old).core(x)[0], rtol=1e-12, atol=1e-12)


def test_no_torch_of(tmp_path: Path, capsys: Any) -> None:
    old = trained(tmp_path, model="birnn")
    said = refused(capsys, "torch", old, "-o", tmp_path / "rnn.safetensors")
    assert "has the layer BilinearRNN: only an RNN, LSTM or GRU" in said
    assert "-o must end in .onnx" in refused(capsys, "onnx", old, "-o", tmp_path / "a.txt")
    theirs = trained(tmp_path / "gru", model="torch-gru")
    assert "torch.export unrolls torch.nn.GRU" in refused(capsys, "onnx", theirs, "-o", tmp_path / "a.onnx")


def test_onnx(tmp_path: Path, capsys: Any) -> None:
    said = convert(capsys, "onnx", trained(tmp_path, model="linear-rnn"), "-o", tmp_path / "a.onnx")
    assert said["difference"] < 1e-12
    onnx.checker.check_model(tmp_path / "a.onnx")


# automata


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.txt"
    path.write_text(MODEL, encoding="utf-8")
    return path


def test_automaton_to_network_and_back(model: Path, tmp_path: Path, capsys: Any) -> None:
    said = convert(capsys, "automaton", model, "-o", tmp_path / "net.safetensors")
    assert (said["states"], said["symbols"], said["outputs"], said["exact"]) == (2, 2, 1, False)
    assert said["difference"] < 1e-14
    convert(capsys, "automaton", tmp_path / "net.safetensors", "-o", tmp_path / "again.json")
    first, again = WeightedAutomaton.read(model), WeightedAutomaton.read(tmp_path / "again.json")
    for word in ([0], [0, 0], [0, 1, 0], [1]):
        assert again.value(word) == pytest.approx(float(first.value(word)), rel=1e-14)


def test_minimise(tmp_path: Path, capsys: Any) -> None:
    """A state that is never reached is gone; exact from a model, with a tolerance from numbers."""
    wide = MODEL.replace("S:\n", "(2) 0.5\nS:\n(2,0) 1\n").replace("T:\n", "T:\n(2,0,0) 1\n")
    (tmp_path / "wide.txt").write_text(wide, encoding="utf-8")
    said = convert(capsys, "automaton", tmp_path / "wide.txt", "-o", tmp_path / "a.json", "--minimise")
    assert (said["states"], said["states_before"], said["exact"], said["tolerance"]) == (2, 3, True, None)
    convert(capsys, "automaton", tmp_path / "wide.txt", "-o", tmp_path / "b.safetensors")
    said = convert(capsys, "automaton", tmp_path / "b.safetensors", "-o", tmp_path / "c.json", "--minimise")
    assert (said["states"], said["states_before"], said["exact"], said["tolerance"]) == (2, 3, False, 1e-10)
    assert main(["convert", "automaton", str(tmp_path / "wide.txt"), "-o", str(tmp_path / "d.json"), "--minimise"]) == 0
    assert "2 states, the Hankel rank of 3 states, exactly; 2 symbols" in capsys.readouterr().out


def test_a_malformed_model(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "bad.txt").write_text(MODEL.replace("(1) 0.5", "(1) half"), encoding="utf-8")
    said = refused(capsys, "automaton", tmp_path / "bad.txt", "-o", tmp_path / "a.json")
    assert "bad.txt, line 4: a probability must be a decimal number from 0 to 1, got 'half'" in said
    assert not (tmp_path / "a.json").exists()


@pytest.mark.usefixtures("data_sets")
@pytest.mark.parametrize("embedding", [0, 3])
def test_a_trained_network_as_an_automaton(embedding: int, tmp_path: Path, capsys: Any) -> None:
    """Its values of a word are what the network says after it."""
    settings = {"model": "birnn", "layers": 1, "embedding": embedding, "steps": 2}
    old = trained(tmp_path, PAutomaC(24), **settings)
    said = convert(capsys, "automaton", old, "-o", tmp_path / "a.json", "--minimise")
    assert (said["states"], said["symbols"], said["outputs"]) == (5, 6, 6)
    assert said["difference"] < 1e-10
    automaton, network = WeightedAutomaton.read(tmp_path / "a.json"), load_network(old)
    word = [5, 0, 3, 1]
    with torch.no_grad():
        outputs = network(torch.tensor(word)[:, None])[0][:, 0]
    for length in range(1, 5):
        np.testing.assert_allclose(automaton.value(word[:length]), outputs[length - 1], rtol=1e-8)


def test_a_run_that_reads_numbers(tmp_path: Path, capsys: Any) -> None:
    old = trained(tmp_path, model="birnn", layers=1)
    assert "an automaton reads symbols" in refused(capsys, "automaton", old, "-o", tmp_path / "a.json")
    said = refused(capsys, "automaton", old, "-o", tmp_path / "a.json", "--tolerance", "0.1")
    assert "--tolerance is for --minimise" in said


def test_an_automaton_whose_values_outgrow_float64(tmp_path: Path, capsys: Any) -> None:
    """Words are drawn only as far as their values are numbers; nothing overflows on the way."""
    text = '{"kind": "weighted-automaton", "initial": ["1"], "transitions": [[["%d"]]], "final": ["1"]}'
    (tmp_path / "a.json").write_text(text % 10**100, encoding="utf-8")
    assert convert(capsys, "automaton", tmp_path / "a.json", "-o", tmp_path / "b.json")["difference"] < 1e-12

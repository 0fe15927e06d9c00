"""ONNX files of whole networks: onnxruntime, which knows nothing of engram, computes the same."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from onnxruntime import InferenceSession, SessionOptions
from torch import nn

from engram.convert import sample_input, to_onnx
from engram.convert._baked import _is_fixed
from engram.errors import DTypeError, OptionError
from engram.models import MODELS, Model, make_network
from engram.models._encoders import OneHot
from engram.models._heads import EveryStep
from engram.models._network import Network
from engram.nn import RNN, URNN, CPNet, TensorNet
from engram.tasks import Adding, Copy, Task
from every_layer import GROWING, REAL, SYSTEMS
from tiers import slow_but

COMPLEX = ("urnn", "full-capacity", "hyland-raetsch", "eurnn", "scurnn")
QUICK = {"exprnn"}


def apart(network: Any, path: Path) -> float:
    """The largest difference, relative to the largest output where that is above one, at other sizes."""
    options = SessionOptions()
    options.log_severity_level = 3
    session = InferenceSession(path, options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for steps, batch in ((9, 2), (1, 1), (30, 7)):
        x = sample_input(network, steps, batch)
        (found,) = session.run(None, {"input": x.numpy()})
        with torch.no_grad():
            answer = network(x)
        right = answer[0] if isinstance(answer, tuple) else answer
        assert found.shape == tuple(right.shape)
        worst = max(worst, float((torch.from_numpy(found) - right).abs().max() / right.abs().max().clamp(min=1)))
    return worst


LAYERS = [name for name, entry in MODELS.items() if not entry.kind.__module__.startswith("engram.relational")]
"""Relational networks are made for one number of steps; files are for any."""


@pytest.mark.parametrize("name", slow_but(LAYERS, QUICK))
def test_every_model(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    is_tensor = issubclass(MODELS[name].kind, TensorNet)
    task: Task = Adding(6) if is_tensor else Copy(5)
    network = make_network(task, Model(name, hidden=6, layers=1 if is_tensor else 2)).eval()
    if name in COMPLEX or any(isinstance(module, nn.RNNBase) for module in network.modules()):
        with pytest.raises((DTypeError, OptionError), match=r"no complex numbers|unrolls torch\.nn"):
            to_onnx(network, tmp_path / "a.onnx")
        return
    if name in GROWING:
        with pytest.raises(OptionError, match="has a field that grows with time"):
            to_onnx(network, tmp_path / "a.onnx")
        return
    to_onnx(network, tmp_path / "a.onnx")
    assert apart(network, tmp_path / "a.onnx") < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL | SYSTEMS)
def test_every_layer(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = (REAL | SYSTEMS)[name]().eval()
    # Four values that hardly differ are divided by their spread: in 30 steps one rounding becomes hundreds of them, in
    # torch as in the file. In float64 these are far below the bound (the file has its epsilon in float32 even then).
    layer = layer.double() if "normalised" in name else layer
    to_onnx(layer, tmp_path / "a.onnx")
    assert apart(layer, tmp_path / "a.onnx") < 1e-5


@pytest.mark.slow  # tests/cli/test_convert.py has a file in float64 too
def test_double(tmp_path: Path) -> None:
    layer = RNN(3, 4, map="cayley", initial_state="trained", dtype=torch.float64).eval()
    to_onnx(layer, tmp_path / "a.onnx")
    assert apart(layer, tmp_path / "a.onnx") < 1e-12


@pytest.mark.slow
def test_the_network_stays_as_it_is(tmp_path: Path) -> None:
    """And what is written has no dropout; both directions, batch first."""
    layer = RNN(3, 4, 2, dropout=0.5, bidirectional=True, batch_first=True).train()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    to_onnx(layer, tmp_path / "a.onnx")
    assert layer.training
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    layer.eval()
    assert apart(layer, tmp_path / "a.onnx") < 1e-5


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_without_the_package(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionError, match="pip install onnx onnxscript"):
        to_onnx(RNN(3, 4), tmp_path / "a.onnx")


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match="ONNX has no complex numbers"):
        to_onnx(URNN(3, 4), tmp_path / "a.onnx")
    with pytest.raises(OptionError, match=r"torch.export unrolls torch.nn.GRU .* got one at '1'"):
        to_onnx(nn.Sequential(nn.Linear(3, 3), nn.GRU(3, 4)), tmp_path / "a.onnx")
    with pytest.raises(OptionError, match=r"input of Linear is not known, .* pass a sample"):
        to_onnx(nn.Linear(3, 4), tmp_path / "a.onnx")


class Own(nn.Sequential):
    """With dropout, and an order of dimensions."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh())
        self.batch_first = batch_first


@pytest.mark.parametrize("batch_first", [False, True])
def test_what_a_file_says_and_what_stays(batch_first: bool, tmp_path: Path) -> None:
    """The free sizes by name; without dropout. The module trains as before, and other programs' logs say as much."""
    module, logger = Own(batch_first).train(), logging.getLogger("onnxscript")
    before = logger.level
    logger.setLevel(17)
    try:
        to_onnx(module, tmp_path / "a.onnx", sample=torch.randn(5, 2, 3))
        assert logger.level == 17
    finally:
        logger.setLevel(before)
    assert all(part.training for part in module.modules())
    session = InferenceSession(tmp_path / "a.onnx")
    (given,) = session.get_inputs()
    assert (given.name, given.shape[:2]) == ("input", ["batch", "steps"] if batch_first else ["steps", "batch"])
    x = torch.randn(8, 3, 3)
    torch.testing.assert_close(
        torch.from_numpy(session.run(None, {"input": x.numpy()})[0]), module.eval()(x).detach(), atol=1e-6, rtol=0
    )


def test_what_is_computed_beforehand() -> None:
    """Not what draws random numbers."""
    assert _is_fixed(torch.ops.aten.add.Tensor)
    assert not _is_fixed(torch.ops.aten.rand.default)


def test_complex_buffers_are_refused(tmp_path: Path) -> None:
    module = nn.Linear(3, 4)
    module.register_buffer("turn", torch.ones(2, dtype=torch.complex64))
    with pytest.raises(DTypeError, match=r"turn is torch.complex64: use a real layer"):
        to_onnx(module, tmp_path / "a.onnx", sample=torch.randn(5, 2, 3))


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    to_onnx(module, tmp_path / "a.onnx", sample=torch.randn(5, 2, 3))
    x = torch.randn(8, 3, 3)
    (found,) = InferenceSession(tmp_path / "a.onnx").run(None, {"input": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), module(x).detach(), atol=1e-6, rtol=0)


def test_sample_inputs() -> None:
    """As each kind of network takes them: steps first or batch first, symbols, as many steps as a core has."""
    assert sample_input(RNN(3, 4), 9, 2).shape == (9, 2, 3)
    assert sample_input(RNN(3, 4, batch_first=True, dtype=torch.float64), 9, 2).shape == (2, 9, 3)
    assert sample_input(RNN(3, 4, dtype=torch.float64)).dtype == torch.float64
    net = CPNet(4, 3, 2, 5)
    assert sample_input(net, 9, 7).shape == ((7, 5, 4) if net.batch_first else (5, 7, 4))
    symbols = sample_input(Network(OneHot(10), RNN(10, 4), EveryStep(4, 2), vocabulary=10), 50, 8)
    assert (symbols.shape, symbols.is_floating_point()) == ((50, 8), False)
    assert (int(symbols.min()), int(symbols.max())) == (0, 9)
    with pytest.raises(
        OptionError, match="the input of Linear is not known, only that of a Network or layer of engram"
    ):
        sample_input(nn.Linear(2, 2))


def test_dropout_is_for_training_only(tmp_path: Path) -> None:
    """The file is of the network as it answers, and the network goes on training."""
    torch.manual_seed(0)
    network = make_network(Copy(5), Model("rnn", hidden=6, layers=2, options={"dropout": 0.5}))
    assert network.training
    to_onnx(network, tmp_path / "a.onnx")
    assert network.training
    assert apart(network.eval(), tmp_path / "a.onnx") < 1e-5

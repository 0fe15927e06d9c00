"""torch.export: a program of torch's own operations, for any number of steps and sequences."""

import io
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from engram.errors import OptionError
from engram.nn import RNN, BareCell, Recurrent
from engram.state import Field
from every_layer import COMPLEX, EVERY, FEATURES, HIDDEN, REAL, sequence, tensors
from tiers import slow, slow_but

DYNAMIC = torch.export.Dim.DYNAMIC
TOLERANCE = 1e-11  # float64, the same operations
LAYERS = EVERY | {"in segments": lambda **o: RNN(FEATURES, HIDDEN, checkpoint_every=2, return_sequence=False, **o)}
QUICK = {"eurnn", "mingru", "own cell with an integer"}  # modrelu: test_strict

# torch's own: dynamo makes an object of each autograd.Function that it traces (the maps have some)
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning"),
    # and, of scan: it looks at tensors inside that are no leaves, and compiles itself
    pytest.mark.filterwarnings("ignore:torch.compile is ignored when called inside torch.export:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


def exported(layer: nn.Module, *inputs: Any, strict: bool = False) -> torch.export.ExportedProgram:
    axes = [{0: DYNAMIC, 1: DYNAMIC}, *({1: DYNAMIC} for _ in inputs[1:])]
    return torch.export.export(layer, inputs, dynamic_shapes=tuple(axes), strict=strict)


@pytest.mark.parametrize("name", slow_but(LAYERS, QUICK))
def test_any_length_and_batch(name: str) -> None:
    layer = LAYERS[name](dtype=torch.float64).eval()
    program = exported(layer, sequence(layer, 5, 3))
    assert not [node for node in program.graph.nodes if "engram" in str(node.target)], "it must run without engram"
    with torch.no_grad():
        for steps, batch in ((9, 2), (1, 1), (40, 7)):
            x = sequence(layer, steps, batch)
            for found, right in zip(tensors(program.module()(x)), tensors(layer(x)), strict=True):
                torch.testing.assert_close(found, right, atol=TOLERANCE, rtol=1e-10)


@pytest.mark.parametrize("name", slow_but(["goru", "own cell without a plan", "cayley", "s4d, two-sided"], {"cayley"}))
def test_gradients(name: str) -> None:
    """A program of real numbers can be trained further."""
    layer = EVERY[name](dtype=torch.float64)
    program = exported(layer, sequence(layer, 5, 3)).module()
    x = sequence(layer, 7, 2)
    right = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.cells.parameters()), allow_unused=True)
    own = dict(program.named_parameters(remove_duplicate=False))
    cells = [own[f"cells.{name}"] for name, _ in layer.cells.named_parameters()]
    found = torch.autograd.grad(program(x)[0].square().sum(), cells, allow_unused=True)
    assert sum(grad is not None for grad in found) >= 2
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_without_gradients_of_integers_and_complex_numbers() -> None:
    """torch 2.13 cannot differentiate such a scan: an error, never wrong numbers."""
    for layer in (EVERY["own cell with an integer"](), COMPLEX["eurnn"]()):
        x = sequence(layer, 5, 3, torch.float32 if not layer.cells[0].reference_weight.is_complex() else torch.float64)
        with pytest.raises((AssertionError, RuntimeError), match=r"outs_to_grad|automatic differentiation"):
            exported(layer, x).module()(x)


def test_given_state() -> None:
    layer = RNN(FEATURES, HIDDEN, 2, dtype=torch.float64)
    x, h = sequence(layer, 5, 3), torch.randn(2, 3, HIDDEN, dtype=torch.float64)
    program = exported(layer, x, h).module()
    y, g = sequence(layer, 4, 6), torch.randn(2, 6, HIDDEN, dtype=torch.float64)
    for found, right in zip(tensors(program(y, g)), tensors(layer(y, g)), strict=True):
        torch.testing.assert_close(found, right, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", slow_but(["modrelu", "exponential"], {"modrelu"}))
def test_strict(name: str) -> None:
    layer = REAL[name](dtype=torch.float64)
    program = exported(layer, sequence(layer, 5, 3), strict=True).module()
    x = sequence(layer, 6, 2)
    torch.testing.assert_close(program(x)[0], layer(x)[0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["free", slow("goru")])
def test_as_a_file(name: str) -> None:
    layer = REAL[name](dtype=torch.float64).eval()
    file = io.BytesIO()
    torch.export.save(exported(layer, sequence(layer, 5, 3)), file)
    file.seek(0)
    x = sequence(layer, 6, 2)
    torch.testing.assert_close(torch.export.load(file).module()(x)[0], layer(x)[0], atol=TOLERANCE, rtol=0)


def test_packed_input_is_refused() -> None:
    class Packing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = RNN(FEATURES, HIDDEN)

        def forward(self, data: torch.Tensor, sizes: torch.Tensor) -> Any:
            return self.layer(nn.utils.rnn.PackedSequence(data, sizes))[0].data

    data, sizes, *_ = pack_padded_sequence(torch.randn(5, 2, FEATURES), torch.tensor([5, 3]))
    with pytest.raises(OptionError, match="got a PackedSequence"):
        torch.export.export(Packing(), (data, sizes))


def test_growing_memory_is_refused() -> None:
    class GrowingCell(BareCell):
        def fields(self) -> Field:
            return Field(self.hidden_size, grows=True)

        def drive(self, input: torch.Tensor) -> torch.Tensor:
            return input

        def step(self, drive: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            return torch.cat([state, drive[:, None]], 1)

        def output(self, state: torch.Tensor) -> torch.Tensor:
            return state.mean(1)

    class Growing(Recurrent):
        cell = GrowingCell

    with pytest.raises(OptionError, match="GrowingCell has a field that grows with time"):
        exported(Growing(FEATURES, FEATURES), torch.randn(5, 3, FEATURES))

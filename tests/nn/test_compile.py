"""torch.compile(fullgraph=True): the compiled layer has the values and the gradients of the layer."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor

from engram.loops._trace_cell import tensors_read
from engram.nn import RNN
from every_layer import COMPLEX, FEATURES, HIDDEN, REAL, SYSTEMS, sequence
from tiers import slow_but

# torch's own: dynamo makes an object of each autograd.Function that it traces (the maps have some)
pytestmark = pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")

TOLERANCE = 1e-11  # float64: the same operations, at most fused; of numbers up to 10
LAYERS = REAL | SYSTEMS
QUICK = {"both ways, batch first", "goru", "mingru", "own cell with an integer"}
SIZES = ((5, 2), (7, 3), (9, 5), (33, 4), (8, 7))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def bound(expected: dict[str, Tensor]) -> float:
    """A gradient is a sum of up to T B H = 528 terms, rounded by 1.2e-13 of the largest; a step has sums of its own."""
    return TOLERANCE * max(1.0, *(float(value.abs().max()) / 10 for value in expected.values()))


@pytest.mark.parametrize("name", slow_but(LAYERS, QUICK))
def test_compiled_twice_at_most(name: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    """Values and gradients; once for the first length and batch, once for all others."""
    layer = LAYERS[name](dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for k, (steps, batch) in enumerate(SIZES):
        x = sequence(layer, steps, batch)
        with torch._dynamo.config.patch(error_on_recompile=k > 1):
            found = measure(layer, x, call=compiled)
        expected = measure(layer, x)
        agree(found, expected, bound(expected))


@pytest.mark.parametrize("name", slow_but(COMPLEX, {"complex"}))
def test_complex(name: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = COMPLEX[name]()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for steps in (3, 5):
        x = sequence(layer, steps, 2)
        agree(measure(layer, x, call=compiled), measure(layer, x), TOLERANCE)


def test_segments_are_compiled_per_number_of_segments(measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = RNN(FEATURES, HIDDEN, checkpoint_every=8, return_sequence=False, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for steps in (11, 13):
        x = torch.randn(steps, 2, FEATURES, dtype=torch.float64)
        agree(measure(layer, x, call=compiled), measure(layer, x), TOLERANCE)


def test_a_change_of_the_cell_is_seen() -> None:
    """The graph holds the loop of the cell as it was."""
    layer = RNN(FEATURES, HIDDEN, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, FEATURES, dtype=torch.float64)
    before, _ = compiled(x)
    layer.cells[0].activation = "relu"
    torch.testing.assert_close(compiled(x)[0], layer(x)[0], atol=TOLERANCE, rtol=0)
    assert not torch.allclose(before, layer(x)[0])


def test_given_state(measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = RNN(FEATURES, HIDDEN, 2, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, FEATURES, dtype=torch.float64)
    state = torch.randn(2, 2, HIDDEN, dtype=torch.float64)
    agree(measure(layer, x, state, call=compiled), measure(layer, x, state), TOLERANCE)


def test_autocast() -> None:
    layer = RNN(FEATURES, HIDDEN, map="cayley")
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(5, 2, FEATURES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = compiled(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, layer(x)[0], atol=1e-6, rtol=0)  # float32, not bfloat16's 1e-2


def test_the_gradient_has_the_strides_that_the_compiler_was_told() -> None:
    """Contiguous, whatever the strides of the input; inductor's code reads it so."""
    layer = RNN(FEATURES, HIDDEN, dtype=torch.float64)
    x = torch.randn(FEATURES, 5, 2, dtype=torch.float64, requires_grad=True).permute(1, 2, 0)
    (grad,) = torch.autograd.grad(layer(x)[0].sum(), x)
    assert not x.is_contiguous()
    assert grad.is_contiguous()


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex:UserWarning")
@pytest.mark.filterwarnings("ignore:`torch._prims_common.check` is deprecated:FutureWarning")  # inductor's own call
@pytest.mark.parametrize("name", LAYERS)
def test_inductor(name: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    """torch's default backend, which generates code; the input with strides of its own."""
    layer = LAYERS[name](dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True)
    x = sequence(layer, 5, 2).permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert not x.is_contiguous()
    expected = measure(layer, x)
    agree(measure(layer, x, call=compiled), expected, bound(expected))


def test_only_what_a_step_reads_is_handed_to_scan() -> None:
    """Inductor doubles the gradient of a tensor that is handed over and not read: the bias, which the drive reads."""
    assert tensors_read(LAYERS["own cell without a plan"]().cells[0], FEATURES) == ("weight_hh",)
    assert tensors_read(LAYERS["own cell under a map"]().cells[0], FEATURES) == ("weight_hh",)
    assert tensors_read(LAYERS["modrelu"]().cells[0], FEATURES) == ("weight_hh", "mod_bias")

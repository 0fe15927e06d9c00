"""checkpoint_every: the same numbers, in a fraction of the memory."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import engram.loops._operator  # noqa: F401  (registers the operators)
from engram.loops import compiled_cell
from engram.nn import RNN
from tiers import slow, slow_but

TOLERANCE = 1e-12  # float64: only the sums over segments are in another order
STEPS = 10
EVERY = [1, 3, 5, 9, 10, 11, 100]  # k = 1, not dividing T, dividing it, T - 1, T, beyond

LAYERS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "two layers, two directions": {"num_layers": 2, "bidirectional": True},
    "cayley, trained start": {"map": "cayley", "initial_state": "trained"},
    "modrelu in depth": {"activation": "modrelu", "activation_in": "depth", "num_layers": 2},
    "complex": {"dtype": torch.complex128, "bidirectional": True, "activation": "modrelu"},
    "last step": {"return_sequence": False, "num_layers": 2, "bidirectional": True},
    "all layers": {"output_all_layers": True, "num_layers": 2},
}
FORMS = ["dense", "packed sorted", "packed unsorted", "unbatched"]


@pytest.mark.parametrize("form", slow_but(FORMS, {"dense", "packed unsorted"}))
@pytest.mark.parametrize("name", LAYERS)
def test_same_numbers(name: str, form: str, measure: Callable[..., Any], agree: Callable[..., None]) -> None:
    layer = RNN(3, 4, **{"dtype": torch.float64, **LAYERS[name]})
    x = torch.randn(STEPS, 4, 3, dtype=layer.weight_ih_l0.dtype)
    state = (torch.randn(len(layer.cells), 4, 4, dtype=x.dtype),) if layer.cells[0].start is None else ()
    if form == "unbatched":
        x, state = x[:, 0], tuple(s[:, 0] for s in state)
    if form.startswith("packed"):
        lengths = [10, 7, 6, 1] if form == "packed sorted" else [6, 1, 10, 7]
        x = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=form == "packed sorted")
    expected = measure(layer, x, *state)
    for every in EVERY:
        other = copy.deepcopy(layer)
        other.checkpoint_every = every
        agree(measure(other, x, *state), expected, TOLERANCE)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("sequence", [True, False])
def test_same_numbers_with_every_kernel(
    sequence: bool, measure: Callable[..., Any], agree: Callable[..., None]
) -> None:
    layer = RNN(3, 4, 2, bidirectional=True, return_sequence=sequence, dtype=torch.float64)
    other = copy.deepcopy(layer)
    other.checkpoint_every = 4
    x = torch.randn(STEPS, 2, 3, dtype=torch.float64)
    agree(measure(other, x), measure(layer, x), TOLERANCE)


@pytest.mark.parametrize("activation", ["tanh", "modrelu"])
@pytest.mark.parametrize("lengths", [None, [6, 6, 3]])
def test_the_operator_keeps_torchs_rules(activation: str, lengths: list[int] | None) -> None:
    """torch's own check of the operator behind a segment whose outputs are not wanted."""

    cell = RNN(3, 4, activation=activation, dtype=torch.float64).cells[0]
    x = torch.randn(*((15, 3) if lengths else (5, 6, 3)), dtype=torch.float64, requires_grad=True)
    start = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    sizes = torch.tensor(lengths) if lengths else None
    found = compiled_cell(cell)
    tensors = [x, start, *(getattr(cell, name) for name in found.traced.names)]
    results = torch.library.opcheck(torch.ops.engram.loop.default, (tensors, sizes, found.key, True, False, False))
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("sequence", [slow(True), False])
def test_double_backward_through_segments(sequence: bool) -> None:
    layer = RNN(3, 4, checkpoint_every=3, return_sequence=sequence, dtype=torch.float64)
    x = torch.randn(7, 1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


def test_dropout_is_the_same_when_recomputed() -> None:
    """Dropout lies between layers, outside the segments: the gradient belongs to the very output returned."""
    layer = RNN(3, 4, 2, dropout=0.5, checkpoint_every=3, dtype=torch.float64)
    x = torch.randn(7, 1, 3, dtype=torch.float64, requires_grad=True)

    def call(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        return layer(x)[0]

    assert layer.training
    assert torch.autograd.gradcheck(call, (x,))


MEASURE = """
import sys, torch
from pathlib import Path
from engram.nn import RNN

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])  # kB

torch.set_num_threads(1)
every = int(sys.argv[1]) or None
layer = RNN(1, 64, return_sequence=False, checkpoint_every=every)
x = torch.randn(100_000, 2, 1)
layer(x[:1000])[0].sum().backward()  # everything is loaded now
before = peak()
output, state = layer(x)
(output.sum() + state.sum()).backward()
assert all(bool(p.grad.isfinite().all()) for p in layer.parameters())
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_hundred_thousand_steps_in_bounded_memory() -> None:
    """A process each, as the peak of a process never falls."""

    def grown(every: int) -> int:
        command = [sys.executable, "-c", MEASURE, str(every)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout)

    plain, bounded = grown(0), grown(300)
    states = 100_000 * 2 * 64 * 4 // 1024  # kB, in float32
    assert plain > states, "the plain layer keeps all states"
    assert bounded < plain / 5

"""Compatibility tests for a layer: does it behave as torch.nn.LSTM does? For anyone's layer."""

import copy
import io
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram.errors import DTypeError, EngramError
from engram.nn._bare_cell import BareCell
from engram.nn._recurrent import Recurrent
from engram.state import Field, State, each, parts

TIME, BATCH, FEATURES, HIDDEN = 6, 4, 3, 5
LENGTHS = (3, 6, 1, 4)  # unsorted, and one row of the full length


class ContractError(EngramError, AssertionError):
    """A layer fails a compatibility test; the message says which."""


def check_contract(make: Callable[..., Recurrent], tolerance: float = 1e-10) -> list[str]:
    """Run the compatibility tests on a layer class: packed batches, sequences in pieces, gradients, saving and others.

    Example::

        engram.checks.check_contract(LeakyRNN)

    Args:
        make: the class, or a function that is called as ``make(3, 5, num_layers, bidirectional=...,
            dtype=torch.float64)`` and returns a layer.
        tolerance: the largest difference allowed, relative where numbers are above 1. Default: 1e-10.

    Returns:
        the tests that were passed, one sentence each.

    Raises:
        ContractError: with the first test that fails.
    """
    if isinstance(make, nn.Module) or not callable(make):
        raise DTypeError(f"check_contract takes the class of a layer, or a function that makes one; got {make!r:.60}")
    torch_state = torch.random.get_rng_state()
    try:
        for layers in (1, 2):
            for bidirectional in (False, True):
                for test in TESTS:
                    torch.manual_seed(0)
                    layer = make(FEATURES, HIDDEN, layers, bidirectional=bidirectional, dtype=torch.float64)
                    with torch.no_grad():
                        worst = test(layer, torch.randn(TIME, BATCH, FEATURES, dtype=torch.float64))
                    if not worst <= tolerance:
                        name = (test.__doc__ or "").strip().rstrip(".")
                        raise ContractError(
                            f"{type(layer).__name__} with num_layers={layers}, bidirectional={bidirectional} "
                            f"breaks the contract: {name}. Largest difference {worst:.3g}, allowed {tolerance:.3g}"
                        )
    finally:
        torch.random.set_rng_state(torch_state)
    return [(test.__doc__ or "").strip() for test in TESTS]


def _apart(a: Any, b: Any) -> float:
    """The largest difference between two tensors, or two (nested) tuples of them, as a share of their largest entry if
    that is above 1; infinite if shapes differ or one holds NaN, which no comparison would notice."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        same = a == b  # also two infinities, of which there is no difference
        if bool(same.all()):
            return 0.0
        if not (a.is_floating_point() or a.is_complex()):
            return math.inf
        worst = float(torch.where(same, 0.0, (a - b).abs()).max() / torch.where(same, 0.0, b.abs()).max().clamp(min=1))
        return math.inf if math.isnan(worst) else worst
    return max(_apart(x, y) for x, y in zip(a, b, strict=True))


def _pieces(layer: Recurrent, x: Tensor) -> float:
    """A sequence in two pieces, the state handed over, equals the whole."""
    if layer.bidirectional:  # the backward direction of the first piece would need the second
        layer = layer.replace(bidirectional=False, num_layers=1)
    first, state = layer(x[:2])
    second, final = layer(x[2:], state)
    return _apart((torch.cat([first, second]), final), layer(x))


def _packed(layer: Recurrent, x: Tensor) -> float:
    """A packed batch equals each row alone."""
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False)
    worst = 0.0
    for given in (None, layer(x.flip(0))[1]):  # also from a state
        output, state = layer(packed, given)
        padded, _ = pad_packed_sequence(output)
        for i, n in enumerate(LENGTHS):
            alone, final = layer(x[:n, i], None if given is None else _row(given, i))
            before = 0 if given is None else TIME
            worst = max(worst, _apart((padded[:n, i], _row_of(layer, state, i, n, before)), (alone, final)))
    return worst


def _row(state: State, i: int) -> State:
    return each(lambda s: s[:, i], state)


def _row_of(layer: Recurrent, state: State, i: int, steps: int, before: int) -> State:
    """A row. Of growing memories, what it had before and what it has added itself, without what fills them up: that
    comes last, or, where the row was read backwards, before its own."""

    def own(memory: Tensor, backwards: bool) -> Tensor:
        new = memory[before:]
        return torch.cat([memory[:before], new[TIME - steps :] if backwards else new[:steps]])

    def take(s: Tensor, field: Field) -> Tensor:
        if not field.grows:
            return s[:, i]
        return torch.stack([own(s[k, i], bool(k % layer.directions)) for k in range(len(layer.cells))])

    return each(take, state, layer.cells[0].fields())


def _permuted(layer: Recurrent, x: Tensor) -> float:
    """Permuting the batch permutes the result."""
    order = torch.tensor([2, 0, 3, 1])
    output, state = layer(x)
    return _apart(layer(x[:, order]), (output[:, order], each(lambda s: s[:, order], state)))


def _batch_first(layer: Recurrent, x: Tensor) -> float:
    """batch_first swaps the first two axes of input and output and nothing else."""
    output, state = layer(x)
    swapped = copy.deepcopy(layer)
    swapped.batch_first = True
    return _apart(swapped(x.transpose(0, 1)), (output.transpose(0, 1), state))


def _unbatched(layer: Recurrent, x: Tensor) -> float:
    """One sequence without a batch axis equals a batch of one."""
    output, state = layer(x[:, :1])
    return _apart(layer(x[:, 0]), (output[:, 0], _row(state, 0)))


def _shapes(layer: Recurrent, x: Tensor) -> float:
    """Output and state have the shapes of torch.nn.RNN, and the fields of the state those that are declared."""
    output, state = layer(x)
    cell, cells = layer.cells[0], len(layer.cells)
    fits = output.shape == (TIME, BATCH, layer.cells[-1].output_size * layer.directions)
    for tensor, field in zip(parts(state), parts(cell.fields()), strict=True):
        steps = (TIME,) if field.grows else ()
        fits = fits and tuple(tensor.shape) == (cells, BATCH, *steps, *field.shape)
        fits = fits and tensor.dtype == (field.dtype or cell.reference_weight.dtype)
    return 0.0 if fits else float("inf")


def _initial_state(layer: Recurrent, x: Tensor) -> float:
    """The initial state given by hand changes nothing."""
    return _apart(layer(x, layer.initial_state(BATCH)), layer(x))


def _carried(layer: Recurrent, x: Tensor) -> float:
    """What is carried on into the next window is a state, of the fields and without history."""
    with torch.enable_grad():
        state = layer(x.requires_grad_())[1]
        carried = layer.carry(state)
    if any(tensor.requires_grad for tensor in parts(carried)):
        return math.inf
    layer(x, carried)  # which refuses what is no state
    grows = any(field.grows for field in parts(layer.cells[0].fields()))
    return 0.0 if grows or layer.cell.carry is not BareCell.carry else _apart(carried, state)


def _saved(layer: Recurrent, x: Tensor) -> float:
    """A pickled, a deep-copied and a reloaded layer compute the same."""
    reloaded = copy.deepcopy(layer)
    for parameter in reloaded.parameters():
        parameter.zero_()
    reloaded.load_state_dict(layer.state_dict())
    others = [copy.deepcopy(layer), reloaded]
    if _importable(type(layer)) and _importable(layer.cell):  # nobody can pickle a class defined inside a function
        memory = io.BytesIO()
        torch.save(layer, memory)
        memory.seek(0)
        others.append(torch.load(memory, weights_only=False))
    expected = layer(x)
    return max(_apart(other(x), expected) for other in others)


def _importable(kind: type) -> bool:
    return getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


def _segmented(layer: Recurrent, x: Tensor) -> float:
    """checkpoint_every changes nothing."""
    other = copy.deepcopy(layer)
    other.checkpoint_every = 4
    return _apart(other(x), layer(x))


def _differentiable(layer: Recurrent, x: Tensor) -> float:
    """The gradients of the input and of every weight are those of finite differences."""
    with torch.enable_grad():
        names = [name for name, _ in layer.named_parameters()]
        values = tuple(p.detach().clone().requires_grad_() for p in layer.parameters())

        def run(x: Tensor, *weights: Tensor) -> Tensor:
            output, _ = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))
            total: Tensor = (output * torch.linspace(-1, 1, output.numel(), dtype=x.dtype).view_as(output)).sum()
            return total

        x = x[:3, :2].clone().requires_grad_()
        right = torch.autograd.gradcheck(run, (x, *values), raise_exception=False, fast_mode=True)
    return 0.0 if right else float("inf")


TESTS: tuple[Callable[[Recurrent, Tensor], float], ...] = (
    _shapes, _initial_state, _pieces, _carried, _packed, _permuted, _batch_first, _unbatched, _saved, _segmented,
    _differentiable,
)  # fmt: skip

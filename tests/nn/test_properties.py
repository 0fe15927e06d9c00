"""Laws that hold for every layer, whatever its sizes and options (hypothesis draws them)."""

import copy
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram.nn import RNN

TOLERANCE = 1e-10  # float64: sums in another order

sizes = st.integers(1, 6)


@st.composite
def layers(draw: st.DrawFn, **fixed: Any) -> RNN:
    """A layer with any options; float64 or complex128, weights of size about one."""
    dtype = draw(st.sampled_from([torch.float64, torch.complex128]))
    options = {
        "num_layers": draw(st.integers(1, 3)),
        "activation": draw(st.sampled_from(["identity", "tanh", "sigmoid", "modrelu"])),
        "activation_in": draw(st.sampled_from(["recurrence", "depth"])),
        "map": draw(st.sampled_from(["free", "exponential", "cayley"])) if dtype is torch.float64 else "free",
        "initial_state": draw(st.sampled_from(["zero", "trained"])),
        "bias": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
        "checkpoint_every": draw(st.sampled_from([None, None, 1, 2, 5])),
        "dtype": dtype,
        **fixed,
    }
    torch.manual_seed(draw(st.integers(0, 1000)))
    layer = RNN(draw(sizes), draw(sizes), **options)
    with torch.no_grad():
        for cell in layer.cells:
            for zero in (cell.start, cell.mod_bias):
                if zero is not None:
                    zero.add_(torch.randn_like(zero), alpha=0.3)
    return layer


def sequence(layer: RNN, steps: int, batch: int) -> Tensor:
    return torch.randn(steps, batch, layer.input_size, dtype=layer.weight_ih_l0.dtype)


def random_state(layer: RNN, batch: int) -> Tensor:
    return torch.randn(len(layer.cells), batch, layer.hidden_size, dtype=layer.weight_ih_l0.dtype)


def same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for value, right in zip(found, expected, strict=True):
        # relative to the size: the identity and a free matrix may grow over the steps
        torch.testing.assert_close(value, right, atol=TOLERANCE, rtol=TOLERANCE)


@given(layers(bidirectional=False), sizes, sizes, sizes, st.booleans())
def test_two_pieces_are_the_whole(layer: RNN, first: int, second: int, batch: int, start: bool) -> None:
    x = sequence(layer, first + second, batch)
    given = (random_state(layer, batch),) if start else ()
    early, state = layer(x[:first], *given)
    late, final = layer(x[first:], state)
    same((torch.cat([early, late]), final), layer(x, *given))


@given(layers(), st.lists(sizes, min_size=1, max_size=5), st.booleans())
def test_packed_is_each_row_alone(layer: RNN, lengths: list[int], start: bool) -> None:
    x = sequence(layer, max(lengths), len(lengths))
    given = (random_state(layer, len(lengths)),) if start else ()
    packed, state = layer(pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False), *given)
    padded, _ = pad_packed_sequence(packed)
    for i, n in enumerate(lengths):
        same((padded[:n, i], state[:, i]), layer(x[:n, i], *(s[:, i] for s in given)))
        assert not bool(padded[n:, i].any())


@given(layers(), sizes, st.permutations(range(5)))
def test_permuting_the_batch_permutes_the_result(layer: RNN, steps: int, order: list[int]) -> None:
    x, start = sequence(layer, steps, 5), random_state(layer, 5)
    output, state = layer(x, start)
    same(layer(x[:, order], start[:, order]), (output[:, order], state[:, order]))


@given(layers(bidirectional=True), sizes, sizes)
def test_reversing_a_bidirectional_layer(layer: RNN, steps: int, batch: int) -> None:
    """Swap the two directions and flip time: the output is flipped, its halves swapped."""
    other = copy.deepcopy(layer)
    swapped = [k ^ 1 for k in range(len(layer.cells))]
    other.cells = nn.ModuleList(other.cells[k] for k in swapped)
    with torch.no_grad():
        for cell in other.cells[2:]:  # they read the swapped halves of the layer below
            cell.weight_ih.copy_(cell.weight_ih.roll(layer.hidden_size, dims=1))
    x, start = sequence(layer, steps, batch), random_state(layer, batch)
    output, state = layer(x, start)
    same(other(x.flip(0), start[swapped]), (output.flip(0).roll(layer.hidden_size, dims=-1), state[swapped]))


@given(layers(), sizes, sizes)
def test_batch_first_swaps_two_axes(layer: RNN, steps: int, batch: int) -> None:
    x = sequence(layer, steps, batch)
    output, state = layer(x)
    layer.batch_first = True
    same(layer(x.transpose(0, 1)), (output.transpose(0, 1), state))


@given(layers(), sizes)
def test_unbatched_is_a_batch_of_one(layer: RNN, steps: int) -> None:
    x, start = sequence(layer, steps, 1), random_state(layer, 1)
    output, state = layer(x, start)
    same(layer(x[:, 0], start[:, 0]), (output[:, 0], state[:, 0]))


@given(layers(), st.lists(sizes, min_size=1, max_size=5))
def test_the_last_step_is_where_each_direction_ended(layer: RNN, lengths: list[int]) -> None:
    """return_sequence=False against the padded sequence: forward ends at a row's last step, backward at its first."""
    x = sequence(layer, max(lengths), len(lengths))
    packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
    padded, _ = pad_packed_sequence(layer(packed)[0])
    forward = padded[torch.tensor(lengths) - 1, torch.arange(len(lengths)), : layer.hidden_size]
    backward = padded[0, :, layer.hidden_size :]
    layer.return_sequence = False
    same((layer(packed)[0],), (torch.cat([forward, backward], -1),))


@given(layers(activation="tanh"), sizes, sizes)
def test_segments_change_nothing(layer: RNN, steps: int, batch: int) -> None:
    x = sequence(layer, steps, batch)
    layer.checkpoint_every = None
    expected = layer(x)
    for every in range(1, steps + 2):
        layer.checkpoint_every = every
        same(layer(x), expected)

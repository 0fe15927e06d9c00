"""Attention as people use it: streams, packed rows, cells of one's own, weights as data, bad input."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

import attention_truth as truth
from engram.errors import DTypeError, OptionError, ShapeError
from engram.nn import Attentive, LSTMCell, MemCell, MemLSTM, MemRNN, RelCell, RelLSTM, RelRNN, Screen
from every_layer import LeakyCell, LeakyRelRNN

# Streams, windows, packed rows.


def test_what_is_carried_into_the_next_window() -> None:
    """h, s and cell go on without history; memories are emptied, so that a window is as the first one but for s."""
    for kind in (RelLSTM, MemLSTM):
        layer = kind(3, 4, 2)
        _, state = layer(torch.randn(25, 2, 3))
        carried = layer.carry(state)
        for name in ("h", "s", "cell"):
            assert torch.equal(getattr(carried, name), getattr(state, name))
            assert not getattr(carried, name).requires_grad
        begin = layer.initial_state(2)
        for name in set(state._fields) - {"h", "s", "cell"}:
            assert torch.equal(getattr(carried, name), getattr(begin, name)), name


def test_rows_of_different_lengths_go_on() -> None:
    """A packed row that ended early goes on at its own step, with its own buffer."""
    layer, x = RelRNN(3, 4, nu=3, rho=2), torch.randn(20, 3, 3)
    lengths = [5, 20, 11]
    _, state = layer(torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False))
    assert state.t[0].tolist() == lengths
    more = torch.randn(9, 3, 3)
    after, _ = layer(more, state)
    for row, length in enumerate(lengths):
        alone, _ = layer(torch.cat([x[:length, row], more[:, row]]))
        torch.testing.assert_close(after[:, row], alone[length:], atol=1e-6, rtol=0)


def test_a_long_stream_has_a_state_of_one_size() -> None:
    layer = RelLSTM(2, 3, nu=2, rho=2)
    state, x = None, torch.randn(50, 1, 2)
    with torch.no_grad():
        for _ in range(20):
            _, state = layer(x, state)
    assert state.t.item() == 1000
    assert state.memory.shape == (1, 1, 4, 3)
    assert state.made[0, 0, :2].sort().values.tolist() == [999, 1000]


# Cells of one's own, attention as data.


def test_a_cell_of_ones_own() -> None:
    """The step of any cell with s in place of its state, here against its equation."""
    layer = LeakyRelRNN(3, 4, nu=3, rho=2, dtype=torch.float64)
    cell, x = layer.cells[0], torch.randn(15, 1, 3, dtype=torch.float64)

    def leaky(x: Tensor, s: Tensor, own: None) -> tuple[Tensor, None]:
        return 0.9 * s + 0.1 * torch.tanh(cell.weight_hh @ s + cell.weight_ih @ x + cell.bias), None

    found = truth.relevant(cell, leaky, x[:, 0])
    torch.testing.assert_close(layer(x)[0][:, 0], torch.stack(found.outputs), atol=1e-12, rtol=0)


def test_a_cell_of_ones_own_with_all_past() -> None:
    class LeakyMemCell(MemCell, LeakyCell):
        pass

    class LeakyMemRNN(Attentive):
        cell = LeakyMemCell

    output, state = LeakyMemRNN(3, 4)(torch.randn(7, 2, 3))
    assert state.memory.shape == (1, 2, 7, 4)
    assert torch.equal(state.memory[0, :, -1], output[-1])


@pytest.mark.parametrize(("kind", "options"), [(RelLSTM, {"nu": 3, "rho": 2}), (MemRNN, {})])
def test_the_ages_of_what_is_attended_to(kind: Any, options: dict[str, int]) -> None:
    """After t steps the last nu states, 0, ..., nu - 1 steps old, and min(rho, t - nu) older ones; a slot that holds
    none has the age -1 and no weight. With all past, every age once."""
    _, _, (weights, ages) = kind(3, 4, **options)(torch.randn(9, 2, 3), return_attention=True)
    assert bool((weights.detach()[0].movedim(-2, -1)[ages[0] < 0] == 0).all())
    for t in range(9):
        held = [sorted(row[row >= 0].tolist()) for row in ages[0, :, t]]
        last, older = (min(t + 1, 3), min(2, max(t - 2, 0))) if options else (t + 1, 0)
        for row in held:
            assert row[:last] == [*range(last)]
            assert len({*row}) == len(row) == last + older
            assert max(row) <= t
    assert bool((ages[ages < 0] == -1).all())


@pytest.mark.parametrize("kind", [RelRNN, MemRNN])
def test_attention_as_data(kind: Any) -> None:
    options = {"nu": 3, "rho": 2} if kind is RelRNN else {}
    layer = kind(3, 4, heads=2, dtype=torch.float64, **options)
    cell, x = layer.cells[0], torch.randn(12, 2, 3, dtype=torch.float64)
    output, _, attention = layer(x, return_attention=True)
    torch.testing.assert_close(output, layer(x)[0], atol=1e-12, rtol=0)
    find = truth.relevant if kind is RelRNN else truth.all_past
    matrix = attention.over_time()
    for row in range(2):
        alone = find(cell, truth.rnn_step(cell), x[:, row])
        for t, weights in enumerate(alone.weights):
            for i in range(12):
                right = weights.get(i + 1, torch.zeros(2, dtype=torch.float64))
                torch.testing.assert_close(matrix[0, row, :, t, i], right, atol=1e-12, rtol=0)
    assert not attention.weights.requires_grad
    if kind is MemRNN:
        assert attention.weights.shape == (1, 2, 12, 2, 12)
        assert attention.weights.movedim(-2, -3).triu(1).eq(0).all()
    alone = layer(x[:, 0], return_attention=True)[2]
    torch.testing.assert_close(alone.weights, attention.weights[:, 0])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 12]), enforce_sorted=False)
    cut = layer(packed, return_attention=True)[2]
    assert cut.ages[0, 0, 5:].eq(-1).all()
    torch.testing.assert_close(cut.over_time()[0, 0, :, :5, :5], matrix[0, 0, :, :5, :5])


def test_attention_that_goes_on_leaves_out_what_was_before() -> None:
    """A second piece of a stream attends to states of the first; its matrix has the steps of the second alone."""
    layer, x = RelRNN(3, 4, nu=3, rho=2, dtype=torch.float64), torch.randn(12, 2, 3, dtype=torch.float64)
    whole = layer(x, return_attention=True)[2].over_time()
    _, state = layer(x[:5])
    after = layer(x[5:], state, return_attention=True)[2].over_time()
    torch.testing.assert_close(after, whole[..., 5:, 5:], atol=1e-12, rtol=0)
    assert after[..., 0, :].sum() < whole[..., 5, :].sum()


# Bad input.


def test_refusals() -> None:
    x = torch.randn(5, 2, 3)
    for options, message in (
        ({"nu": 0}, "nu must be at least 1, got 0"),
        ({"rho": -1}, "rho must be at least 0, got -1"),
        ({"heads": 3}, r"heads must divide the 4 units of h, .* got heads=3"),
        ({"align": "cosine"}, "unknown align 'cosine': expected one of additive, dot, uniform"),
        ({"combine": "max"}, "unknown combine 'max': expected one of concat, mean, sum"),
        ({"readout": "c"}, "unknown readout 'c'"),
        ({"screen": "last"}, "unknown screen 'last': expected one of .*recency"),
        ({"screen": Screen("first", beta_norm=True)}, "beta_norm changes how beta is counted"),
        ({"nus": 3}, "nus"),
    ):
        with pytest.raises(OptionError, match=message):
            RelRNN(3, 4, **options)
    with pytest.raises(DTypeError, match="attends with real weights"):
        RelRNN(3, 4, dtype=torch.complex64)
    state = RelRNN(3, 4, nu=3, rho=2)(x)[1]
    with pytest.raises(ShapeError, match=r"the field memory .* must have the shape \(1, 2, 20, 4\)"):
        RelRNN(3, 4)(x, state)
    for screen, kind, message in (
        (lambda beta, h: h, ShapeError, r"one score per row of the batch, .* got \(2, 4\)"),
        (lambda beta, h: beta > 0, DTypeError, "real numbers; got torch.bool"),
        (lambda beta, h: 1.0, DTypeError, "must return a tensor, one score per row"),
    ):
        with pytest.raises(kind, match=message):
            RelRNN(3, 4, nu=2, rho=2, screen=screen)(x)


def test_a_cell_whose_step_would_not_attend() -> None:
    """Its bases in the other order, or no memory at all: said when the class is made."""
    with pytest.raises(
        DTypeError, match=re.escape("name the memory first, class Reversed(engram.nn.RelCell, LeakyCell)")
    ):

        class Reversed(LeakyCell, RelCell):
            pass

    with pytest.raises(DTypeError, match=re.escape("Blind shows attention, and its cell LeakyCell has none")):

        class Blind(Attentive):
            cell = LeakyCell


def test_a_cell_without_a_vector() -> None:
    class TwoStates(RelCell, LSTMCell):
        renamed = {"c": "memory"}  # noqa: RUF012

    class Layer(Attentive):
        cell = TwoStates

    with pytest.raises(OptionError, match="the field memory of TwoStates is also one of its memory"):
        Layer(3, 4)

"""Attention in the recurrence: equal to the truth in lists, in outputs, gradients and chosen states."""

from typing import Any

import pytest
import torch
from torch import Tensor

import attention_truth as truth
from engram.checks import check_contract, explain
from engram.errors import DTypeError, OptionError, ShapeError
from engram.loops import use
from engram.nn import Attentive, LSTMCell, MemCell, MemLSTM, MemRNN, RelCell, RelLSTM, RelRNN, Screen
from every_layer import LeakyCell, LeakyRelRNN
from tiers import slow, slow_but

SIZES = [(5, 3), (1, 2), (10, 10), (4, 1), (3, 0)]
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "dot": {"align": "dot"},
    "uniform": {"align": "uniform"},
    "concat": {"combine": "concat"},
    "mean, shows s": {"combine": "mean", "readout": "s"},
    "two heads": {"heads": 2, "screen": "beta_norm"},
    "dot, two heads": {"heads": 2, "align": "dot"},
    "learned": {"screen": "learned"},
    "first": {"screen": "first"},
    "recency": {"screen": "recency"},
    "own": {"screen": lambda beta, h: beta * h[:, 0]},
}
SCORES: dict[str, Any] = {
    "learned": lambda cell: lambda beta, h, i: cell.weight_screen @ h,
    "first": lambda cell: lambda beta, h, i: beta.new_zeros(()),
    "recency": lambda cell: lambda beta, h, i: beta.new_tensor(float(i)),
    "own": lambda cell: lambda beta, h, i: (beta * h[0]).detach(),
}


@pytest.mark.parametrize("steps", [2, 37])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("nu", "rho"), SIZES)
@pytest.mark.parametrize("kind", [RelRNN, RelLSTM])
def test_relevancy_screening(kind: Any, nu: int, rho: int, options: str, steps: int) -> None:
    layer = kind(3, 4, nu=nu, rho=rho, **OPTIONS[options], dtype=torch.float64)
    cell, x = layer.cells[0], torch.randn(steps, 3, 3, dtype=torch.float64)
    inner = (truth.rnn_step if kind is RelRNN else truth.lstm_step)(cell)
    score = SCORES[options](cell) if options in SCORES and rho else None
    found = [truth.relevant(cell, inner, x[:, row], score) for row in range(3)]
    with use("plain"):  # which the compiled loop equals: below
        output, state = layer(x)
    check_equal(layer, output, found)
    for row, alone in enumerate(found):
        made = state.made[0, row].tolist()
        assert sorted(i for i in made[:nu] if i) == alone.buffers[-1]
        assert made[nu:] == alone.relevant[-1] + [0] * (rho - len(alone.relevant[-1]))
        torch.testing.assert_close(state.s[0, row], alone.s, atol=1e-12, rtol=0)


@pytest.mark.parametrize("options", [name for name, given in OPTIONS.items() if "screen" not in given])
@pytest.mark.parametrize("kind", [MemRNN, MemLSTM])
def test_all_past_states(kind: Any, options: str) -> None:
    layer = kind(3, 4, **OPTIONS[options], dtype=torch.float64)
    cell, x = layer.cells[0], torch.randn(17, 3, 3, dtype=torch.float64)
    inner = (truth.rnn_step if kind is MemRNN else truth.lstm_step)(cell)
    check_equal(layer, layer(x)[0], [truth.all_past(cell, inner, x[:, row]) for row in range(3)])


def check_equal(layer: Any, output: Tensor, found: list[truth.Found]) -> None:
    """Outputs to 1e-12, gradients of all weights to 1e-10."""
    expected = torch.stack([torch.stack(alone.outputs) for alone in found], 1)
    torch.testing.assert_close(output, expected, atol=1e-12, rtol=0)
    factors = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    weights = list(layer.parameters())
    ours = torch.autograd.grad((output * factors).sum(), weights, allow_unused=True)
    theirs = torch.autograd.grad((expected * factors).sum(), weights, allow_unused=True)
    for mine, true, weight in zip(ours, theirs, weights, strict=True):
        zero = torch.zeros_like(weight)
        torch.testing.assert_close(
            zero if mine is None else mine, zero if true is None else true, atol=1e-10, rtol=1e-10
        )


COMPILED = {
    "defaults": {},
    "all of it": {"align": "dot", "heads": 2, "combine": "concat", "readout": "s", "screen": "learned"},
    "uniform": {"align": "uniform", "combine": "mean"},  # beta_norm would make all scores equal but for rounding
    "beta_norm": {"screen": "beta_norm"},
    "reservoir": {"screen": "reservoir"},
    "recency": {"rho": 0},
    "one slot each": {"nu": 1, "rho": 1},
    "own": OPTIONS["own"],
}
CASES = [(kind, name) for kind in (RelRNN, RelLSTM) for name in COMPILED]


@pytest.mark.parametrize("executor", ["torch", "compiled"])
@pytest.mark.parametrize(("kind", "options"), slow_but(CASES, [(RelRNN, "defaults"), (RelLSTM, "all of it")]))
def test_the_loop_equals_the_plain_one(kind: Any, options: str, executor: str) -> None:
    """Outputs, last state and gradients, in two pieces, both ways through time, with all kinds of rows."""
    layer = kind(3, 4, bidirectional=True, dtype=torch.float64, **({"nu": 3, "rho": 2} | COMPILED[options]))
    (found, _) = explain(layer).cells
    assert found.executor == "compiled" or "no compiler" in found.reason.lower(), found.reason
    for batch in (2, 9):
        x = torch.randn(22, batch, 3, dtype=torch.float64, requires_grad=True)
        found = {}
        for name in ("plain", executor):
            with use(name):
                torch.manual_seed(0)
                first, middle = layer(x[:9])
                second, last = layer(x[9:], middle)
                real = [part for part in (first, second, *last) if part.is_floating_point() and part.requires_grad]
                loss = sum((part * torch.linspace(-1, 2, part.numel()).double().view_as(part)).sum() for part in real)
                grads = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True)
                found[name] = [first, second, *last, *(torch.zeros(1) if g is None else g for g in grads)]
        for ours, plain in zip(found[executor], found["plain"], strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("kind", [slow(RelRNN), slow(RelLSTM), slow(MemRNN), MemLSTM])
def test_the_contract(kind: Any) -> None:
    assert len(check_contract(kind)) == 11


@pytest.mark.parametrize("kind", [MemRNN, MemLSTM])
def test_memory_of_all_steps_equals_the_plain_loop(kind: Any) -> None:
    """In two pieces, with gradients through the memory between them, both ways, from a trained start."""
    layer = kind(3, 4, bidirectional=True, initial_state="trained", combine="concat", dtype=torch.float64)
    x = torch.randn(9, 2, 3, dtype=torch.float64, requires_grad=True)
    found = {}
    for name in ("plain", "auto"):
        with use(name):
            first, middle = layer(x[:4])
            second, last = layer(x[4:], middle)
            real = [part for part in (first, second, *last) if part.is_floating_point()]
            loss = sum((part * torch.linspace(-1, 2, part.numel()).double().view_as(part)).sum() for part in real)
            found[name] = [first, second, *last, *torch.autograd.grad(loss, [x, *layer.parameters()])]
    for ours, plain in zip(found["auto"], found["plain"], strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-10, rtol=1e-10)


# Screening.


def test_ties_leave_the_old_states() -> None:
    """Uniform attention gives every state after the first the same beta: once full, the set stays."""
    layer = RelRNN(3, 4, nu=2, rho=3, align="uniform")
    _, state = layer(torch.randn(40, 2, 3))
    assert state.made[0, :, 2:].tolist() == [[1, 2, 3]] * 2


def test_first_recency_and_no_set() -> None:
    x = torch.randn(30, 2, 3)
    first = RelRNN(3, 4, nu=4, rho=3, screen="first")(x)[1].made[0]
    assert first[:, 4:].tolist() == [[1, 2, 3]] * 2
    recent = RelRNN(3, 4, nu=4, rho=3, screen="recency")
    assert recent(x)[1].made[0].sort().values.tolist() == [[*range(24, 31)]] * 2
    longer = RelRNN(3, 4, nu=7, rho=0)
    longer.load_state_dict(recent.state_dict())
    torch.testing.assert_close(recent(x)[0], longer(x)[0])  # the same states, in other slots


def test_a_reservoir_is_a_uniform_sample() -> None:
    """Every state that left is in the set with the same chance, rho over their number: 3 of 20 in 2000 rows."""
    torch.manual_seed(0)
    layer = RelRNN(1, 1, nu=1, rho=3, screen="reservoir")
    made = layer(torch.zeros(21, 2000, 1))[1].made[0, :, 1:]
    counts = torch.bincount(made.flatten(), minlength=21)[1:].double()
    expected = 2000 * 3 / 20
    deviation = (2000 * (3 / 20) * (17 / 20)) ** 0.5
    assert counts.sub(expected).abs().max() < 4.5 * deviation  # 20 counts beyond 4.5 sigma: a chance of 1.4e-4
    assert all(len(set(row)) == 3 for row in made.tolist())


def test_what_a_reservoir_samples_comes_from_the_generator() -> None:
    layer, x = RelRNN(3, 4, nu=2, rho=2, screen="reservoir"), torch.randn(30, 2, 3)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(layer(x)[1].made)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_a_learned_score_is_trained() -> None:
    layer = RelRNN(3, 4, nu=2, rho=2, screen="learned")
    layer(torch.randn(12, 2, 3))[0].square().sum().backward()
    assert layer.weight_screen_l0.grad.abs().max() > 0


def test_a_screen_as_an_object() -> None:
    x = torch.randn(30, 2, 3)
    layer = RelRNN(3, 4, nu=3, rho=2, screen=Screen("relevance", beta_norm=True))
    named = RelRNN(3, 4, nu=3, rho=2, screen="beta_norm")
    named.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x)[0], named(x)[0])


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


def test_a_cell_without_a_vector() -> None:
    class TwoStates(RelCell, LSTMCell):
        renamed = {"c": "memory"}  # noqa: RUF012

    class Layer(Attentive):
        cell = TwoStates

    with pytest.raises(OptionError, match="the field memory of TwoStates is also one of its memory"):
        Layer(3, 4)

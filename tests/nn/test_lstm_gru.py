"""engram.nn.LSTM and GRU are torch's: the same call, the same weights, the same numbers; and their two options."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple, get_overloads

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram.checks import check_contract
from engram.errors import DTypeError, OptionError, ShapeError
from engram.nn import GRU, LSTM, LSTMState, Recurrent, laws
from tiers import slow, slow_but

PAIRS: dict[str, tuple[type[Recurrent], type[nn.RNNBase]]] = {"lstm": (LSTM, nn.LSTM), "gru": (GRU, nn.GRU)}
FEATURES, HIDDEN, TIME, BATCH = 3, 5, 6, 4
TOLERANCE = 1e-12  # float64, sums in another order
LENGTHS = {"packed sorted": [6, 4, 4, 1], "packed unsorted": [2, 6, 1, 4]}
FORMS = ("time first", "batch first", "unbatched", *LENGTHS)

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


class Case(NamedTuple):
    name: str
    options: tuple[tuple[str, Any], ...]
    form: str
    given: bool


STACKS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 3, "bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "bias": False},
]
PROJECTED: list[dict[str, Any]] = [
    {"proj_size": 2},
    {"proj_size": 4, "num_layers": 2, "bidirectional": True},
    {"proj_size": 1, "bias": False},
]
CASES = [
    Case(name, tuple(options.items()), form, given)
    for name, stacks in (("lstm", STACKS + PROJECTED), ("gru", STACKS))
    for options, form, given in product(stacks, FORMS, (False, True))
]


QUICK = {case for k, case in enumerate(CASES) if k % 3 == 0}
"""Every stack with three or four of the forms, with a state or without one."""


def call(layer: nn.Module, form: str, x: Tensor, state: tuple[Tensor, ...]) -> list[Tensor]:
    """Output and states, padded where they are packed, of one form of a call."""
    if form == "unbatched":
        x, state = x[:, 0], tuple(s[:, 0] for s in state)
    hx: Any = None if not state else state[0] if len(state) == 1 else state
    if form in LENGTHS:
        packed = pack_padded_sequence(x, torch.tensor(LENGTHS[form]), enforce_sorted=form == "packed sorted")
        output, final = layer(packed, hx)
        output = pad_packed_sequence(output)[0]
    elif form == "batch first":
        output, final = layer(x.transpose(0, 1), hx)
    else:
        output, final = layer(x, hx)
    return [output, *(final if isinstance(final, tuple) else (final,))]


def words(case: Case) -> str:
    return "-".join([case.name, str(dict(case.options)), case.form, str(case.given)])


@pytest.mark.parametrize("case", slow_but(CASES, QUICK), ids=words)
def test_every_number_is_torch_s(case: Case) -> None:
    """Outputs, states and the gradient of input, initial state and every weight."""
    kind, theirs = PAIRS[case.name]
    options = dict(case.options) | {"dtype": torch.float64, "batch_first": case.form == "batch first"}
    right = theirs(FEATURES, HIDDEN, **options)
    layer = kind(FEATURES, HIDDEN, **options)
    layer.load_state_dict(right.state_dict())

    x = torch.randn(TIME, BATCH, FEATURES, dtype=torch.float64)
    sizes = [layer.proj_size or HIDDEN, HIDDEN][: 2 if case.name == "lstm" else 1]
    states = [torch.randn(len(layer.cells), BATCH, size, dtype=torch.float64) for size in sizes]
    found = []
    for module in (layer, right):
        leaf = x.clone().requires_grad_()
        start = tuple(s.clone().requires_grad_() for s in states) if case.given else ()
        values = call(module, case.form, leaf, start)
        loss = torch.stack([(v * torch.linspace(-1, 2, v.numel()).view_as(v)).sum() for v in values]).sum()
        grads = torch.autograd.grad(loss, [leaf, *start, *module.parameters()])
        found.append([*values, *grads])
    assert len(found[0]) >= 1 + len(sizes) + 1 + 2
    for value, expected in zip(*found, strict=True):
        torch.testing.assert_close(value, expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("name", PAIRS)
def test_signature(name: str) -> None:
    """torch's arguments at torch's places; ours by name only."""
    kind, theirs = PAIRS[name]
    right = list(inspect.signature(get_overloads(theirs.__init__)[0]).parameters.values())[1:]
    ours = list(inspect.signature(kind).parameters.values())
    placed = [p for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in placed] == [(p.name, p.default) for p in right]
    assert {p.name for p in ours} - {p.name for p in right} >= {"layer_norm", "chrono", "return_sequence", "laws"}


def test_all_by_place() -> None:
    places = (3, 5, 2, False, True, 0.5, True, 2, "cpu", torch.float64)
    layer, right = LSTM(*places), nn.LSTM(*places)
    for attribute in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(layer, attribute) == getattr(right, attribute)
    assert (layer.proj_size, layer.mode) == (right.proj_size, right.mode) == (2, "LSTM")
    assert layer.weight_hr_l1_reverse.dtype == torch.float64
    assert GRU(3, 5, 2, False, True, 0.5, True, "cpu", torch.float64).weight_hh_l1.dtype == torch.float64


@pytest.mark.parametrize("options", [*STACKS, *PROJECTED], ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_same_seed_same_weights_and_state_dicts_both_ways(name: str, options: dict[str, Any]) -> None:
    if name == "gru" and "proj_size" in options:
        with pytest.raises(OptionError, match="unknown option 'proj_size' of GRU"):
            GRU(3, 5, **options)
        return
    kind, theirs = PAIRS[name]
    torch.manual_seed(7)
    right = theirs(3, 5, **options)
    after = torch.randn(1)
    torch.manual_seed(7)
    layer = kind(3, 5, **options)
    assert torch.equal(torch.randn(1), after)
    assert [n for n, _ in layer.named_parameters()] == [n for n, _ in right.named_parameters()]
    assert [[w.shape for w in cell] for cell in layer.all_weights] == [[w.shape for w in c] for c in right.all_weights]
    mine, its = layer.state_dict(), right.state_dict()
    assert list(mine) == list(its)
    assert all(torch.equal(mine[key], its[key]) for key in its)
    layer.reset_parameters()
    assert not torch.equal(layer.weight_hh_l0, right.weight_hh_l0)
    right.load_state_dict(layer.state_dict())
    assert torch.equal(layer.weight_hh_l0, right.weight_hh_l0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_there_and_back(name: str, training: bool) -> None:
    kind, theirs = PAIRS[name]
    options = {"num_layers": 2, "dropout": 0.3, "bidirectional": True, "batch_first": True, "dtype": torch.float64}
    options |= {"proj_size": 2} if name == "lstm" else {}
    right = theirs(3, 5, **options).train(training)
    layer = kind.from_torch(right)  # type: ignore[attr-defined]
    back = layer.to_torch()
    assert type(layer) is kind
    assert type(back) is theirs
    assert layer.training == back.training == training
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    for module in (layer, back):
        assert (module.dropout, module.batch_first, module.proj_size) == (0.3, True, right.proj_size)
        torch.testing.assert_close(module.eval()(x)[0], right.eval()(x)[0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", PAIRS)
def test_what_cannot_be_torch_s(name: str) -> None:
    kind: Any = PAIRS[name][0]
    for options in ({"layer_norm": True}, {"initial_state": "trained"}):
        with pytest.raises(OptionError, match=r"torch\.nn\.\w+ has no layer normalisation and starts from zero"):
            kind(3, 5, **options).to_torch()
    with pytest.raises(DTypeError, match=rf"{kind.__name__}\.from_torch takes a torch\.nn\.{kind.__name__}, got RNN"):
        kind.from_torch(nn.RNN(3, 5))


def test_the_state_unpacks() -> None:
    layer, x = LSTM(3, 5, proj_size=2), torch.randn(6, 4, 3)
    output, state = layer(x)
    h, c = state
    assert isinstance(state, LSTMState)
    assert (output.shape, h.shape, c.shape) == ((6, 4, 2), (1, 4, 2), (1, 4, 5))
    assert torch.equal(state.h[0], output[-1])
    assert torch.equal(layer(x, (h, c))[0], layer(x, state)[0])
    with pytest.raises(ShapeError, match=r"the field h of the state \(hx\) must have the shape \(1, 4, 2\)"):
        layer(x, (c, c))
    with pytest.raises(DTypeError, match=r"must be a LSTMState of 2 tensors, got Tensor"):
        layer(x, h)


BAD: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "wide projection": (lambda: LSTM(3, 5, proj_size=5), OptionError, "proj_size must be smaller than hidden_size"),
    "negative projection": (lambda: LSTM(3, 5, proj_size=-1), OptionError, "proj_size must be at least 0, got -1"),
    "complex": (lambda: GRU(3, 5, dtype=torch.complex64), DTypeError, "needs a real dtype; got torch.complex64"),
    "chrono without bias": (lambda: LSTM(3, 5, bias=False, chrono=9), OptionError, r"chrono=9 .* Use bias=True"),
    "no time": (lambda: GRU(3, 5, chrono=1), OptionError, "chrono must be at least 2, got 1"),
    "a word": (lambda: GRU(3, 5, layer_norm="yes"), DTypeError, "layer_norm must be True or False"),  # type: ignore[arg-type]
    "a map": (lambda: LSTM(3, 5, map="cayley"), OptionError, "unknown option 'map' of LSTM"),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    make, error, message = BAD[case]
    with pytest.raises(error, match=message):
        make()


OPTIONS = [
    partial(LSTM, proj_size=3, initial_state="trained"),
    slow(partial(LSTM, layer_norm=True)),
    slow(partial(LSTM, layer_norm=True, bias=False, proj_size=2)),
    slow(partial(GRU, layer_norm=True)),
    slow(partial(GRU, layer_norm=True, bias=False, initial_state="trained")),
]


@pytest.mark.parametrize("make", OPTIONS, ids=lambda m: f"{m.func.__name__} {m.keywords}")
def test_the_contract_holds_with_every_option(make: Callable[..., Recurrent]) -> None:
    assert len(check_contract(make)) == 11


def _shaken(layer: Recurrent) -> Recurrent:
    """Gains and biases away from 1 and 0, where a mistake would not show."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def test_layer_normalisation_of_the_lstm() -> None:
    """Against torch.nn.functional.layer_norm, by the source's equations."""
    layer = _shaken(LSTM(3, 5, layer_norm=True, dtype=torch.float64))
    cell, x = layer.cells[0], torch.randn(6, 4, 3, dtype=torch.float64)
    h, c = torch.zeros(4, 5, dtype=torch.float64), torch.zeros(4, 5, dtype=torch.float64)
    outputs = []
    for inputs in x:
        from_input = nn.functional.layer_norm(inputs @ cell.weight_ih.T, (20,), cell.gain_ih, cell.bias_ih)
        from_state = nn.functional.layer_norm(h @ cell.weight_hh.T, (20,), cell.gain_hh, cell.bias_hh)
        i, f, g, o = (from_input + from_state).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * nn.functional.layer_norm(c, (5,), cell.gain_c, cell.bias_c).tanh()
        outputs.append(h)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs), atol=TOLERANCE, rtol=0)


def test_layer_normalisation_of_the_gru() -> None:
    layer = _shaken(GRU(3, 5, layer_norm=True, dtype=torch.float64))
    cell, x = layer.cells[0], torch.randn(6, 4, 3, dtype=torch.float64)
    h, outputs = torch.zeros(4, 5, dtype=torch.float64), []
    parts = {"gates": slice(0, 10), "candidate": slice(10, 15)}

    def norm(rows: Tensor, gain: Tensor, bias: Tensor, part: str) -> Tensor:
        block = parts[part]
        return nn.functional.layer_norm(rows[:, block], (gain[block].numel(),), gain[block], bias[block])

    for inputs in x:
        a, b = inputs @ cell.weight_ih.T, h @ cell.weight_hh.T
        from_input = {part: norm(a, cell.gain_ih, cell.bias_ih, part) for part in parts}
        from_state = {part: norm(b, cell.gain_hh, cell.bias_hh, part) for part in parts}
        r, z = (from_input["gates"] + from_state["gates"]).sigmoid().chunk(2, -1)
        n = (from_input["candidate"] + r * from_state["candidate"]).tanh()
        h = (1 - z) * n + z * h
        outputs.append(h)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_chrono_biases(layer_norm: bool) -> None:
    """b_f is log U(1, T - 1) and b_i its negative; the second bias adds nothing to them; the others keep their law."""
    size, longest = 1000, 100
    cell = LSTM(1, size, chrono=longest, layer_norm=layer_norm).cells[0]
    (i, f, g, o), (i2, f2, g2, o2) = cell.bias_ih.detach().view(4, size), cell.bias_hh.detach().view(4, size)
    times = f.exp()
    assert float(times.min()) >= 1 - 1e-5
    assert float(times.max()) <= (longest - 1) * (1 + 1e-5)  # float32: log and exp
    # uniform on [1, 99]: the mean of 1000 has the deviation 98/sqrt(12)/sqrt(1000) = 0.9
    assert abs(float(times.mean()) - 50) < 4 * 0.9
    assert torch.equal(i, -f)
    assert not i2.any()
    assert not f2.any()
    bound = 0 if layer_norm else 1 / math.sqrt(size)
    for other in (g, o, g2, o2):
        assert float(other.abs().max()) <= bound
        assert bool(other.any()) != layer_norm
    gru = GRU(1, size, chrono=longest).cells[0]
    r, z, n = gru.bias_ih.detach().view(3, size)
    assert abs(float(z.exp().mean()) - 50) < 4 * 0.9
    assert not gru.bias_hh.view(3, size)[1].any()
    assert max(float(r.abs().max()), float(n.abs().max())) <= 1 / math.sqrt(size)


def test_a_law_of_ones_own_goes_before_chrono() -> None:
    layer = LSTM(3, 5, chrono=50, laws={"bias_ih": laws.Constant(0.25)})
    assert torch.equal(layer.bias_ih_l0, torch.full((20,), 0.25))


def test_chrono_remembers_longer() -> None:
    """The gradient of the first of 100 inputs over that of the last: 1e-19 to 1e-21 for torch's law, 0.009 to 0.24 for
    chrono, of six seeds."""
    reach = {}
    for chrono in (None, 200):
        torch.manual_seed(0)
        layer = LSTM(2, 64, chrono=chrono)
        x = torch.randn(100, 8, 2, requires_grad=True)
        layer(x)[1].c.sum().backward()
        reach[chrono] = float(x.grad[0].norm() / x.grad[-1].norm())  # type: ignore[index]
    assert reach[200] > 1e-3 > 1e-12 > reach[None]

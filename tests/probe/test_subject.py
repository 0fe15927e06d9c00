"""Any model in one form; and nothing of it is changed, whatever happens."""

import copy
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import engram
from engram.errors import DTypeError, EngramError, OptionError, ShapeError
from engram.models import make_core
from engram.probe import PARTS, Subject, gradient_reach, profile, untouched
from engram.state import Field
from engram.tasks import Copy, PAutomaC
from engram.train import Settings, make_network


class Last(nn.Module):
    """Answers once, after the last step; batch first."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.GRU(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x)[0][:, -1])


class Convolution(nn.Module):
    """A causal convolution over time: a tensor only, batch first, as S4 layers of other libraries are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv1d(3, 4, 3, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.mT)[..., : x.shape[1]].mT


class FixedLength(nn.Module):
    """Takes 12 steps and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(12 * 3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.flatten(1))


class Tokens(nn.Module):
    """A language model of someone else: whole numbers in, an object with logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(7, 3), nn.GRU(3, 5, batch_first=True), nn.Linear(5, 7)

    def forward(self, ids: Tensor) -> Any:
        result = type("Result", (), {})()
        result.logits = self.head(self.inner(self.embed(ids))[0])
        return result


class Named(nn.Module):
    """Returns a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(3, 4)

    def forward(self, x: Tensor) -> Any:
        return {"loss": None, "logits": self.inner(x)[0]}


class Keeper(nn.Module):
    """Keeps its state for itself: in a buffer that is bound anew at every call, and in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(3, 4)
        self.register_buffer("state", None)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        kept = self.state if self.state is not None and self.state.shape[1] == x.shape[1] else None
        output, state = self.inner(x, kept)
        self.state, self.calls = state.detach(), self.calls + 1
        return output


# module, (inputs, outputs, numbers of a state), batch first, every step
FORMS: dict[str, tuple[Any, tuple[int, int, int], bool, bool]] = {
    "lstm": (lambda: nn.LSTM(3, 4), (3, 4, 8), False, True),
    "gru, batch first": (lambda: nn.GRU(3, 4, 2, batch_first=True), (3, 4, 8), True, True),
    "two ways": (lambda: nn.RNN(3, 4, bidirectional=True), (3, 8, 0), False, True),
    "exprnn": (lambda: engram.nn.ExpRNN(3, 4), (3, 4, 4), False, True),
    "exprnn, batch first": (lambda: engram.nn.ExpRNN(3, 4, batch_first=True), (3, 4, 4), True, True),
    "complex": (lambda: engram.nn.EURNN(3, 4), (3, 8, 8), False, True),
    "rac": (lambda: engram.nn.RAC(3, 4, 2), (3, 4, 16), False, True),
    "s4d": (lambda: engram.nn.S4D(3, 4, state_size=8), (3, 4, 36), False, True),
    "linear": (lambda: nn.Linear(3, 4), (3, 4, 0), True, True),
    "last": (Last, (3, 2, 0), True, False),
    "convolution": (Convolution, (3, 4, 0), True, True),
    "tokens": (Tokens, (7, 7, 0), True, True),
    "dict": (Named, (3, 4, 0), False, True),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_found(name: str) -> None:
    make, sizes, batch_first, every_step = FORMS[name]
    subject = Subject(make())
    assert (subject.input_size, subject.output_size, subject.state_size) == sizes
    assert (subject.batch_first, subject.every_step) == (batch_first, every_step)
    assert subject.can_step == bool(sizes[2])
    outputs = subject.outputs(subject.sample(6, 2, torch.Generator()))
    assert outputs.shape == (6 if every_step else 1, 2, sizes[1])


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form[1][2]])
def test_steps_are_the_whole(name: str) -> None:
    """Step by step with flattened states, the outputs of one call."""
    subject = Subject(FORMS[name][0]().double())
    x = subject.sample(7, 3, torch.Generator().manual_seed(5))
    state, outputs = None, []
    for step in x:
        output, state = subject.advance(state, step[None])
        assert state.shape == (3, subject.state_size)
        assert not state.is_complex()
        outputs.append(output[0])
    torch.testing.assert_close(torch.stack(outputs), subject.outputs(x), rtol=1e-9, atol=1e-10)


def test_outputs_are_those_of_the_module() -> None:
    module = nn.GRU(3, 4, batch_first=True)
    x = torch.randn(6, 2, 3)
    torch.testing.assert_close(Subject(module).outputs(x).mT, module(x.transpose(0, 1))[0].permute(1, 2, 0))


@pytest.mark.parametrize("embedding", [0, 5])
def test_a_network_of_symbols_reads_vectors(embedding: int) -> None:
    """A one-hot vector is the symbol; and there is a gradient, which a symbol has not."""
    network = make_network(Settings.of(PAutomaC(), "exprnn", hidden=6, embedding=embedding))
    subject = Subject(network)
    size = subject.input_size
    symbols = torch.randint(size, (9, 4))
    vectors = nn.functional.one_hot(symbols, size).float()
    torch.testing.assert_close(subject.outputs(vectors), network(symbols)[0])
    vectors.requires_grad_()
    (gradient,) = torch.autograd.grad(subject.outputs(vectors)[-1].sum(), vectors)
    assert subject.can_step
    assert bool(gradient[0].any())
    assert not any(_facts(network)["hooks"])  # it reads symbols again


@pytest.mark.parametrize("embedding", [0, 5])
def test_a_network_of_symbols_that_fails_reads_symbols_again(embedding: int) -> None:
    network = make_network(Settings.of(PAutomaC(), "exprnn", hidden=6, embedding=embedding))
    subject = Subject(network)
    fails = network.head.register_forward_hook(lambda *_: 1 / 0)
    vectors = nn.functional.one_hot(torch.zeros(3, 2, dtype=torch.int64), subject.input_size).float()
    with pytest.raises(ShapeError, match=r"refused inputs of shape .*: ZeroDivisionError"):
        subject.outputs(vectors)
    fails.remove()
    assert not any(_facts(network)["hooks"])


def test_a_network_of_numbers() -> None:
    subject = Subject(make_network(Settings.of(Copy(5, 2), "lstm", hidden=6)))
    assert (subject.input_size, subject.output_size, subject.state_size, subject.symbols) == (10, 9, 12, False)


@pytest.mark.parametrize("order", [None, True])
def test_one_length_only(order: bool | None) -> None:
    subject = Subject(FixedLength(), 3, length=12, batch_first=order)
    assert (subject.fixed_length, subject.batch_first, subject.every_step) == (12, True, False)
    assert "12 steps only" in subject.no_state
    with pytest.raises(ShapeError, match=r"refused inputs of shape"):
        Subject(FixedLength(), 3)


class Rank(nn.Module):
    def __init__(self, shape: int) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Any:
        return {1: x[0, :, 0], 4: x[None], 5: {"output": x}, 6: x[:2]}[self.shape]


WRONG: dict[str, tuple[Any, type[EngramError], str]] = {
    "rank 1": (lambda: Subject(Rank(1), 3), ShapeError, "must have rank 3, .* got rank 1, shape "),
    "rank 4": (lambda: Subject(Rank(4), 3), ShapeError, "must have rank 3, .* got rank 4, shape "),
    "no tensor": (
        lambda: Subject(Rank(5), 3),
        ShapeError,
        "must return a tensor, .* logits or last_hidden_state; got dict",
    ),
    "steps lost": (lambda: Subject(Rank(6), 3), ShapeError, "one output per sequence, or one per step"),
    "input size": (lambda: Subject(nn.LSTM(3, 4), 5), ShapeError, r"refused inputs of shape \(5, 3, 5\): .*Expected 3"),
    "no size": (lambda: Subject(nn.ReLU()), OptionError, "ReLU does not say how many inputs it reads: give input_size"),
    "no module": (lambda: Subject(torch.relu), DTypeError, "a model is a torch.nn.Module, got builtin"),  # type: ignore[arg-type]
    "no state": (lambda: Subject(Last()).step(None, torch.zeros(1, 3)), OptionError, "it returns none"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    call, kind, words = WRONG[name]
    with pytest.raises(kind, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: nn.RNN(3, 4, 2), 4),
        (lambda: engram.nn.ExpRNN(3, 4), 4),
        (lambda: engram.nn.EURNN(3, 4), 4),  # complex: 8 real numbers
        (lambda: nn.RNN(3, 4, bidirectional=True), 4),
        (lambda: nn.LSTM(3, 4), None),
        (lambda: engram.nn.RAC(3, 4), None),  # its state is h and W h
        (lambda: nn.Linear(3, 3), None),
    ],
)
def test_the_recurrent_matrix(make: Any, size: int | None) -> None:
    module = make()
    matrix = Subject(module).recurrent_matrix()
    assert (None if matrix is None else matrix.shape) == (None if size is None else (size, size))
    if matrix is not None:
        assert torch.equal(matrix, module.weight_hh_l0)


# Dropout


class Noisy(nn.Module):
    """Random in every mode."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


def test_dropout_is_noticed_and_off() -> None:
    module = nn.LSTM(3, 4, 2, dropout=0.5)
    subject = Subject(module)
    assert len(subject.notes) == 1
    assert "dropout" in subject.notes[0]
    x = torch.randn(6, 2, 3)
    assert torch.equal(subject.outputs(x), subject.outputs(x))
    assert module.training
    assert Subject(module.eval()).notes == []


def test_a_model_that_is_always_random() -> None:
    assert "even in evaluation mode" in Subject(Noisy(), 3).notes[0]


# Nothing changes


class Counting(nn.Module):
    """At every call changes buffers, a weight and its gradient, and draws; has batch norm, dropout, frozen weights."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.inner, self.norm, self.drop = nn.LSTM(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("hidden_calls", torch.zeros(()), persistent=False)
        self.weight = nn.Parameter(torch.zeros(2))
        self.inner.bias_hh_l0.requires_grad_(False)
        self.drop.eval()
        self.fails = fails

    def forward(self, x: Tensor, state: Any = None) -> Any:
        self.calls += 1
        self.hidden_calls += 1
        torch.rand(3)
        with torch.no_grad():
            self.weight += 1e-3
        self.weight.grad = torch.ones(2)
        if self.fails and self.calls > 10:
            raise KeyError("no more")
        output, state = self.inner(x, state)
        return self.drop(self.norm(output.mT).mT), state


def _facts(module: nn.Module) -> dict[str, Any]:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return {
        "values": {name: tensor.detach().clone() for name, tensor in tensors},
        "wanted": {name: tensor.requires_grad for name, tensor in tensors},
        "gradients": {name: tensor.grad for name, tensor in tensors},
        "modes": [part.training for part in module.modules()],
        "hooks": [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()],
        "random": torch.random.get_rng_state(),
    }


def _same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert before.keys() == after.keys()
    for name in ("values", "gradients"):
        assert before[name].keys() == after[name].keys()
        for key, value in before[name].items():
            now = after[name][key]
            assert (now is None) if value is None else torch.equal(now, value), f"{name} of {key}"
    for name in ("wanted", "modes", "hooks"):
        assert before[name] == after[name], name
    assert torch.equal(before["random"], after["random"])


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_changes(fails: bool) -> None:
    """Weights, buffers (those not saved too), gradients, requires_grad, modes, hooks and random numbers."""
    module = Counting(fails)
    module.inner.weight_ih_l0.grad = torch.ones_like(module.inner.weight_ih_l0)
    before = _facts(module)
    found = profile(module, length=12)
    assert set(found.parts) == set(PARTS)
    assert ("KeyError: 'no more'" in str(found.parts["gradient_reach"])) == fails
    _same(before, _facts(module))


@pytest.mark.parametrize("model", ["exprnn", "nnrnn", "urnn", "s4d"])
def test_nothing_changes_in_our_layers(model: str) -> None:
    layer = make_core(model, 3, 4)
    before, twin = _facts(layer), copy.deepcopy(layer)
    profile(layer, length=12, parts=("gradient_reach", "lyapunov", "separation_rank", "structure"))
    _same(before, _facts(layer))
    x = torch.randn(5, 2, 3)
    loss, expected = layer(x)[0].abs().sum(), twin(x)[0].abs().sum()
    loss.backward()
    expected.backward()
    for p, q in zip(layer.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p.grad, q.grad)  # type: ignore[arg-type] # it can still be trained


def test_a_state_that_a_model_keeps_is_as_before() -> None:
    """And that its answers depend on what came before is said."""
    module = Keeper()
    found = profile(module, length=12, parts=("gradient_reach",))
    assert "a state kept between calls" in found.notes[0]
    assert (module.state, module.calls) == (None, 0)
    module(torch.randn(5, 2, 3))
    kept = module.state
    with untouched(module):
        module(torch.randn(5, 2, 3))
        module.inner.weight_hh_l0 = nn.Parameter(torch.zeros(12, 4))
    assert module.state is kept
    assert bool(module.inner.weight_hh_l0.any())


def test_untouched_freezes_within() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    with untouched(module):
        assert not module[1].training
        assert not any(p.requires_grad for p in module.parameters())
        module[0].weight.data.fill_(7.0)
    assert module[1].training
    assert float(module[0].weight.detach().max()) < 1


class Grown(NamedTuple):
    h: Any
    past: Any


class GrowingCell(engram.nn.Cell):
    def fields(self) -> Grown:
        return Grown(Field(self.hidden_size), Field(self.hidden_size, grows=True))

    def step(self, drive: Tensor, state: Grown) -> Grown:
        h = torch.tanh(drive + (state.h + state.past.sum(1)) @ self.weight_hh.mT)
        return Grown(h, torch.cat([state.past, h[:, None]], 1))


class CountingCell(GrowingCell):
    def fields(self) -> Grown:
        return Grown(Field(self.hidden_size), Field(dtype=torch.int64))

    def step(self, drive: Tensor, state: Grown) -> Grown:
        return Grown(torch.tanh(drive + state.h @ self.weight_hh.mT), state.past + 1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(GrowingCell, "its state grows"), (CountingCell, "not a state of real numbers")],
)
def test_states_that_are_not_one_vector(kind: type[engram.nn.Cell], reason: str) -> None:
    """They are told so, and what needs no state is measured."""

    class Layer(engram.nn.Recurrent):
        cell = kind

    subject = Subject(Layer(3, 4))
    assert not subject.can_step
    assert reason in subject.no_state
    assert gradient_reach(subject, length=12).norms[0] > 0


class Returns(nn.Module):
    """Returns what a function makes of its input."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Any:
        return self.call(x)


def test_complex_outputs_are_real_pairs() -> None:
    subject = Subject(Returns(lambda x: torch.complex(x, 2 * x)), 3, batch_first=False)
    x = torch.randn(6, 2, 3)
    found = subject.outputs(x)
    assert subject.output_size == 6
    assert torch.equal(found[..., ::2], x)
    assert torch.equal(found[..., 1::2], 2 * x)


@pytest.mark.parametrize("lost", [lambda x: x[:2], lambda x: x[:, :2], lambda x: x[0, :2]])
@pytest.mark.parametrize("order", [False, True])
def test_steps_and_rows_must_be_there(lost: Any, order: bool) -> None:
    with pytest.raises(ShapeError, match="one output per sequence, or one per step"):
        Subject(Returns(lost), 3, batch_first=order)


@pytest.mark.parametrize(
    ("call", "state"), [(lambda x: [x], False), (lambda x: (x, x[-1], x), False), (lambda x: (x, x[-1]), True)]
)
def test_only_the_second_of_two_is_a_state(call: Any, state: bool) -> None:
    assert (Subject(Returns(call), 3, batch_first=False).no_state == "it returns none") is not state


def test_a_single_input() -> None:
    """Of the first part that says how many."""
    assert Subject(nn.Sequential(nn.Tanh(), nn.Linear(1, 4), nn.Linear(4, 2))).input_size == 1


def test_dropout_beside_parts_in_evaluation_mode() -> None:
    """One part that trains is enough; a broken buffer counts as a broken weight."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
    module[0].eval()
    module[0].register_buffer("mean", torch.tensor(torch.nan))
    dropout, broken = Subject(module).notes
    assert "(dropout)" in dropout
    assert broken == "0.mean holds NaN or infinity (1 of 3 tensors do)"

"""One table of calls through torch.nn.RNN and engram.nn.RNN with the same weights: all numbers agree."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram.errors import DTypeError, EngramError, OptionError
from engram.nn import RNN
from tiers import slow_but

FEATURES, HIDDEN = 3, 4
TOLERANCE = 1e-10  # float64: sums in another order move the last few of 16 digits
LENGTHS = {"packed sorted": [5, 4, 2, 1], "packed unsorted": [2, 5, 1, 4]}


class Case(NamedTuple):
    layers: int
    bidirectional: bool
    form: str
    size: tuple[int, int]  # T, B
    given: bool
    activation: str


CASES = [
    Case(*options)
    for options in product(
        (1, 2, 3),
        (False, True),
        ("time first", "batch first", "unbatched", "packed sorted", "packed unsorted"),
        ((5, 4), (1, 4), (5, 1)),
        (False, True),
        ("tanh", "relu"),
    )
]


def run(layer: nn.Module, case: Case, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The call of one case; outputs padded with zeros, so that they can be compared."""
    states = (state,) if case.given else ()
    if case.form == "batch first":
        return layer(x.transpose(0, 1), *states)
    if case.form == "unbatched":
        return layer(x[:, 0], *(s[:, 0] for s in states))
    if case.form == "time first":
        return layer(x, *states)
    lengths = torch.tensor(LENGTHS[case.form][: x.shape[1]]).clamp(max=x.shape[0])
    packed = pack_padded_sequence(x, lengths, enforce_sorted=case.form == "packed sorted")
    output, final = layer(packed, *states)
    return pad_packed_sequence(output)[0], final


def gradients(layer: nn.Module, outputs: tuple[Tensor, Tensor], *leaves: Tensor) -> dict[str, Tensor]:
    names = ["input", "state", *(name for name, _ in layer.named_parameters())]
    loss = sum((y * torch.linspace(-1, 2, y.numel()).view_as(y)).sum() for y in outputs)
    found = torch.autograd.grad(loss, [*leaves, *layer.parameters()], allow_unused=True)
    return dict(zip(names, found, strict=True))


def same(ours: Tensor | None, theirs: Tensor | None) -> None:
    assert ours is not None
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)


QUICK = {
    case
    for case in CASES
    if (case.layers, case.activation) in ((1, "relu"), (3, "tanh"))
    and (case.size == (5, 4) or case.given == (case.layers == 1))
}
"""Every form in both directions; of the small sizes one layer with a state and three without."""


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("case", slow_but(CASES, QUICK), ids=lambda c: "-".join(map(str, c)).replace(" ", "_"))
def test_same_numbers(case: Case) -> None:
    theirs = nn.RNN(
        FEATURES,
        HIDDEN,
        case.layers,
        nonlinearity=case.activation,
        bidirectional=case.bidirectional,
        batch_first=case.form == "batch first",
        dtype=torch.float64,
    )
    ours = RNN.from_torch(theirs)
    steps, batch = case.size
    x = torch.randn(steps, batch, FEATURES, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(len(ours.cells), batch, HIDDEN, dtype=torch.float64, requires_grad=True)

    expected, found = run(theirs, case, x, h0), run(ours, case, x, h0)
    for value, right in zip(found, expected, strict=True):
        same(value, right)
    right, value = gradients(theirs, expected, x, h0), gradients(ours, found, x, h0)
    same(value["input"], right["input"])
    assert (value["state"] is None) == (right["state"] is None) == (not case.given)
    if case.given:
        same(value["state"], right["state"])
    for suffix, _ in ours.named_cells():
        same(value[f"weight_ih{suffix}"], right[f"weight_ih{suffix}"])
        same(value[f"weight_hh{suffix}"], right[f"weight_hh{suffix}"])
        same(value[f"bias{suffix}"], right[f"bias_ih{suffix}"])
        same(value[f"bias{suffix}"], right[f"bias_hh{suffix}"])


def test_without_bias() -> None:
    theirs = nn.RNN(FEATURES, HIDDEN, 2, bias=False, dtype=torch.float64)
    ours = RNN.from_torch(theirs)
    assert not any("bias" in name for name, _ in ours.named_parameters())
    x = torch.randn(5, 2, FEATURES, dtype=torch.float64)
    same(ours(x)[0], theirs(x)[0])


def test_packed_input_takes_no_notice_of_batch_first() -> None:
    theirs = nn.RNN(FEATURES, HIDDEN, batch_first=True, bidirectional=True, dtype=torch.float64)
    x = torch.randn(3, 5, FEATURES, dtype=torch.float64)
    packed = pack_padded_sequence(x, torch.tensor([2, 5, 3]), batch_first=True, enforce_sorted=False)
    (ours, h), (right, h_right) = RNN.from_torch(theirs)(packed), theirs(packed)
    same(ours.data, right.data)
    same(h, h_right)
    for field, other in zip(ours[1:], right[1:], strict=True):
        assert torch.equal(field, other)


@pytest.mark.parametrize("training", [True, False])
def test_there_and_back(training: bool) -> None:
    """to_torch bakes the map in; from_torch of it computes the same, with the same settings."""
    options = {"bidirectional": True, "batch_first": True, "dropout": 0.5}
    layer = RNN(FEATURES, HIDDEN, 2, map="cayley", dtype=torch.float64, **options).train(training)
    theirs = layer.to_torch()
    back = RNN.from_torch(theirs)
    for name, value in options.items():
        assert getattr(theirs, name) == getattr(back, name) == value
    assert theirs.training == back.training == training
    x = torch.randn(2, 5, FEATURES, dtype=torch.float64)
    expected = layer.eval()(x)
    for other in (theirs, back):
        for value, right in zip(other.eval()(x), expected, strict=True):
            same(value, right)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "modrelu"}, "activation='modrelu'"),
        ({"activation": "sigmoid"}, "activation='sigmoid'"),
        ({"activation": "identity"}, "activation='identity'"),
        ({"activation_in": "depth"}, "activation_in='depth'"),
        ({"initial_state": "trained"}, "initial_state='trained'"),
    ],
)
def test_what_torch_cannot_do_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=rf"knows activation 'tanh' and 'relu'.*{message}.*fold"):
        RNN(FEATURES, HIDDEN, **options).to_torch()


@pytest.mark.parametrize("other", [nn.LSTM, nn.GRU, nn.Linear])
def test_from_torch_takes_nothing_else(other: type[nn.Module]) -> None:
    with pytest.raises(DTypeError, match=f"takes a torch.nn.RNN, got {other.__name__}") as caught:
        RNN.from_torch(other(FEATURES, HIDDEN))
    assert isinstance(caught.value, EngramError)

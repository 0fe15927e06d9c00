"""A table of wrong calls: each is refused with the rule, what was expected, what came, and how to mend it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from engram.errors import DTypeError, EngramError, ManifoldError, NonFiniteError, OptionError, ShapeError
from engram.maps import Cayley
from engram.nn import RNN, Cell, Recurrent
from engram.nn.laws import Constant
from engram.state import Field


class Pair(NamedTuple):
    h: Any
    c: Any


class PairCell(Cell):
    equation = "h_t = W_ih x_t + b, c_t = h_{t-1}"

    def fields(self) -> Any:
        return Pair(Field(self.hidden_size), Field(self.hidden_size))

    def step(self, drive: Tensor, state: Pair) -> Pair:
        return Pair(drive, state.h)


class PairRNN(Recurrent):
    cell = PairCell


ZERO = Constant(0.0)
X = torch.zeros(7, 3, 4)
H = torch.zeros(1, 3, 5)
bad = torch.zeros(7, 3, 4)
bad[2, 1, 3], bad[5, 0, 0] = float("nan"), float("inf")


def rnn(make: type[nn.Module], *sizes: Any, **options: Any) -> nn.Module:
    """The same layer of either library."""
    if make is nn.RNN and "activation" in options:
        options["nonlinearity"] = options.pop("activation")
    return make(*(sizes or (4, 5)), **options)


def packed(x: Tensor, *lengths: int) -> PackedSequence:
    return pack_padded_sequence(x, torch.tensor(lengths))


# Calls that torch.nn.RNN refuses too: ours must be caught by whatever caught torch's.
SHARED: list[tuple[Callable[[type[nn.Module]], Any], type[EngramError], str]] = [
    (lambda m: rnn(m)(X[0, 0]), ShapeError, r"be \(time, batch, features\).* got 1 dimensions, shape \(4,\)\. Add"),
    (lambda m: rnn(m)(X[None]), ShapeError, r"got 4 dimensions, shape \(1, 7, 3, 4\)"),
    (lambda m: rnn(m, batch_first=True)(X[None]), ShapeError, r"must be \(batch, time, features\)"),
    (lambda m: rnn(m)(torch.zeros(7, 3, 6)), ShapeError, r"4 features .*, got \(7, 3, 6\)\. .*input_size=6"),
    (lambda m: rnn(m)(torch.zeros(7, 4, 6)), ShapeError, r"got \(7, 4, 6\)\. Are the axes in that order\?"),
    (lambda m: rnn(m)(torch.zeros(7, 6)), ShapeError, r"4 features .* got \(7, 6\)"),
    (lambda m: rnn(m)(X.double()), DTypeError, r"float64 and the layer torch.float32.* input.to\(torch.float32\) or"),
    (lambda m: rnn(m)(X.long()), DTypeError, r"input is torch.int64, whole numbers.* Convert it: .*torch.nn.Embedding"),
    (lambda m: rnn(m)(X.to(torch.complex64)), DTypeError, r"input is torch.complex64 and the layer torch.float32"),
    (lambda m: rnn(m)(X.to("meta")), DTypeError, r"input is on meta and the layer on cpu. Move one: input.to\('cpu'\)"),
    (
        lambda m: rnn(m)(X, H[:, :2]),
        ShapeError,
        r"shape \(1, 3, 5\) \(num_layers \* dir.*, got \(1, 2, 5\)\. layer.initial_state",
    ),
    (lambda m: rnn(m)(X, H[0]), ShapeError, r"state \(hx\) must have the shape \(1, 3, 5\).*, got \(3, 5\)"),
    (lambda m: rnn(m)(X[:, 0], H), ShapeError, r"shape \(1, 5\).*no batch for an unbatched.* got \(1, 3, 5\)"),
    (lambda m: rnn(m, bidirectional=True)(X, H), ShapeError, r"shape \(2, 3, 5\).*, got \(1, 3, 5\)"),
    (lambda m: rnn(m)(packed(X, 7, 3, 2), H[:, :2]), ShapeError, r"shape \(1, 3, 5\).*, got \(1, 2, 5\)"),
    (lambda m: rnn(m)(X, H.double()), DTypeError, r"state \(hx\) is torch.float64 .* state.to\(torch.float32\)"),
    (lambda m: rnn(m)(X, H.to("meta")), DTypeError, r"state \(hx\) is on meta and the layer on cpu"),
    (
        lambda m: rnn(m)(X[:0]),
        ShapeError,
        r"at least one step,.* got \(0, 3, 4\), which is \(time, batch, features\)\. Leave",
    ),
    (lambda m: rnn(m)(X[:0, 0]), ShapeError, r"at least one step,.* got \(0, 4\), which is \(time, features\)"),
    (lambda m: rnn(m)(packed(X.mT, 7, 3, 2, 1)), ShapeError, r"\(rows, 4\) data .* got \(13, 3\).* batch_first=True"),
    (lambda m: rnn(m)(PackedSequence(X, torch.tensor([3, 3, 1]))), ShapeError, r"must hold \(rows, 4\) data"),
    (lambda m: rnn(m, 0, 5), OptionError, r"input_size must be at least 1, got 0"),
    (lambda m: rnn(m, 4, -5), OptionError, r"hidden_size must be at least 1, got -5"),
    (lambda m: rnn(m, 4, 5, 0), OptionError, r"num_layers must be at least 1, got 0"),
    (lambda m: rnn(m, 4.0, 5), DTypeError, r"input_size must be a whole number \(int\), got 4.0 of type float"),
    (lambda m: rnn(m, 4, "5"), DTypeError, r"hidden_size must be a whole number \(int\), got '5' of type str"),
    (lambda m: rnn(m, 4, 5, 1.0), DTypeError, r"num_layers must be a whole number"),
    (lambda m: rnn(m, 4, 5, 2, dropout=1.5), OptionError, r"dropout must be a number in \[0, 1\).*; got 1.5"),
    (lambda m: rnn(m, 4, 5, 2, dropout=-0.1), OptionError, r"dropout .* got -0.1"),
    (lambda m: rnn(m, 4, 5, 2, dropout=True), OptionError, r"dropout .* got True"),
    (lambda m: rnn(m, activation="tahn"), OptionError, r"activation 'tahn'.*modrelu, relu.*Did you mean 'tanh'\?"),
]

# Calls that only engram knows, or that torch lets through.
OWN: list[tuple[Callable[[], Any], type[EngramError], str]] = [
    (lambda: RNN(4, 5)([1.0]), DTypeError, r"input must be a Tensor or a PackedSequence, got list.*torch.as_tensor"),
    (lambda: RNN(4, 5)(X, [H]), DTypeError, r"state \(hx\) must be one tensor, got list. Leave it out"),
    (lambda: RNN(4, 5)(X, (H, H)), DTypeError, r"state \(hx\) must be one tensor, got tuple"),
    (lambda: PairRNN(4, 5)(X, H), DTypeError, r"state \(hx\) must be a Pair of 2 tensors, got Tensor"),
    (lambda: PairRNN(4, 5)(X, (H,)), DTypeError, r"state \(hx\) must be a Pair of 2 tensors, got tuple"),
    (lambda: PairRNN(4, 5)(X, (H, None)), DTypeError, r"the field c of the state \(hx\) must be a tensor, got None"),
    (
        lambda: PairRNN(4, 5)(X, (H, H[0])),
        ShapeError,
        r"the field c of the state \(hx\) must have the shape \(1, 3, 5\).* got \(3, 5\)",
    ),
    (lambda: RNN(4, 5, check_finite=True)(bad), NonFiniteError, r"2 of 84 values .* first at \(2, 1, 3\).* Mend"),
    (lambda: RNN(4, 5)(PackedSequence(X[0], torch.tensor([1, 2]))), ShapeError, r"sizes that never grow"),
    (lambda: RNN(4, 5)(PackedSequence(X[0], torch.tensor([2, 2]))), ShapeError, r"4 by its batch_sizes, got 3"),
    (lambda: RNN(True, 5), DTypeError, r"input_size must be a whole number \(int\), got True of type bool"),
    (lambda: RNN(4, 5, 2, dropout=1.0), OptionError, r"dropout must be a number in \[0, 1\).*; got 1.0"),
    (lambda: RNN(4, 5, 2, dropout="a lot"), OptionError, r"dropout .* got 'a lot'"),
    (lambda: RNN(4, 5, 2, dropout=float("nan")), OptionError, r"dropout .* got nan"),
    (lambda: RNN(4, 5, checkpoint_every=0), OptionError, r"checkpoint_every must be at least 1, got 0"),
    (lambda: RNN(4, 5, map="caley"), OptionError, r"unknown map 'caley': expected one of .*Did you mean 'cayley'\?"),
    (lambda: RNN(4, 5, map=None), DTypeError, r"map must be one of .*an engram.maps.Map.*; got None"),
    (lambda: RNN(4, 5, map=Cayley(4)), ShapeError, r"size 5 is needed here, got Cayley\(4.*\)\. Make one"),
    (lambda: RNN(4, 5, activation_in="dept"), OptionError, r"activation_in 'dept'.*depth, recurrence.*mean 'depth'\?"),
    (lambda: RNN(4, 5, initial_state="zeros"), OptionError, r"initial_state 'zeros'.* Did you mean 'zero'\?"),
    (lambda: RNN(4, 5, activation="qqq"), OptionError, r"unknown activation 'qqq': expected one of [a-z, ]+\.$"),
    (lambda: RNN(4, 5, activation="relu", dtype=torch.complex64), DTypeError, r"no order. Use 'modrelu'"),
    (lambda: RNN(4, 5, map="cayley", laws={"weight_hh": ZERO}), OptionError, r"weight_hh, .* by its map: Cayley"),
    (lambda: RNN(4, 5, laws={"weight_ho": ZERO}), OptionError, r"parameter 'weight_ho' of RNN in laws: .*weight_hh"),
    (lambda: assign(torch.eye(4)), ShapeError, r"Cayley is a map to 5 x 5 matrices, got \(4, 4\)"),
    (lambda: assign(2 * torch.eye(5)), ManifoldError, r"must be orthogonal .*; the one .* is 3 away.* project it"),
    (lambda: assign(torch.full((5, 5), float("nan"))), ManifoldError, r"is inf away"),
]


def assign(matrix: Tensor) -> None:
    RNN(4, 5, map="cayley").weight_hh_l0 = matrix


@pytest.mark.parametrize(("call", "kind", "message"), SHARED, ids=[message for *_, message in SHARED])
def test_what_torch_refuses_too(call: Callable[[Any], Any], kind: type[EngramError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(RNN)


@pytest.mark.parametrize("call", [call for call, *_ in SHARED], ids=[message for *_, message in SHARED])
def test_the_class_that_torch_raises(call: Callable[[Any], Any]) -> None:
    """Code written for torch.nn keeps catching what it caught."""
    with pytest.raises(EngramError) as ours:
        call(RNN)
    with pytest.raises(Exception) as theirs:  # whatever it is, ours must be one
        call(nn.RNN)
    assert isinstance(ours.value, theirs.type)


@pytest.mark.parametrize(("call", "kind", "message"), OWN, ids=[message for *_, message in OWN])
def test_what_only_engram_refuses(call: Callable[[], Any], kind: type[EngramError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, EngramError)
    assert isinstance(caught.value, ValueError | TypeError)


def test_infinity_passes_unless_asked_about() -> None:
    assert bool(RNN(4, 5)(bad)[0].isnan().any())
    output, _ = RNN(4, 5, check_finite=True)(X)
    assert bool(output.isfinite().all())


FLAGS = ("bias", "batch_first", "bidirectional", "output_all_layers", "return_sequence", "check_finite")


@pytest.mark.parametrize("flag", FLAGS)
def test_a_word_is_no_flag(flag: str) -> None:
    """The word "false" would count as True, and a sweep file may well have it."""
    with pytest.raises(DTypeError, match=f"{flag} must be True or False, got 'false'"):
        RNN(4, 5, **{flag: "false"})

"""Each compatibility test of the contract finds the layer that breaks it, and no other test does."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from engram.checks import ContractError, check_contract
from engram.checks._contract import TESTS, _apart
from engram.nn import RNN


class Shapes(RNN):
    """Output and state have the shapes of torch.nn.RNN"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return (output, state) if isinstance(output, PackedSequence) else (output[..., :-1], state)


class InitialState(RNN):
    """The initial state given by hand changes nothing"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return (output, state) if hx is not None or isinstance(output, PackedSequence) else (output + 1, state)


class Pieces(RNN):
    """A sequence in two pieces, the state handed over, equals the whole"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return output, state if len(input) > 2 else 0 * state


class Carried(RNN):
    """What is carried on into the next window is a state"""

    def carry(self, state: Any) -> Any:
        return state


class Packed(RNN):
    """A packed batch equals each row alone"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return output, state.flip(1) if isinstance(output, PackedSequence) else state


class PackedFromAState(RNN):
    """A packed batch equals each row alone"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        return super().forward(input, None if isinstance(input, PackedSequence) else hx)


class PackedFirstRow(RNN):
    """A packed batch equals each row alone"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        first = torch.arange(state.shape[1])[:, None] == 0 if state.dim() == 3 else torch.tensor(False)
        return output, torch.where(first, 0.0, state) if isinstance(output, PackedSequence) else state


class Permuted(RNN):
    """Permuting the batch permutes the result"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        if isinstance(output, Tensor) and output.dim() == 3 and not self.batch_first:
            output = output + torch.arange(output.shape[1])[:, None]
        return output, state


class BatchFirst(RNN):
    """batch_first swaps the first two axes"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return output, state + 1 if self.batch_first else state


class Unbatched(RNN):
    """One sequence without a batch axis equals a batch of one"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        alone = isinstance(output, Tensor) and output.dim() == 3 and output.shape[1] == 1
        return output, state + 1 if alone else state


class Saved(RNN):
    """A pickled, a deep-copied and a reloaded layer compute the same"""

    def load_state_dict(self, *_: Any, **__: Any) -> Any:
        return None


class Segmented(RNN):
    """checkpoint_every changes nothing"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return (output if self.checkpoint_every is None else 2 * output), state


class Differentiable(RNN):
    """The gradients of the input and of every weight are those of finite differences"""

    def forward(self, input: Any, hx: Any = None) -> Any:
        return super().forward(input.detach() if isinstance(input, Tensor) else input, hx)


BROKEN = (
    Shapes, InitialState, Pieces, Carried, Packed, PackedFromAState, PackedFirstRow, Permuted, BatchFirst, Unbatched,
    Saved, Segmented, Differentiable,
)  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_each_test_finds_its_layer(broken: type[RNN]) -> None:
    with pytest.raises(ContractError, match=f"num_layers=1, bidirectional=False breaks the contract: {broken.__doc__}"):
        check_contract(broken)


def test_there_is_one_for_each() -> None:
    told = [(test.__doc__ or "").strip() for test in TESTS]
    assert {next(text for text in told if text.startswith(kind.__doc__ or "?")) for kind in BROKEN} == set(told)


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, True), (2, False), (2, True)])
def test_several_layers_and_both_directions_are_tried(layers: int, bidirectional: bool) -> None:
    """A layer that is broken in this form alone."""

    def make(features: int, hidden: int, num_layers: int, **options: Any) -> RNN:
        kind = Segmented if (num_layers, options["bidirectional"]) == (layers, bidirectional) else RNN
        return kind(features, hidden, num_layers, **options)

    before = torch.random.get_rng_state()
    with pytest.raises(ContractError, match=f"num_layers={layers}, bidirectional={bidirectional} breaks"):
        check_contract(make)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_how_far_apart() -> None:
    """The largest difference, as a share of the largest entry that differs if that is above 1; infinite where nothing
    compares."""
    one = torch.tensor([1.0, -8.0, 0.25])
    assert _apart(one, one) == 0
    assert _apart(one + torch.tensor([0.0, 0.0, 0.5]), one) == 0.5
    assert _apart(one + torch.tensor([0.0, 2.0, 0.5]), one) == 2 / 8
    assert _apart(torch.tensor([0.5]), torch.tensor([0.25])) == 0.25
    assert _apart((one, (one, 2 * one)), (one, (one, one))) == 1
    assert _apart(torch.tensor([math.inf, 1.0]), torch.tensor([math.inf, 1.5])) == pytest.approx(1 / 3)
    for other in (one.double(), one[None], one[:2], one * math.nan, torch.tensor([1.0, math.inf, 0.25])):
        assert _apart(one, other) == math.inf
    assert _apart(torch.tensor([1, 2]), torch.tensor([1, 2])) == 0
    assert _apart(torch.tensor([1, 2]), torch.tensor([1, 3])) == math.inf

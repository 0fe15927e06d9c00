"""Token by token without a gradient: the short way gives what the sequence gives, and refuses what that refuses."""

from typing import Any

import pytest
import torch

from engram import nn
from engram.errors import DTypeError, NonFiniteError, ShapeError
from engram.loops import use
from engram.nn import Recurrent, _one_step
from engram.state import parts
from every_layer import AgedRNN

LAYERS: dict[str, Any] = {
    "RNN": lambda **o: nn.RNN(3, 5, **o),
    "modrelu": lambda **o: nn.RNN(3, 5, activation="modrelu", **o),
    "LSTM": lambda **o: nn.LSTM(3, 5, **o),
    "projected": lambda **o: nn.LSTM(3, 5, proj_size=2, **o),
    "GRU": lambda **o: nn.GRU(3, 5, **o),
    "ExpRNN": lambda **o: nn.ExpRNN(3, 5, **o),
    "GORU": lambda **o: nn.GORU(3, 5, **o),
    "trained": lambda **o: nn.LEM(3, 5, initial_state="trained", **o),
    "integers": lambda **o: AgedRNN(3, 5, **o),
}


def outcome(layer: Recurrent, input: torch.Tensor) -> list[torch.Tensor]:
    """Outputs of all steps, one at a time, and the last state."""
    state, outputs = layer.initial_state(input.shape[not layer.batch_first]), []
    with torch.no_grad():
        for token in input.split(1, int(layer.batch_first)):
            output, state = layer(token, state)
            outputs.append(output)
    return [torch.cat(outputs, int(layer.batch_first)), *parts(state)]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("batch", [1, 6, 7])
@pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
def test_it_equals_the_sequence(name: str, batch: int, batch_first: bool) -> None:
    layer = LAYERS[name](num_layers=2, batch_first=batch_first).double()
    shape = (batch, 4, 3) if batch_first else (4, batch, 3)
    input = torch.randn(shape, dtype=torch.float64)
    with use("plain"), torch.no_grad():
        output, state = layer(input)
    for found, expected in zip(outcome(layer, input), [output, *parts(state)], strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)  # 8 sums of 8 numbers below 1, times 100


def test_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    step = _one_step.step_in_place
    monkeypatch.setattr(_one_step, "step_in_place", lambda *a: calls.append(1) or step(*a))
    outcome(nn.LSTM(3, 5, num_layers=2), torch.randn(4, 1, 3))
    assert len(calls) == 8


def test_the_given_state_stays() -> None:
    layer = nn.LSTM(3, 5)
    state = tuple(torch.randn(1, 2, 5) for _ in range(2))
    before = [tensor.clone() for tensor in state]
    with torch.no_grad():
        _, new = layer(torch.randn(1, 2, 3), state)
    assert all(map(torch.equal, state, before))
    assert type(new) is type(layer(torch.randn(3, 2, 3))[1])


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (torch.zeros(1, 2, 4), ShapeError),
        (torch.zeros(2, 2, 5), ShapeError),
        ((torch.zeros(1, 2, 5),), DTypeError),
        (torch.zeros(1, 2, 5, dtype=torch.float64), DTypeError),
    ],
)
def test_what_is_wrong_is_told(state: Any, error: type[Exception]) -> None:
    with torch.no_grad(), pytest.raises(error, match="state"):
        nn.RNN(3, 5)(torch.randn(1, 2, 3), state)


@pytest.mark.parametrize("options", [{"bidirectional": True}, {"output_all_layers": True}, {"return_sequence": False}])
def test_other_layers_go_the_long_way(options: dict[str, Any]) -> None:
    layer = nn.GRU(3, 5, num_layers=2, **options).double()
    input, state = torch.randn(1, 2, 3, dtype=torch.float64), layer.initial_state(2)
    expected = layer(input, state)
    with torch.no_grad():
        found = layer(input, state)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_changed_weight_is_seen() -> None:
    layer, input, state = nn.LSTM(3, 5), torch.randn(1, 1, 3), (torch.zeros(1, 1, 5), torch.zeros(1, 1, 5))
    with torch.no_grad():
        layer(input, state)
        layer.bias_ih_l0.data.fill_(3.0)
        layer.weight_ih_l0.data = torch.randn(20, 3)
        found = layer(input, state)[0]
        with use("plain"):
            torch.testing.assert_close(found, layer(input, state)[0])


def test_strided_input_and_inference_mode() -> None:
    layer = nn.GRU(3, 5)
    input, state = torch.randn(1, 3, 4).transpose(1, 2)[:, :2], torch.randn(5, 2, 1).transpose(0, 2)
    with torch.inference_mode():
        found = layer(input, state)
    torch.testing.assert_close(found, layer(input, state))


def test_a_single_step_is_checked_for_nan_where_that_is_asked_for() -> None:
    layer = nn.RNN(3, 5, check_finite=True)
    with torch.no_grad(), pytest.raises(NonFiniteError, match="must be finite"):
        layer(torch.full((1, 2, 3), torch.nan), layer.initial_state(2))


def test_dropout_between_layers_stays_in_training() -> None:
    """Without a state the long way is taken, whose units are dropped by the same numbers."""
    layer, token = nn.RNN(3, 5, num_layers=2, dropout=0.5), torch.randn(1, 4, 3)
    with torch.no_grad():
        dropped = []
        for state in (None, layer.initial_state(4)):
            torch.default_generator.manual_seed(1)
            dropped.append(layer(token, state)[0])
        torch.testing.assert_close(dropped[1], dropped[0], rtol=0, atol=1e-6)
        assert not layer.eval()(token, state)[0].allclose(dropped[0])

"""What a layer returns and where it starts: all layers, the last step, trained start, activation in depth, dropout."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from engram.loops import ACTIVATIONS, activate
from engram.nn import RNN

TOLERANCE = 1e-12  # float64: the same sums


def near(found: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(found, right, atol=TOLERANCE, rtol=0)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(6, 3, 2, dtype=torch.float64)


@pytest.mark.parametrize("form", ["dense", "batch first", "unbatched", "packed"])
def test_output_all_layers(x: Tensor, form: str) -> None:
    """A tuple: the output of each layer is what a layer of that depth returns."""
    deep = RNN(2, 4, 3, bidirectional=True, output_all_layers=True, dtype=torch.float64)
    deep.batch_first = form == "batch first"
    packed = pack_padded_sequence(x, torch.tensor([2, 6, 4]), enforce_sorted=False)
    input = {"dense": x, "batch first": x.transpose(0, 1), "unbatched": x[:, 0], "packed": packed}[form]
    outputs, state = deep(input)
    assert isinstance(outputs, tuple)
    assert len(outputs) == 3
    for depth, output in enumerate(outputs, start=1):
        shallow = RNN(2, 4, depth, bidirectional=True, batch_first=deep.batch_first, dtype=torch.float64)
        shallow.load_state_dict({k: v for k, v in deep.state_dict().items() if int(k.split("_l")[1][0]) < depth})
        right, final = shallow(input)
        assert type(output) is type(right)
        near(output.data, right.data)
        near(state[: 2 * depth], final)


@pytest.mark.parametrize("every", [None, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("place", ["recurrence", "depth"])
def test_only_the_last_step(x: Tensor, place: str, bidirectional: bool, every: int | None) -> None:
    options = {"activation_in": place, "bidirectional": bidirectional, "checkpoint_every": every}
    layer = RNN(2, 4, 2, dtype=torch.float64, **options)
    output, state = layer(x)
    right = torch.cat([output[-1, :, :4], output[0, :, 4:]], -1)  # each direction ends at its own end
    layer.return_sequence = False
    found, final = layer(x)
    near(found, right)
    near(final, state)
    near(layer(x[:, 1])[0], right[1])
    layer.batch_first = True
    near(layer(x.transpose(0, 1))[0], right)


def test_a_trained_start_is_a_parameter(x: Tensor) -> None:
    """It begins at zero, is used by every row, and gets the gradient of a state given, summed over the rows."""
    layer = RNN(2, 4, 2, initial_state="trained", bidirectional=True, dtype=torch.float64)
    starts = [cell.start for cell in layer.cells]
    assert [tuple(s.shape) for s in starts] == [(4,)] * 4
    assert not any(bool(s.any()) for s in starts)
    with torch.no_grad():
        for start in starts:
            start.normal_()
    given = torch.stack([s.expand(3, 4) for s in starts]).detach().requires_grad_()
    for a, b in zip(layer(x), layer(x, given), strict=True):
        near(a, b)
    found = torch.autograd.grad(layer(x)[0].square().sum(), starts)
    (right,) = torch.autograd.grad(layer(x, given)[0].square().sum(), given)
    near(torch.stack(found), right.sum(1))
    assert float(right.abs().min()) > 0


def test_a_zero_start_is_none() -> None:
    assert not any("start" in name for name, _ in RNN(2, 4).named_parameters())


def by_hand(layer: RNN, x: Tensor) -> tuple[Tensor, Tensor]:
    """Lizaire et al. 2026, Eq. 2: h_t = V h_{t-1} + U y_t + b with y the layer below, and y_t = sigma(h_t) goes up."""
    states = []
    for cell in layer.cells:
        h, above = x.new_zeros(x.shape[1], layer.hidden_size), []
        for y in x:
            h = h @ cell.weight_hh.T + y @ cell.weight_ih.T + cell.bias
            above.append(activate(cell.activation, h, cell.mod_bias))
        x = torch.stack(above)
        states.append(h)
    return x, torch.stack(states)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("activation", "layers"), list(product(ACTIVATIONS, (1, 2))))
def test_activation_in_depth(x: Tensor, activation: str, layers: int) -> None:
    """The state handed on is the pre-activation; the raw input is not activated, the last layer's output is."""
    layer = RNN(2, 4, layers, activation=activation, activation_in="depth", dtype=torch.float64)
    found, right = layer(x), by_hand(layer, x)
    for a, b in zip(found, right, strict=True):
        near(a, b)
    weights = list(layer.parameters())
    grads = [torch.autograd.grad(y.square().sum() + h.sin().sum(), weights) for y, h in (found, right)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=0)


def test_activations_in_depth_and_in_the_recurrence_differ() -> None:
    layer = RNN(1, 1, activation_in="depth", bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1)
        layer.weight_hh_l0.fill_(1)
    output, state = layer(torch.ones(3, 1, 1, dtype=torch.float64))
    near(state.flatten(), torch.tensor([3.0], dtype=torch.float64))  # a linear counter
    near(output.flatten(), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).tanh())


def passing_through(dropout: float) -> RNN:
    """Two layers that add nothing: the output is the input, as dropout between them leaves it."""
    layer = RNN(50, 50, 2, activation="identity", bias=False, dropout=dropout)
    for cell in layer.cells:
        nn.init.eye_(cell.weight_ih)
        nn.init.zeros_(cell.weight_hh)
    return layer


def test_dropout_between_layers_while_training() -> None:
    ones = torch.ones(40, 20, 50)
    layer = passing_through(0.3)
    output, state = layer(ones)
    dropped = float((output == 0).float().mean())
    assert abs(dropped - 0.3) < 0.0115  # five standard deviations of 40,000 tosses
    torch.testing.assert_close(output[output != 0].unique(), torch.tensor([1 / 0.7]))
    assert not bool((state[0] == 0).any())  # the first layer's own state is whole
    assert not torch.equal(layer(ones)[0], output)
    assert torch.equal(layer.eval()(ones)[0], ones)


def test_no_dropout_after_the_last_layer() -> None:
    layer = RNN(50, 50, 1, dropout=0.9)
    x = torch.randn(5, 2, 50)
    before, _ = layer(x)
    assert torch.equal(before, layer.eval()(x)[0])
    assert not bool((before == 0).any())

"""Number types: what a layer computes in, and that it is the same layer in each of them."""

import copy

import pytest
import torch
from torch import Tensor

from engram import loops
from engram.models import MODELS
from engram.nn import RNN, Cell, Recurrent

LEGAL = {
    torch.float32: ("identity", "tanh", "relu", "sigmoid", "modrelu"),
    torch.complex64: ("identity", "tanh", "sigmoid", "modrelu"),
}
DOUBLE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
SINGLE_AND_ACTIVATION = [(dtype, name) for dtype, names in LEGAL.items() for name in names]


class LeakyCell(Cell):
    equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)


class LeakyRNN(Recurrent):
    cell = LeakyCell


@pytest.mark.parametrize("activation_in", ["recurrence", "depth"])
@pytest.mark.parametrize(("single", "activation"), SINGLE_AND_ACTIVATION)
def test_single_precision_is_the_same_layer(single: torch.dtype, activation: str, activation_in: str) -> None:
    layer = RNN(3, 8, 2, bidirectional=True, activation=activation, activation_in=activation_in, dtype=DOUBLE[single])
    other = RNN(3, 8, 2, bidirectional=True, activation=activation, activation_in=activation_in, dtype=single)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.5)  # away from the poles of the complex tanh, which enlarge every rounding
    other.load_state_dict(layer.state_dict())
    x = torch.randn(10, 4, 3, dtype=layer.weight_ih_l0.real.dtype)
    for value, right in zip(other(x.to(other.weight_ih_l0.real.dtype)), layer(x), strict=True):
        assert value.dtype == single
        assert right.dtype == DOUBLE[single]
        # 10 steps of 8 terms, two layers: some tens of roundings at 6e-8 each
        torch.testing.assert_close(value.to(right.dtype), right, atol=2e-5, rtol=0)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("map", ["free", "exponential", "cayley"])
@pytest.mark.parametrize("make", [RNN, LeakyRNN])
def test_autocast_leaves_the_recurrence_alone(make: type[Recurrent], map: str) -> None:
    """Weights in float32 stay so, also the matrix that a map builds: only the input is rounded by what made it."""
    layer = make(3, 8, 2, map=map)
    x = torch.randn(20, 4, 3).bfloat16()
    expected = layer(x.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x)
    for value, right in zip(found, expected, strict=True):
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, right, atol=1e-6, rtol=0)  # float32 throughout; bfloat16 would give 1e-2


@pytest.mark.parametrize("kernel_name", ["auto", "torch"])
def test_backward_inside_autocast(kernel_name: str) -> None:
    layer = RNN(3, 8, initial_state="trained")
    x = torch.randn(20, 4, 3)
    grads = []
    with loops.use(kernel_name):
        for autocast in (True, False):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                grads.append(torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters())))
    assert len(grads[0]) == 4
    for found, right in zip(*grads, strict=True):
        torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-6)  # float32; bfloat16 would give 1e-2


@pytest.mark.parametrize("activation", LEGAL[torch.float32])
def test_bfloat16_weights(activation: str) -> None:
    layer = RNN(3, 8, 2, bidirectional=True, activation=activation)
    # No product of more than 4096 terms: torch gives those to the AMX unit, which some virtual machines forbid.
    x = torch.randn(10, 2, 3)
    small = copy.deepcopy(layer).to(torch.bfloat16)
    output, state = small(x.bfloat16())
    assert output.dtype == state.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), layer(x)[0], atol=0.1, rtol=0)  # 8 bits: 4e-3 a rounding, ten steps
    output.float().square().sum().backward()
    assert {p.grad.dtype for p in small.parameters()} == {torch.bfloat16}
    assert all(bool(p.grad.isfinite().all()) for p in small.parameters())


@pytest.mark.parametrize("activation_in", ["recurrence", "depth"])
def test_modrelu_of_numbers_without_imaginary_part(activation_in: str) -> None:
    """A complex layer whose weights and input are real is the real layer, in values and gradients."""
    options = {"activation": "modrelu", "activation_in": activation_in, "bidirectional": True}
    real = RNN(3, 5, 2, dtype=torch.float64, **options)
    for cell in real.cells:
        torch.nn.init.uniform_(cell.mod_bias, -0.3, 0.3)  # so that some units are dead
    both = RNN(3, 5, 2, dtype=torch.complex128, **options)
    with torch.no_grad():
        for ours, theirs in zip(both.parameters(), real.parameters(), strict=True):
            ours.copy_(theirs)
    x = torch.randn(7, 4, 3, dtype=torch.float64)
    (y, h), (right, h_right) = both(x), real(x)
    assert bool((right == 0).any())
    for value, expected in ((y, right), (h, h_right)):
        assert float(value.imag.detach().abs().max()) == 0
        torch.testing.assert_close(value.real, expected, atol=1e-12, rtol=0)  # the same sums, another loop
    y.real.square().sum().backward()
    right.square().sum().backward()
    for ours, theirs in zip(both.parameters(), real.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.real, theirs.grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_layer_takes_real_input_and_state(dtype: torch.dtype) -> None:
    layer = RNN(3, 5, dtype=dtype)
    x, h = torch.randn(7, 2, 3, dtype=dtype.to_real()), torch.randn(1, 2, 5, dtype=dtype.to_real())
    for value, right in zip(layer(x, h), layer(x.to(dtype), h.to(dtype)), strict=True):
        assert value.dtype == dtype
        assert torch.equal(value, right)


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")  # torch's own, on .to(complex)
def test_the_bias_of_modrelu_stays_real() -> None:
    layer = RNN(3, 5, activation="modrelu", dtype=torch.complex64)
    x = torch.randn(7, 2, 3)
    before, _ = layer(x)
    before.abs().sum().backward()
    after, _ = layer.to(torch.complex128)(x.double())
    (cell,) = layer.cells
    assert cell.weight_hh.dtype == after.dtype == torch.complex128
    assert cell.mod_bias.dtype == cell.mod_bias.grad.dtype == torch.float64
    torch.testing.assert_close(after, before.to(torch.complex128), atol=1e-5, rtol=0)  # complex64's 7 digits
    after.abs().sum().backward()


@pytest.mark.parametrize("name", ["urnn", "eurnn", "scurnn", "full-capacity", "hyland-raetsch"])
def test_a_complex_layer_asked_for_its_own_precision(name: str) -> None:
    """``.to("cpu", torch.float32)`` of complex64 changes nothing; torch alone would drop the imaginary parts."""
    layer, x = MODELS[name].kind(3, 8), torch.randn(4, 2, 3)
    right = layer(x)[0]
    assert layer.to("cpu", torch.float32)(x)[0].equal(right)
    assert layer.share_memory()(x)[0].equal(right)
    assert all(parameter.is_shared() for parameter in layer.parameters())


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")  # torch's own, on .to(complex)
@pytest.mark.parametrize("dtype", [torch.complex128, torch.float64])
@pytest.mark.parametrize("name", ["urnn", "eurnn", "scurnn", "full-capacity", "hyland-raetsch"])
def test_a_complex_layer_asked_for_another_precision(name: str, dtype: torch.dtype) -> None:
    """What is complex stays complex and what is real, such as the angles of a map, real: only digits are added."""
    layer, x = MODELS[name].kind(3, 8), torch.randn(4, 2, 3)
    before = {key: p.detach().clone() for key, p in layer.named_parameters()}
    right = layer(x)[0]
    found = layer.to(dtype)(x.double())[0]
    for key, p in layer.named_parameters():
        assert p.dtype == (torch.complex128 if before[key].is_complex() else torch.float64), key
        assert p.detach().to(before[key].dtype).equal(before[key])
    torch.testing.assert_close(found, right.to(found.dtype), atol=1e-5, rtol=0)  # complex64's 7 digits, four steps

"""The arithmetic circuit and multiplicative integration: what they compute, and what they are equal to."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.exact import FieldCircuit
from engram.loops import use
from engram.nn import MIRNN, RAC, TensorTrainNet
from tiers import slow

F64 = torch.float64


def circuit(modes: int = 3, channels: int = 4, depth: int = 1, **options: object) -> RAC:
    torch.manual_seed(0)
    return RAC(modes, channels, depth, dtype=F64, **options)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_recurrence(depth: int) -> None:
    """h^{t,l} = (W_H h^{t-1,l}) (W_I h^{t,l-1}), with W_H h^0 = 1."""
    layer, x = circuit(depth=depth), torch.randn(5, 2, 3, dtype=F64)
    output, state = layer(x)
    before = [torch.ones(2, 4, dtype=F64) for _ in range(depth)]  # W_H h
    for t in range(5):
        below = x[t]
        for k, cell in enumerate(layer.cells):
            below = before[k] * (below @ cell.weight_ih.mT)
            before[k] = below @ cell.weight_hh.mT
        torch.testing.assert_close(output[t], below, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.product, torch.stack(before), rtol=1e-12, atol=1e-12)


def test_two_steps_of_two_layers() -> None:
    """h^{2,2} = (W_H2 W_I2 h^{1,1}) (W_I2 ((W_H1 h^{1,1}) W_I1 f(x^2)))."""
    layer, x = circuit(depth=2), torch.randn(2, 1, 3, dtype=F64)
    (i1, h1), (i2, h2) = [(cell.weight_ih, cell.weight_hh) for cell in layer.cells]
    first = i1 @ x[0, 0]
    second = (h2 @ i2 @ first) * (i2 @ ((h1 @ first) * (i1 @ x[1, 0])))
    torch.testing.assert_close(layer(x)[0][1, 0], second, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [2, 3, 5])
def test_a_shallow_circuit_is_a_tensor_train_and_a_matrix_product_state(steps: int) -> None:
    """Value for value: the circuit, the equal-core train, the train's whole tensor, and A = sum a^O phi o a^I (1.4)."""
    layer, readout = circuit(), torch.randn(2, 4, dtype=F64)
    net = TensorTrainNet.from_circuit(layer, readout, steps)
    assert net.equal_cores
    x = torch.randn(steps, 3, 3, dtype=F64)
    values = layer(x)[0][-1] @ readout.mT
    torch.testing.assert_close(net(x), values, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(net.contract(x), values, rtol=1e-12, atol=1e-12)

    w_i, w_h = layer.cells[0].weight_ih, layer.cells[0].weight_hh
    phi = torch.einsum("ba,ai->bi", w_h, w_i)  # phi^{1,b} = sum_a a^{H,b}_a a^{I,a}
    for _ in range(steps - 2):
        phi = torch.einsum("ba,a...,ai->b...i", w_h, phi, w_i)
    closed = torch.einsum("ca,a...,ai->c...i", readout, phi, w_i)
    torch.testing.assert_close(net.coefficients(), closed, rtol=1e-12, atol=1e-12)


def test_a_trained_start_is_part_of_the_train() -> None:
    layer = circuit(initial_state="trained")
    with torch.no_grad():
        layer.cells[0].start_product.uniform_(0.5, 2)
    x, readout = torch.randn(4, 3, 3, dtype=F64), torch.randn(2, 4, dtype=F64)
    net = TensorTrainNet.from_circuit(layer, readout, 4)
    torch.testing.assert_close(net(x), layer(x)[0][-1] @ readout.mT, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("steps", "depth"), [(2, 2), (4, 2), (4, 3), (3, 4)])
def test_a_deep_circuit_is_its_tensor_network(steps: int, depth: int) -> None:
    """Contracted with delta_ijk at every joint; an input at time s occurs ((T-s+1 over L-1)) times."""
    layer, x = circuit(depth=depth), torch.randn(steps, 1, 3, dtype=F64)
    delta = torch.zeros(4, 4, 4, dtype=F64)
    delta[range(4), range(4), range(4)] = 1
    uses = [0] * steps

    def unit(t: int, level: int) -> Tensor:
        if level == 0:
            uses[t] += 1
            return x[t, 0]
        cell = layer.cells[level - 1]
        before = torch.ones(4, dtype=F64) if t == 0 else cell.weight_hh @ unit(t - 1, level)
        return torch.einsum("ijk,j,k->i", delta, before, cell.weight_ih @ unit(t, level - 1))

    torch.testing.assert_close(unit(steps - 1, depth), layer(x)[0][-1, 0], rtol=1e-12, atol=1e-12)
    assert uses == [math.comb(steps - s + depth - 2, depth - 1) for s in range(steps)]


def test_the_grid_of_a_certificate_is_the_layer() -> None:
    """Integer weights, so that float64 is exact and can be compared modulo p."""
    prime, modes, channels, depth, steps = 10007, 2, 2, 2, 4
    generator = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return generator.integers(1, 3, shape).astype(np.uint64)

    inputs, hidden = (
        (draw(channels, modes), draw(channels, channels)),
        (draw(channels, channels), draw(channels, channels)),
    )
    start = (draw(channels), draw(channels))
    readout, templates = draw(channels), draw(3, modes)
    layer = circuit(modes, channels, depth, initial_state="trained")
    with torch.no_grad():
        for k, cell in enumerate(layer.cells):
            cell.weight_ih.copy_(torch.from_numpy(inputs[k].astype(float)))
            cell.weight_hh.copy_(torch.from_numpy(hidden[k].astype(float)))
            cell.start_product.copy_(torch.from_numpy(start[k].astype(float)))
    words = torch.tensor(list(product(range(3), repeat=steps))).T
    x = torch.from_numpy(templates.astype(float))[words]
    values = layer(x)[0][-1].detach() @ torch.from_numpy(readout.astype(float))
    assert prime < float(values.abs().max()) < 2**53
    blocks = [block for _, block in FieldCircuit(prime, inputs, hidden, start, readout, templates).grid(steps)]
    assert np.array_equal(np.concatenate(blocks), values.reshape(9, 9).to(torch.int64).numpy() % prime)


@pytest.mark.parametrize("depth", [1, slow(2), 3])
def test_the_log_scale_is_exact(depth: int) -> None:
    plain, scaled = circuit(depth=depth), circuit(depth=depth, log_scale=True)
    scaled.load_state_dict(plain.state_dict())
    x = torch.randn(6, 4, 3, dtype=F64)
    (output, state), (unit, found) = plain(x), scaled(x)
    assert unit.shape == output.shape
    torch.testing.assert_close(found.h * found.log_scale.exp(), state.h, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(unit.square().mean(-1), torch.ones(6, 4, dtype=F64), rtol=1e-12, atol=1e-12)
    direction = output / output.square().mean(-1, keepdim=True).sqrt()
    torch.testing.assert_close(unit, direction, rtol=1e-10, atol=1e-10)


def test_a_long_product_overflows_without_it_and_not_with_it() -> None:
    torch.manual_seed(0)
    plain = RAC(3, 8)
    scaled = RAC(3, 8, log_scale=True)
    scaled.load_state_dict(plain.state_dict())
    x = 20 * torch.randn(2000, 2, 3)
    assert not plain(x)[0].isfinite().all()
    output, state = scaled(x)
    assert output.isfinite().all()
    assert (state.log_scale > 1000).all()
    loss = output[-1].sum()
    loss.backward()
    assert all(bool(p.grad.isfinite().all()) for p in scaled.parameters())


def test_a_state_of_zeros_stays_finite() -> None:
    output, state = circuit(log_scale=True)(torch.zeros(3, 2, 3, dtype=F64))
    assert output.eq(0).all()
    assert state.log_scale.isfinite().all()


def test_only_a_shallow_circuit_has_a_core() -> None:
    assert circuit().core().shape == (4, 3, 4)
    with pytest.raises(OptionError, match="one layer"):
        circuit(depth=2).core()
    with pytest.raises(OptionError, match="bias"):
        TensorTrainNet.from_circuit(circuit(bias=True), torch.ones(1, 4, dtype=F64), 3)


@pytest.mark.parametrize("option", [{"bidirectional": True}, {"dropout": 0.5}])
def test_a_log_scale_needs_one_scale(option: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="log_scale"):
        RAC(3, 4, 2, log_scale=True, **option)


@pytest.mark.parametrize("activation", ["identity", "tanh", "relu", "sigmoid"])
def test_multiplicative_integration(activation: str) -> None:
    torch.manual_seed(0)
    layer = MIRNN(3, 4, activation=activation, dtype=F64)
    cell = layer.cells[0]
    with torch.no_grad():
        for name in ("alpha", "beta_input", "beta_state", "bias"):
            getattr(cell, name).uniform_(-1, 1)
    x = torch.randn(5, 2, 3, dtype=F64)
    act = {"identity": lambda z: z, "tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}[activation]
    h = torch.zeros(2, 4, dtype=F64)
    for t in range(5):
        from_h, from_x = h @ cell.weight_hh.mT, x[t] @ cell.weight_ih.mT
        h = act(cell.alpha * from_h * from_x + cell.beta_input * from_x + cell.beta_state * from_h + cell.bias)
    torch.testing.assert_close(layer(x)[0][-1], h, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [RAC, MIRNN])
def test_the_kernel_is_the_plain_step(kind: type) -> None:
    torch.manual_seed(0)
    layer, x = kind(3, 4, 2, bidirectional=True, map="cayley", dtype=F64), torch.randn(5, 2, 3, dtype=F64)
    fast = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    with use("plain"):
        slow = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_the_start_of_the_weights() -> None:
    layer = circuit(channels=6, initial_state="trained")
    cell = layer.cells[0]
    torch.testing.assert_close(cell.weight_hh @ cell.weight_hh.mT, torch.eye(6, dtype=F64))
    assert cell.start_product.eq(1).all()
    cell.start_product.data.zero_()
    layer.reset_parameters()
    assert cell.start_product.eq(1).all()
    assert sum(p.numel() for p in circuit(3, 5, 3).parameters()) == 5 * 3 + 2 * 25 + 3 * 25  # RM + (L-1)R^2 + L R^2


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_log_scale_of_a_circuit_with_biases_is_exact(size: float) -> None:
    """A bias is not scaled with the state below it, be that small or large."""
    plain, safe = circuit(depth=3, bias=True), circuit(depth=3, bias=True, log_scale=True)
    safe.load_state_dict(plain.state_dict())
    x = size * torch.randn(6, 2, 3, dtype=F64)
    output, state = safe(x)
    expected, _ = plain(x)
    torch.testing.assert_close(output[-1] * state.log_scale[-1].exp(), expected[-1], rtol=1e-10, atol=0)
    ways = [(output[-1] * state.log_scale[-1].exp()).sum(), expected[-1].sum()]
    grads = [torch.autograd.grad(way, list(net.parameters())) for way, net in zip(ways, (safe, plain), strict=True)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_bias_beside_a_tiny_or_a_huge_state_is_finite(size: float) -> None:
    """The state below has a scale of size^9: a bias over it would overflow; beside a tiny one the bias is all."""
    net, x = circuit(depth=2, bias=True, log_scale=True), size * torch.randn(9, 2, 3, dtype=F64)
    net.bias_l0.data.zero_()
    output, state = net(x)
    (output.sum() + state.log_scale.sum()).backward()
    assert output.isfinite().all()
    assert state.log_scale.isfinite().all()
    assert all(bool(p.grad.isfinite().all()) for p in net.parameters())
    if size < 1:
        expected = circuit(depth=2, bias=True)
        expected.load_state_dict(net.state_dict())
        torch.testing.assert_close(output[-1] * state.log_scale[-1].exp(), expected(torch.zeros_like(x))[0][-1])


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_the_log_scale_holds_where_squares_do_not(size: float) -> None:
    """In single precision the square of 1e25 is infinite and that of 1e-25 is zero."""
    net = RAC(3, 5, log_scale=True)
    x = torch.randn(20, 2, 3)
    one, scaled = net(x)[1].log_scale, net(size * x)[1].log_scale
    torch.testing.assert_close(scaled, one + 20 * math.log(size), rtol=1e-4, atol=0.1)


def test_a_state_of_zeros_has_a_gradient() -> None:
    net, x = circuit(depth=2, log_scale=True), torch.zeros(4, 2, 3, dtype=F64, requires_grad=True)
    output, state = net(x)
    (output.sum() + state.log_scale.sum()).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in net.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize("log_scale", [False, True])
def test_every_dtype_of_a_circuit(dtype: torch.dtype, log_scale: bool) -> None:
    net = RAC(3, 4, 2, dtype=dtype, log_scale=log_scale)
    assert net(torch.randn(5, 2, 3).to(dtype))[0].dtype == dtype
    weight = net.cells[0].weight_hh
    torch.testing.assert_close(weight @ weight.mH, torch.eye(4, dtype=dtype), atol=3e-2, rtol=0)


def test_a_log_scale_is_true_or_false() -> None:
    with pytest.raises(DTypeError, match="log_scale must be True or False, got 'no'"):
        RAC(3, 4, log_scale="no")

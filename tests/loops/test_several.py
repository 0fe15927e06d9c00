"""Several models computed at once: each member has the numbers, and where it can the bits, that it has alone."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engram import nn
from engram.loops import _several, cross_entropies, use, use_threads
from engram.loops._several_layers import linear
from engram.loops._several_products import matmuls, several_column_sums
from engram.maps import leave, members, per_member, together

KINDS: dict[str, tuple[type[nn.Recurrent], dict[str, Any]]] = {
    "ExpRNN": (nn.ExpRNN, {}),
    "LSTM": (nn.LSTM, {"num_layers": 2}),
    "CPRNN": (nn.CPRNN, {}),
    "GRU backwards": (nn.GRU, {"bidirectional": True}),
    "trained start": (nn.RNN, {"initial_state": "trained"}),
    "GORU": (nn.GORU, {}),
    "complex": (nn.FullCapacityURNN, {}),
}


def called_together(layers: list[Any], inputs: Tensor) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """The outputs of all layers in one call, and the gradients of their squares."""
    layer, names = layers[0], [name for name, _ in layers[0].named_parameters()]
    layer(inputs[0])  # compiled outside of vmap
    stacked = {n: torch.stack([dict(each.named_parameters())[n].detach() for each in layers]) for n in names}
    stacked = {name: tensor.requires_grad_() for name, tensor in stacked.items()}
    buffers = {n: torch.stack([each.state_dict()[n] for each in layers]) for n in layer.state_dict() if n not in names}
    with together(len(layers)) as each:
        own = {name: each(tensor) for name, tensor in (stacked | buffers).items()}
        assert members()
        outputs = leave(torch.func.functional_call(layer, own, (each(inputs),))[0])
    assert not members()
    gradients = torch.autograd.grad(outputs.abs().square().sum(), list(stacked.values()))
    pairs = dict(zip(names, gradients, strict=True))
    return outputs, [{name: gradient[e] for name, gradient in pairs.items()} for e in range(len(layers))]


@pytest.mark.parametrize("executor", ["auto", "torch"])
@pytest.mark.parametrize("batch", [7, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_single_calls(kind: str, batch: int, executor: str) -> None:
    make, options = KINDS[kind]
    torch.manual_seed(0)
    layers = [make(5, 6, dtype=torch.float64, **options) for _ in range(3)]
    inputs = torch.randn(3, 11, batch, 5, dtype=torch.float64)
    with use(executor), use_threads(2):
        outputs, gradients = called_together(layers, inputs)
        for layer, own, found, grads in zip(layers, inputs, outputs, gradients, strict=True):
            expected = layer(own)[0]
            assert torch.allclose(found, expected, rtol=0, atol=1e-12)
            expected.abs().square().sum().backward()
            for name, p in layer.named_parameters():
                assert torch.allclose(grads[name], p.grad, rtol=0, atol=1e-10), name


class TwoBiasesCell(nn.Cell):
    """Both have the same gradient."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        super().__init__(*sizes, **options)
        for name in ("one", "two"):
            self.declare(name, self.hidden_size, law=nn.laws.Normal(1.0))

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(drive + state @ self.weight_hh.mT + (self.one + self.two))


class TwoBiases(nn.Recurrent):
    cell = TwoBiasesCell


def test_gradients_that_are_equal_are_not_the_same_memory() -> None:
    """torch adds to a gradient in place: the second backward pass would count double."""
    layers, inputs = [TwoBiases(3, 4) for _ in range(2)], torch.randn(2, 5, 7, 3)
    _, gradients = called_together(layers, inputs)
    for own in gradients:
        one, two = (next(g for name, g in own.items() if which in name) for which in ("one", "two"))
        assert torch.equal(one, two)
        assert one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr()


@pytest.mark.parametrize("batch", [7, 3])  # three rows: products of the drive are made before the loop
@pytest.mark.parametrize("kind", ["ExpRNN", "LSTM"])
def test_in_chunks(kind: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one step, or of a few."""
    for chunk_bytes in (1, 2000):
        monkeypatch.setattr(_several, "CHUNK_BYTES", chunk_bytes)
        test_equals_single_calls(kind, batch, "auto")


def test_bits_of_a_loop_are_those_of_a_single_call() -> None:
    torch.manual_seed(0)
    layers, inputs = [nn.LSTM(5, 9) for _ in range(3)], torch.randn(3, 20, 13, 5)
    outputs, gradients = called_together(layers, inputs)
    for layer, own, found, grads in zip(layers, inputs, outputs, gradients, strict=True):
        expected = layer(own)[0]
        assert torch.equal(found, expected)
        expected.abs().square().sum().backward()
        assert all(torch.equal(grads[name], p.grad) for name, p in layer.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cross_entropies(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    scores, targets = (10 * torch.randn(3, 37, 9)).to(dtype).requires_grad_(), torch.randint(9, (3, 37))
    found = cross_entropies(scores, targets)
    expected = torch.stack([F.cross_entropy(*own) for own in zip(scores, targets, strict=True)])
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=dtype)
    gradients = [torch.autograd.grad((losses * weights).sum(), scores)[0] for losses in (found, expected)]
    eps = 1e-12 if dtype == torch.float64 else 1e-5
    assert torch.allclose(found, expected, rtol=eps)
    assert torch.allclose(*gradients, atol=eps / 10)


def test_cross_entropies_at_the_limits() -> None:
    scores = torch.tensor([[[1e30, -1e30, 0.0]], [[float("nan"), 0.0, 1.0]], [[-torch.inf, 0.0, 0.0]]])
    found = cross_entropies(scores, torch.tensor([[0], [1], [2]]))
    assert found[0] == 0
    assert found[1].isnan()
    assert found[2] == pytest.approx(0.6931472)
    with pytest.raises(IndexError, match="no class below 3"):
        cross_entropies(scores, torch.tensor([[0], [3], [0]]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_products(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(3, 7, 20, dtype=dtype).mT, torch.randn(3, 7, 5, dtype=dtype)
    out = torch.randn(3, 20, 5, dtype=dtype)
    assert torch.allclose(matmuls(a, b, out.clone(), add=True), out + a @ b)
    assert torch.allclose(several_column_sums(a), a.sum(1))


def test_linear_in_and_out_of_members() -> None:
    torch.manual_seed(0)
    inputs, weight, bias = torch.randn(3, 8, 4, 6), torch.randn(3, 5, 6), torch.randn(3, 5)
    with together(3) as each:
        found = leave(linear(each(inputs), each(weight), each(bias)))
        shared = leave(linear(each(inputs), weight[0], None))
        sums = leave(per_member(lambda own, bias: own.sum() + bias, each(inputs), bias[0, 0]))
    assert torch.allclose(found, torch.stack(list(map(F.linear, inputs, weight, bias))), atol=1e-5)
    assert torch.allclose(shared, F.linear(inputs, weight[0]), atol=1e-5)
    assert torch.allclose(sums, inputs.sum((1, 2, 3)) + bias[0, 0], atol=1e-4)

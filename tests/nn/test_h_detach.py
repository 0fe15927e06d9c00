"""An LSTM whose gradient is blocked at random steps: its numbers, its gradients, its random numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from engram import loops
from engram.checks import check_contract
from engram.errors import DTypeError, OptionError
from engram.nn import LSTM, HDetachLSTM

T, B, D, H = 9, 3, 3, 4


def blocked_reference(layer: Any, x: Tensor, blocked: list[bool]) -> Tensor:
    """The LSTM written out, with h detached at the steps that are blocked (Kanuparthi et al. 2019)."""
    cell = layer.cells[0]
    h, c, found = x.new_zeros(x.shape[1], H), x.new_zeros(x.shape[1], H), []
    for u, is_blocked in zip(x, blocked, strict=True):
        fed_back = h.detach() if is_blocked else h
        total = u @ cell.weight_ih.T + cell.bias_ih + fed_back @ cell.weight_hh.T + cell.bias_hh
        i, f, g, o = total.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        found.append(h)
    return torch.stack(found)


def make(**options: Any) -> HDetachLSTM:
    torch.manual_seed(1)
    return HDetachLSTM(D, H, dtype=torch.float64, **options)


def gradients(output: Tensor, layer: Any) -> list[Tensor]:
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return list(torch.autograd.grad((output * weight).sum(), list(layer.parameters())))


@pytest.mark.parametrize("executor", ["auto", "torch", "plain"])
@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_gradients_are_those_of_the_equation(p: float, executor: str) -> None:
    layer, x = make(p=p), torch.randn(T, B, D, dtype=torch.float64)
    torch.manual_seed(5)
    blocked = (torch.bernoulli(torch.full((T,), p, dtype=torch.float64)) > 0).tolist() if p else [False] * T
    torch.manual_seed(5)
    with loops.use(executor):
        output, _ = layer(x)
    torch.testing.assert_close(output, blocked_reference(layer, x, blocked), atol=1e-14, rtol=0)
    right = gradients(blocked_reference(layer, x, blocked), layer)
    for mine, theirs in zip(gradients(output, layer), right, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=0)
    if p == 0.4:
        assert any(blocked)
        assert not all(blocked)


def test_a_step_is_blocked_for_the_whole_batch() -> None:
    """Rows with the same input have the same gradient, whatever was sampled; packed rows of other lengths too."""
    layer, one = make(p=0.5), torch.randn(T, 1, D, dtype=torch.float64)
    x = one.repeat(1, B, 1).requires_grad_()
    layer(x)[0].sum().backward()
    assert torch.equal(x.grad[:, 0], x.grad[:, 1])
    torch.manual_seed(3)
    first = one.clone().requires_grad_()
    layer(first)[0][: T - 5].sum().backward()
    torch.manual_seed(3)
    x.grad = None
    layer(pack_padded_sequence(x, torch.tensor([T, T - 2, T - 5])))[0].data[: 3 * (T - 5)].sum().backward()
    for row in range(B):
        torch.testing.assert_close(x.grad[: T - 5, row], first.grad[: T - 5, 0], atol=1e-14, rtol=0)


def test_nothing_is_blocked_in_evaluation() -> None:
    layer, x = make(p=1.0).eval(), torch.randn(T, B, D, dtype=torch.float64)
    lstm = LSTM(D, H, dtype=torch.float64)
    lstm.load_state_dict(layer.state_dict())
    before = torch.get_rng_state()
    mine = gradients(layer(x)[0], layer)
    assert torch.equal(before, torch.get_rng_state())
    for one, other in zip(mine, gradients(lstm(x)[0], lstm), strict=True):
        assert torch.equal(one, other)


def test_random_numbers_come_from_the_generator() -> None:
    layer, x = make(p=0.5), torch.randn(40, B, D, dtype=torch.float64)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(gradients(layer(x)[0], layer)[1])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_segments_sample_once() -> None:
    """What runs again in the backward pass is blocked at the same steps."""
    layer, x = make(p=0.5, checkpoint_every=4), torch.randn(4, B, D, dtype=torch.float64)
    torch.manual_seed(8)
    in_segments = gradients(layer(x)[0], layer)
    layer.checkpoint_every = None
    torch.manual_seed(8)
    whole = gradients(layer(x)[0], layer)
    for one, other in zip(in_segments, whole, strict=True):
        torch.testing.assert_close(one, other, atol=1e-14, rtol=0)


def test_the_contract() -> None:
    assert len(check_contract(lambda *args, **options: HDetachLSTM(*args, **options).eval())) == 11


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_p_is_a_probability(p: float) -> None:
    with pytest.raises(OptionError, match="p must be a probability, from 0"):
        HDetachLSTM(D, H, p=p)


def test_p_is_a_number() -> None:
    with pytest.raises(DTypeError, match="p must be a number"):
        HDetachLSTM(D, H, p="half")


def test_the_last_step_alone() -> None:
    """Without the outputs between, in segments too: in training the same steps are blocked as with them."""
    layer, x = HDetachLSTM(3, 4, 2, p=0.5, dtype=torch.float64), torch.randn(7, 2, 3, dtype=torch.float64)
    last = layer.replace(return_sequence=False)
    found = []
    for made in (layer, last):
        torch.manual_seed(3)
        output, state = made(x)
        shown = output[-1] if made is layer else output
        gradient = torch.autograd.grad(shown.square().sum(), list(made.parameters()))
        found.append([shown, *state, *gradient])
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)

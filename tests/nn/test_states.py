"""Starting states and empty batches, for every layer: what programs written for torch.nn.RNN pass in."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from engram import loops
from engram.errors import DTypeError, OptionError, ShapeError
from engram.models import MODELS
from engram.nn import RAC, S4D, Recurrent
from tiers import slow_but

LAYERS = [name for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)]
KERNELS = ("auto", "torch", "plain")


def tensors(state: object) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else list(state)  # type: ignore[call-overload]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_hx_and_the_initial_state(name: str, bidirectional: bool) -> None:
    layer = MODELS[name].kind(3, 5, 2, bidirectional=bidirectional)
    x = torch.randn(6, 4, 3)
    begin = layer.initial_state(4)  # type: ignore[operator]
    assert all(field.shape[:2] == (2 * layer.directions, 4) for field in tensors(begin))
    found, expected = layer(x, hx=begin), layer(x)
    # float32, sums of about 10 numbers of size 1; S4 adds what the zero state says, by another formula
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    if not bidirectional:
        _, state = layer(x[:2])
        torch.testing.assert_close(layer(x[2:], hx=state)[0], expected[0][2:], atol=1e-5, rtol=1e-5)


def test_a_trained_initial_state_keeps_its_gradient() -> None:
    layer = MODELS["rnn"].kind(3, 5, initial_state="trained")
    layer.initial_state(2).sum().backward()  # type: ignore[operator]
    assert torch.equal(layer.cells[0].start.grad, torch.full((5,), 2.0))  # type: ignore[index,union-attr]


def test_wrong_states_and_batches() -> None:
    layer = S4D(3, 5, state_size=4)
    with pytest.raises(
        ShapeError, match=r"\(1, 2, 5, 2, 2\) \(num_layers \* directions, batch, size of one state;.*\(1, 2, 5\)"
    ):
        layer(torch.randn(6, 2, 3), (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5)))
    with pytest.raises(OptionError, match="batch must be at least 0, got -1"):
        layer.initial_state(-1)
    with pytest.raises(DTypeError, match="batch must be a whole number"):
        layer.initial_state(2.0)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"two_sided layers .* have no state"):
        S4D(3, 5, two_sided=True).initial_state(2)
    with pytest.raises(DTypeError, match=r"state \(hx\) must be a RACState of 2 tensors, got Tensor"):
        RAC(3, 5)(torch.randn(6, 2, 3), torch.zeros(1, 2, 5))


@pytest.mark.parametrize("features", [4, 5])  # odd: the state of S4 then begins at an odd place in memory
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_gradient_of_a_final_state_of_s4d(batch: int, features: int) -> None:
    layer = S4D(3, features, state_size=4)
    sum(part.square().sum() for part in layer(torch.randn(6, batch, 3))[1]).backward()
    assert all(p.grad is not None for p in layer.parameters() if p is not layer.cells[0].space.weight_c)


OPTIONS: list[dict[str, object]] = [{}, {"bidirectional": True}, {"checkpoint_every": 4}, {"batch_first": True}]
IN_TURN = [(name, OPTIONS[k % len(OPTIONS)]) for k, name in enumerate(LAYERS)]
"""Every layer with one of the options."""


@pytest.mark.parametrize(("name", "options"), slow_but(product(LAYERS, OPTIONS), IN_TURN), ids=str)
def test_empty_batches(name: str, options: dict[str, object]) -> None:
    """As torch.nn.RNN: empty results of the right shapes, and a gradient of zero for every weight."""
    layer = MODELS[name].kind(3, 5, 2, **options)
    for kernel in KERNELS:
        layer.zero_grad()
        x = torch.randn((0, 6, 3) if layer.batch_first else (6, 0, 3), requires_grad=True)
        with loops.use(kernel):
            output, state = layer(x)
            again, _ = layer(x, hx=state)
            torch.stack([t.to(output.dtype).abs().sum() for t in (output, *tensors(state))]).sum().backward()
        width = layer.cells[-1].output_size * layer.directions  # type: ignore[index,operator,union-attr]
        assert output.shape == again.shape == (*x.shape[:2], width)
        assert all(s.shape[:2] == (2 * layer.directions, 0) for s in tensors(state))  # type: ignore[operator]
        assert x.grad is not None
        assert x.grad.shape == x.shape
        assert [n for n, p in layer.named_parameters() if p.grad is None or bool(p.grad.any())] == []


def test_an_empty_batch_leaves_the_statistics_of_a_batch_norm_alone() -> None:
    layer = S4D(3, 4, norm="batch")
    layer(torch.randn(6, 0, 3))
    assert torch.equal(layer.cells[0].norm.running_mean, torch.zeros(4))
    assert torch.equal(layer.cells[0].norm.running_var, torch.ones(4))


@pytest.mark.parametrize("shape", [(0, 4, 3), (0, 3), (0, 0, 3)])
@pytest.mark.parametrize("name", LAYERS)
def test_no_steps_are_refused_as_torch_refuses_them(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="sequence length"):
        nn.RNN(3, 5)(torch.zeros(shape))
    with pytest.raises(ShapeError, match=r"at least one step, .* Leave empty sequences out"):
        MODELS[name].kind(3, 5)(torch.zeros(shape))
    if len(shape) == 3:
        with pytest.raises(ShapeError, match=r"at least one step"):
            MODELS[name].kind(3, 5, batch_first=True)(torch.zeros(shape).transpose(0, 1))

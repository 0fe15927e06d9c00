"""torch.func over a layer: functional_call, jacrev, jacfwd, vmap, ensembles of layers."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian
from torch.func import functional_call, grad, jacfwd, jacrev, stack_module_state

from engram.nn import GRU, LEM, LSTM, RNN, AntisymmetricRNN, CoRNN, MinGRU, MinLSTM, Recurrent
from tiers import slow_but

TOLERANCE = 1e-10  # float64, the same mathematics by another road

LAYERS: dict[str, dict[str, Any]] = {
    "free": {},
    "cayley, two layers, bidirectional": {"num_layers": 2, "map": "cayley", "bidirectional": True},
    "modrelu, trained": {"activation": "modrelu", "initial_state": "trained"},
    "complex": {"dtype": torch.complex128},
    "in segments": {"checkpoint_every": 2, "map": "exponential"},
    "last step": {"return_sequence": False, "activation_in": "depth"},
}

# torch's own, when forward-mode differentiation is first used (torch/_decomp/decompositions_for_jvp.py)
forward_mode = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


@pytest.fixture(params=LAYERS.values(), ids=LAYERS.keys())
def layer(request: pytest.FixtureRequest) -> RNN:
    return RNN(3, 4, **{"dtype": torch.float64, **request.param})


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 3, dtype=torch.float64)


def real_output(layer: RNN) -> Callable[[Tensor], Tensor]:
    """jacobians want real functions of real inputs."""

    def call(x: Tensor) -> Tensor:
        output = layer(x)[0]
        return torch.view_as_real(output) if output.is_complex() else output

    return call


def near(found: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(found, right, atol=TOLERANCE, rtol=0)


@forward_mode
def test_jacobians(layer: RNN, x: Tensor) -> None:
    call = real_output(layer)
    right = jacobian(call, x)
    assert float(right.abs().max()) > 0
    near(jacrev(call)(x), right)
    near(jacfwd(call)(x), right)
    near(jacobian(call, x, vectorize=True), right)


@forward_mode
def test_hessian(x: Tensor) -> None:
    def energy(x: Tensor) -> Tensor:
        return RNN_OF_ONE(x)[0].square().sum()

    RNN_OF_ONE = RNN(3, 4, map="cayley", dtype=torch.float64)
    right = torch.autograd.functional.hessian(energy, x)
    near(torch.func.hessian(energy)(x), right)


def test_functional_call(layer: RNN, x: Tensor) -> None:
    """Other weights for one call: as if they were the layer's own, which stay as they are."""
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(0.7)
    before = layer(x)[0]
    near(functional_call(layer, dict(other.named_parameters()), (x,))[0], other(x)[0])
    assert torch.equal(layer(x)[0], before)
    assert not torch.allclose(other(x)[0], before)


def test_vmap_over_an_extra_axis(layer: RNN, x: Tensor) -> None:
    many = torch.stack([x, -x, 2 * x])
    found = torch.vmap(layer)(many)
    for value, right in zip(found, zip(*map(layer, many), strict=True), strict=True):
        near(value, torch.stack(right))


def test_gradient_through_vmap(layer: RNN, x: Tensor) -> None:
    many = torch.stack([x, -x, 2 * x])
    loss = torch.vmap(lambda each: layer(each)[0].abs().sum())(many).sum()
    right = torch.stack([layer(each)[0].abs().sum() for each in many]).sum()
    weights = list(layer.parameters())
    for a, b in zip(torch.autograd.grad(loss, weights), torch.autograd.grad(right, weights), strict=True):
        near(a, b)


def test_gradient_of_each_sample(layer: RNN, x: Tensor) -> None:
    weights = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(weights: dict[str, Tensor], sequence: Tensor) -> Tensor:
        return functional_call(layer, weights, (sequence,))[0].abs().sum()

    each = torch.vmap(grad(loss), in_dims=(None, 1))(weights, x)
    for i in range(x.shape[1]):
        right = torch.autograd.grad(layer(x[:, i])[0].abs().sum(), list(layer.parameters()))
        for name, value in zip(weights, right, strict=True):
            near(each[name][i], value)


def test_ensemble(layer: RNN, x: Tensor) -> None:
    """Three layers with weights (and base points of the map) of their own, run as one."""
    members = [copy.deepcopy(layer) for _ in range(3)]
    for member in members:
        for cell in member.cells:
            if hasattr(cell, "parametrizations"):
                cell.weight_hh = cell.parametrizations.weight_hh[0].sample(dtype=torch.float64)
        with torch.no_grad():
            for p in member.parameters():
                p.add_(0.1 * torch.randn_like(p))
    parameters, buffers = stack_module_state(members)
    found, _ = torch.vmap(lambda p, b: functional_call(layer, (p, b), (x,)))(parameters, buffers)
    near(found, torch.stack([member(x)[0] for member in members]))
    assert not torch.allclose(found[0], found[1])


OTHERS: dict[str, Callable[..., Recurrent]] = {
    "lstm": partial(LSTM, proj_size=2),
    "lstm, normalised": partial(LSTM, proj_size=2, layer_norm=True),
    "gru": GRU,
    "antisymmetric": partial(AntisymmetricRNN, gated=True),
    "cornn": CoRNN,
    "lem": LEM,
    "min-gru in blocks": partial(MinGRU, parallel=True),
    "min-lstm": MinLSTM,
}


@forward_mode
@pytest.mark.parametrize("name", slow_but(OTHERS, OTHERS.keys() - {"lstm, normalised"}))
def test_the_other_recurrences(name: str, x: Tensor) -> None:
    """Jacobians of both modes, one per row of a batch, and second derivatives."""
    layer = OTHERS[name](3, 4, dtype=torch.float64)

    def call(x: Tensor) -> Tensor:
        output: Tensor = layer(x)[0]
        return output

    right = jacobian(call, x)
    assert float(right.abs().max()) > 0
    near(jacrev(call)(x), right)
    near(jacfwd(call)(x), right)
    near(torch.vmap(call, in_dims=1, out_dims=1)(x), call(x))
    assert torch.autograd.gradgradcheck(call, x[:2].clone().requires_grad_())

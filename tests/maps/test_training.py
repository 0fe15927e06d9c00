"""The promise survives training: hundreds of steps of an optimiser, on a loss that pulls at the matrix."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from engram.maps import MAPS, Free, Map, Orthogonal, orthogonality_error

ORTHOGONAL = [name for name, made in MAPS.items() if issubclass(made, Orthogonal)]
# Rounding of one build (of the order of N eps), not of 200 of them: nothing accumulates.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def linear(made: Map, dtype: torch.dtype) -> nn.Linear:
    layer = nn.Linear(made.size, made.size, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(made.sample(dtype=dtype))
    parametrize.register_parametrization(layer, "weight", made.to(dtype))
    return layer


def train(layer: nn.Linear, target: torch.Tensor, steps: int, rate: float) -> list[float]:
    """Adam on |W x - target x|^2; returns the losses."""
    optimiser = torch.optim.Adam(layer.parameters(), rate)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, len(target), dtype=target.dtype)
        loss = (layer(x) - x @ target.T).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", [2, 3, 8, 33])
@pytest.mark.parametrize("name", ORTHOGONAL)
def test_still_orthogonal_after_training(name: str, size: int, dtype: torch.dtype) -> None:
    """200 steps of Adam towards a matrix that is not orthogonal at all."""
    layer = linear(MAPS[name](size), dtype)
    before = layer.weight.detach().clone()
    losses = train(layer, 2 * torch.randn(size, size, dtype=dtype), 200, 0.05)
    after = layer.weight.detach()
    assert (after - before).abs().max() > 0.1, "the matrix did not move: not a test of training"
    assert sum(losses[-20:]) < sum(losses[:20])
    assert orthogonality_error(after) <= TOLERANCE[dtype]
    assert float(torch.det(after)) == pytest.approx(float(torch.det(before)), abs=1e-4)  # float32, N = 33


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_learns_an_orthogonal_matrix(name: str) -> None:
    """A target within reach (same determinant) is found: the parametrisation does not only hold, it trains."""
    made = MAPS[name](6)
    layer = linear(made, torch.float64)
    target = made.sample(dtype=torch.float64)
    if torch.det(target) * torch.det(layer.weight.detach()) < 0:
        target[0] *= -1
    losses = train(layer, target, 600, 0.03)
    assert losses[0] > 0.1
    assert losses[-1] < 1e-6


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_size_one_has_nothing_to_train(name: str) -> None:
    layer = linear(MAPS[name](1), torch.float64)
    before = layer.weight.detach().clone()
    assert sum(p.numel() for p in layer.parameters()) == 0
    train(layer, torch.ones(1, 1, dtype=torch.float64), 3, 0.1)
    assert layer.weight.detach().equal(before)
    assert before.abs() == 1


def test_free_is_free() -> None:
    """Exactly the training of the plain layer, under the map of no promise."""
    plain, mapped = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    mapped.load_state_dict(plain.state_dict())
    parametrize.register_parametrization(mapped, "weight", Free(4))
    for layer in (plain, mapped):
        torch.manual_seed(1)
        train(layer, torch.eye(4), 20, 0.1)
    assert mapped.weight.equal(plain.weight)


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_continues_after_an_assignment(name: str) -> None:
    """Assigning moves the base point; training goes on from there, and the saved state carries it."""
    layer = linear(MAPS[name](5), torch.float64)
    target = torch.randn(5, 5, dtype=torch.float64)
    train(layer, target, 10, 0.05)
    layer.weight = torch.eye(5, dtype=torch.float64)
    train(layer, target, 10, 0.05)
    assert orthogonality_error(layer.weight.detach()) <= TOLERANCE[torch.float64]
    copy = linear(MAPS[name](5), torch.float64)
    copy.load_state_dict(layer.state_dict())
    assert copy.weight.equal(layer.weight)

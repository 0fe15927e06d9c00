"""What every map of the family promises: sample, assign, train, differentiate."""

import pytest
import torch
from table_of_maps import FAMILY
from torch import nn

from engram.errors import ManifoldError
from engram.maps import Map, SoftOrthogonal, StiefelStep, attach, free_parameters, orthogonality_error
from tiers import slow_but

SIZES = (1, 2, 3, 8, 33)
TRAINED_SIZES = (2, 3, 8, 33)
STRUCTURED = ("givens, L=3", "givens, fft", "givens, fft, complex", "fourier")  # their inverse is a search


def install(name: str, size: int, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Map]:
    module, map = nn.Module(), FAMILY[name](size)
    map.install(module, "weight", dtype=dtype)
    return module, map


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FAMILY)
def test_sample_is_contained_and_assigned_exactly(name: str, size: int) -> None:
    module, map = install(name, size)
    assert map.contains(module.weight.detach(), 1e-12)
    fresh = FAMILY[name](size)
    if name == "fourier":
        fresh.permutation.copy_(map.permutation)  # another permutation is another map
    matrix = fresh.sample(dtype=torch.float64)
    if (name in STRUCTURED and size > 3) or ("m=1" in name and size > 1):
        matrix = map.sample(dtype=torch.float64)  # what the map itself drew is remembered; others are searched for
    module.weight = matrix
    assert float((module.weight.detach() - matrix).abs().max()) < 1e-12


@pytest.mark.parametrize("name", [n for n in FAMILY if n not in ("free", "soft-orthogonal", "schur", "schur, block")])
def test_a_matrix_outside_is_refused_with_its_distance(name: str) -> None:
    module, map = install(name, 4)
    before = module.weight.detach().clone()
    with pytest.raises(ManifoldError, match=r"\d away"):
        module.weight = before * 3.0
    assert torch.equal(module.weight, before)
    assert map.distance(before * 3.0) > 0.1


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("name", FAMILY)
def test_operator_equals_dense(name: str, size: int) -> None:
    module, map = install(name, size)
    x = torch.randn(3, size, dtype=torch.float64)
    product = map.operate(x, *free_parameters(module.parametrizations.weight)).detach()
    assert float((product - x.to(module.weight.dtype) @ module.weight.detach().mT).abs().max()) < 1e-12


@pytest.mark.parametrize("name", FAMILY)
def test_gradient(name: str) -> None:
    module, map = install(name, 5)
    free = tuple(
        f.detach().clone() + 0.1 * torch.randn_like(f) for f in free_parameters(module.parametrizations.weight)
    )
    free = tuple(f.requires_grad_() for f in free)
    assert torch.autograd.gradcheck(lambda *f: map(*f), free)


def train(name: str, size: int, dtype: torch.dtype, steps: int, kind: str) -> tuple[nn.Module, Map]:
    """Least squares: the matrix should carry some vectors to others."""
    module, map = install(name, size, dtype)
    x, y = torch.randn(2, 16, size, dtype=dtype)
    parameters = list(module.parameters())
    if not parameters:
        return module, map
    if name == "stiefel":
        optimiser: torch.optim.Optimizer = StiefelStep(parameters, lr=0.05)
    else:
        optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[kind](parameters, lr=0.01)
    attach(optimiser, module)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (x.to(module.weight.dtype) @ module.weight.mT - y).abs().square().mean()
        losses.append(float(loss.detach()))
        (loss + map.penalty(*free_parameters(module.parametrizations.weight))).backward()
        optimiser.step()
    if name != "projected":  # a projected step of Adam need not descend
        assert min(losses[1:]) < losses[0]
    return module, map


def check_promise(module: nn.Module, map: Map, tolerance: float) -> None:
    """To the tolerance, or 4 N eps where that is more: a product of N reflections rounds N times."""
    rounding = 4 * len(module.weight) * torch.finfo(module.weight.dtype).eps
    assert map.error(*free_parameters(module.parametrizations.weight)) < max(tolerance, rounding)


@pytest.mark.parametrize("norm", ["fro", "spectral"])
@pytest.mark.parametrize("size", TRAINED_SIZES)
def test_a_penalty_pulls_a_matrix_to_the_orthogonal_ones(size: int, norm: str) -> None:
    """The soft map has nothing but its penalty, whose descent ends at an orthogonal matrix (not at strength 0)."""
    for strength in (0.0, 1.0):
        soft = SoftOrthogonal(size, strength=strength, norm=norm)
        x = (0.7 * soft.sample(dtype=torch.float64)).requires_grad_()
        x.data[0] *= 1.2  # singular values 0.7 and 0.84: |x^T x - I| <= 0.51, where the descent converges
        optimiser = torch.optim.SGD([x], lr=0.05)
        for _ in range(300):
            optimiser.zero_grad()
            soft.penalty(x).backward()
            optimiser.step()
        assert (orthogonality_error(x.detach()) < 0.02) == (strength > 0)


@pytest.mark.parametrize("size", slow_but(TRAINED_SIZES, {33}))
@pytest.mark.parametrize("name", FAMILY)
def test_promise_after_training_float64(name: str, size: int) -> None:
    check_promise(*train(name, size, torch.float64, 60, "adam"), 1e-11)


@pytest.mark.parametrize("size", slow_but(TRAINED_SIZES, {3}))
@pytest.mark.parametrize("name", FAMILY)
def test_promise_after_training_float32(name: str, size: int) -> None:
    check_promise(*train(name, size, torch.float32, 60, "rmsprop"), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adam", "rmsprop"])
@pytest.mark.parametrize("size", [*TRAINED_SIZES, 128])
@pytest.mark.parametrize("name", FAMILY)
def test_promise_after_500_steps(name: str, size: int, kind: str) -> None:
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-11)):
        check_promise(*train(name, size, dtype, 500, kind), tolerance)

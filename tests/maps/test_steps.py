"""Between optimiser steps: the moving base, projection, multiplicative steps, penalties."""

from typing import Any

import pytest
import torch
from torch import nn

from engram.errors import ManifoldError
from engram.maps import (
    Exponential,
    Projected,
    Schur,
    SoftOrthogonal,
    SpectralMargin,
    Stiefel,
    StiefelStep,
    attach,
    free_parameters,
    haar,
    orthogonality_error,
)
from engram.nn import ExpRNN, NonNormalRNN


def test_the_base_moves_every_k_steps_and_the_matrix_does_not() -> None:
    layer = ExpRNN(2, 6, rebase_every=3, dtype=torch.float64)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1e-3)
    attach(optimiser, layer)
    entry = layer.cells[0].parametrizations.weight_hh
    for step in range(1, 8):
        optimiser.zero_grad()
        layer(torch.randn(4, 2, 2, dtype=torch.float64))[0].square().sum().backward()
        base = entry[0].base.clone()
        optimiser.step()
        moved = not torch.equal(entry[0].base, base)
        assert moved == (step % 3 == 0)
        assert bool(entry.original.any()) != moved
        assert orthogonality_error(layer.weight_hh_l0.detach()) < 1e-13


def test_moving_the_base_changes_no_value() -> None:
    module = nn.Module()
    Exponential(5, rebase_every=1).install(module, "w", dtype=torch.float64)
    entry = module.parametrizations.w
    with torch.no_grad():
        entry.original.normal_()
        before = module.w.clone()
        entry[0].after_step(entry.original)
    # an exponential and a product of orthogonal matrices, each within some N eps = 1e-15
    assert float((module.w.detach() - before).abs().max()) < 1e-13
    assert not entry.original.any()


def test_a_handle_ends_it() -> None:
    module = nn.Module()
    Projected(4).install(module, "w", dtype=torch.float64)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    handle = attach(optimiser, module)
    for attached in (True, False):
        module.w.sum().backward()
        optimiser.step()
        assert (orthogonality_error(module.w.detach()) < 1e-13) == attached
        handle.remove()


@pytest.mark.parametrize("complex", [False, True])
def test_the_multiplicative_step_descends_where_the_printed_one_does_not(complex: bool) -> None:
    """500 random linear losses at a step of 1e-4; the printed generator is that of Wisdom et al. 2016."""
    generator = torch.Generator().manual_seed(0)
    ours = printed = 0
    for _ in range(500):
        w = haar(4, generator, complex)
        c = torch.randn(4, 4, generator=generator, dtype=w.dtype)
        parameter = nn.Parameter(w.clone())

        def loss(m: torch.Tensor, c: torch.Tensor = c) -> torch.Tensor:
            return (c.conj() * m).real.sum()

        loss(parameter).backward()
        g = parameter.grad
        StiefelStep([parameter], lr=1e-4, reproject_every=None).step()
        ours += float(loss(parameter.detach())) < float(loss(w))
        a = g.mH @ w - w.mH @ g
        eye = torch.eye(4, dtype=w.dtype)
        moved = torch.linalg.solve(eye + 0.5e-4 * a, eye - 0.5e-4 * a) @ w
        printed += float(loss(moved)) < float(loss(w))
    assert ours == 500
    assert printed < 400


@pytest.mark.parametrize("alpha", [None, 0.9])
@pytest.mark.parametrize("complex", [False, True])
def test_three_multiplicative_steps_by_hand(complex: bool, alpha: float | None) -> None:
    """W <- (I + lr/2 A)^-1 (I - lr/2 A) W, A = G W^* - W G^*; with alpha G is first divided by the root of the mean of
    |G|^2, m <- alpha m + (1 - alpha) |G|^2, plus eps."""
    w, lr, eps = haar(5, torch.Generator().manual_seed(1), complex), 0.3, 1e-3
    parameter = nn.Parameter(w.clone())
    optimiser = StiefelStep([parameter], lr=lr, alpha=alpha, eps=eps, reproject_every=None)
    mean, eye = torch.zeros(5, 5, dtype=torch.float64), torch.eye(5, dtype=w.dtype)
    for seed in (2, 3, 4):
        g = torch.randn(5, 5, generator=torch.Generator().manual_seed(seed), dtype=w.dtype)
        parameter.grad = g.clone()
        optimiser.step()
        if alpha is not None:
            mean = alpha * mean + (1 - alpha) * g.abs() ** 2
            g = g / (mean**0.5 + eps)
        a = lr / 2 * (g @ w.mH - w @ g.mH)
        w = torch.linalg.inv(eye + a) @ (eye - a) @ w
        torch.testing.assert_close(parameter.detach(), w, atol=1e-12, rtol=0)


def test_both_sides_of_a_margin_are_rebased() -> None:
    """U and V each move to their matrix and their entries to zero; W and the singular values stay."""
    map = SpectralMargin(5, rebase_every=2).double()
    left, right, p = (f + 0.4 * torch.randn_like(f) for f in map.sample_free(None))
    before, sides = map(left, right, p), (map.left(left).clone(), map.right(right).clone())
    kept = p.clone()
    map.after_step(left, right, p)
    assert left.any()
    assert right.any()
    map.after_step(left, right, p)
    assert not left.any()
    assert not right.any()
    for side, matrix in zip((map.left, map.right), sides, strict=True):
        torch.testing.assert_close(side.base, matrix, atol=1e-13, rtol=0)
    assert torch.equal(p, kept)
    torch.testing.assert_close(map(left, right, p), before, atol=1e-12, rtol=0)


def test_the_base_is_projected_after_thirty_moves() -> None:
    """Rounding that has gathered in the base, here 1e-6 of it, is removed at the 30th move and not before."""
    map = Exponential(6, rebase_every=2).double()
    map.base.copy_(haar(6) + 1e-6 * torch.randn(6, 6, dtype=torch.float64))
    entries = torch.zeros(15, dtype=torch.float64)
    for step in range(1, 61):
        map.after_step(entries)
        assert (orthogonality_error(map.base) < 1e-13) == (step == 60)


def test_reprojection_stops_the_drift() -> None:
    errors = {}
    for every in (None, 10):
        torch.manual_seed(0)
        module = nn.Module()
        Stiefel(30).install(module, "w", dtype=torch.float32)
        optimiser = StiefelStep(module.parameters(), lr=0.01, alpha=0.9, reproject_every=every)
        target = torch.randn(30, 30)
        for _ in range(200):
            optimiser.zero_grad()
            (module.w - target).square().sum().backward()
            optimiser.step()
        errors[every] = orthogonality_error(module.w.detach())
    assert errors[10] < 0.5 * errors[None] < 1e-4


def test_penalties() -> None:
    """delta sum (1 - gamma)^2 + tau/2 |T|^2, and the decay touches T only."""
    layer = NonNormalRNN(2, 5, gamma_penalty=0.3, decay=0.7, dtype=torch.float64)
    free = free_parameters(layer.cells[0].parametrizations.weight_hh)
    with torch.no_grad():
        for f in free:
            f.normal_()
    _, lower, _, gamma = free
    expected = 0.3 * (1 - gamma).square().sum() + 0.35 * lower.square().sum()
    assert float((layer.penalty() - expected).detach().abs()) < 1e-12
    layer.penalty().backward()
    assert torch.allclose(lower.grad, 0.7 * lower.detach())
    assert free[2].grad is None or not free[2].grad.any()
    w = torch.randn(4, 4, dtype=torch.float64)
    soft = SoftOrthogonal(4, strength=2.0)
    assert float(soft.penalty(w)) == pytest.approx(2 * float((w.T @ w - torch.eye(4)).square().sum()))
    spectral = SoftOrthogonal(4, strength=2.0, norm="spectral")
    assert float(spectral.penalty(w)) == pytest.approx(
        2 * float(torch.linalg.matrix_norm(w.T @ w - torch.eye(4), 2)) ** 2
    )


@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("gamma", [None, 2.0])
def test_each_part_of_a_penalty_alone(gamma: float | None, delta: float, decay: float) -> None:
    """T of 2 and -1 has the square 5; gammas of 3 and 0 are 2 and 1 away from 1, which says nothing of a fixed one."""
    map = Schur(4, gamma=gamma, gamma_penalty=delta, decay=decay)
    lower = torch.tensor([2.0, -1, 0, 0, 0, 0], dtype=torch.float64)
    free = [torch.ones(6, dtype=torch.float64), lower, torch.tensor([7.0, 8.0], dtype=torch.float64)]
    free += [torch.tensor([3.0, 0.0], dtype=torch.float64)] if gamma is None else []
    expected = decay * 5 / 2 + (delta * 5 if gamma is None else 0.0)
    assert float(map.penalty(*free)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("norm", "expected"), [("fro", 2.0 * (9 + 0.5625)), ("spectral", 2.0 * 9)])
def test_the_penalty_of_a_complex_matrix(norm: str, expected: float) -> None:
    """W^* W - I of a unitary matrix times diag(2, 1/2, 1) is diag(3, -3/4, 0) whatever the unitary matrix is."""
    soft = SoftOrthogonal(3, strength=2.0, norm=norm)
    unitary = torch.linalg.qr(torch.randn(3, 3, dtype=torch.complex128))[0]
    assert float(soft.penalty(unitary)) < 1e-28  # the square of a rounding
    scaled = unitary * torch.tensor([2, 0.5, 1], dtype=torch.complex128)
    assert float(soft.penalty(scaled)) == pytest.approx(expected, rel=1e-12)


def test_block_mask_keeps_the_moduli_and_full_does_not() -> None:
    """Kerg et al. 2019, where it is not said: with t inside a block |lambda|^2 = gamma^2 + gamma t sin(theta)."""
    torch.manual_seed(3)
    for mask in ("block", "full"):
        map = Schur(8, mask)
        entries, lower, theta, gamma = map.sample_free(None)
        matrix = map.double_forward(entries, 0.3 * torch.randn_like(lower), theta, gamma)
        moduli = torch.linalg.eigvals(matrix).abs()
        assert (float((moduli - 1).abs().max()) < 1e-8) == (mask == "block")
    small = Schur(2)
    t, theta = torch.tensor([0.3]).double(), torch.tensor([1.0]).double()
    inner = small.theta_matrix(t, theta, torch.ones(1).double())
    assert float(torch.linalg.eigvals(inner).abs().max()) == pytest.approx(1.119, abs=1e-3)


def test_what_a_step_projects_by_default() -> None:
    """After every tenth step, and not before; None never does."""
    for options, projected in (({}, [10, 20]), ({"reproject_every": 3}, [3, 6, 9, 12, 15, 18]), (NEVER, [])):
        parameter = nn.Parameter(haar(4))
        optimiser = StiefelStep([parameter], lr=1e-3, **options)
        found = []
        for step in range(1, 21):
            parameter.data.mul_(1 + 1e-6)
            parameter.grad = torch.zeros(4, 4, dtype=torch.float64)
            optimiser.step()
            if orthogonality_error(parameter.detach()) < 1e-13:
                found.append(step)
        assert found == projected


NEVER: dict[str, Any] = {"reproject_every": None}


def test_a_matrix_that_was_float32_is_taken_in_double() -> None:
    """As a run does with precision 64-true; and it is orthogonal to the last digits then."""
    weight = torch.nn.Parameter(haar(6).float().double())
    assert orthogonality_error(weight.detach()) > 1e-9
    StiefelStep([weight], lr=0.1)
    assert orthogonality_error(weight.detach()) < 1e-13
    with pytest.raises(ManifoldError, match=r"this one is .* away"):
        StiefelStep([torch.nn.Parameter(haar(6) + 1e-3)], lr=0.1)


def test_each_of_two_optimisers_moves_the_base() -> None:
    """One holds the angles and another the singular values: whoever moves a part of a map ends the step for it."""
    module = nn.Module()
    SpectralMargin(5, rebase_every=1).install(module, "w", dtype=torch.float64)
    *angles, _ = free_parameters(module.parametrizations.w)
    optimiser = torch.optim.SGD(angles, lr=0.1)
    attach(optimiser, module)
    (module.w * torch.randn(5, 5)).sum().backward()
    optimiser.step()
    assert not any(entries.any() for entries in angles)

"""What a signal reaches of a large state, against the whole Jacobian."""

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.probe import _reached, fisher_memory
from engram.probe._reached import reached
from engram.probe.fisher._lower_bound import lower_bound


def _system(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """W of spectral radius 0.95, U, and the direction of the signal."""
    generator = torch.Generator().manual_seed(size)
    matrix = torch.randn(size, size, generator=generator, dtype=torch.float64)
    matrix *= 0.95 / float(torch.linalg.eigvals(matrix).abs().max())
    inputs = torch.randn(size, 2, generator=generator, dtype=torch.float64)
    return matrix, inputs, inputs.sum(1) / 2**0.5


def _reach(matrix: Tensor, inputs: Tensor) -> _reached.Reached:
    zero = torch.zeros(len(matrix), dtype=torch.float64)
    return reached(lambda h, x: h @ matrix.T + x @ inputs.T, zero, zero[:2])


def test_exact_where_all_is_reached() -> None:
    matrix, inputs, signal = _system(24)
    found = _reach(matrix, inputs)
    assert found.basis.shape == (24, 24)
    (ours, growth), theirs = lower_bound(found, 30), fisher_memory(matrix, signal, lags=30, steps=30)
    np.testing.assert_allclose(ours, theirs.matrix, atol=1e-9)
    np.testing.assert_allclose(growth, theirs.growth)
    sizes = [torch.linalg.eigvals(each).abs().sort().values for each in (found.matrix, matrix)]
    torch.testing.assert_close(*sizes)


def test_a_part_is_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every lag, and of the norm; more directions tell more."""
    matrix, inputs, signal = _system(40)
    whole = fisher_memory(matrix, signal, lags=20, steps=20)
    totals = []
    for directions in (4, 12, 30):
        monkeypatch.setattr(_reached, "DIRECTIONS", directions)
        found = _reach(matrix, inputs)
        assert found.basis.shape == (40, directions)
        torch.testing.assert_close(found.basis.T @ found.basis, torch.eye(directions, dtype=torch.float64))
        torch.testing.assert_close(found.matrix, found.basis.T @ matrix @ found.basis)
        ours, _ = lower_bound(found, 20)
        assert (ours.diagonal() <= whole.curve * (1 + 1e-9)).all()
        totals.append(ours.trace())
    assert totals == sorted(totals)
    assert 0.5 * whole.total < totals[-1] < whole.total


def test_it_ends_where_nothing_new_comes() -> None:
    """A delay line of 5 among 9 units."""
    matrix = torch.zeros(9, 9, dtype=torch.float64)
    matrix[1:5, :4] = torch.eye(4)
    inputs = torch.eye(9, dtype=torch.float64)[:, :1].repeat(1, 2)
    found = _reach(matrix, inputs)
    assert found.basis.shape == (9, 5)
    assert lower_bound(found, 8)[0].diagonal() == pytest.approx([2 / (k + 1) for k in range(5)] + [0.0] * 3)

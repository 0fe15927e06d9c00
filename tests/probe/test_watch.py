"""The numbers of ``engram train --probe-every``, by hand."""

import numpy as np
import pytest
import torch

from engram.probe import watch
from engram.tasks import Copy, seeded
from engram.train import Settings, make_network


def test_numbers_by_hand() -> None:
    """W = diag(0.5, -0.9) + 2 above the diagonal: radius 0.9; singular values and W'W - I from numpy."""
    task = Copy(delay=120, length=2)
    network = make_network(Settings.of(task, "rnn", hidden=2))
    matrix = np.array([[0.5, 2.0], [0.0, -0.9]])
    with torch.no_grad():
        network.core.weight_hh_l0.copy_(torch.from_numpy(matrix))
    found = watch(network, task)
    assert found["radius"] == pytest.approx(0.9, rel=1e-6)
    assert found["norm"] == pytest.approx(np.linalg.svd(matrix, compute_uv=False)[0], rel=1e-6)
    assert found["drift"] == pytest.approx(np.abs(matrix.T @ matrix - np.eye(2)).max(), rel=1e-6)

    inputs = task.sample(2, seeded(0, "probe")).inputs[:100].to(network.dtype).requires_grad_()
    last = network(inputs)[0][-1]
    squares = sum(
        torch.autograd.grad(last[:, k].sum(), inputs, retain_graph=True)[0].square().sum(-1)
        for k in range(last.shape[1])
    )
    norms = squares.mean(1).sqrt().flip(0)
    assert found["reach"] == pytest.approx(float(norms[-1] / norms.max()), rel=1e-4, abs=1e-30)
    large = int((norms >= 0.01 * norms.max()).nonzero().max())
    assert found["horizon"] == (100 if large == 99 else large + 1)


def test_short_sequences_have_no_gradient_numbers() -> None:
    task = Copy(delay=1, length=1)
    assert task.steps < 8
    assert set(watch(make_network(Settings.of(task, "rnn", hidden=3)), task)) == {"radius", "norm", "drift"}

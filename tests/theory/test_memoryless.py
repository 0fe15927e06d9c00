"""The search for memoryless orthogonal networks: what a candidate computes, and what is said of the best one."""

from statistics import median

import numpy as np
import pytest
import torch

from engram.maps import orthogonality_error
from engram.theory import Candidate, search_memoryless


def by_hand(candidate: Candidate, x: np.ndarray) -> np.ndarray:
    """h_t = relu(W h_{t-1} + F x_t + b), y_t = C h_t, step by step for one sequence ``(T, n)``."""
    W, F, b, C = (part.numpy() for part in candidate)
    h, outputs = np.zeros(len(W)), []
    for step in x:
        h = np.maximum(W @ h + F @ step + b, 0)
        outputs.append(C @ h)
    return np.array(outputs)


def test_outputs_of_several_networks() -> None:
    """Two networks of three states, over five sequences of four steps of two numbers."""
    both = Candidate(*(torch.randn(2, *shape).double() for shape in ((3, 3), (3, 2), (3,), (2, 3))))
    x = torch.randn(4, 5, 2).double()
    found = both.outputs(x, torch.relu)
    assert found.shape == (2, 4, 5, 2)
    for k in range(2):
        for row in range(5):
            right = by_hand(Candidate(*(part[k] for part in both)), x[:, row].numpy())
            np.testing.assert_allclose(found[k, :, row], right, rtol=1e-12, atol=1e-12)


def test_the_residual_and_its_share() -> None:
    """On other sequences of 4 steps, uniform in [-2, 2]: relu(x) has the mean 1/2 and the mean square 2/3."""
    found = search_memoryless(torch.relu, 1, 1, restarts=4, rounds=3)
    assert orthogonality_error(found.candidate.W) < 1e-12
    x = np.random.default_rng(0).uniform(-2, 2, (1500, 4, 1))
    errors = np.array([by_hand(found.candidate, each) for each in x]) - np.maximum(x, 0)
    # Means of 2,048 and 6,000 numbers that are not far from normal: deviations of some 2 %, and four of them.
    assert found.residual == pytest.approx(np.sqrt((errors**2).mean()), rel=0.09)
    assert found.residual / found.share == pytest.approx(np.sqrt(2 / 3 - 1 / 4), rel=0.09)


def test_the_best_of_all_restarts() -> None:
    """Hardly trained, the best of 64 is better than most single ones, and the worst would be worse."""
    one = [search_memoryless(torch.relu, 1, 2, restarts=1, rounds=2, seed=seed).residual for seed in range(7)]
    assert search_memoryless(torch.relu, 1, 2, restarts=64, rounds=2).residual < median(one) / 2

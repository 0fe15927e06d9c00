"""Several Python threads inside a kernel at once, and several threads inside one call."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from engram.kernels import free_workspaces, use


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_number_of_threads_does_not_change_the_result(
    kernel: str, count: int, problem: Callable[..., Any], outcome: Callable[..., Any], threads: Callable[[int], Any]
) -> None:
    """The rows of a batch never meet, so the states are equal to the bit; weight gradients are summed over rows."""
    for batch in (1, 2, 5, 29):
        case = problem(7, batch, 2, 33, packed=True, activation="modrelu")
        single = outcome(case, kernel)
        with threads(count):
            found = outcome(case, kernel)
        for name, right in single.items():
            # float64 sums of at most 7 * 29 terms in another order; eager products may split with the threads too
            torch.testing.assert_close(found[name], right, rtol=0, atol=1e-12 * max(1, float(right.abs().max())))


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_python_threads_side_by_side(
    kernel: str, packed: bool, problem: Callable[..., Any], outcome: Callable[..., Any]
) -> None:
    """Four workers over 40 different problems: to the bit what one worker finds alone."""
    cases = [problem(5 + seed % 4, 1 + seed % 17, 3, 1 + seed, seed=seed, packed=packed) for seed in range(40)]
    with use(kernel), ThreadPoolExecutor(4) as pool:  # a choice is for the whole process, so all make the same
        alone = [outcome(case, kernel) for case in cases]
        together = list(pool.map(lambda case: outcome(case, kernel), cases))
    assert len(together) == 40
    for found, right in zip(together, alone, strict=True):
        assert found.keys() == right.keys()
        assert all(found[name].equal(value) for name, value in right.items())


def test_freeing_workspaces_between_calls(
    kernel: str, problem: Callable[..., Any], outcome: Callable[..., Any]
) -> None:
    """The memory of a call is no part of its result: what it held may be overwritten or freed at any time."""
    case = problem(6, 5, 2, 9)
    first = outcome(case, kernel)
    kept = {name: value.clone() for name, value in first.items()}
    assert free_workspaces() > 0
    outcome(problem(6, 5, 2, 9, seed=1), kernel)  # writes over what was lent before
    again = outcome(case, kernel)
    assert len(kept) == 7
    assert all(first[name].equal(value) and again[name].equal(value) for name, value in kept.items())

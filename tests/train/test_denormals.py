"""Denormal numbers are zero inside the block, and as before after it."""

import pytest
import torch

from engram.train._denormals import without_denormals


def tiny() -> float:
    return float(torch.tensor([1e-39]) * 1.0)


@pytest.mark.parametrize("flushed", [False, True])
def test_only_inside(flushed: bool) -> None:
    if not torch.set_flush_denormal(flushed):
        pytest.skip("this processor has no such mode")
    try:
        with without_denormals():
            assert tiny() == 0
        assert (tiny() == 0) == flushed
        with pytest.raises(KeyError), without_denormals():
            raise KeyError
        assert (tiny() == 0) == flushed
    finally:
        torch.set_flush_denormal(False)


def test_threads_are_given_back() -> None:
    """So many inside, or as many as before; after it those from before, also if something was raised."""
    before = torch.get_num_threads()
    inside = []

    def work() -> None:
        inside.append(torch.get_num_threads())
        raise KeyError

    try:
        torch.set_num_threads(3)
        for threads in (2, 0):
            with pytest.raises(KeyError), without_denormals(threads):
                work()
            assert torch.get_num_threads() == 3
        assert inside == [2, 3]
    finally:
        torch.set_num_threads(before)

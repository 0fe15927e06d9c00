"""Lent memory: reused, never lent twice, thread-safe, bounded, and freed on request."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.loops import _memory, free_workspaces
from engram.loops._memory import LARGE, empty

LIKE = torch.empty(0)
COUNT = LARGE // 4  # the smallest number of float32 that is lent


@pytest.fixture(autouse=True)
def _nothing_idle() -> Iterator[None]:
    gc.collect()
    free_workspaces()
    yield
    free_workspaces()


def idle() -> list[int]:
    """The bytes of each block that waits to be used again."""
    _memory._collect()
    return sorted(len(block) for block in _memory._idle)


def test_memory_is_reused() -> None:
    first = empty((8, COUNT), LIKE)
    address = first.data_ptr()
    assert (first.shape, first.dtype, first.is_contiguous(), address % 64) == ((8, COUNT), torch.float32, True, 0)
    assert not first._is_view()
    del first
    second = empty((2, 3, COUNT), LIKE)  # smaller, of another shape
    assert second.data_ptr() == address
    assert second.shape == (2, 3, COUNT)


def test_small_arrays_are_left_to_torch() -> None:
    small = empty((COUNT - 1,), LIKE)
    del small
    assert idle() == []


def test_the_smallest_that_fits_is_lent() -> None:
    large, small = empty((20 * COUNT,), LIKE), empty((12 * COUNT,), LIKE)
    addresses = large.data_ptr(), small.data_ptr()
    del large, small
    assert empty((11 * COUNT,), LIKE).data_ptr() == addresses[1]
    assert empty((15 * COUNT,), LIKE).data_ptr() == addresses[0]


def test_much_too_large_a_block_is_not_lent() -> None:
    large = empty((20 * COUNT,), LIKE)
    address = large.data_ptr()
    del large
    assert empty((2 * COUNT,), LIKE).data_ptr() != address


def test_a_view_keeps_the_memory() -> None:
    """A block comes back when the last tensor that sees it is gone."""
    view = empty((8, COUNT), LIKE)[3].view(2, -1)
    other = empty((8, COUNT), LIKE)
    assert not (view.data_ptr() < other.data_ptr() + other.nbytes and other.data_ptr() < view.data_ptr() + view.nbytes)
    assert idle() == []
    del view, other
    assert idle() == [8 * LARGE] * 2


@given(sizes=st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=8))
def test_loans_never_overlap(sizes: list[tuple[int, bool]]) -> None:
    """Whatever is lent and given back in between, each tensor keeps what was written to it."""
    held: list[tuple[int, Tensor]] = []
    for mark, (size, drop) in enumerate(sizes):
        held.append((mark, empty((size, COUNT), LIKE).fill_(mark)))
        if drop:
            held.pop(0)
        assert all(bool((tensor == number).all()) for number, tensor in held)


def test_what_is_idle_is_bounded() -> None:
    """Never more than what was in use at once."""
    for size in (1, 3, 6, 4, 2, 5):
        tensor = empty((size * COUNT,), LIKE)
        del tensor
        assert sum(idle()) <= 6 * LARGE


def test_returned_after_an_exception() -> None:
    def fails() -> None:
        tensor = empty((COUNT,), LIKE)
        raise KeyError(tensor.shape)

    with pytest.raises(KeyError) as caught:
        fails()
    del caught
    gc.collect()
    assert idle() == [LARGE]


def test_freed_on_request() -> None:
    held = empty((COUNT,), LIKE), empty((COUNT,), LIKE.double())
    assert free_workspaces() == 0  # what is lent out is not idle
    del held
    assert free_workspaces() == 3 * LARGE
    assert free_workspaces() == 0
    assert idle() == []


def test_threads_get_memory_of_their_own() -> None:
    """Four threads, at once, over and over: each finds what it wrote, and no more is kept than they used."""
    barrier = Barrier(4)

    def work(mark: int) -> bool:
        right = True
        for turn in range(100):
            if turn % 20 == 0:
                barrier.wait(timeout=600)
            tensor = empty((1 + turn % 4, COUNT), LIKE)
            tensor.fill_(mark)
            if mark == 0 and turn % 50 == 0:
                free_workspaces()  # the others hold theirs
            right &= bool((tensor == mark).all())
            del tensor
        return right

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4
    assert sum(idle()) <= 4 * 4 * LARGE


def test_lent_in_inference_mode_and_in_training() -> None:
    """What inference made must not be an inference tensor: the next training step writes to it."""
    with torch.inference_mode():
        first = empty((COUNT,), LIKE).fill_(1)
        address = first.data_ptr()
        del first
    again = empty((COUNT,), LIKE).fill_(2)
    assert again.data_ptr() == address
    assert not again.is_inference()


def test_other_devices_are_left_to_torch() -> None:
    tensor = empty((8, COUNT), torch.empty(0, device="meta"))
    assert tensor.device.type == "meta"
    del tensor
    assert idle() == []

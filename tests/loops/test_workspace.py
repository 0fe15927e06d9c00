"""The pool of workspaces: reused, re-entrant, thread-safe, bounded, and freed on request."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engram.loops import _workspace, free_workspaces
from engram.loops._workspace import KEEP, borrow

LIKE = torch.empty(0)


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    free_workspaces()
    yield
    free_workspaces()


def pooled() -> list[int]:
    """The number of elements of each kept float32 buffer, largest first."""
    return [buffer.numel() for buffer in _workspace._free.get(torch.float32, [])]


def test_memory_is_reused() -> None:
    with borrow((8, 4), LIKE) as first:
        address = first.data_ptr()
        assert (first.shape, first.dtype, first.is_contiguous()) == ((8, 4), torch.float32, True)
    with borrow((2, 3, 5), LIKE) as second:  # smaller, of another shape
        assert second.data_ptr() == address
        assert second.shape == (2, 3, 5)
    assert pooled() == [32]


def test_the_smallest_that_fits_is_lent() -> None:
    with borrow((100,), LIKE) as large, borrow((10,), LIKE) as small:
        addresses = large.data_ptr(), small.data_ptr()
    with borrow((5,), LIKE) as again:
        assert again.data_ptr() == addresses[1]
    with borrow((50,), LIKE) as again:
        assert again.data_ptr() == addresses[0]


def test_dtypes_do_not_mix() -> None:
    with borrow((8,), LIKE) as single:
        pass
    with borrow((4,), LIKE.double()) as double:
        assert double.dtype == torch.float64
        assert double.data_ptr() != single.data_ptr()


@given(shapes=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=6))
def test_nested_loans_never_overlap(shapes: list[list[int]]) -> None:
    """Re-entrant: a call inside a call is lent other memory. At most KEEP buffers are kept afterwards."""

    def nest(rest: list[list[int]], held: list[torch.Tensor]) -> None:
        if not rest:
            assert [int(x.min()) for x in held if x.numel()] == [i for i, x in enumerate(held) if x.numel()]
            return
        with borrow(rest[0], LIKE) as buffer:
            assert list(buffer.shape) == rest[0]
            nest(rest[1:], [*held, buffer.fill_(len(held))])

    nest(shapes, [])
    assert len(pooled()) <= KEEP
    assert pooled() == sorted(pooled(), reverse=True)


def test_returned_after_an_exception() -> None:
    with pytest.raises(KeyError), borrow((8,), LIKE):
        raise KeyError
    assert pooled() == [8]


def test_freed_on_request() -> None:
    with borrow((1000,), LIKE), borrow((10,), LIKE.double()):
        assert free_workspaces() == 0  # what is lent out is not the pool's to free
    assert free_workspaces() == 1000 * 4 + 10 * 8
    assert free_workspaces() == 0
    assert not pooled()


def test_the_largest_are_kept() -> None:
    with ExitStack() as stack:
        for size in (1, 3, 6, 4, 2, 5):
            stack.enter_context(borrow((size,), LIKE))
    assert pooled() == [6, 5, 4, 3]


def test_threads_get_memory_of_their_own() -> None:
    """Four threads, at once, over and over: each finds what it wrote, and the pool does not grow."""
    barrier = Barrier(4)

    def work(mark: int) -> bool:
        right = True
        for turn in range(200):
            if turn % 20 == 0:
                barrier.wait(timeout=600)
            with borrow((64, 1 + turn % 7), LIKE) as buffer:
                buffer.fill_(mark)
                if mark == 0 and turn % 50 == 0:
                    free_workspaces()  # the others hold theirs
                right &= bool((buffer == mark).all())
        return right

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4
    assert 1 <= len(pooled()) <= KEEP


def test_lent_in_inference_mode_and_in_training() -> None:
    """What inference made must not be an inference tensor: the next training step writes to it."""
    with torch.inference_mode(), borrow((8,), LIKE) as buffer:
        buffer.fill_(1)
    with borrow((8,), LIKE) as again:
        assert again.data_ptr() == buffer.data_ptr()
        again.fill_(2)
    with torch.inference_mode(), borrow((8,), LIKE) as third:
        third.fill_(3)
    assert not again.is_inference()


def test_other_devices_are_left_to_torch() -> None:
    with borrow((8, 4), torch.empty(0, device="meta")) as buffer:
        assert buffer.device.type == "meta"
    assert not _workspace._free

"""The backward pass in chunks of steps: the cuts do not show."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.loops import _chunks

ROW = 5 * 8  # bytes of one row: 5 units of float64
# Of one step, of two, of five with a remainder, and of all.
CHUNK_BYTES = [1, 2 * 4 * ROW, 5 * 4 * ROW, 1000 * ROW]


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
@pytest.mark.parametrize("activation", ["tanh", "modrelu"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_chunks_equal_the_reference(
    kernel: str,
    packed: bool,
    reverse: bool,
    activation: str,
    chunk_bytes: int,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gradients carried over every cut: 1e-10 in float64, as without cuts."""
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", chunk_bytes)
    case = problem(12, 4, 3, 5, packed=packed, reverse=reverse, activation=activation, seed=4)
    for graded in (["states", "final"], ["final"], ["states"]):
        assert_same(outcome(case, kernel, graded=graded), outcome(case, "plain", graded=graded), 1e-10)


@pytest.mark.parametrize("needs", ["input", "weight_ih", "weight_hh", "bias", "start"])
def test_one_gradient_over_many_chunks(
    kernel: str,
    needs: str,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 1)
    case = problem(9, 4, 3, 5, packed=True)
    assert_same(outcome(case, kernel, needs=[needs]), outcome(case, "plain", needs=[needs]), 1e-10)


SIZES = [None, torch.tensor([4, 4, 3, 1, 1, 1, 1])]


@pytest.mark.parametrize("sizes", SIZES, ids=["dense", "packed"])
@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
def test_cuts_cover_every_row_once(sizes: Tensor | None, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks follow each other without gap or overlap, in either direction, and each holds whole steps."""
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", chunk_bytes)
    states = torch.empty((7, 4, 5) if sizes is None else (15, 5), dtype=torch.float64)
    cuts = _chunks.cut(states, sizes, reverse=False, backwards=False)
    assert [cut.begin for cut in cuts] == [0, *(cut.end for cut in cuts[:-1])]
    assert cuts[-1].end == states.numel() // 5
    assert [cut.entering for cut in cuts] == [0, *(cut.alive for cut in cuts[1:])]  # all rows begin at the first step
    for reverse in (False, True):
        backwards = _chunks.cut(states, sizes, reverse, backwards=True)
        assert [cut[:3] for cut in backwards] == [cut[:3] for cut in (cuts if reverse else cuts[::-1])]
    assert [cut.entering for cut in backwards] == [*(cut.alive for cut in backwards[1:]), 0]
    if chunk_bytes == 1:
        assert len(cuts) == 7
    for begin, end, alive, _, size in cuts:
        assert end - begin == (int(size.sum()) if size is not None else (end - begin) // 4 * 4)
        assert alive == (4 if size is None else size[0])


def test_memory_of_the_backward_pass_is_one_chunk(
    kernel: str, problem: Callable[..., Any], outcome: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is borrowed never exceeds the limit (here: ten steps), however long the sequence."""
    borrowed: list[int] = []
    borrow = _chunks.borrow

    def spy(shape: tuple[int, ...], like: Tensor) -> Any:
        borrowed.append(like.element_size() * shape[0] * shape[1])
        return borrow(shape, like)

    monkeypatch.setattr(_chunks, "borrow", spy)
    monkeypatch.setattr(_chunks, "CHUNK_BYTES", 10 * 4 * ROW)
    outcome(problem(200, 4, 3, 5), kernel)
    assert len(borrowed) == 20
    assert max(borrowed) <= 10 * 4 * ROW

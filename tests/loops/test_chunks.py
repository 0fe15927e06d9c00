"""The backward pass in chunks of steps: the cuts do not show."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from engram.loops import _run
from engram.loops._layout import Span

ROW = 5 * 8  # bytes of one row: 5 units of float64
# Of one step, of two, of five with a remainder, and of all.
CHUNK_BYTES = [1, 2 * 4 * ROW, 5 * 4 * ROW, 1000 * ROW]


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
@pytest.mark.parametrize("activation", ["tanh", "modrelu"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_chunks_equal_the_reference(
    executor: str,
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
    for name in ("CHUNK_BYTES", "TORCH_CHUNK_BYTES"):
        monkeypatch.setattr(_run, name, chunk_bytes)
    case = problem(12, 4, 3, 5, packed=packed, reverse=reverse, activation=activation, seed=4)
    for graded in (["states", "final"], ["final"], ["states"]):
        assert_same(outcome(case, executor, graded=graded), outcome(case, "plain", graded=graded), 1e-10)


@pytest.mark.parametrize("needs", ["input", "weight_ih", "weight_hh", "bias", "start"])
def test_one_gradient_over_many_chunks(
    executor: str,
    needs: str,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    assert_same: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CHUNK_BYTES", "TORCH_CHUNK_BYTES"):
        monkeypatch.setattr(_run, name, 1)
    case = problem(9, 4, 3, 5, packed=True)
    assert_same(outcome(case, executor, needs=[needs]), outcome(case, "plain", needs=[needs]), 1e-10)


SIZES = [[4] * 7, [4, 4, 3, 1, 1, 1, 1]]


@pytest.mark.parametrize("alive", SIZES, ids=["dense", "packed"])
@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
def test_cuts_cover_every_row_once(alive: list[int], chunk_bytes: int) -> None:
    """Chunks follow each other without gap or overlap, in either direction, and each holds whole steps."""
    whole = Span.whole(alive, reverse=False)
    cuts = whole.chunks(ROW, chunk_bytes, backwards=False)
    assert [cut.start for cut in cuts] == [0, *(cut.end for cut in cuts[:-1])]
    assert cuts[-1].end == 7
    assert [row for cut in cuts for row in range(cut.rows.start, cut.rows.stop)] == list(range(sum(alive)))
    assert [t for cut in cuts for t in cut.order()] == list(range(7))
    assert (len(cuts) == 7) == (chunk_bytes == 1)
    for reverse in (False, True):
        backwards = Span.whole(alive, reverse).chunks(ROW, chunk_bytes, backwards=True)
        assert [t for cut in backwards for t in cut.order()] == (list(range(7)) if reverse else list(range(7))[::-1])
    assert [cut.end - cut.start for cut in backwards] == [cut.end - cut.start for cut in cuts]


def test_memory_of_the_backward_pass_is_one_chunk(
    executor: str, problem: Callable[..., Any], outcome: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays that the backward pass makes beside its results never exceed the limit (here: ten steps)."""
    made: list[int] = []
    new_array = _run.new_array

    def spy(plan: Any, value: int, rows: int, reference: Tensor) -> Tensor:
        array = new_array(plan, value, rows, reference)
        made.append(array.numel() * array.element_size())
        return array

    for name in ("CHUNK_BYTES", "TORCH_CHUNK_BYTES"):  # one row of what the loop leaves behind
        monkeypatch.setattr(_run, name, 10 * 4 * ROW)
    monkeypatch.setattr(_run, "new_array", spy)
    outcome(problem(200, 4, 3, 5), executor)
    whole = [size for size in made if size > 10 * 4 * ROW]
    assert len(whole) == 2, "states, and the gradient of the input"
    assert len(made) - len(whole) == 20

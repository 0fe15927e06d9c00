"""The plain loop for any step: states of one tensor or of several, dense or packed, either direction."""

from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.loops import linear_scan, linear_scan_last, scan
from engram.loops._layout import Arrays, Span
from engram.loops._program import Source
from engram.state import each, first_rows, replace_rows


class Pair(NamedTuple):
    total: Tensor
    count: Tensor


def step(drive: Tensor, state: Pair) -> Pair:
    return Pair(state.total + drive, state.count + 1)


SIZES = torch.tensor([3, 2, 2, 1])  # three rows, of 4, 3 and 1 steps


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_packed_rows_keep_their_last_state(reverse: bool) -> None:
    """Sums of 1 2 3 4, 10 20 30 and 100, written out."""
    drive = torch.tensor([[1.0], [10.0], [100.0], [2.0], [20.0], [3.0], [30.0], [4.0]])
    start = Pair(torch.zeros(3, 1), torch.zeros(3, 1))
    outputs, last = scan(step, drive, start, SIZES, reverse, output=lambda state: state.total)
    forward = [1.0, 10.0, 100.0, 3.0, 30.0, 6.0, 60.0, 10.0]
    backward = [10.0, 60.0, 100.0, 9.0, 50.0, 7.0, 30.0, 4.0]
    assert outputs.flatten().tolist() == (backward if reverse else forward)
    assert last.total.flatten().tolist() == [10.0, 60.0, 100.0]
    assert last.count.flatten().tolist() == [4.0, 3.0, 1.0]


def test_dense_is_packed_with_equal_sizes() -> None:
    drive = torch.randn(5, 3, 2)
    start = torch.randn(3, 2)

    def turn(x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(x + h.flip(-1))

    dense, last = scan(turn, drive, start)
    packed, last_packed = scan(turn, drive.flatten(0, 1), start, torch.full((5,), 3))
    assert packed.equal(dense.flatten(0, 1))
    assert last_packed.equal(last)
    assert last.equal(dense[-1])


def test_states_of_several_tensors() -> None:
    state = Pair(torch.arange(4.0)[:, None], torch.ones(4, 1))
    doubled = each(lambda s: 2 * s, state)
    assert isinstance(doubled, Pair)
    assert doubled.total.flatten().tolist() == [0, 2, 4, 6]
    short = first_rows(doubled, 2)
    assert short.count.flatten().tolist() == [2, 2]
    assert replace_rows(short, state).total.flatten().tolist() == [0, 2, 2, 3]
    assert replace_rows(state, state).total is state.total


@given(alive=st.lists(st.integers(1, 6), min_size=1, max_size=8).map(lambda n: sorted(n, reverse=True)))
def test_where_each_row_comes_from(alive: list[int]) -> None:
    """``Arrays.all_before`` against a walk through each sequence on its own, both ways, in chunks of any size."""
    batch, rows = alive[0], sum(alive)
    states, start = torch.arange(batch, batch + rows), torch.arange(batch)
    for reverse in (False, True):
        span = Span.whole(alive, reverse)
        arrays, source = Arrays({"output": states}, [start]), Source("output", before=0)
        for most in (1, 2 * batch, 100):
            came = {}
            for chunk in span.chunks(1, most, backwards=False):
                for where, found in arrays.all_before(source, chunk):
                    here = range(chunk.rows.start + where.start, chunk.rows.start + where.stop)
                    came |= dict(zip(here, found.tolist(), strict=True))
            assert sorted(came) == list(range(rows))
            for row in range(batch):
                steps = [t for t, n in enumerate(alive) if n > row]
                path = [span.first[t] + row for t in (steps[::-1] if reverse else steps)]
                assert [came[at] for at in path] == [row, *(batch + at for at in path[:-1])]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [33, 64, 65, 70])
def test_a_linear_recurrence_in_blocks(steps: int, reverse: bool) -> None:
    """All states and the last one, as step after step gives them: to the rounding of some 70 products."""
    w, x, start = (torch.randn(*shape, dtype=torch.float64) for shape in ((3, 3), (steps, 2, 3), (2, 3)))
    w = 0.9 * w / torch.linalg.matrix_norm(w, 2)

    def run(input: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        states = []
        for row in input:
            state = state @ w.mT + row
            states.append(state)
        return torch.stack(states), state

    def last(input: Tensor, state: Tensor) -> Tensor:
        return run(input, state)[1]

    right, final = run(x.flip(0) if reverse else x, start)
    found, end = linear_scan(run, last, x, w, start, reverse)
    torch.testing.assert_close(found, right.flip(0) if reverse else right, rtol=0, atol=1e-13)
    for one in (end, linear_scan_last(last, x, w, start, reverse)):
        torch.testing.assert_close(one, final, rtol=0, atol=1e-13)

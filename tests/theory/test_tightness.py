"""2n states are needed: the count of dimensions, at networks that have them and networks that do not.

Emami et al. (2019), Theorem 3.2; the proof is in docs/convert.md.
"""

import pytest
import torch

from engram.errors import OptionError
from engram.maps import haar, orthogonality_error
from engram.theory import Candidate, count_dimensions, memoryless_twin, search_memoryless
from engram.theory._tightness import _count


@pytest.mark.parametrize("n", [1, 2, 5])
def test_memoryless_takes_2n_states(n: int) -> None:
    twin = memoryless_twin(n, input_bound=4.0)
    x = torch.nn.functional.normalize(torch.randn(200, 3, n).double(), dim=-1) * 4
    assert twin.layer.hidden_size == 2 * n
    assert torch.equal(twin(x)[0], x.relu())
    cell = twin.layer.cells[0]
    weights = (cell.weight_hh, cell.weight_ih, cell.bias, torch.eye(n, 2 * n).double())
    for count in count_dimensions(Candidate(*(w.detach() for w in weights))):
        assert (count.states, count.on, count.hidden, count.mismatch) == (2 * n, n, 0, 0.0)
        assert count.room_to_show
        assert count.room_to_forget


@pytest.mark.parametrize(("n", "states"), [(1, 1), (2, 2), (2, 3), (3, 5)])
def test_fewer_states_have_no_room(n: int, states: int) -> None:
    """Of any orthogonal network: the two inequalities never hold together, and something is always wrong."""
    generator, counts = torch.Generator().manual_seed(0), 0
    for _ in range(15):
        F, b, C = (torch.randn(*s, generator=generator).double() for s in ((states, n), (states,), (n, states)))
        for count in count_dimensions(Candidate(haar(states, generator), F, b, C)):
            assert not (count.room_to_show and count.room_to_forget)
            assert count.mismatch > 1e-3
            counts += 1
    assert counts > 15


@pytest.mark.parametrize("w", [1.0, -1.0])
def test_one_state_by_hand(w: float) -> None:
    """n = N = 1: with c f = 1 the leak c w f is w; nothing else can be chosen."""
    one = torch.ones(1, 1).double()
    counts = count_dimensions(Candidate(w * one, one, 5 * one[0], one))
    (count,) = [each for each in counts if each.on]  # else even the new input is lost
    assert (count.hidden, count.mismatch) == (0, 1.0)
    assert count.room_to_show
    assert not count.room_to_forget
    assert all(each.mismatch == 1.0 for each in counts)


@pytest.mark.parametrize(("first", "second"), [("1101", "0111"), ("1111", "1010"), ("0010", "1110"), ("1011", "0000")])
def test_the_count_is_its_definition(first: str, second: str) -> None:
    """With projections as matrices; the readout sees the first three units through two numbers that are alike."""
    torch.manual_seed(0)
    F, b, C = torch.randn(4, 2).double(), torch.zeros(4).double(), torch.randn(2, 4).double()
    C[1, :3] = 2 * C[0, :3]
    W = haar(4)
    on = [torch.tensor([float(unit) for unit in units]).double() for units in (first, second)]
    found = _count(Candidate(W, F, b, C), *on)
    P0, P1 = (each.diag() for each in on)
    parts = C @ P0 @ F - torch.eye(2), C @ P1 @ F - torch.eye(2), C @ P1 @ W @ P0 @ F
    seen = C @ P1
    assert found.mismatch == pytest.approx(max(float(part.abs().max()) for part in parts), rel=1e-12)
    assert (found.n, found.states, found.on) == (2, 4, second.count("1"))
    assert found.hidden == found.on - int(torch.linalg.matrix_rank(seen, atol=1e-9))
    assert found.room_to_show == (2 + found.hidden <= found.on)
    assert found.room_to_forget == (2 + found.on <= found.hidden + 4)


def test_search_finds_2n_states_and_nothing_below() -> None:
    below, enough = (search_memoryless(torch.relu, 1, states, restarts=16, rounds=400) for states in (1, 2))
    assert below.share > 0.3
    assert enough.share < 0.01
    assert orthogonality_error(enough.candidate.W) < 1e-12
    assert min(count.mismatch for count in count_dimensions(below.candidate)) > 0.5


def test_a_singular_matrix_is_not_counted() -> None:
    with pytest.raises(OptionError, match="singular W"):
        count_dimensions(Candidate(*(torch.zeros(s).double() for s in ((2, 2), (2, 1), (2,), (1, 2)))))

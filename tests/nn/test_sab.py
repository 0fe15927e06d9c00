"""Sparse attentive backtracking: the loop with one memory against lists of states, row by row, and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram import loops
from engram.checks import check_contract
from engram.errors import DTypeError, OptionError, ShapeError
from engram.nn import SAB
from tiers import slow

T, B, D, H = 14, 3, 3, 4
OPTIONS = [(3, 2, 4), (10, 1, 0), (4, 3, 5), (1, 1, 1), (100, 1, 7)]  # k, attn_every, trunc


def reference(layer: SAB, x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs ``(T, 2H)`` of one sequence ``(T, D)`` and the last c, with a list of stored states.

    Ke et al. 2018, and their program: the k-th largest score is differentiated too, h and c are cut before a step whose
    number is a multiple of trunc, and a state is stored after its context was added.
    """
    cell: Any = layer.cells[0]
    h, c = x.new_zeros(H), x.new_zeros(H)
    kept, found = [x.new_zeros(H)], []
    for t, u in enumerate(x, 1):
        if cell.trunc and t % cell.trunc == 0:
            h, c = h.detach(), c.detach()
        total = cell.weight_ih @ u + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh
        i, f, g, o = total.split(H)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        scores = torch.stack([cell.weight_score @ torch.cat([h, m]).tanh() for m in kept])
        if len(kept) > cell.k:
            largest = sorted(scores, key=Tensor.item, reverse=True)[cell.k - 1]
            scores = (scores - largest - 1e-7).clamp(min=0)
            scores = scores / (scores.sum() + 1e-7)
        context = torch.stack([weight * m for weight, m in zip(scores, kept, strict=True)]).sum(0)
        h = h + context
        if t % cell.attn_every == 0:
            kept.append(h)
        found.append(torch.cat([h, context]))
    return torch.stack(found), c


def make(k: int, attn_every: int, trunc: int, **options: Any) -> SAB:
    """A layer with scores of about 1: a sum of weights far above the 1e-7 that is added to it."""
    torch.manual_seed(2)
    layer = SAB(D, H, k=k, attn_every=attn_every, trunc=trunc, dtype=torch.float64, **options)
    with torch.no_grad():
        layer.cells[0].weight_score.normal_()
    return layer


@pytest.mark.parametrize("executor", ["auto", "plain"])
@pytest.mark.parametrize("options", OPTIONS)
def test_lists_of_states_row_by_row(options: tuple[int, int, int], executor: str) -> None:
    layer, x = make(*options), torch.randn(T, B, D, dtype=torch.float64)
    up = torch.randn(T, B, 2 * H, dtype=torch.float64)
    found = []
    for road in (lambda: layer(x)[0], lambda: torch.stack([reference(layer, x[:, b])[0] for b in range(B)], 1)):
        with loops.use(executor):
            output = road()
        grads = torch.autograd.grad((output * up).sum(), list(layer.parameters()))
        found.append([output.detach(), *grads])
    # weights r/(sum r + 1e-7) with a sum of at least some 1e-3: rounding of 1e-16 becomes at most 1e-12
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-11, rtol=0)
    for mine, theirs in zip(found[0][1:], found[1][1:], strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=1e-10)  # of gradients of any size
        assert float(theirs.abs().max()) > 1e-3 or options[0] == 1  # k = 1 reads nothing: no score has a gradient


@pytest.mark.parametrize("options", OPTIONS[:3])
@pytest.mark.parametrize("reverse", [False, True])
def test_one_memory_against_the_plain_loop(options: tuple[int, int, int], reverse: bool) -> None:
    """Every field of the state, in two pieces, and the gradients of all of them."""
    layer = make(*options, bidirectional=reverse)
    found = []
    for executor in ("auto", "plain"):
        x = torch.randn(T, B, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
        with loops.use(executor):
            first, state = layer(x[:5])
            second, final = layer(x[5:], state)
        loss = first.sin().sum() + second.square().sum() + final.past.sin().sum()
        loss = loss + final.c.cos().sum() + final.context.pow(3).sum() + final.h.exp().sum()
        grads = torch.autograd.grad(loss, [x, *layer.parameters()])
        found.append([first.detach(), second.detach(), *(field.detach() for field in final), *grads])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=1e-10)  # of gradients of any size


@pytest.mark.parametrize("options", [{}, {"k": 2, "attn_every": 1, "trunc": 0}])
def test_the_contract(options: dict[str, Any]) -> None:
    assert len(check_contract(lambda *args, **more: SAB(*args, **options, **more))) == 11


def test_rows_of_other_lengths_go_on_as_each_alone() -> None:
    """After a packed batch rows have stored other steps: the plain loop, with the numbers of each row alone."""
    layer, x = make(3, 2, 0), torch.randn(9, B, D, dtype=torch.float64)
    more = torch.randn(6, B, D, dtype=torch.float64)
    lengths = [4, 9, 7]
    output, state = layer(pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False))
    assert state.time.tolist() == [lengths]
    assert state.stored.sum(-1).tolist() == [[2, 4, 3]]
    after, _ = layer(more, state)
    for row, length in enumerate(lengths):
        alone = layer(torch.cat([x[:length, row], more[:, row]]))[0]
        torch.testing.assert_close(pad_packed_sequence(output)[0][:length, row], alone[:length], atol=1e-11, rtol=0)
        torch.testing.assert_close(after[:, row], alone[length:], atol=1e-11, rtol=0)


def test_the_gradient_goes_back_through_the_memory_alone() -> None:
    """With h and c cut at every step, what is left is the path through the states that were read."""
    x = torch.randn(8, 1, D, dtype=torch.float64, requires_grad=True)
    (direct,) = torch.autograd.grad(make(100, 1, 1)(x)[0][-1].sum(), x)
    assert float(direct[0].abs().max()) > 1e-6
    (none,) = torch.autograd.grad(make(1, 1, 1)(x)[0][-1].sum(), x)  # k = 1 reads nothing
    assert float(none[:-1].abs().max()) == 0
    assert float(none[-1].abs().max()) > 0


def test_k_above_the_stored_states_reads_all() -> None:
    layer = make(50, 1, 0)
    x = torch.randn(T, B, D, dtype=torch.float64)
    torch.testing.assert_close(layer(x)[0], layer.replace(k=10_000)(x)[0], atol=0, rtol=0)


def test_a_second_derivative() -> None:
    layer = make(3, 1, 0)
    x = torch.randn(5, 2, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0].square().sum(), (x,), atol=1e-4)


def test_twice_backwards() -> None:
    layer = make(3, 1, 4)
    loss = layer(torch.randn(T, B, D, dtype=torch.float64))[0].square().sum()
    first, second = (torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_what_is_read_out_is_h_and_context() -> None:
    output, state = make(3, 1, 0)(torch.randn(T, B, D, dtype=torch.float64))
    assert torch.equal(output[-1], torch.cat([state.h, state.context], -1)[0])
    assert torch.equal(output[..., :H], state.past[0].transpose(0, 1))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"k": 0}, OptionError, "k must be at least 1, got 0"),
        ({"k": 2.5}, DTypeError, "k must be a whole number"),
        ({"attn_every": 0}, OptionError, "attn_every must be at least 1"),
        ({"trunc": -1}, OptionError, "trunc must be at least 0"),
        ({"top_k": 3}, OptionError, "top_k"),
        ({"layer_norm": True}, OptionError, "layer_norm"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        SAB(D, H, **options)


def test_a_state_of_other_sizes_is_refused() -> None:
    layer = make(3, 1, 0)
    x = torch.randn(T, B, D, dtype=torch.float64)
    state = layer(x)[1]
    with pytest.raises(ShapeError, match="the field past"):
        layer(x, state._replace(past=state.past[..., :2]))


@pytest.mark.parametrize("k", [5, slow(10)])
def test_memory_for_the_backward_pass_grows_with_the_length_not_with_its_square(k: int) -> None:
    """Per step: gates, c and the output of a row, and k places and weights; a stored state is kept once."""
    kept = []
    for steps in (64, 128, 256):
        layer, storages = SAB(D, 8, k=k), {}

        def note(tensor: Tensor, storages: dict[int, int] = storages) -> Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            output, _ = layer(torch.randn(steps, 4, D))
        reads = output.grad_fn
        while reads is not None and not hasattr(reads, "reads"):
            reads = next((parent for parent, _ in reads.next_functions if parent is not None), None)
        memory = reads.memory.states.nbytes + sum(r.weights.nbytes + r.places.nbytes for r in reads.reads)
        kept.append(sum(storages.values()) + memory)
    assert kept[2] - kept[1] < 2.05 * (kept[1] - kept[0])

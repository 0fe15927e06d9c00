"""Several Python threads inside an executor at once, and several threads inside one call."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
import torch
from recurrences import additive
from torch import Tensor

import engram
from engram.loops import _compiled, free_workspaces, use
from engram.loops._products import Multiplier, matmul
from engram.models import MODELS
from engram.state import parts
from prepared import Prepared
from tiers import slow_but

REAL = (torch.float32, torch.float64)
DTYPES = (*REAL, torch.complex64, torch.complex128)


SHARED = [  # tanh of a complex number has poles: its gradients overflow here
    (packed, name, dtype)
    for packed, name, dtype in product([False, True], ["identity", "modrelu", "tanh"], DTYPES)
    if name != "tanh" or dtype in REAL
]
QUICK = [case for case in SHARED if case[1:] in (("tanh", torch.float32), ("modrelu", torch.float64))]
QUICK += [(True, "modrelu", torch.complex64)]


@pytest.mark.parametrize(("packed", "activation", "dtype"), slow_but(SHARED, QUICK))
def test_same_bits_at_any_number_of_threads(
    compiled: str,
    activation: str,
    packed: bool,
    dtype: torch.dtype,
    problem: Callable[..., Any],
    outcome: Callable[..., Any],
    threads: Callable[[int], Any],
) -> None:
    """States and every gradient, again and again; sizes at which the work is worth sharing, and odd ones."""
    for batch, hidden in ((1, 160), (29, 41), (64, 64)):
        case = problem(60, batch, 3, hidden, packed=packed, activation=activation, dtype=dtype)
        single = outcome(case, compiled)
        assert len(single) == (8 if activation == "modrelu" else 7)
        for count in (2, 3, 8):
            with threads(count):
                for _ in range(2):
                    found = outcome(case, compiled)
                    assert [name for name, right in single.items() if not found[name].equal(right)] == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_block_fits_the_cache_and_every_thread_has_one(
    compiled: str, count: int, monkeypatch: pytest.MonkeyPatch, threads: Callable[[int], Any]
) -> None:
    """No result depends on how the batch is cut, and time does: at most ``ROWS`` rows, and blocks for all threads."""
    calls: list[_compiled.LoopCall] = []
    make = _compiled.LoopCall
    monkeypatch.setattr(_compiled, "LoopCall", lambda *given: (calls.append(make(*given)), calls[-1])[1])
    monkeypatch.setattr(_compiled, "SMALL", 0)  # else a batch this small is not shared
    cell, batches = engram.nn.RNNCell(2, 3), (7, 12, 13, 23, 24, 25, 40)
    with threads(count), use(compiled):
        for batch in batches:
            cell.run(torch.randn(2, batch, 2), cell.initial_state(batch), None, False)
    assert [call.batch for call in calls] == list(batches)
    for call in calls:
        largest = -(-call.batch // call.blocks)
        assert largest <= call.most_rows == _compiled.ROWS
        assert call.blocks % count == 0
        assert largest > _compiled.ROWS // (2 * count)  # and no needless cut


def test_every_block_goes_back_to_the_start_of_its_own_rows(compiled: str) -> None:
    """The gradient of a gate reads the state before the first step, which differs from row to row."""
    torch.manual_seed(3)
    batch = 3 * _compiled.ROWS + 1
    cell = engram.nn.GRUCell(2, 3, dtype=torch.float64)
    x, start = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((4, batch, 2), (batch, 3)))
    found = {}
    for executor in ("plain", compiled):
        with use(executor):
            output, _ = cell.run(x, start, None, False)
            found[executor] = torch.autograd.grad(output.square().sum(), [x, start, *cell.parameters()])
    for ours, right in zip(found[compiled], found["plain"], strict=True):
        torch.testing.assert_close(ours, right, atol=1e-12, rtol=1e-12)


LAYERS = ["mirnn", "rac", "2rnn", "cprnn", "birnn", "exprnn", "linear-rnn"]  # every cell: see below


@pytest.mark.parametrize("dtype", slow_but(REAL, {torch.float32}), ids=str)
@pytest.mark.parametrize("name", slow_but(LAYERS, {"2rnn", "exprnn"}))
def test_layers_give_the_same_bits(compiled: str, name: str, dtype: torch.dtype, threads: Callable[[int], Any]) -> None:
    """Whole layers of every recurrence with a loop of its own."""
    torch.manual_seed(1)
    layer = MODELS[name].kind(6, 48, num_layers=2, dtype=dtype)
    x = torch.randn(40, 19, 6, dtype=dtype, requires_grad=True)

    def everything() -> list[Tensor]:
        output, _ = layer(x)
        return [output, *torch.autograd.grad(output, [x, *layer.parameters()], output.detach())]

    single = everything()
    assert len(single) >= 4
    for count in (2, 3, 8):
        with threads(count):
            for _ in range(2):
                assert all(found.equal(right) for found, right in zip(everything(), single, strict=True))


BASES = ("AttentiveCell", "BareCell", "Cell", "MemCell", "RelCell")
NO_LOOP = (*BASES, "MemLSTMCell", "MemRNNCell", "S4Cell", "S4DCell", "SABCell")  # whose sums are torch's own
EVERY = [name for name in dir(engram.nn) if name.endswith("Cell") and name not in NO_LOOP]
KINDS = {"LSTMCell", "GORUCell", "RACCell", "CPCell", "SecondOrderCell", "MinLSTMCell"}  # gates, a rotation, products


@pytest.mark.parametrize("name", slow_but(EVERY, KINDS))
def test_every_cell_gives_the_same_bits(compiled: str, name: str, threads: Callable[[int], Any]) -> None:
    """Forward and gradients in float32 at 1, 2, 3 and 7 threads, at a size that is shared among them."""
    torch.manual_seed(1)
    cell = getattr(engram.nn, name)(6, 33)
    x = torch.randn(30, 19, cell.input_size, requires_grad=True)

    def everything() -> list[Tensor]:
        torch.manual_seed(2)  # of HDetachCell
        output, final = cell.run(x, cell.initial_state(19), None, False)
        loss = output.abs().square().sum() + sum(f.abs().sum() for f in parts(final))
        leaves = [x, *cell.parameters()]
        return [output, *parts(final), *torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)]

    single = everything()
    assert len(single) >= 3
    for count in (2, 3, 7):
        with threads(count):
            assert all(found.equal(right) for found, right in zip(everything(), single, strict=True))


@pytest.mark.parametrize("dtype", slow_but(DTYPES, REAL), ids=str)
def test_products(compiled: str, dtype: torch.dtype, threads: Callable[[int], Any]) -> None:
    """Every size and stride: within the bound of a sum of k products, and the same bits however they are shared."""
    sizes = (
        (1, 1, 1),
        (7, 300, 5),
        (130, 1100, 70),
        (1700, 10, 66),
        (900, 128, 10),
        (3, 700, 600),
        (1, 9, 600),
        (4, 0, 3),
        (0, 2, 3),
    )
    for m, k, n in sizes:
        a, b, bias = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype), torch.randn(n, dtype=dtype)
        exact = torch.complex128 if dtype.is_complex else torch.float64
        right = a.to(exact) @ b.to(exact)
        # Every one of k products and sums is rounded once; a complex product is two real ones.
        bound = (2 * k + 2) * torch.finfo(dtype).eps * (a.abs().double() @ b.abs().double())
        for left, other in product((a, a.t().contiguous().t()), (b, b.t().contiguous().t())):
            found = matmul(left, other)
            assert ((found - right).abs() <= bound).all()
            assert Multiplier(other)(left).equal(found)
            shifted, added = matmul(left, other, bias=bias), matmul(left, other, bias.repeat(m, 1), add=True)
            for sum_ in (shifted, added):
                margin = 2 * torch.finfo(dtype).eps * bias.abs().double()
                assert ((sum_ - right - bias).abs() <= bound + (k // 256 + 1) * (margin + bound)).all()
            for count in (2, 3, 8):
                with threads(count):
                    assert matmul(left, other).equal(found)
                    assert matmul(left, other, bias=bias).equal(shifted)
                    assert matmul(left, other, bias.repeat(m, 1), add=True).equal(added)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork(compiled: str, prepared: Prepared) -> None:
    """A child has none of its parent's threads: it starts its own in place of waiting for them (libgomp hangs here)."""
    program = """
import os, signal, torch, engram
torch.set_num_threads(4)
layer, x = engram.nn.RNN(8, 64), torch.randn(50, 64, 8)
right = layer(x)[0]
child = os.fork()
if child == 0:
    signal.alarm(60)
    found = engram.nn.RNN.forward(layer, x)[0]
    torch.set_num_threads(1)  # torch's own comparison would wait for the threads of libgomp
    os._exit(0 if found.equal(right) else 3)
assert os.waitpid(child, 0)[1] == 0
assert layer(x)[0].equal(right)
"""
    done = prepared.run(program)
    assert done.returncode == 0, done.stderr


def test_denormals_are_flushed_on_every_thread(compiled: str, threads: Callable[[int], Any]) -> None:
    """Which thread takes a row is left to chance, so all must compute with the settings of the caller."""
    tiny = torch.full((200, 64, 64), 1e-39)
    weight = torch.eye(64)
    arguments = (tiny, weight, None, weight, torch.zeros(64, 64), None, None, "identity")
    with use(compiled), threads(4):
        assert (additive(*arguments)[0] > 0).all()
        try:
            if not torch.set_flush_denormal(True):
                pytest.skip("this processor cannot flush denormals")
            for _ in range(20):
                assert (additive(*arguments)[0] == 0).all()
        finally:
            torch.set_flush_denormal(False)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signals of POSIX here")
def test_signals_are_for_the_threads_of_the_program(compiled: str, threads: Callable[[int], Any]) -> None:
    """The workers of the pool take none, so that Ctrl-C is Python's; whoever started them takes them as before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.SIGINT not in before
    a = torch.randn(600, 600)
    with use(compiled), threads(3):
        matmul(a, a)  # large enough to be shared
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_python_threads_side_by_side(
    executor: str, packed: bool, problem: Callable[..., Any], outcome: Callable[..., Any]
) -> None:
    """Four workers over 20 different problems: to the bit what one worker finds alone."""
    cases = [problem(5 + seed % 4, 1 + seed % 17, 3, 1 + 2 * seed, seed=seed, packed=packed) for seed in range(20)]
    with use(executor), ThreadPoolExecutor(4) as pool:  # a choice is for the whole process, so all make the same
        alone = [outcome(case, executor) for case in cases]
        together = list(pool.map(lambda case: outcome(case, executor), cases))
    assert len(together) == 20
    for found, right in zip(together, alone, strict=True):
        assert found.keys() == right.keys()
        assert all(found[name].equal(value) for name, value in right.items())


def test_freeing_workspaces_between_calls(
    executor: str, problem: Callable[..., Any], outcome: Callable[..., Any]
) -> None:
    """The memory of a call is no part of its result: what it held may be overwritten or freed at any time."""
    case = problem(60, 32, 2, 33)  # arrays of 500 kB: smaller ones are torch's
    first = outcome(case, executor)
    kept = {name: value.clone() for name, value in first.items()}
    assert free_workspaces() > 0
    outcome(problem(60, 32, 2, 33, seed=1), executor)  # writes over what was lent before
    again = outcome(case, executor)
    assert len(kept) == 7
    assert all(first[name].equal(value) and again[name].equal(value) for name, value in kept.items())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_lock_that_a_fork_finds_taken(prepared: Prepared) -> None:
    """The thread that holds it is not in the child: there it is free; in the parent it stays taken, once released it
    is free, and the thread that holds it may take it again."""
    program = """
import os
from threading import Event, Thread
from engram.loops._fork_lock import ForkLock
lock, taken, done = ForkLock(), Event(), Event()
def hold():
    with lock, lock:
        taken.set()
        done.wait()
thread = Thread(target=hold)
thread.start()
taken.wait()
child = os.fork()
if child == 0:
    os._exit(0 if lock.lock.acquire(timeout=5) else 3)
assert os.waitpid(child, 0)[1] == 0, "taken in the child"
assert not lock.lock.acquire(blocking=False), "free in the parent"
done.set()
thread.join()
assert lock.lock.acquire(blocking=False), "not released"
"""
    found = prepared.run(program)
    assert found.returncode == 0, found.stderr

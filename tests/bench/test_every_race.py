"""What all benches share: rounds and clock are handed on, threads and garbage collection are as before, also after a
failure; every contestant is the layer of its name; numbers of the system are read as they stand."""

import builtins
import gc
import io
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from engram.bench import (
    _attention_layers,
    _measure,
    _memory,
    attention,
    cells,
    certify,
    ensemble,
    layers,
    linear,
    maps,
    products,
    runs,
    tasks,
    token,
    train,
)
from engram.bench._cells import CELLS, PEERS, steady_rac
from engram.bench._contestants import ENGRAM
from engram.bench._markdown import markdown
from engram.bench._measure import after_round, interleaved, machine
from engram.bench._size import Size
from engram.bench._worker_program import make_layer
from engram.nn import RNN, ExpRNN, Recurrent

RACES: dict[ModuleType, Callable[..., Any]] = {
    attention: attention.bench_attention, cells: cells.bench_cells, certify: certify.bench_certify,
    ensemble: ensemble.bench_ensemble, layers: layers.bench_layers, linear: linear.bench_linear,
    maps: maps.bench_maps, products: products.bench_products, runs: runs.bench_runs, tasks: tasks.bench_tasks,
    token: token.bench_token, train: train.bench_train,
}  # fmt: skip
ONE_THREAD = (attention, cells, layers, linear, maps, products, tasks, token)
"""The others set no number of threads by themselves, or for processes of their own."""
CLOCKS = {certify: time.process_time, token: time.thread_time}


class Stop(Exception):
    """In place of a race."""


@contextmanager
def nobody(*_: object, **__: object) -> Iterator[Any]:
    yield SimpleNamespace(ask=lambda *what: None, contestants=lambda *what: {})


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Neither of the numbers that are raced."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("module", RACES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_rounds_clock_and_threads(module: Any, three_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A race that fails leaves the number of threads as it was."""
    seen: list[Any] = []

    def raced(contestants: dict[str, Any], repeats: int, clock: Any = None) -> None:
        seen.append((repeats, clock, torch.get_num_threads()))
        raise Stop

    monkeypatch.setattr(module, "interleaved", raced)
    for name, value in {
        "SecondProcess": nobody, "workers": nobody, "together_steps": nobody, "steps_of_each": lambda *_: None,
        "engram_loop": nobody, "bare_loop": lambda settings: None, "QUICK": (Size(3, 2, 4, 1),),
        "SIDE": 4, "random_rank": lambda side: None, "contestants": lambda *_: {"engram": None},
    }.items():  # fmt: skip
        if hasattr(module, name) and module not in (linear, token, attention):
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(_attention_layers, "step_memory", lambda name, steps: 1.0)
    monkeypatch.setattr(attention, "QUICK", (3,))
    monkeypatch.setattr(_attention_layers, "PEERS", {})
    monkeypatch.setattr(linear, "QUICK", (8,))
    monkeypatch.setattr(token, "QUICK", (4,))
    with pytest.raises(Stop):
        RACES[module](quick=True, repeats=5, tell=lambda line: None)
    ((repeats, clock, threads),) = seen
    assert repeats == 5
    assert clock is CLOCKS.get(module)
    if module in ONE_THREAD:
        assert threads == 1
    assert torch.get_num_threads() == 3


@pytest.fixture
def nothing_to_collect(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The heap of a whole test session takes long; counted instead."""
    collected: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append("collected"))
    return collected


def test_no_garbage_is_collected_within_a_round(nothing_to_collect: list[str]) -> None:
    """Before each round it is; afterwards it is as before, also where a contestant fails."""
    found: list[bool] = []
    interleaved({"a": lambda: found.append(gc.isenabled())}, repeats=2)
    assert found == [True, False, False]  # the first call is not timed
    assert gc.isenabled()
    assert len(nothing_to_collect) == 2
    calls = iter([None])
    with pytest.raises(StopIteration):
        interleaved({"a": lambda: next(calls)}, repeats=2)
    assert gc.isenabled()


def test_every_round_is_told(nothing_to_collect: list[str]) -> None:
    shares: list[float] = []
    before = after_round.set(shares.append)
    try:
        interleaved({"a": lambda: None, "b": lambda: None}, repeats=4)
    finally:
        after_round.reset(before)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_a_round_is_the_same_again(nothing_to_collect: list[str]) -> None:
    """The orders are random, and those of the last time."""
    calls: list[str] = []
    for _ in range(2):
        interleaved({name: lambda name=name: calls.append(name) for name in "abcd"}, repeats=3)  # type: ignore[misc]
    assert calls[:16] == calls[16:]


# What is raced under which name


@pytest.mark.parametrize("name", CELLS)
def test_the_cell_of_the_name(name: str) -> None:
    make, options = CELLS[name]
    layer = make_layer(make, 3, 4, options)
    assert isinstance(layer, Recurrent)
    assert type(layer).__name__ == name
    assert (layer.input_size, layer.hidden_size) == (3, 4)


@pytest.mark.parametrize("name", PEERS)
def test_the_peer_of_the_name(name: str) -> None:
    """And our cell that computes the same has its name too."""
    cell, (make, options) = PEERS[name]
    assert name.replace("torchrecurrent ", "torchrecurrent.") == make.replace(":", ".")
    assert name.endswith(cell)
    assert options == {}


def test_our_layers_of_the_name() -> None:
    for name, (make, options) in ENGRAM.items():
        _, _, kind = name.partition("-")
        expected = {"": {}, "modrelu": {"activation": "modrelu"}}.get(kind, {"activation": "modrelu", "map": kind})
        assert options == expected, name
        assert make == f"engram.nn:{'RNN' if name.startswith('engram') else name}"


@pytest.mark.parametrize("name", token.KINDS)
def test_the_layer_of_a_token(name: str) -> None:
    layer = token.KINDS[name](3, 4, token.LAYERS)
    kind, _, folded = name.partition(", ")
    assert type(layer).__name__ == kind.rpartition(".")[2]
    assert type(layer).__module__.startswith("torch.nn.") == kind.startswith("torch.nn.")
    assert layer.num_layers == 2
    if kind == "ExpRNN":
        assert len([*layer.parameters()]) == len([*ExpRNN(3, 4, 2).parameters()])
        assert any("parametrizations" in each for each, _ in layer.named_parameters()) == (not folded)


@pytest.mark.parametrize("name", _attention_layers.LAYERS)
def test_the_layer_with_attention(name: str) -> None:
    layer = _attention_layers.LAYERS[name](3, 4)
    classes = {"MemRNN, plain loop": "TapedMemRNN", "authors' loop restated": "PerSampleRelRNN"}
    assert type(layer).__name__ == classes.get(name, name.rpartition(".")[2])
    assert type(layer).__module__.startswith("torch.nn.") == (name == "torch.nn.LSTM")


def test_contestants_are_of_one_seed() -> None:
    """Of H units and D inputs, and the same weights each time."""
    one, other = (_attention_layers.make("RNN") for _ in range(2))
    assert (one.input_size, one.hidden_size) == (_attention_layers.D, _attention_layers.H)
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_circuit_that_neither_vanishes_nor_grows() -> None:
    """Gates within 1 +- 0.001 per input of size 1."""
    cell = steady_rac(3, 4).cells[0]
    assert torch.equal(cell.bias, torch.ones(4))
    assert 0 < cell.weight_ih.abs().max() < 1e-2


def test_a_step_with_attention_starts_afresh() -> None:
    """So many steps of so many rows; a second call has the gradient of one."""
    seen = []
    layer = RNN(_attention_layers.D, 3)
    layer.register_forward_pre_hook(lambda module, inputs: seen.append(tuple(inputs[0].shape)))
    for batch, rows in ((0, _attention_layers.B), (2, 2)):
        call = _attention_layers.training_step(layer, 5, batch)
        call()
        first = layer.cells[0].weight_hh.grad.clone()
        call()
        assert torch.equal(layer.cells[0].weight_hh.grad, first)
        assert seen[-2:] == 2 * [(5, rows, _attention_layers.D)]


# What the system says


def test_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor\t: 0\nmodel name\t: Fast: 2 GHz\nflags\t: a b\nmodel name\t: Slow\n"
    monkeypatch.setattr(builtins, "open", lambda *_: io.StringIO(text))
    assert machine()["processor"] == "Fast: 2 GHz"
    text = "flags\t: a b\n"
    monkeypatch.setattr(platform, "processor", lambda: "other")
    assert machine()["processor"] == "other"

    def missing(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", missing)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.234, 2.345, 0.5))
    found = machine()
    assert (found["processor"], found["cores"], found["load_average"]) == ("other", 7, [1.23, 2.35, 0.5])
    assert (found["python"], found["torch"]) == (platform.python_version(), torch.__version__)
    assert found["system"] == f"{platform.system()} {platform.machine()}"


def test_memory_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak out of kB, what is resident out of pages of 4096 bytes; where there is no such file, ru_maxrss."""
    files = {"/proc/self/status": "VmPeak:\t 9999 kB\nVmHWM:\t 3072 kB\nVmRSS:\t 1 kB\n", "/proc/self/statm": "9 512 3"}

    def read(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read)
    assert _memory.peak() == 3.0
    assert _attention_layers.resident_memory() == 2.0
    files.clear()
    monkeypatch.setattr(_memory.resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=5 * 2**20))
    for system, megabytes in (("linux", 5120.0), ("darwin", 5.0)):  # kB, and bytes
        monkeypatch.setattr(_memory.sys, "platform", system)
        assert _memory.peak() == _attention_layers.resident_memory() == megabytes


def test_memory_of_a_step_is_the_rise(three_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a small step, which loads and compiles, and by one thread."""
    for module, call in (
        (_memory, lambda: _memory.step_memory(("torch.nn:RNN", {}), Size(3, 2, 4, 1), "plain")),
        (_attention_layers, lambda: _attention_layers.memory_here("torch.nn.LSTM", 3)),
        (certify, lambda: certify.memory_rise("train, n=4, r=1, d=6", 64)),
    ):
        peaks = iter([3.0, 10.5])
        monkeypatch.setattr(module, "peak", lambda peaks=peaks: next(peaks))
        torch.set_num_threads(3)
        assert call() == 7.5  # type: ignore[no-untyped-call]
        assert torch.get_num_threads() == (3 if module is certify else 1)
        assert next(peaks, None) is None


def test_what_a_child_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _memory.in_child("print(2.5)") == 2.5
    programs: list[str] = []
    monkeypatch.setattr(_memory, "printed_by_child", lambda program: programs.append(program) or "1.5")  # type: ignore[func-returns-value]
    size = Size(3, 2, 4, 1)
    assert _memory.peak_memory(("torch.nn:RNN", {"nonlinearity": "relu"}), size, "plain") == 1.5
    assert certify.certificate_memory("a, b", 64) == 1.5
    assert _attention_layers.step_memory("authors' loop restated", 7) == 1.5
    assert _attention_layers.stream_growth("RelRNN", 9) == 1.5
    said: list[Any] = []

    def say(*words: Any) -> None:
        said.append(words)

    here = {
        "step_memory": say, "Size": Size, "memory_rise": say,
        "own": SimpleNamespace(memory_here=say, stream_here=say),
    }  # fmt: skip
    for program in programs:
        exec(program.partition("; ")[2], here)
    assert said == [
        (("torch.nn:RNN", {"nonlinearity": "relu"}), size, "plain"), ("a, b", 64), ("authors' loop restated", 7),
        ("RelRNN", 9),
    ]  # fmt: skip
    own: Any = here["own"]
    assert (own.B, own.H, own.D) == (_attention_layers.B, _attention_layers.H, _attention_layers.D)


# The page


def test_a_page_with_everything() -> None:
    where = {"threads": 1, "T": 5}
    result = {
        "machine": {"processor": "one", "cores": 2, "load_average": [0.5, 9.0, 9.0], "torch": "2", "python": "3"},
        "summary": {"a/b": {"geomean": 0.5, "worst": 0.75}, "exponents": {"a": 2.0}},
        "shares": {"a": {"geomean": 0.256, "median": 0.9, "least": 0.124}},
        "peers": [
            {**where, "contestant": "p", "median_ms": 12.34, "compile_s": 5.67},
            {**where, "contestant": "q", "median_ms": 2.0, "compile_s": None},
            {**where, "contestant": "r", "note": "fails"},
        ],
        "notes": ["one is left out"],
        "rows": [
            {**where, "contestant": "a", "median_ms": 1.2345, "share": 0.5, "memory_mb": 33.333},
            {"threads": 2, "T": 5, "contestant": "b", "median_ms": 2.0, "share": None, "memory_mb": 4.0},
        ],
    }
    text = markdown("cells", "bench cells --json", result, ("threads", "T"), {"a/b": (None, 0.75)})
    lines = text.splitlines()
    assert lines[0] == "# engram bench cells"
    assert "Measured by `engram bench cells --json` on one, 2 cores, load 0.5, torch 2, Python 3." in text
    assert "[bench-cells.json](bench-cells.json)" in text
    assert "![ratios](bench-cells.svg)" in text
    assert "| a/b | 0.50 | 0.75 | worst ≤ 0.75 | yes |" in lines
    assert "| exponents" not in text
    assert "| a | 26% | 12% |" in lines
    assert "| threads, T | contestant | ms | seconds to compile |" in lines
    assert "| 1, 5 | p | 12.3 | 5.7 |" in lines
    assert "| 1, 5 | q | 2.0 |  |" in lines
    assert "| 1, 5 | r | fails | |" in lines
    assert "- one is left out" in lines
    assert [line for line in lines if line.startswith("| threads T |")] == 2 * ["| threads T | 1 5 | 2 5 |"]
    assert lines[lines.index("| a | 1.23 (50%) |  |") :][:2] == ["| a | 1.23 (50%) |  |", "| b |  | 2 |"]
    assert "Peak memory of a training step" in text
    assert "| a | 33.3 |  |" in lines  # the share is one of time, not of memory


def test_times_of_attention_are_medians(monkeypatch: pytest.MonkeyPatch, three_threads: None) -> None:
    monkeypatch.setattr(attention, "interleaved", lambda calls, repeats: {name: [1.0, 9.0, 2.0] for name in calls})
    monkeypatch.setattr(_attention_layers, "make", lambda name: RNN(_attention_layers.D, 2))
    assert json.loads(attention.times_here(("a", "b"), 3, 2, 1)) == {"a": 2.0, "b": 2.0}
    assert torch.get_num_threads() == 1


def test_exponents_and_rounds() -> None:
    """Least squares by hand: 2, 4 and 32 at 1, 2 and 4 have the slope 2 in logarithms to the base 2: 1, 2, 5."""
    rows = [{"contestant": "a", "T": steps, "what": what} for steps, what in ((1, 2.0), (2, 4.0), (4, 32.0))]
    rows.append({"contestant": "b", "T": 1, "what": 1.0})
    assert attention.exponent(rows, "a", "what") == pytest.approx(2.0)
    assert attention.exponent(rows, "b", "what") is None
    assert attention.exponent([], "a", "what") is None
    assert _measure.spread([0.004, 0.001, 0.002]) == {"median_ms": 2.0, "min_ms": 1.0, "max_ms": 4.0}

"""What a bench says of times that are known: ours over theirs, per step or per token, exponents, shares; by hand."""

import io
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from engram.bench import _attention_layers as attention_layers
from engram.bench import (
    _memory,
    _peers,
    _worker_program,
    attention,
    cells,
    certify,
    ensemble,
    layers,
    linear,
    maps,
    products,
    tasks,
    token,
    train,
)
from engram.bench._size import Size
from engram.tasks import Parity
from engram.train import Settings, make_network

SIZE = Size(T=5, B=3, H=4, D=2)


def known(*rounds: dict[str, float]) -> Callable[..., dict[str, list[float]]]:
    """In place of ``interleaved``: race k takes these seconds, one second for those that are not named."""
    left = iter(rounds)

    def raced(contestants: dict[str, Any], repeats: int, *_: object) -> dict[str, list[float]]:
        seconds = next(left)
        return {name: [seconds.get(name, 1.0)] for name in contestants}

    return raced


# linear recurrences


def test_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4D takes 1 and 3 microseconds a step, where its step loop takes 2: half and one and a half."""
    monkeypatch.setattr(linear, "LENGTHS", (10, 40))
    others = dict.fromkeys(("S4D, step loop", "S4", "LinearRNN", "LinearRNN, blocks", "LinearRNN, step loop"), 2e-6)
    costs = {10: {"S4D": 1e-6, **others}, 40: {"S4D": 3e-6, **others, "LinearRNN": 1e-6}}
    times = [{name: steps * cost for name, cost in found.items()} for steps, found in costs.items()]
    monkeypatch.setattr(linear, "interleaved", known(*times))
    told: list[str] = []
    summary = linear.bench_linear(repeats=1, tell=told.append)["summary"]
    assert summary["S4D/S4D, step loop"] == pytest.approx({"geomean": math.sqrt(0.75), "worst": 1.5})
    assert summary["LinearRNN/LinearRNN, step loop"] == pytest.approx({"geomean": math.sqrt(0.5), "worst": 1.0})
    assert summary["time per step of S4D, T=40/T=10"] == pytest.approx({"geomean": 3.0, "worst": 3.0})
    assert told[0].startswith("T=10, microseconds per step: S4D 1.0, S4D, step loop 2.0")


# token by token


def test_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds of one token, out of the seconds of a call."""
    monkeypatch.setattr(token, "SIZES", (4, 6))
    monkeypatch.setattr(token, "TOKENS", 2)
    monkeypatch.setattr(token, "interleaved", known({"LSTM": 0.5}, {"LSTM": 4.0}))
    told: list[str] = []
    result = token.bench_token(repeats=1, tell=told.append)
    assert result["summary"]["LSTM/torch.nn.LSTM"] == pytest.approx({"geomean": math.sqrt(2), "worst": 4.0})
    assert {row["median_ms"] for row in result["rows"] if row["contestant"] == "LSTM"} == {250.0, 2000.0}
    assert "torch.nn.LSTM 500.00 ms" in told[0]
    assert "LSTM 250.00 ms" in told[0].split(", ")


def test_a_token_is_read_in_the_state_after_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token, "TOKENS", 4)
    seen: list[Any] = []

    class Counts(nn.Module):
        def forward(self, input: torch.Tensor, state: int | None) -> tuple[torch.Tensor, int]:
            seen.append(state)
            return input, (state or 0) + 1

    call = token._generate(Counts(), 3)
    call()
    call()
    assert seen == 2 * [None, 1, 2, 3]


# maps


def test_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sizes, ours over theirs; the exponent out of the four largest sizes, where the time is N^1.5."""
    monkeypatch.setattr(maps, "SIZES", (8, 12))
    monkeypatch.setattr(maps, "OPERATOR_SIZES", (8, 16, 24, 32, 64))
    power = {"8": 1e4} | {str(size): size**1.5 for size in (16, 24, 32, 64)}
    races = [{"exponential": 0.25, "cayley": 3.0}, {"exponential": 1.0, "torch cayley": 2.0}]
    monkeypatch.setattr(maps, "interleaved", known(*races, *[power] * len(maps.OPERATORS)))
    result = maps.bench_maps(repeats=1, tell=lambda line: None)["summary"]
    assert result["exponential/torch.linalg.matrix_exp"] == pytest.approx({"geomean": 0.5, "worst": 1.0})
    assert result["cayley/torch cayley"] == pytest.approx({"geomean": math.sqrt(1.5), "worst": 3.0})
    assert result["exponents"] == pytest.approx(dict.fromkeys(maps.OPERATORS, 1.5))


def test_a_map_is_timed_away_from_its_start() -> None:
    """Vectors of n numbers are moved by 0.3 / n^(1/4) each, within seven deviations; matrices stay."""
    torch.manual_seed(0)
    module = nn.Module()
    module.vector, module.matrix = nn.Parameter(torch.zeros(10_000)), nn.Parameter(torch.zeros(3, 3))
    maps._perturb(module)
    assert module.vector.std().item() == pytest.approx(0.03, rel=0.05)
    assert not module.matrix.any()


# products


def test_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "QUICK", (SIZE, Size(6, 2, 4, 1)))
    monkeypatch.setattr(products, "WIDTHS", (2, 4, 8))
    races = [{"MIRNN": 0.5, "MIRNN plain loop": 2.0, "RAC uncompiled": 3.0}, {"MIRNN": 0.5}]
    squares = [{"layer": width**2} for width in (2, 4, 8)]
    cubes = [{"layer": width**3} for width in (2, 4, 8)]
    monkeypatch.setattr(products, "interleaved", known(*races, *cubes, *squares))
    result = products.bench_products(quick=True, repeats=1, tell=lambda line: None)
    summary = result["summary"]
    assert summary["MIRNN/plain loop"] == pytest.approx({"geomean": math.sqrt(1 / 8), "worst": 0.5})
    assert summary["MIRNN/torch.nn.RNN"] == pytest.approx({"geomean": 0.5, "worst": 0.5})
    assert summary["RAC uncompiled/plain loop"] == pytest.approx({"geomean": math.sqrt(3), "worst": 3.0})
    assert summary["exponents"] == pytest.approx({"2RNN": 3.0, "CPRNN": 2.0})
    assert result["widths_ms"]["CPRNN"] == {2: 4e3, 4: 16e3, 8: 64e3}


def test_products_by_the_ways_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(layer: Any, input: Any, gradient: Any, executor: str = "auto") -> str:
        return executor

    monkeypatch.setattr(products, "training_step", told)
    found: dict[str, Any] = products._contestants(SIZE)
    for name in products.LAYERS:
        assert [found[name + kind] for kind in ("", " uncompiled", " plain loop")] == ["auto", "torch", "plain"]


# several seeds as one


def test_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight as one take 3 s, one alone 2 s, two workers 4 s."""
    asked: list[Any] = []

    @contextmanager
    def nobody(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(ask=lambda *what: asked.append(what))

    monkeypatch.setattr(ensemble, "workers", nobody)
    monkeypatch.setattr(ensemble, "together_steps", nobody)
    monkeypatch.setattr(ensemble, "steps_of_each", lambda model, seeds: lambda: None)
    times = {ensemble.ALONE: 2.0, ensemble.TOGETHER: 3.0, ensemble.WORKERS: 4.0}
    monkeypatch.setattr(ensemble, "interleaved", known(times))
    told: list[str] = []
    summary = ensemble.bench_ensemble(quick=True, repeats=1, tell=told.append)["summary"]
    assert {name: ratio["worst"] for name, ratio in summary.items()} == {
        "exprnn: 8 as one/1 alone": 1.5,
        "exprnn: 8 as one/2 workers of 4": 0.75,
    }
    assert told == ["exprnn: 1.50 of one alone, 0.75 of two workers"]
    assert asked == [("prepare", "exprnn")]


def test_two_workers_share_the_seeds() -> None:
    two = object.__new__(ensemble.Workers)
    pipes: Any = [SimpleNamespace(stdin=io.StringIO(), stdout=io.StringIO("done\n")) for _ in range(2)]
    two.processes = pipes
    two.ask("prepare", "lstm")
    asked = [json.loads(each.stdin.getvalue()) for each in pipes]
    assert asked == [["prepare", "lstm", [0, 1, 2, 3]], ["prepare", "lstm", [4, 5, 6, 7]]]


def test_a_call_takes_all_steps_of_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    class Counts:
        def __init__(self, settings: Any, fabric: object) -> None:
            self.seed = settings.seed

        def train_step(self) -> None:
            steps.append(self.seed)

    monkeypatch.setattr(ensemble, "make_fabric", lambda settings: None)
    monkeypatch.setattr(ensemble, "Loop", Counts)
    ensemble.steps_of_each("exprnn", [3, 5])()
    assert steps == [3] * ensemble.STEPS + [5] * ensemble.STEPS


# certificates


def test_certify(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases of full rank take 3 s and those of low rank 1 s, where FLINT takes 2."""
    tiny = certify.cases(64)
    full, low = list(tiny)[:4], list(tiny)[4:]
    seconds = dict.fromkeys(full, 3.0) | dict.fromkeys(low, 1.0) | {certify.BASE: 2.0}

    def raced(contestants: dict[str, Any], *_: object) -> dict[str, list[float]]:
        return {name: [seconds[name]] for name, call in contestants.items() if call() is None or name == certify.BASE}

    monkeypatch.setattr(certify, "cases", lambda side: tiny)
    monkeypatch.setattr(certify, "random_rank", lambda side: int)
    monkeypatch.setattr(certify, "certificate_memory", lambda name, side: 8.0)
    monkeypatch.setattr(certify, "interleaved", raced)
    told: list[str] = []
    summary = certify.bench_certify(quick=True, repeats=1, tell=told.append)["summary"]
    assert [summary[name]["worst"] for name in (certify.FULL, certify.LOW)] == [1.5, 0.5]
    assert told[0].endswith(": 1.50 of FLINT's rank, 1.00 of the matrix in memory")


# layers and cells


def test_growth_is_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 s for 4000 steps, where 250 took one: twice the time of a step."""
    monkeypatch.setattr(layers, "interleaved", known({"4000": 32.0}))
    assert layers._growth(1) == pytest.approx(2.0)


def test_a_line_has_milliseconds() -> None:
    said = layers._line(2, SIZE, {"engram": [0.0015], "torch.nn.RNN": [0.003]})
    assert said == "2 thread(s) (5, 3, 4, 2): engram 1.5 ms, torch.nn.RNN 3.0 ms"
    rows = [{"threads": 2, **SIZE._asdict(), "contestant": "LSTM", "median_ms": 1.5}]
    assert cells._line(rows, 2, SIZE, ["LSTM"]) == "2 thread(s) (5, 3, 4, 2): LSTM 1.5 ms"


def test_shares_of_the_best_product() -> None:
    """In a fastest run of 2 ms the square product of side 1024 has a rate of 2 1024^3 / 2; half its operations in 4 ms
    are a quarter of that. With two threads it is compared with the product of two threads."""
    whole = 2 * 1024**3
    rows: list[dict[str, Any]] = [
        {"contestant": cells.BEST, "threads": 1, "min_ms": 2.0, "median_ms": 4.0, "flops": whole},
        {"contestant": cells.BEST, "threads": 2, "min_ms": 1.0, "median_ms": 1.0, "flops": whole},
        {"contestant": cells.BEST, "threads": 1, "min_ms": 5.0, "median_ms": 8.0, "flops": whole},  # a slow moment
        {"contestant": "LSTM", "threads": 1, "min_ms": 3.0, "median_ms": 4.0, "flops": whole // 2},
        {"contestant": "LSTM", "threads": 2, "min_ms": 3.0, "median_ms": 4.0, "flops": whole // 2},
        {"contestant": "LEM", "threads": 2, "min_ms": 3.0, "median_ms": 4.0, "flops": None},
    ]
    cells._add_shares(rows)
    assert [row["share"] for row in rows] == [0.5, 1.0, 0.25, 0.25, 0.125, None]
    shares = cells._shares(rows)["LSTM"]
    assert shares == pytest.approx({"geomean": math.sqrt(1 / 32), "median": 3 / 16, "least": 0.125})


def test_cells_by_hand() -> None:
    """Each ratio at the sizes where both ran: the plain loop of the second one was left out."""
    times = {"LSTM": (1.0, 9.0), "LSTM, no compiler": (3.0, 5.0), "LSTM, bare products": (0.5, 3.0),
             "torch.nn.LSTM": (4.0, 3.0), "LSTM, plain loop": (6.0,)}  # fmt: skip
    rows = [
        {"threads": 1, **SIZE._replace(T=steps)._asdict(), "contestant": name, "median_ms": found}
        for name, both in times.items()
        for steps, found in zip((5, 6), both, strict=False)
    ]
    worst = {name: ratio["worst"] for name, ratio in cells._ratios(rows, ["LSTM"]).items()}
    assert worst == pytest.approx({
        "LSTM/torch.nn.LSTM": 3.0, "LSTM/plain loop": 1 / 6, "LSTM/bare products": 3.0,
        "LSTM without a compiler/plain loop": 0.5,
    })  # fmt: skip


def test_cells_that_are_too_heavy_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step of the RNN has T B H (3 H + 2 D) products, twice as many operations: they may be the limit."""
    monkeypatch.setattr(cells, "interleaved", known({}, {}))
    nobody: Any = SimpleNamespace(contestants=lambda *_: {})
    flops = 2 * SIZE.T * SIZE.B * SIZE.H * (3 * SIZE.H + 2 * SIZE.D)
    raced = []
    notes: list[str] = []
    for limit in (flops, flops - 1):
        monkeypatch.setattr(cells, "MOST_FLOPS", limit)
        rows = cells._race(SIZE, 1, ["RNN"], 1, nobody, notes)
        raced.append("RNN" in {row["contestant"] for row in rows})
    assert raced == [True, False]
    assert len(notes) == 1


# attention


def test_against_torch_is_ours_over_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"torch.nn.LSTM": 2.0, "LSTM": 1.0, "RelLSTM": 5.0, "RelRNN": 3.0}
    monkeypatch.setattr(attention, "printed_by_child", lambda program: json.dumps(times))
    found = [ratio["worst"] for ratio in attention._against_torch(1).values()]
    assert found == [0.5, 2.5, 1.5]


@pytest.mark.parametrize(("seconds", "megabytes", "stays"), [(1.0, 10.0, True), (1.3, 10.0, False), (1.0, 35.0, False)])
def test_one_length_tells_that_both_may_grow_with_the_square(
    seconds: float, megabytes: float, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the steps, sixteen times as much: at most 20 s, and half of the 1000 MB that are free."""
    monkeypatch.setattr(attention, "free_memory", lambda: 1000.0)
    rows = [{"T": 10, "contestant": "SAB", "median_ms": 1e3 * seconds, "memory_mb": megabytes}]
    assert attention._fit(["SAB"], rows, 40, []) == ["SAB"] * stays


def test_the_widest_peer_within_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a width w it has w^2 numbers, half of them complex: 1.5 w^2."""

    def peer(name: str, input_size: int, width: int) -> nn.Module:
        module = nn.Module()
        module.real = nn.Parameter(torch.zeros(width**2 // 2))
        module.complex = nn.Parameter(torch.zeros(width**2 // 2, dtype=torch.complex64))
        return module

    monkeypatch.setattr(attention_layers, "Peer", peer)
    for budget, width in ((54, 6), (95, 6), (96, 8)):
        assert attention_layers.count(attention_layers.matched("x", budget)) == 1.5 * width**2


def test_growth_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty pieces; what the first twentieth of them loads is no growth."""
    resident = iter([1.0, 1.0, *[100.0] * 37, 110.0])
    monkeypatch.setattr(attention_layers, "PIECE", 2)
    monkeypatch.setattr(attention_layers, "resident_memory", lambda: next(resident))
    monkeypatch.setattr(attention_layers, "make", lambda name: nn.RNN(attention_layers.D, 2))
    threads = torch.get_num_threads()
    try:
        assert attention_layers.stream_here("x", 80) == pytest.approx(1.1)
    finally:
        torch.set_num_threads(threads)


# memory


def test_memory_in_megabytes() -> None:
    """As the kernel says it, in kB: pages that come and go meanwhile are a few per cent."""
    status = Path("/proc/self/status")
    if not status.exists() or "VmHWM" not in status.read_text():
        pytest.skip("this system does not tell it")
    lines = status.read_text().splitlines()
    said = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Vm")}
    assert _memory.peak() == pytest.approx(said["VmHWM"] / 1024, rel=0.05)
    assert attention_layers.resident_memory() == pytest.approx(said["VmRSS"] / 1024, rel=0.05)


def test_memory_of_the_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a short step loads is there before; the step that counts is as long as asked for, and of the executor."""
    happened: list[Any] = []
    peaks = iter([10.0, 35.0])

    def step(layer: Any, input: torch.Tensor, gradient: torch.Tensor, executor: str) -> Callable[[], None]:
        return lambda: happened.append((len(input), len(gradient), executor))

    def peak() -> float:
        happened.append("peak")
        return next(peaks)

    monkeypatch.setattr(_memory, "training_step", step)
    monkeypatch.setattr(_memory, "peak", peak)
    threads = torch.get_num_threads()
    try:
        assert _memory.step_memory(("torch.nn:RNN", {}), SIZE, "plain") == 25.0
    finally:
        torch.set_num_threads(threads)
    assert happened == [(2, 2, "plain"), "peak", (SIZE.T, SIZE.T, "plain"), "peak"]


# LSTMs of others


def test_the_loop_that_peers_compile_is_an_lstm() -> None:
    """Outputs, both last states and all gradients of torch.nn.LSTM, in pieces of three steps; float64 rounding."""
    torch.manual_seed(0)
    reference = nn.LSTM(2, 4).double()
    loop = _peers.LoopLSTM(reference, _peers.steps, 3)
    x = torch.randn(7, 3, 2, dtype=torch.float64)
    for module in (reference, loop):
        output, (h, c) = module(x)
        (output.square().sum() + c.sum()).backward()
    theirs, (their_h, their_c) = reference(x)
    torch.testing.assert_close((output, h, c), (theirs, their_h[0], their_c[0]), rtol=0, atol=1e-12)
    assert _peers._difference(reference, loop) == ""
    loop.weight_hh_l0.grad.mul_(1 + 1e-3)  # type: ignore[union-attr]
    assert _peers._difference(reference, loop).startswith("wrong gradient of weight_hh_l0: relative error 0.001")
    loop.weight_hh_l0.grad.fill_(torch.nan)  # type: ignore[union-attr]
    assert _peers._difference(reference, loop).startswith("wrong gradient of weight_hh_l0: relative error nan")


def test_compiling_is_what_the_first_call_took_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds the first time and three the second: seven to compile."""
    clock = iter([0.0, 10.0, 20.0, 23.0])
    monkeypatch.setattr(_peers, "SIZE", SIZE._replace(D=SIZE.H))
    monkeypatch.setattr(_peers, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(_peers, "_fresh_compiler", nullcontext)
    monkeypatch.setattr(_peers, "interleaved", known({}))
    monkeypatch.setattr(
        _peers,
        "compiled_peers",
        lambda reference, quick: {"whole": lambda: _peers.LoopLSTM(reference, _peers.steps, 2)},
    )
    rows = _peers.race_peers(1, 1, lambda line: None, quick=True)
    compiling = {row["contestant"]: row.get("compile_s") for row in rows if "note" not in row}
    assert compiling.pop("whole") == 7.0
    assert {*compiling.values()} == {None}


# a step in another process


def test_a_pause_is_no_part_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    class Takes(nn.Module):
        def forward(self, input: torch.Tensor) -> tuple[torch.Tensor]:
            wait(2.0)
            return (torch.zeros(0, requires_grad=True) * 1,)

    monkeypatch.setattr(_worker_program, "time", SimpleNamespace(sleep=wait, perf_counter=lambda: now[0]))
    steps = _worker_program.Steps()
    steps.layers["a"] = Takes()
    assert steps.step("a") == 2.0
    assert now[0] == pytest.approx(2.0 + 2 * _worker_program.PAUSE)


# what is raced


def test_the_bare_loop_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step, as the run beside it does."""
    clipped: list[tuple[int, float]] = []
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda parameters, clip: clipped.append((len(parameters), clip)))
    monkeypatch.setattr(train, "STEPS", 3)
    settings = Settings.of(Parity(length=4), "rnn", hidden=4, batch=2, validate_every=0, clip=0.5)
    train.bare_loop(settings)()
    assert clipped == 3 * [(len([*make_network(settings).parameters()]), 0.5)]


def test_a_set_is_as_large_as_what_is_read_of_it() -> None:
    read: list[int] = []

    class Batches:
        def __getitem__(self, k: int) -> None:
            read.append(k)

    asked: list[Any] = []
    task: Any = SimpleNamespace(batches=lambda split, batch, size: (asked.append((split, batch, size)), Batches())[1])
    tasks.as_a_set(task, 4 * tasks.BATCH + 1)
    assert asked == [("train", tasks.BATCH, 4 * tasks.BATCH + 1)]
    assert read == [0, 1, 2, 3]

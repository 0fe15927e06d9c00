"""What the other processes of a race do, here in this one: requests are lines, each is answered by one."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import engram
from engram.bench import _ensemble_program, _peers, _worker, _worker_program, cells, ensemble
from engram.bench._cells import CELLS
from engram.bench._size import Size
from engram.bench._worker import SecondProcess

SIZE = Size(T=5, B=3, H=4, D=2)


def answers(requests: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(each) + "\n" for each in requests)))
    monkeypatch.setattr(sys, "stdout", out)
    _worker_program.main()
    monkeypatch.undo()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_worker(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Size, layers, steps: an answer each, also to what fails; what a layer prints is none."""
    monkeypatch.setattr(_worker_program.time, "sleep", lambda seconds: None)
    threads, seen = torch.get_num_threads(), []

    def make(make: str, inputs: int, hidden: int, options: dict[str, Any]) -> nn.Module:
        print("noise", file=sys.stdout)  # noqa: T201
        seen.append((make, inputs, hidden, options, torch.get_num_threads()))
        return nn.GRU(inputs, hidden, **options)

    monkeypatch.setattr(_worker_program, "make_layer", make)
    try:
        found = answers(
            [
                {"do": "size", "with": [3, list(SIZE)]},
                {"do": "layer", "with": ["a", "x:Y", {"num_layers": 2}]},
                {"do": "step", "with": ["a"]},
                {"do": "step", "with": ["b"]},
                {"do": "size", "with": [1, list(SIZE)]},
                {"do": "step", "with": ["a"]},
                {"do": "engram", "with": []},
            ],
            monkeypatch,
        )
    finally:
        torch.set_num_threads(threads)
    assert seen == [("x:Y", SIZE.D, SIZE.H, {"num_layers": 2}, 3)]
    assert found[0] == found[1] == {"answer": None}
    assert 0 < found[2]["answer"] < 60
    assert "KeyError: 'b'" in found[3]["error"]
    assert "KeyError: 'a'" in found[5]["error"]  # another size: the layers of the one before are gone
    assert Path(found[6]["answer"]["path"]) == Path(engram.__file__)
    assert len(found) == 7


def test_a_step_of_the_worker_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of one step, also after the second; garbage is collected before, not during it."""
    import gc

    monkeypatch.setattr(_worker_program.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(gc, "collect", lambda: 0)
    threads, steps, enabled = torch.get_num_threads(), _worker_program.Steps(), []
    try:
        steps.size(1, list(SIZE))
        steps.layer("a", "torch.nn:RNN", {})
        layer: Any = steps.layers["a"]
        layer.register_forward_hook(lambda *_: enabled.append(gc.isenabled()))
        steps.step("a")
        first = layer.weight_hh_l0.grad.clone()
        steps.step("a")
        assert first.abs().max() > 0
        assert torch.equal(layer.weight_hh_l0.grad, first)
        assert enabled == [False, False]
        layer.register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            steps.step("a")
        assert gc.isenabled()
        assert (steps.input.shape, steps.gradient.shape) == ((5, 3, 2), (5, 3, 4))
    finally:
        torch.set_num_threads(threads)


def test_a_version_that_is_installed_beside(tmp_path: Path) -> None:
    """An unpacked wheel says its own, whatever the file above it says."""
    facts = tmp_path / "wheel" / "engram-0.0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: engram\nVersion: 0.0.1\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "engram"\nversion = "0.0.2"\n')
    assert _worker_program.version_in(tmp_path / "wheel") == "0.0.1"


class Process:
    """In place of a process: answers by lines that are known."""

    made: list["Process"]

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.stdin, self.stdout = io.StringIO(), io.StringIO("".join(line + "\n" for line in self.lines))
        self.killed = self.waited = 0
        Process.made.append(self)

    lines: list[str]

    def wait(self, seconds: float | None = None) -> int:
        self.waited += 1
        if seconds is not None and not self.killed:
            raise _worker.subprocess.TimeoutExpired("worker", seconds)
        return 7

    def kill(self) -> None:
        self.killed += 1

    def communicate(self) -> None:
        self.waited += 1


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    Process.made, Process.lines = [], []
    monkeypatch.setattr(_worker.subprocess, "Popen", Process)
    return Process


def test_how_a_worker_is_started(process: type[Process], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With our source first, what was on the path after it, and the variables that were asked for; ended
    if it hangs."""
    path = str(Path(engram.__file__))
    process.lines = [json.dumps({"answer": {"path": path, "version": "1"}})]
    source = Path(path).parents[1]
    for before, expected in (("/a:/b", f"{source}:/a:/b"), (None, str(source))):
        if before is None:
            monkeypatch.delenv("PYTHONPATH")
        else:
            monkeypatch.setenv("PYTHONPATH", before)
        with SecondProcess(ENGRAM_COMPILE="0") as worker:
            (made,) = process.made
            assert json.loads(made.stdin.getvalue()) == {"do": "engram", "with": []}
        assert worker.engram["version"] == "1"
        assert made.options["env"]["PYTHONPATH"] == expected
        assert made.options["env"]["ENGRAM_COMPILE"] == "0"
        assert made.command == [sys.executable, "-P", _worker_program.__file__]
        assert (made.killed, made.waited) == (1, 2)
        assert made.stdin.closed
        assert made.stdout.closed
        process.made.clear()


def test_a_worker_of_another_place(process: type[Process], tmp_path: Path) -> None:
    """It imported an engram that is not the one asked for: refused, and ended."""
    process.lines = [json.dumps({"answer": {"path": str(tmp_path / "engram" / "__init__.py"), "version": "1"}})]
    with pytest.raises(RuntimeError, match="in place of engram in"):
        SecondProcess()
    assert process.made[0].killed == 1


def test_seeds_of_a_worker_of_the_ensemble(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Prepared once, and run then too, for what is compiled; run again each time it is asked to."""
    did: list[Any] = []

    def steps_of_each(model: str, seeds: list[int]) -> Any:
        did.append((model, seeds))
        return lambda: did.append("steps")

    monkeypatch.setattr(_ensemble_program, "steps_of_each", steps_of_each)
    lines = [["run", "", []], ["prepare", "lstm", [0, 1]], ["run", "", [0, 1]], ["prepare", "rnn", [2]]]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(line) + "\n" for line in lines)))
    _ensemble_program.main()
    assert did == [("lstm", [0, 1]), "steps", "steps", ("rnn", [2]), "steps"]
    assert capsys.readouterr().out == "done\n" * 4


def test_the_workers_of_the_ensemble(process: type[Process], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two, of our own source; both are waited for at the end, also after a failure."""
    process.lines = ["done"]
    monkeypatch.setenv("PYTHONPATH", "/a")
    with pytest.raises(RuntimeError, match="ended with exit code 7"), ensemble.workers() as two:  # noqa: PT012
        two.ask("prepare", "lstm")
        two.ask("run", "")
    assert len(process.made) == 2
    for made in process.made:
        assert made.command[1:] == ["-P", "-m", "engram.bench._ensemble_program"]
        assert made.options["env"]["PYTHONPATH"] == f"{Path(engram.__file__).parents[1]}:/a"
        assert made.waited >= 1


def test_what_the_ensemble_trains() -> None:
    """The same settings but for the seed; no validation in between, and a rate that leaves the weights."""
    for model in ensemble.MODELS:
        one, other = ensemble.settings_of(model, 3), ensemble.settings_of(model, 4)
        assert (one.seed, other.seed, one.model.name) == (3, 4, model)
        assert one.replace(seed=4) == other
        assert (one.budget.validate_every, one.optimiser.lr) == (0, 1e-12)
        if model != "corelnet":
            assert (one.model.hidden, one.budget.batch, one.task.steps) == (64, 32, 100)


# The bench of cells as a whole, with times that are known


@pytest.mark.parametrize("quick", [False, True])
def test_the_bench_of_cells(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size with one thread and two; LSTM has peers and tokens; memory is that of the loop over the plain one."""
    raced: list[Any] = []

    def race(size: Any, threads: int, names: Any, repeats: int, worker: Any, notes: list[str]) -> list[dict[str, Any]]:
        raced.append((size.T, threads, names, repeats, torch.get_num_threads()))
        row = {"threads": threads, **size._asdict(), "min_ms": 1.0, "max_ms": 1.0, "flops": 8}
        times = {cells.BEST: 1.0, "LSTM": 2.0, "LSTM" + cells.PLAIN: 4.0}
        return [{**row, "contestant": name, "median_ms": ms} for name, ms in times.items()]

    class Nobody:
        def __init__(self, **environment: str) -> None:
            assert environment == {"ENGRAM_COMPILE": "0"}

        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(cells, "SecondProcess", Nobody)
    monkeypatch.setattr(cells, "_race", race)
    monkeypatch.setattr(cells, "SIZES", (SIZE, SIZE._replace(T=6)))
    monkeypatch.setattr(cells, "QUICK", (SIZE,))
    monkeypatch.setattr(cells, "peak_memory", lambda kind, size, executor="auto": {"auto": 3.0, "plain": 4.0}[executor])
    monkeypatch.setattr(cells, "race_peers", lambda *words: [words[:2] + words[3:]])
    tokens = {"LSTM/torch.nn.LSTM": {"geomean": 0.5, "worst": 0.5}}
    monkeypatch.setattr(cells, "token_ratios", lambda *words: tokens if words == (["LSTM"], quick, 4) else None)
    told: list[str] = []
    found = cells.bench_cells(quick, 4, told.append, only=("LSTM", "GRU"))
    sizes, threads = ((5,) if quick else (5, 6)), ((1,) if quick else (1, 2))
    assert raced == [(steps, k, ["LSTM", "GRU"], 4, k) for k in threads for steps in sizes]
    assert found["peers"] == [(k, 4, quick) for k in threads]
    summary = {name: ratio["worst"] for name, ratio in found["summary"].items()}
    assert summary == {
        "LSTM/plain loop": 0.5, "memory LSTM/plain loop": 0.75, "memory GRU/plain loop": 0.75,
        "one token, LSTM/torch.nn.LSTM": 0.5,
    }  # fmt: skip
    assert found["shares"]["LSTM"]["median"] == pytest.approx(8 / 2 / (2 * cells.SIDE**3 / 1))
    assert "memory of a training step, LSTM: 0.75 of the plain loop" in told


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "find_spec", lambda name: name == "torch" or None)
    assert cells._missing(["LSTM"]) == []
    assert cells._missing([*CELLS]) == ["torchrecurrent is not installed, and left out"]


# Peers that are compiled, without a compiler


def test_peers_that_fail_or_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a note in place of a time; the others say how long they took to compile."""

    def fails() -> nn.Module:
        raise ValueError("no\n  compiler")

    def wrong(reference: nn.LSTM) -> nn.Module:
        return _peers.LoopLSTM(reference, lambda d, h, c, w: _peers.steps(d, h, c, 2 * w), SIZE.T)

    monkeypatch.setattr(_peers, "SIZE", SIZE._replace(D=SIZE.H))
    monkeypatch.setattr(_peers, "_fresh_compiler", lambda: _peers.suppress())
    monkeypatch.setattr(_peers, "find_spec", lambda name: None)
    monkeypatch.setattr(_peers, "interleaved", lambda calls, repeats: {name: [float(repeats)] for name in calls})
    monkeypatch.setattr(
        _peers,
        "compiled_peers",
        lambda reference, quick: {
            "right": lambda: _peers.LoopLSTM(reference, _peers.steps, 2),
            "wrong": lambda: wrong(reference), "fails": fails,
        },
    )  # fmt: skip
    told: list[str] = []
    rows = {row["contestant"]: row for row in _peers.race_peers(2, 3, told.append, quick=True)}
    assert {name for name, row in rows.items() if "note" in row} == {"minGRU-pytorch", "wrong", "fails"}
    assert rows["minGRU-pytorch"]["note"] == "not installed"
    assert rows["fails"]["note"] == "fails: ValueError: no compiler"
    assert rows["wrong"]["note"].startswith("wrong gradient of weight_")
    assert rows["right"]["median_ms"] == 3e3
    assert isinstance(rows["right"]["compile_s"], float)
    assert rows["torch.nn.LSTM"]["compile_s"] is None
    assert all(row["threads"] == 2 and row["T"] == SIZE.T for row in rows.values())
    assert "2 thread(s), fails: fails: ValueError: no compiler" in told


def test_how_many_steps_are_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda run, **options: SimpleNamespace(run=run, **options))
    reference = nn.LSTM(2, 4)
    size = _peers.SIZE.T
    for quick in (False, True):
        found = {name: make() for name, make in _peers.compiled_peers(reference, quick).items()}
        whole = f"torch.compile, whole loop of {size}"
        every = {"torch.compile, step": 1, f"torch.compile, {_peers.UNROLLED} steps": _peers.UNROLLED,
                 whole: size, "torch scan": size, "torch scan, torch.compile": size}  # fmt: skip
        if quick:
            del every[whole]
        assert {name: layer.every for name, layer in found.items()} == every
        compiled: Any = found["torch.compile, step"].run
        assert (compiled.run, compiled.dynamic, compiled.fullgraph) == (_peers.steps, False, True)
        assert not isinstance(found["torch scan"].run, SimpleNamespace)
        assert isinstance(found["torch scan, torch.compile"].run, SimpleNamespace)


def test_a_layer_of_batches_first() -> None:
    layer = nn.GRU(2, 2, batch_first=True)
    x = torch.randn(5, 3, 2)
    peer = _peers.BatchFirst(SimpleNamespace)  # type: ignore[arg-type]
    peer.layer = lambda x: layer(x)[0]  # type: ignore[assignment]
    plain = nn.GRU(2, 2)
    plain.load_state_dict(layer.state_dict())
    (output,) = peer(x)
    torch.testing.assert_close(output, plain(x)[0])

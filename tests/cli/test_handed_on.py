"""Every option of a command reaches what does the work: each command is called with options that are not the defaults,
and what it calls is replaced by a recorder that stops it there."""

import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from engram.certify import TTEqualCoresClaim, rac_claim
from engram.cli import main
from engram.nn import RNN, RelRNN
from engram.probe import watch
from engram.tasks import TASKS, Copy


class Stop(BaseException):
    """No error that a command would tell."""


@dataclass
class Recorder:
    """Stands for functions, and notes how they are called."""

    monkeypatch: pytest.MonkeyPatch
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def stands_for(self, place: str, returns: Any = Stop) -> None:
        """``file:name`` of engram.cli; returns a value, or stops the command."""
        file, _, name = place.partition(":")

        def call(*words: Any, **options: Any) -> Any:
            self.calls.append((name, words, options))
            if returns is Stop:
                raise Stop
            return returns

        self.monkeypatch.setattr(import_module(f"engram.cli.{file}"), name, call)

    def of(self, *words: str) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        """The calls of a command."""
        with pytest.raises(Stop):
            main(list(words))
        return self.calls


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    return Recorder(monkeypatch)


# Which weights of a run, and whose code it may import

OF_A_RUN = {
    "convert flat": ("_converted", ["convert", "flat", "one", "-o", "made"]),
    "convert deepen": ("_converted", ["convert", "deepen", "one", "-o", "made"]),
    "convert unitary": ("_converted", ["convert", "unitary", "one"]),
    "convert torch": ("_convert_torch", ["convert", "torch", "one", "-o", "made.safetensors"]),
    "convert onnx": ("_convert_onnx", ["convert", "onnx", "one", "-o", "made.onnx"]),
    "convert automaton": ("_convert_automaton", ["convert", "automaton", "one", "-o", "made.json"]),
    "plot attention": ("_plot_attention", ["plot", "attention", "one"]),
    "plot spectrum": ("_plot_spectrum", ["plot", "spectrum", "one"]),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("command", OF_A_RUN)
def test_the_weights_of_a_run(command: str, last: bool, recorder: Recorder) -> None:
    file, words = OF_A_RUN[command]
    recorder.stands_for(f"{file}:load_network")
    if hasattr(import_module(f"engram.cli.{file}"), "RunDirectory"):
        recorder.stands_for(f"{file}:RunDirectory", SimpleNamespace())
    calls = recorder.of(*words, "--allow", "a", "--allow", "b.py", *["--last"] * last)
    for name, given, options in calls:
        assert given[0] == Path("one")
        if name == "RunDirectory":
            assert given[1] == ("a", "b.py")
        else:
            assert options == {"best": not last, "allow": ("a", "b.py")}
    assert calls[-1][0] == "load_network"


@pytest.mark.parametrize("last", [False, True])
def test_evaluate(last: bool, recorder: Recorder) -> None:
    task = SimpleNamespace(options=lambda: {"delay": 1, "length": 2}, name="copy")
    recorder.stands_for("_evaluate:RunDirectory", SimpleNamespace(settings=SimpleNamespace(task=task)))
    recorder.stands_for("_evaluate:evaluate")
    words = ["evaluate", "one", "--split", "valid", "--option", "delay=9", "length=3", "--allow", "a"]
    (_, opened, _), (_, given, options) = recorder.of(*words, *["--last"] * last)
    assert opened == (Path("one"), ("a",))
    assert given == (Path("one"), "valid")
    assert options == {"best": not last, "allow": ("a",), "delay": 9, "length": 3}


@pytest.mark.parametrize("last", [False, True])
def test_probe_of_a_run(last: bool, recorder: Recorder) -> None:
    recorder.stands_for("_probe:profile_run")
    words = ["--length", "7", "--parts", "lyapunov", "spectrum", "--seed", "3", "--allow", "a", *["--last"] * last]
    ((_, given, options),) = recorder.of("probe", "one", *words)
    assert given == ("one",)
    assert {"before", "each"} <= options.keys()
    shown = {name: value for name, value in options.items() if name not in ("before", "each")}
    assert shown == {"best": not last, "length": 7, "allow": ("a",), "parts": ("lyapunov", "spectrum"), "seed": 3}


@pytest.mark.parametrize("length", [None, 7])
def test_probe_of_a_factory(length: int | None, recorder: Recorder) -> None:
    """A length that is not given is left to the probe."""
    recorder.stands_for("_probe:profile")
    words = ["--option", "input_size=3", "hidden_size=4", "--seed", "5", "--input-size", "3", "--parts", "lyapunov"]
    words += ["--length", str(length)] if length else []
    ((_, given, options),) = recorder.of("probe", "torch.nn:GRU", *words, "--no-batch-first")
    assert (given[0].input_size, given[0].hidden_size) == (3, 4)
    assert options.pop("before")
    assert options.pop("each")
    expected = {"input_size": 3, "batch_first": False, "name": "torch.nn:GRU", "parts": ("lyapunov",), "seed": 5}
    assert options == expected | ({"length": 7} if length else {})


def test_resume(recorder: Recorder) -> None:
    recorder.stands_for("_resume:resume")
    ((_, given, options),) = recorder.of("resume", "one", "--steps", "9", "--allow", "a")
    assert given == (Path("one"),)
    assert options == {"steps": 9, "show": True, "observe": watch, "allow": ("a",)}


# Training and sweeps


def test_train(recorder: Recorder) -> None:
    """The words are kept as they were typed, so that they can be typed again."""
    recorder.stands_for("_train:train")
    recorder.monkeypatch.setattr(sys, "argv", ["/bin/engram", "train", "copy", "--out", "my runs"])
    words = ["--delay", "4", "--model", "lstm", "--hidden", "5", "--seed", "6", "--steps", "7", "--lr", "0.25"]
    ((_, given, options),) = recorder.of("train", "copy", *words, "--out", "my runs", "--name", "n")
    settings, out, name = given
    assert (out, name) == (Path("my runs"), "n")
    assert options == {"show": True, "command": "engram train copy --out 'my runs'", "observe": watch}
    assert settings.task == Copy(4)
    assert (settings.model.name, settings.model.hidden, settings.seed) == ("lstm", 5, 6)
    assert (settings.budget.steps, settings.optimiser.lr) == (7, 0.25)


def test_find_lr(recorder: Recorder) -> None:
    recorder.stands_for("_find_lr:find_lr")
    words = ["--lr-from", "1e-5", "--lr-to", "0.5", "--lr-steps", "9", "--hidden", "5"]
    ((_, given, _),) = recorder.of("train", "copy", "--find-lr", *words)
    assert given[1:] == (1e-5, 0.5, 9)
    assert given[0].model.hidden == 5


@pytest.mark.parametrize("dry", [False, True])
def test_seeds(dry: bool, recorder: Recorder) -> None:
    """From --seed on; as many workers as runs at most; the folder is named by --name, else by task and model."""
    recorder.stands_for("_train:engine_for", SimpleNamespace(slots=100))
    recorder.stands_for("_train:show_plan" if dry else "_train:run_plan")
    recorder.stands_for("_train:estimate", "an estimate")
    words = ["--seeds", "3", "--seed", "7", "--hidden", "5", "--out", "here", "--json", *["--dry-run"] * dry]
    calls = recorder.of("train", "copy", *words)
    name, given, options = calls[-1]
    sweep, folder = given[:2]
    assert [run.settings.seed for run in sweep.runs] == [7, 8, 9]
    assert folder == Path("here") / sweep.name
    assert sweep.name.startswith("copy-exprnn-seeds-")
    if dry:
        assert (name, given[2:], options) == ("show_plan", ("an estimate", 3, True), {"every": True})
    else:
        assert (name, given[3:]) == ("run_plan", ((), True))
        assert [words[2:] for each, words, _ in calls if each == "engine_for"] == [(), (3,)]
    recorder.calls.clear()
    _, given, _ = recorder.of("train", "copy", *words, "--name", "mine")[-1]
    assert (given[0].name, given[1]) == ("mine", Path("here/mine"))


SWEEP = 'seeds = 2\n[base]\ntask = "copy"\nsteps = 3\n'


@pytest.mark.parametrize("dry", [False, True])
def test_sweep(dry: bool, recorder: Recorder) -> None:
    Path("s.toml").write_text(SWEEP)
    engine = SimpleNamespace(slots=5)
    recorder.stands_for("_sweep:engine_for", engine)
    recorder.stands_for("_sweep:estimate", "an estimate")
    recorder.stands_for("_sweep:show_plan" if dry else "_sweep:run_plan")
    words = ["--out", "here", "--workers", "3", "--engine", "ray", "--address", "a:1", "--allow", "b", "--json"]
    calls = recorder.of("sweep", "s.toml", *words, *["--dry-run"] * dry)
    plan = calls[0][1][0]
    assert calls[0][1] == (plan, Path("here"), 3, "ray", "a:1")
    assert plan.count == 2
    if dry:
        assert calls[-1][1:] == ((plan, Path("here"), "an estimate", 5, True), {"every": True})
    else:
        assert calls[-1][1] == (plan, Path("here"), engine, ("b",), True)
    recorder.calls.clear()
    recorder.of("sweep", "s.toml", *["--dry-run"] * dry)
    assert recorder.calls[0][1][1:] == (Path("sweeps/s"), 0, "local", "auto")


def test_a_plan_alone_leaves_no_workers(recorder: Recorder) -> None:
    Path("s.toml").write_text(SWEEP)
    closed: list[str] = []
    recorder.stands_for("_sweep:engine_for", SimpleNamespace(slots=5, close=lambda: closed.append("closed")))
    recorder.stands_for("_sweep:estimate", "an estimate")
    recorder.stands_for("_sweep:show_plan", None)
    assert main(["sweep", "s.toml", "--dry-run"]) == 0
    assert closed == ["closed"]


@pytest.mark.parametrize("command", ["status", "table", "export"])
def test_what_a_sweep_has(command: str, recorder: Recorder) -> None:
    """The folder that is named, whose code is allowed."""
    recorder.stands_for(f"_sweep_{command}:plan_and_out")
    ((_, given, _),) = recorder.of("sweep", command, "s.toml", "--out", "here", "--allow", "a")
    assert given == (Path("s.toml"), Path("here"), ("a",))


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("form", ["csv", "json", "markdown", "latex"])
def test_the_form_of_a_table(
    form: str, over: bool, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row per run, or per setting; to a file in a new folder, or to standard output."""
    from engram.cli import _sweep_export, _sweep_table
    from engram.sweep import FORMATS

    Path("s.toml").write_text(SWEEP)
    for module in (_sweep_export, _sweep_table):
        monkeypatch.setattr(
            module, "FORMATS", {name: lambda rows, name=name: f"{name} {len(rows)}\n" for name in FORMATS}
        )
    expected = f"{form} {1 if over else 2}\n"
    flags = ["--format", form, *["--over-seeds"] * over]
    assert main(["sweep", "export", "s.toml", *flags]) == 0
    assert capsys.readouterr().out == expected
    assert main(["sweep", "export", "s.toml", *flags, "-o", "new/table"]) == 0
    assert Path("new/table").read_text() == expected
    capsys.readouterr()
    assert main(["sweep", "table", "s.toml", "--format", form]) == 0
    assert capsys.readouterr().out == f"{form} 1\n"


# Certificates


def test_certify(recorder: Recorder) -> None:
    """Limits go to the estimate, which is before anything is computed, and to the proof."""
    costs: list[Any] = []
    claim = rac_claim(2, 3, 8, 3, 4)
    recorder.monkeypatch.setattr(
        type(claim), "check_cost", lambda *words: (costs.append(words[1:]), SimpleNamespace(seconds=1, megabytes=1))[1]
    )
    recorder.stands_for("_certify:certify")
    words = ["--modes", "2", "--channels", "3", "--steps", "8", "--depth", "3", "--templates", "4"]
    limits = ["--max-side", "99", "--max-memory", "77", "--max-seconds", "55"]
    ((_, given, options),) = recorder.of(
        "certify", "rac", *words, *limits, "--witness", "construction", "--seed", "5", "--prime", "101"
    )
    assert given == (claim,)
    assert costs == [(99, 77.0, 55.0)]
    assert options == {
        "witness": "construction", "seed": 5, "prime": 101, "max_side": 99, "max_memory": 77.0, "max_seconds": 55.0
    }  # fmt: skip


def test_certify_a_tensor_train(recorder: Recorder) -> None:
    recorder.stands_for("_certify:certify")
    words = ["--modes", "2", "--rank", "4", "--steps", "6"]
    recorder.stands_for("_certify:certify")
    for equal in (True, False):
        recorder.calls.clear()
        ((_, (claim,), _),) = recorder.of("certify", "tt", *words, *["--equal-cores"] * equal)
        assert isinstance(claim, TTEqualCoresClaim) == equal
        assert [*claim.sizes().values()][:3] == [2, 4, 6]


def test_atlas(recorder: Recorder) -> None:
    recorder.stands_for("_atlas:atlas")
    words = ["--max-side", "64", "-o", "here", "--jobs", "3", "--seed", "4", "--prime", "101"]
    ((_, (sizes, out), options),) = recorder.of("certify", "atlas", *words)
    assert (sizes.max_side, out) == (64, Path("here"))
    assert options.pop("tell")
    assert options == {"seed": 4, "prime": 101, "jobs": 3}


MIN_WIDTH = {
    (): {"modes": 3, "steps": 8, "outputs": 1},
    ("--modes", "5", "--steps", "6", "--outputs", "2"): {"modes": 5, "steps": 6, "outputs": 2},
    ("--task", "parity"): {
        "modes": TASKS["parity"]().input_size, "steps": TASKS["parity"]().steps // 2 * 2,
        "outputs": TASKS["parity"]().output_size,
    },
    ("--task", "parity", "--steps", "4"): {
        "modes": TASKS["parity"]().input_size, "steps": 4, "outputs": TASKS["parity"]().output_size
    },
}  # fmt: skip


@pytest.mark.parametrize("words", MIN_WIDTH)
def test_min_width(words: tuple[str, ...], recorder: Recorder) -> None:
    recorder.stands_for("_min_width:min_width")
    more = ["--channels", "4", "--depth", "5", "--templates", "6", "--max-side", "99", "--seed", "7", "--prime", "101"]
    ((_, given, options),) = recorder.of("certify", "min-width", *words, *more)
    assert given == ()
    others = {"channels": 4, "depth": 5, "templates": 6, "max_side": 99, "seed": 7, "prime": 101}
    assert options == MIN_WIDTH[words] | others


def test_verify(recorder: Recorder) -> None:
    recorder.stands_for("_verify:verify")
    ((_, given, options),) = recorder.of(
        "verify", "a.json", "--max-side", "9", "--max-memory", "7", "--max-seconds", "5"
    )
    assert (given, options) == ((Path("a.json"),), {"max_side": 9, "max_memory": 7.0, "max_seconds": 5.0})


# Figures and tables


def test_figures(recorder: Recorder) -> None:
    recorder.stands_for("_plot_rac:plot_rac")
    recorder.stands_for("_plot_task:plot_task")
    recorder.stands_for("_size:sizings")
    recorder.of("plot", "rac", "--depth", "4", "--steps", "8", "-o", "a.svg")
    recorder.of(
        "plot", "task", "copy", "--delay", "5", "--examples", "2", "--split", "valid", "--seed", "3", "-o", "b.svg"
    )
    recorder.of("size", "--lag", "9", "--channels", "2", "--max-depth", "3")
    circuit, task, size = [given for _, given, _ in recorder.calls]
    assert circuit == (4, 8, Path("a.svg"))
    assert task == (Copy(5), Path("b.svg"), 2, "valid", 3)
    assert size == (9, 2, 3)


def test_the_spectrum_of_a_new_model(recorder: Recorder) -> None:
    recorder.stands_for("_plot_spectrum:plot_spectrum")
    ((_, (matrix, output, title), _),) = recorder.of(
        "plot", "spectrum", "--model", "scornn", "--hidden", "6", "--seed", "5", "-o", "a.svg"
    )
    assert matrix.shape == (6, 6)
    assert (output, title) == (Path("a.svg"), "scornn, N = 6, as initialised")
    for seed, same in (("5", True), ("6", False)):
        recorder.calls.clear()
        ((_, (again, *_), _),) = recorder.of("plot", "spectrum", "--model", "scornn", "--hidden", "6", "--seed", seed)
        assert bool((again == matrix).all()) == same
    recorder.calls.clear()
    ((_, (matrix, *_, title), _),) = recorder.of("plot", "spectrum")
    assert (len(matrix), title) == (64, "exprnn, N = 64, as initialised")


BENCHES = ("layers", "cells", "maps", "train", "runs", "ensemble", "tasks", "linear", "products", "token", "attention",
           "certify")  # fmt: skip


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", BENCHES)
def test_a_bench(name: str, quick: bool, recorder: Recorder) -> None:
    """Each runs the race of its name, and plots it, with the number of sizes that --quick has."""
    from engram.cli import _bench

    race = _bench.RACES[name]
    assert race.run.__name__ == f"bench_{name}"
    assert race.plot.__name__ == f"plot_{name}"
    assert race.run.__module__ == f"engram.bench.{name}"
    seen: list[Any] = []

    def run(*words: Any, **more: Any) -> None:
        seen.append((words, more))
        raise Stop

    recorder.monkeypatch.setitem(_bench.RACES, name, race._replace(run=run))
    more = {"layers": ["--against", "old"], "cells": ["--only", "LSTM", "GRU"]}.get(name, [])
    recorder.of("bench", name, "--repeats", "3", *["--quick"] * quick, *more)
    (((is_quick, repeats, tell), options),) = seen
    assert (is_quick, repeats) == (quick, 3)
    assert callable(tell)
    assert options == {"layers": {"against": Path("old")}, "cells": {"only": ("LSTM", "GRU")}}.get(name, {})


# Lists of runs


def test_the_runs_that_are_listed(recorder: Recorder) -> None:
    recorder.stands_for("_runs_list:chosen")
    ((_, given, _),) = recorder.of("runs", "--out", "here", "--where", "task=copy", "--sort", "-lr")
    assert given[:3] == (Path("here"), "task=copy", "-lr")
    assert {"delay", "valid_accuracy", "test_loss"} <= {*given[3]}


@pytest.mark.parametrize("command", ["remove", "archive"])
def test_the_runs_that_are_meant(command: str, recorder: Recorder) -> None:
    recorder.stands_for(f"_runs_{command}:folders_of")
    (first, second) = (
        recorder.of("runs", command, *words)[-1][1]
        for words in (["one", "two"], ["--where", "task=copy", "--out", "here"])
    )
    assert first == (f"runs {command}", (Path("one"), Path("two")), "", Path("runs"))
    assert second == (f"runs {command}", (), "task=copy", Path("here"))


@pytest.mark.parametrize("command", ["remove", "archive"])
@pytest.mark.parametrize("yes", [False, True])
def test_the_question_before(command: str, yes: bool, recorder: Recorder) -> None:
    recorder.stands_for(f"_runs_{command}:show_plan", "a question?")
    recorder.stands_for(f"_runs_{command}:confirm")
    calls = recorder.of("runs", command, "one", "two", *["--yes"] * yes)
    assert calls == [
        ("show_plan", (command.capitalize(), [Path("one"), Path("two")]), {}),
        ("confirm", (f"runs {command}", "a question?", yes), {}),
    ]


@pytest.mark.parametrize("command", ["remove", "archive"])
def test_without_a_yes_nothing_is_done(command: str, recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    recorder.stands_for(f"_runs_{command}:show_plan", "a question?")
    recorder.stands_for(f"_runs_{command}:confirm", False)
    recorder.stands_for(f"_runs_{command}:{command}_run")
    assert main(["runs", command, "one"]) == 0
    assert capsys.readouterr().err == f"nothing was {command}d\n"
    assert len(recorder.calls) == 2


def test_the_runs_that_are_compared(recorder: Recorder) -> None:
    recorder.stands_for("_compare:folders_of")
    recorder.of("compare", "--where", "task=copy", "--out", "here")
    assert recorder.calls[0][1] == ("compare", (), "task=copy", Path("here"))
    recorder.stands_for("_runs_rename:rename_run")
    assert recorder.of("runs", "rename", "one", "three")[-1][1] == (Path("one"), "three")


ANSWERS = {
    "y\n": True,
    "Y\n": True,
    " yes \n": True,
    "n\n": False,
    "\n": False,
    "": False,
    "yess\n": False,
    "no\n": False,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer(answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from engram.cli._runs_chosen import confirm

    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: answer)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert confirm("runs remove", "Remove 1 run?", False) == ANSWERS[answer]
    assert capsys.readouterr().err == "Remove 1 run? [y/N] "
    assert confirm("runs remove", "Remove 1 run?", True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("missing", ["stdin", "stderr", "closed"])
def test_nobody_to_answer(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from engram.cli._runs_chosen import confirm
    from engram.errors import OptionError

    terminal = SimpleNamespace(isatty=lambda: missing != "stdin", readline=lambda: "y\n")
    monkeypatch.setattr(sys, "stdin", None if missing == "closed" else terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: missing != "stderr")
    with pytest.raises(OptionError, match=r"engram runs remove asks before it deletes, .*: add --yes"):
        confirm("runs remove", "Remove 1 run?", False)


# What is plotted and said of a run


@pytest.mark.parametrize("directions", [1, 2])
def test_which_attention_is_plotted(directions: int, recorder: Recorder) -> None:
    """Of the layer and of the test sequence that are asked for, both counted from 1; of two directions the first."""
    torch.manual_seed(0)
    task, core = Copy(5, 2), RelRNN(10, 4, num_layers=2, nu=3, rho=2, bidirectional=directions == 2)
    network = nn.Module()
    network.core, network.encode = core, lambda inputs: inputs
    settings = SimpleNamespace(task=task, seed=6, model=SimpleNamespace(label="relrnn"))
    recorder.stands_for("_plot_attention:RunDirectory", SimpleNamespace(settings=settings))
    recorder.stands_for("_plot_attention:load_network", network)
    recorder.stands_for("_plot_attention:plot_attention_weights")
    _, (attention, output, title), options = recorder.of(
        "plot", "attention", "one", "--layer", "2", "--sequence", "3", "--option", "delay=7", "-o", "a.svg"
    )[-1]
    changed = Copy(7, 2)
    inputs = changed.batches("test", 3, 6, 3)[0].inputs
    *_, expected = core(inputs[:, 2:3], return_attention=True)
    assert options == {"cell": directions}
    assert (output, title) == (Path("a.svg"), f"relrnn, layer 2, {changed.steps} steps of copy")
    for found, right in zip(parts_of(attention), parts_of(expected), strict=True):
        torch.testing.assert_close(found, right)
    assert main(["plot", "attention", "one", "--layer", "3"]) == 2


def parts_of(attention: Any) -> list[torch.Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(attention) if isinstance(each, torch.Tensor)]


def test_the_title_of_a_spectrum(recorder: Recorder) -> None:
    """The step is that of the weights: of the best validation, or with --last the last one."""
    settings = SimpleNamespace(task=Copy(), model=SimpleNamespace(label="rnn", hidden=4, layers=2))
    recorder.stands_for("_plot_spectrum:RunDirectory", SimpleNamespace(settings=settings))
    recorder.stands_for("_plot_spectrum:load_network", SimpleNamespace(core=RNN(2, 4)))
    recorder.stands_for("_plot_spectrum:plot_spectrum")
    for flags, best in (([], True), (["--last"], False)):
        recorder.stands_for("_plot_spectrum:steps_trained", 3000)
        calls = recorder.of("plot", "spectrum", "one", *flags)
        assert [given for _, given, _ in calls][-1][2] == "rnn, layer 1 of 2, N = 4, after 3,000 steps on copy"
        assert [named["best"] for name, _, named in calls if name == "steps_trained"][-1] == best


def test_the_age_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that a machine with a clock ahead of this one has made: none, not less than none."""
    from engram.cli import _runs_table
    from engram.runs import Row

    monkeypatch.setattr(_runs_table, "time", SimpleNamespace(time=lambda: 1000.0))
    for created, age in ((940.0, "60 s"), (1060.0, "0.0 s")):
        text = _runs_table.runs_table(Path(), [Row("a", "done", created=created)])
        assert text.splitlines()[1].endswith(f"  {age}")


def test_the_first_column_keeps_twenty_letters() -> None:
    from engram.cli._text_table import table

    lines = table(["run", "x"], [["a" * 40, "b" * 30], ["c" * 10, ""]], width=40).splitlines()
    assert lines[1] == "a" * 19 + "…" + "  " + "b" * 30
    assert table(["run", "x"], [["a" * 10, "b" * 30]], width=20).splitlines()[1] == "a" * 10 + "  " + "b" * 30
    assert table(["run", "x"], [["a" * 40, "b"]], width=43).splitlines()[1] == "a" * 40 + "  b"  # exactly
    assert table(["run", "x"], [["a" * 40, "b"]], width=42).splitlines()[1] == "a" * 38 + "…  b"


@pytest.mark.parametrize(("groups", "runs", "tasks"), [(1, 1, 1), (1, 3, 1), (2, 3, 1), (2, 3, 2)])
def test_a_word_on_what_is_compared(
    groups: int, runs: int, tasks: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from engram.cli import _compare

    monkeypatch.setattr(_compare, "compare_table", lambda found: (["run"], [["a"]]))
    _compare._show(SimpleNamespace(groups=[0] * groups, runs=[0] * runs, tasks=["t"] * tasks))  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert ("These runs differ in the seed only." in said) == (groups == 1 and runs > 1)
    assert ("Runs of 2 tasks" in said) == (tasks > 1)


@pytest.mark.parametrize(("option", "value"), [("from", "1e-5"), ("to", "1"), ("steps", "9"), ("figure", "a.svg")])
def test_options_of_a_test_of_rates(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone they would do nothing; nor is a plan or are several seeds meant with it."""
    assert main(["train", "copy", f"--lr-{option}", value]) == 2
    assert f"--lr-{option} is for --find-lr, which was not given" in capsys.readouterr().err
    for more in (["--dry-run"], ["--seeds", "2"]):
        assert main(["train", "copy", "--find-lr", *more]) == 2
        assert "not both" in capsys.readouterr().err

"""A sweep from the command line, without training: what it prints at the end, when it is stopped, when runs failed;
where it trains; and small parts of other commands that nothing else looks at."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from cyclopts import CycloptsError

from engram.cli import _mistakes, _sweep_run, _verdict, main
from engram.cli._model_options import _fits, check_options, help_of, in_words
from engram.cli._sweep_plan import check_out, plan_and_out
from engram.cli._sweep_run import engine_for, run_plan
from engram.cli._sweep_show import Live
from engram.errors import OptionError, StoppedError
from engram.models import Option
from engram.nn import RNN
from engram.sweep import Plan, make_plan, read_sweep
from engram.tasks import Copy


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text("seeds = 2\n[base]\ntask = 'copy'\nsteps = 3\nthreads = 2\n[grid]\nlr = [1.0, 2.0]")
    return make_plan(read_sweep(Path("small.toml")))


def done(loss: float) -> dict[str, Any]:
    return {"status": "done", "results": {"test": {"loss": loss}}, "parameters": 7}


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """In place of a sweep: what it does, what fails, and what it was made of."""
    state: dict[str, Any] = {"does": lambda: None, "failed": {}, "before": 0}

    class Made:
        def __init__(self, plan: Plan, *words: Any) -> None:
            self.plan, self.failed = plan, state["failed"]
            self.results = {run.key: done(0.25) for run in plan.runs[:3]}
            state["made"] = words

        def run(self) -> None:
            state["signal"] = signal.getsignal(signal.SIGTERM)
            state["does"]()

    monkeypatch.setattr(_sweep_run, "Sweep", Made)
    monkeypatch.setattr(
        _sweep_run, "read_results", lambda plan, out: {r.key: done(1.0) for r in plan.runs[: state["before"]]}
    )
    monkeypatch.setattr(_sweep_run, "estimate", lambda plan, done: "an estimate")
    monkeypatch.setattr(_sweep_run, "show_plan", lambda *words: state.update(shown=words))
    return state


ENGINE: Any = SimpleNamespace(slots=5)


def test_a_sweep_to_its_end(plan: Plan, sweep: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Whole paths, in a folder that is made; while it runs SIGTERM is Ctrl-C, and afterwards what it was."""
    before = signal.getsignal(signal.SIGTERM)
    run_plan(plan, Path("a/b"), ENGINE, ("mine.py", "package"), False)
    where, engine, allow, live = sweep["made"]
    assert (where, engine) == (Path.cwd() / "a" / "b", ENGINE)
    assert allow == (str(Path.cwd() / "mine.py"), "package")
    assert isinstance(live, Live)
    assert live.done == 0
    assert where.is_dir()
    assert sweep["shown"] == (plan, Path("a/b"), "an estimate", 5)
    assert sweep["signal"] is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before
    out = capsys.readouterr().out
    assert "0.25" in out
    assert out.endswith("runs: a/b\n")


def test_a_sweep_as_json(plan: Plan, sweep: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run_plan(plan, Path("a"), ENGINE, (), True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["lr"] for row in rows] == [1.0, 2.0]


def test_nothing_is_announced_where_nothing_is_left(plan: Plan, sweep: dict[str, Any]) -> None:
    sweep["before"] = plan.count
    run_plan(plan, Path("a"), ENGINE, (), False)
    assert "shown" not in sweep
    assert sweep["made"][-1].done == plan.count


def test_a_sweep_that_is_stopped(plan: Plan, sweep: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """It says how far it is, and the signal is as before."""
    before = signal.getsignal(signal.SIGTERM)
    sweep["does"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, Path("a"), ENGINE, (), False)
    told = capsys.readouterr()
    assert told.err == "stopped: 3 of 4 runs are done, in a.\nThe same command goes on from here.\n"
    assert told.out == ""
    assert signal.getsignal(signal.SIGTERM) is before


def test_runs_that_failed(plan: Plan, sweep: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The table all the same, the first reason, and where the rest stands."""
    sweep["failed"] = {"x": "no memory", "y": "killed"}
    with pytest.raises(StoppedError) as told:
        run_plan(plan, Path("a"), ENGINE, (), False)
    assert str(told.value) == (
        "2 of 4 runs failed: no memory. The same command tries them again; a/.workers.log has what they said"
    )
    assert "runs: a" in capsys.readouterr().out


def test_where_it_trains(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the threads of its largest run; the log is beside the runs. Ray has a folder that all machines share."""
    monkeypatch.setattr(_sweep_run, "Local", lambda *words: ("local", *words))
    monkeypatch.setattr(_sweep_run, "Ray", lambda *words: ("ray", *words))
    log = Path.cwd() / "a" / ".workers.log"
    assert engine_for(plan, Path("a"), 3) == ("local", 3, 2, log)
    assert engine_for(plan, Path("a")) == ("local", 0, 2, log)
    assert not Path("a").exists()
    assert engine_for(plan, Path("a"), 3, "ray", "b:1") == ("ray", "b:1", 3, 2, log)
    assert Path("a").is_dir()


def test_the_folder_of_a_sweep(plan: Plan) -> None:
    """--out, else sweeps/ and the name of the file."""
    assert plan_and_out(Path("small.toml"), None, ())[1] == Path("sweeps/small")
    assert plan_and_out(Path("small.toml"), Path("b"), ())[1] == Path("b")
    check_out(Path("small"))
    Path("small").mkdir()
    check_out(Path("small"))
    for action in (
        lambda: check_out(Path("small.toml")),
        lambda: plan_and_out(Path("small.toml"), Path("small.toml"), ()),
    ):
        with pytest.raises(OptionError, match=r"--out small\.toml is a file"):
            action()
    with pytest.raises(OptionError, match="engram sweep needs FILE"):
        plan_and_out(None, None, ())
    Path("wrong.toml").write_text("[base]\ntask = 'cpoy'\nsteps = 3")
    with pytest.raises(OptionError, match=r"^wrong\.toml: .*cpoy"):
        plan_and_out(Path("wrong.toml"), None, ())


WORKERS = {"0": False, "1": True, "1024": True, "1025": False}


@pytest.mark.parametrize("workers", WORKERS)
def test_how_many_workers(workers: str, plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before the file is looked at."""
    assert main(["sweep", "none.toml", "--workers", workers]) == 2
    assert ("--workers must be" in capsys.readouterr().err) == (not WORKERS[workers])


def test_an_address_is_for_ray(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "none.toml", "--address", "a:1"]) == 2
    assert "--address is for the engine ray; the engine is local" in capsys.readouterr().err


# Mistakes that cyclopts tells in its own words


def test_an_error_of_ours_is_told_as_it_is() -> None:
    ours = OptionError("what is wrong")
    error = CycloptsError("something")
    error.__cause__ = ours
    assert _mistakes.in_one_line(error, ["train"]) is ours


def test_an_error_of_an_unknown_kind_is_one_line() -> None:
    assert str(_mistakes.in_one_line(CycloptsError("one\n   and  more"), ["train"])) == "one and more"


WHOLE = {"1e3": True, "8.0": True, "8.5": False, "eight": False, "inf": False, "nan": False, "-2.0": True, "": False}


@pytest.mark.parametrize("text", WHOLE)
def test_a_whole_number_written_another_way(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _mistakes._is_whole(text) == WHOLE[text]
    if WHOLE[text]:
        assert main(["train", "copy", "--hidden", text]) == 2
        assert capsys.readouterr().err.endswith(f"got {text!r}: write {int(float(text))}\n")


SMALL = {
    "A run directory. More": "a run directory", "TOML file; more": "TOML file", "L, the layers.": "L, the layers",
    "The file\nof it.": "the file of it", "N hidden units.": "N hidden units", "": "",
}  # fmt: skip


@pytest.mark.parametrize("text", SMALL)
def test_a_help_within_a_sentence(text: str) -> None:
    assert _mistakes._begin_small(text) == SMALL[text]


OPPOSITES = {("--bias", word): ": write --no-bias" for word in ("no", "OFF", "0", "false")}
OPPOSITES |= {("--bias", "yes"): "", ("--no-bias", "no"): ""}


@pytest.mark.parametrize("case", OPPOSITES)
def test_the_opposite_of_a_flag(case: tuple[str, str]) -> None:
    assert _mistakes._opposite(*case) == OPPOSITES[case]


# Options of models


def test_what_a_word_can_say() -> None:
    """Of a type in several parts, those that are numbers, flags, texts, choices and tuples; None where it is the
    default."""
    for kind, default, words in (
        (int, 1, int), (int, None, int | None), (torch.dtype, None, None), (int | torch.dtype, 1, int),
        (None, None, None), (int | torch.dtype, None, int | None), (Literal["a", "b"], "a", Literal["a", "b"]),
        (tuple[int, ...], (), tuple[int, ...]),
        (tuple[torch.dtype, ...], (), None), (Any, None, int | float | str | None), (Any, 3, int | float | str),
    ):  # fmt: skip
        assert in_words(SimpleNamespace(type=kind, default=default)) == words, kind  # type: ignore[arg-type]
    assert Option


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [("a", Literal["a", "b"], True), ("c", Literal["a", "b"], False), ("a", int | Literal["a"], True),
     ((1, 2), tuple[int, int], True), ([[1], [2]], tuple[tuple[int], ...], True), ([True], tuple[int, ...], False),
     ([], tuple[int, ...], True), ("ab", tuple[str, str], False), (1.0, int | float, True)],
    ids=repr,
)  # fmt: skip
def test_whether_a_value_fits(value: Any, kind: Any, fits: bool) -> None:
    assert _fits(value, kind) is fits


def test_what_a_file_may_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option of a type that no word can say is left to the class itself; one that is unknown is named."""
    from engram.cli import _model_options

    options = {"device": SimpleNamespace(type=torch.device, default=None), "size": SimpleNamespace(type=int, default=1)}
    monkeypatch.setattr(_model_options, "model_class", lambda name: RNN)
    monkeypatch.setattr(_model_options, "options_of", lambda kind: options)
    check_options("rnn", {"device": object(), "size": 3})
    with pytest.raises(OptionError, match=r"size of rnn must be of type int, got 'x'"):
        check_options("rnn", {"device": object(), "size": "x"})
    with pytest.raises(OptionError, match=r"unknown option 'sise' of rnn.*Did you mean 'size'"):
        check_options("rnn", {"sise": 3})


def test_a_help_of_one_counts_before_one_of_several() -> None:
    """Also that of a base: what is said of an argument alone is more exact; defaults are not said twice."""

    class Base(torch.nn.Module):
        """Base.

        Args:
            one: of the
                base, in two lines. Default: 3
            more: of the base. Default: None, nothing
            third (int): with a type.
        """

    class Derived(Base):
        """Derived.

        Args:
            one, two: of both; see :class:`~engram.nn.RNN`.
            more: of the derived.

        Returns:
            three: no argument.
        """

    said = help_of(Derived)
    assert {name: text for name, text in said.items() if name} == {
        "one": "of the base, in two lines.", "two": "of both; see RNN.", "more": "of the derived.",
        "third": "with a type.",
    }  # fmt: skip
    assert help_of(Base)["more"] == "of the base. Default: nothing"


# Why a network fails


def test_what_the_probe_says_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sequences of at most a thousand steps, in the dtype of the network; symbols stay whole numbers."""
    asked: list[dict[str, Any]] = []

    def profile(network: Any, **options: Any) -> Any:
        asked.append(options)
        parts = {"a": SimpleNamespace(words=lambda: "One."), "b": SimpleNamespace(words=lambda: "Two.")}
        return SimpleNamespace(parts=parts)

    monkeypatch.setattr(_verdict, "profile", profile)
    run: Any = SimpleNamespace(folder=Path("x"), allow=())
    for vocabulary, dtype in ((0, torch.float64), (5, torch.float32)):
        network = SimpleNamespace(vocabulary=vocabulary, dtype=torch.float64)
        monkeypatch.setattr(_verdict, "load_network", lambda *_, network=network, **__: network)
        for delay in (5, 2000):
            task = Copy(delay)
            assert _verdict.verdict(run, task) == "The probe: One. Two."
            options = asked.pop()
            length = min(task.steps, 1000)
            assert (options["length"], options["batch_first"]) == (length, False)
            assert (options["data"].shape[:2], options["data"].dtype) == ((length, 2), dtype)
            assert options["parts"] == ("gradient_reach", "lyapunov")

    def fails(*_: object, **__: object) -> None:
        raise OptionError("it has no state")

    monkeypatch.setattr(_verdict, "profile", fails)
    assert _verdict.verdict(run, Copy(5)) == "The probe cannot tell why: it has no state"


def test_a_data_set_has_no_width(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "min-width", "--task", "psmnist"]) == 2
    assert "psmnist is a data set: in place of --task give --modes, --steps and --outputs" in capsys.readouterr().err

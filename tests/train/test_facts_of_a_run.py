"""What a run says of itself and asks of the machine: its floor, its cost, its memory, its devices; by hand."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning_fabric
import pytest
import torch

from engram.errors import OptionError
from engram.tasks import Copy, LagCopy, TransferCopy
from engram.train import (
    RunDirectory,
    Settings,
    Worker,
    evaluate,
    make_fabric,
    plan,
    settings_from_flat,
    train_together,
    why_not_together,
)
from engram.train import _loop as training
from engram.train import _memory as memory
from engram.train import _plan as planning
from engram.train import _together as together
from engram.train import _trained as trained
from engram.train._checkpoint import Checkpoint
from engram.train._double import Double
from engram.train._loop import Loop
from engram.train._report import Report
from engram.train._stacked import ALIGNED, Columns, Stacked


def small(**flat: Any) -> Settings:
    given = {"hidden": 4, "batch": 4, "steps": 3, "validate_every": 0, "test_samples": 4, "threads": 1}
    return Settings.of(Copy(5), "rnn", **{**given, **flat})


def test_what_is_reached_without_memory(tmp_path: Path) -> None:
    """Of eight symbols one in eight is guessed; blanks are known, so that ten of 25 steps lose log 8 each."""
    facts = RunDirectory.create(tmp_path / "run", small()).facts
    assert (facts["metric"], facts["chance"]) == ("accuracy", 1 / 8)
    assert facts["memoryless_baseline"] == pytest.approx(10 * math.log(8) / 25)


DEVICES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one": ({"device": "cuda:1"}, {"accelerator": "cuda", "devices": [1], "strategy": "auto"}),
    "all": ({"device": "cuda"}, {"accelerator": "cuda", "devices": 1, "strategy": "auto"}),
    "two": ({"processes": 2}, {"accelerator": "cpu", "devices": 2, "strategy": "ddp_spawn"}),
    "mixed": ({"precision": "bf16-mixed"}, {"devices": 1, "precision": "bf16-mixed"}),
}


@pytest.mark.parametrize("case", DEVICES)
def test_what_fabric_is_asked_for(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, expected = DEVICES[case]
    monkeypatch.setattr(lightning_fabric, "Fabric", lambda **asked: asked)
    asked: Any = make_fabric(small(**given))
    assert asked == {"accelerator": "cpu", "strategy": "auto", "precision": "32-true"} | expected


def test_float64_is_not_turned_to_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightning_fabric, "Fabric", lambda **asked: asked)
    asked: Any = make_fabric(small(precision="64-true"))
    assert "precision" not in asked
    assert isinstance(asked["plugins"], Double)


def test_the_time_of_a_run_is_the_median_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step warms up and does not count; seven steps take seven times the median. Of two processes each has
    half of the batch."""
    took = [100.0, 1.0, 2.0, 3.0, 50.0, 60.0]
    clock = iter([moment for k, seconds in enumerate(took) for moment in (1000.0 * k, 1000.0 * k + seconds)])
    batches: list[int] = []
    step = Loop.train_step
    monkeypatch.setattr(planning, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(
        Loop, "train_step", lambda loop: (batches.append(loop.objective._batch(0).inputs.shape[1]), step(loop))[1]
    )
    found = plan(small(steps=7, processes=2))
    assert (found["seconds_a_step"], found["seconds"], found["steps"]) == (3.0, 21.0, 7)
    assert batches == 6 * [2]
    assert found["sequence_length"] == 25
    assert found["memoryless_baseline"] == pytest.approx(10 * math.log(8) / 25)
    assert found["parameters"] == 4 * (10 + 4 + 1) + 9 * (4 + 1)
    peak = found["peak_memory_mb"]
    status = Path("/proc/self/status")
    for said in status.read_text().splitlines() if status.exists() else ():
        if not said.startswith("VmHWM"):  # which not every system tells
            continue
        # the kernel counts pages in batches, and the parent's too at the time of a fork
        assert int(said.split()[1]) / 1e3 * 0.9 < peak < 1e5


@pytest.mark.parametrize(
    ("given", "sequences"), [({}, 64), ({"batch": 200}, 200), ({"samples": 1000}, 1000), ({"batch": 1}, memory.BLOCK)]
)
def test_memory_of_the_batches(given: dict[str, int], sequences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, sequences that are kept at once, ten inputs and nine outputs; for the longest exam, too."""
    asked: list[int] = []
    monkeypatch.setattr(memory, "check_fits", lambda what, count, *_: asked.append(count))
    memory.check_batches(Settings.of(Copy(5), "rnn", **given))
    assert max(asked) == 25 * sequences * 19
    memory.check_batches(Settings.of(TransferCopy(), "rnn", **given))
    assert max(asked) == 5020 * sequences * 19


def test_an_option_of_the_model_that_the_task_has_too() -> None:
    """``features`` is the task's, ``model_features`` the model's."""
    both = {"task": "lag-copy", "model": "tensor-train", "hidden": 4, "features": 3}
    plain = settings_from_flat(both)
    assert isinstance(plain.task, LagCopy)
    assert (plain.task.features, plain.model.options) == (3, {})
    assert settings_from_flat({**both, "model-features": 2}).model.options == {"features": 2}
    with pytest.raises(OptionError, match="unknown setting 'model_bias' of rnn on copy"):
        settings_from_flat({"task": "copy", "model": "rnn", "model_bias": False})


def test_the_seconds_of_a_run_are_those_of_steps_and_validations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds for the step and three for the validation; a test is no part of training."""
    clock = iter([0.0, 2.0, 10.0, 13.0])
    loop = Loop(small(validate_every=1, valid_samples=4), make_fabric(small()))
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    loop.train_step()
    assert loop.seconds == 2.0
    loop.validate()
    loop.evaluate("test")
    assert loop.seconds == 5.0


def test_advice_after_a_loss_that_is_not_finite() -> None:
    """The rate as it was then, and the clipping."""
    worker: Any = object.__new__(Worker)
    worker.run = SimpleNamespace(settings=small(clip=2.0, lr=0.5), folder=Path("run"))
    worker.loop, worker._save = SimpleNamespace(optimizers=SimpleNamespace(lr=0.125)), lambda state: None
    worker.good = None
    assert worker._keep_good() == "See run"
    worker.good = Checkpoint({}, {"step": 3})
    assert worker._keep_good() == (
        "The state of step 3 is kept; start again with a smaller lr (now 0.125) or clip (now 2)"
    )


def test_another_machine_is_told_to_a_run_that_has_begun(tmp_path: Path) -> None:
    """Before its first step no bits have come from the other one."""
    run = RunDirectory.create(tmp_path / "run", small(steps=2, save_every=0))
    run.note(versions={**run.facts["versions"], "torch": "0.1"})
    log = tmp_path / "run" / "stdout.log"
    for step, told in ((0, False), (1, True)):
        worker = Worker(make_fabric(run.settings), RunDirectory(tmp_path / "run"))
        assert worker.loop.step == step
        for _ in range(2 - step):  # a step is saved once the next one has given a finite loss
            worker.before_step()
            worker.after_step(*worker.loop.train_step())
        worker.metrics.close()
        worker.report.close()
        warning = f"warning: not the machine or versions of the start (torch 0.1 -> {torch.__version__})"
        assert (warning in log.read_text()) is told


@pytest.mark.parametrize(
    ("all_well", "testing", "saves"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_what_is_saved_when_a_run_is_stopped(all_well: bool, testing: bool, saves: bool) -> None:
    """Nothing of a step that is half done: the checkpoint before it is good. Before the test all is saved already."""
    saved: list[str] = []
    worker: Any = object.__new__(Worker)
    worker.testing, worker.leads, worker._state, worker._save = testing, False, lambda: "now", saved.append
    worker._stop(all_well)
    assert saved == ["now"] * saves


def test_what_is_said_of_scores(tmp_path: Path) -> None:
    """Of validations and tests a line each, with four digits; of the steps nothing."""
    report = Report(tmp_path, Copy(5), total=10, show=False, tensorboard=False, step=0)
    report.scores({"step": 4, "split": "train", "loss": 1.0, "accuracy": 0.25, "lr": 0.1, "seconds": 1.0})
    report.scores({"step": 4, "split": "valid", "loss": 0.123456, "accuracy": 0.5, "seconds": 2.0})
    report.close()
    assert (tmp_path / "stdout.log").read_text() == "step 4 valid: loss 0.1235, accuracy 0.5\n"


def test_a_network_is_tested_on_the_objects_of_the_exam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other options may show other objects, in the precision of the network."""
    network = SimpleNamespace(dtype=torch.float64, objects=None)
    monkeypatch.setattr(trained, "RunDirectory", lambda folder, allow: SimpleNamespace(settings=small()))
    monkeypatch.setattr(trained, "load_network", lambda folder, best, allow: network)
    monkeypatch.setattr(trained, "objects_of", lambda task: torch.full((task.delay,), 2.0))
    monkeypatch.setattr(trained, "evaluate_split", lambda network, *_: {"loss": float(network.objects.sum())})
    assert evaluate("run") == {"test": {"loss": 10.0}}
    assert evaluate("run", delay=9) == {"test": {"loss": 18.0}}
    assert network.objects.dtype == torch.float64  # type: ignore[attr-defined]


# several runs as one


def test_all_have_a_momentum_or_none() -> None:
    runs = [small(optimizer="sgd", momentum=momentum) for momentum in (0.5, 0.9, 0.0)]
    assert why_not_together(runs[:2]) == ""
    assert why_not_together(runs) == "all of them must have a momentum, or none"


def test_every_parameter_begins_where_a_vector_does() -> None:
    """Its place in the vectors of the processor is the same for every member: rows and columns at multiples of 64."""
    fabric = make_fabric(small())
    loops: list[Loop | None] = [Loop(small(seed=seed, hidden=5), fabric) for seed in range(3)]
    columns = Columns(next(loop for loop in loops if loop is not None))
    assert [column.start % ALIGNED for column in columns.all] == [0] * len(columns.all)
    assert (columns.width % ALIGNED, ALIGNED) == (0, 64)
    stacked = Stacked(loops)
    for rows in (stacked.weights, stacked.grads, *stacked.moments.values()):
        places = [rows[e].data_ptr() // rows.element_size() % ALIGNED for e in range(3)]
        assert places == [0, 0, 0]


def test_time_of_members(tmp_path: Path) -> None:
    """Each has trained for as long as all of them."""
    folders = [tmp_path / str(k) for k in range(2)]
    runs = train_together([small(seed=k) for k in range(2)], folders)
    seconds = [run.facts["seconds"] for run in runs]
    assert seconds[0] == seconds[1]  # nothing was validated, which each does by itself
    for run in runs:
        logged = [line["seconds"] for line in run.metrics() if line["split"] == "train"]
        assert 0 < logged[-1] <= run.facts["seconds"]


def test_threads_are_those_of_before(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        train_together([small(seed=k) for k in range(2)], [tmp_path / str(k) for k in range(2)])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_progress_of_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their numbers, also once the first one has left; in between only now and then."""
    runs = [small(seed=k, steps=steps, log_every=1) for k, steps in enumerate((2, 5, 4))]
    for every in (0.0, math.inf):
        monkeypatch.setattr(together, "TELL_EVERY", every)
        told: list[tuple[int, int, float]] = []
        folders = [tmp_path / f"{every}-{k}" for k in range(3)]
        found = train_together(runs, folders, tell=lambda *what, told=told: told.append(what))
        losses = {
            (k, line["step"]): line["loss"]
            for k, run in enumerate(found)
            for line in run.metrics()
            if line["split"] == "train"
        }
        steps = [(k, step, loss) for k, step, loss in told if math.isfinite(loss)]
        if every:
            assert steps == []
        else:
            assert {(k, step): loss for k, step, loss in steps} == losses
        assert sorted((k, step) for k, step, loss in told if loss == math.inf) == [(0, 2), (1, 5), (2, 4)]

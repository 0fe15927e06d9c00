"""The small parts of a run, each by itself: files, commands, reports, options handed on, what is refused and why."""

import json
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.errors import DivergedError, DTypeError, OptionError, RunError, StoppedError
from engram.maps import StiefelStep
from engram.tasks import Batch, Copy
from engram.train import (
    RUN_FILES,
    RunDirectory,
    Settings,
    make_fabric,
    make_network,
    resume,
    settings_from_flat,
    train,
    train_together,
)
from engram.train import _checkpoint as checkpoints
from engram.train import _directory as directories
from engram.train import _fabric as fabrics
from engram.train import _find_lr as rates
from engram.train import _report as reports
from engram.train._checkpoint import Checkpoint, load, pack, save, unpack
from engram.train._evaluate import place
from engram.train._files import AppendedFile, resume_command
from engram.train._loop import Loop
from engram.train._members import Members, together_steps
from engram.train._optimizer import Optimizers
from engram.train._report import Report
from engram.train._trained import _check_fit


def settings_of(**flat: Any) -> Settings:
    given: dict[str, Any] = {
        "model": "rnn",
        "hidden": 4,
        "batch": 4,
        "steps": 3,
        "validate_every": 0,
        "test_samples": 4,
        "threads": 1,
    }
    return Settings.of(Copy(5), **{**given, **flat})


# Files


def test_the_command_to_type() -> None:
    """Files with code without the name of the class; words that a shell would take apart in quotes."""
    assert resume_command(Path("runs/first")) == "engram resume runs/first"
    command = resume_command(Path("my runs/a"), ["mine.py:Mine", "package", "it's.py"])
    assert command == "engram resume 'my runs/a' --allow mine.py --allow package --allow 'it'\"'\"'s.py'"


def test_a_file_that_is_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n")
    for length, left in ((8, b"one\ntwo\nx\n"), (4, b"one\nx\n"), (None, b"one\nx\ny\n")):
        file = AppendedFile(path, length)
        file.write("y" if length is None else "x")
        assert file.length == len(left)
        file.close()
        assert path.read_bytes() == left
    with pytest.raises(RunError, match="is shorter than its checkpoint says: lines were taken away"):
        AppendedFile(path, len(left) + 1)


def test_a_line_of_which_only_a_part_was_written(tmp_path: Path) -> None:
    """As on a disk that becomes full: no error of the system, only fewer bytes."""
    file = AppendedFile(tmp_path / "file")
    real, file.file = file.file, SimpleNamespace(write=lambda content: len(content) - 1)  # type: ignore[assignment]
    with pytest.raises(
        StoppedError, match=r"could not be written \(the disk is full\).*Make room, then: engram resume"
    ):
        file.write("a line")
    real.close()


def test_a_checkpoint_larger_than_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory is told in MB."""
    save(tmp_path, Checkpoint({"a": torch.zeros(100)}, {"step": 3}))
    size = (tmp_path / checkpoints.TENSORS).stat().st_size
    monkeypatch.setattr(checkpoints, "free_memory", lambda: (size + 1) / 1e6)
    assert load(tmp_path).values["step"] == 3
    monkeypatch.setattr(checkpoints, "free_memory", lambda: (size - 1) / 1e6)
    with pytest.raises(RunError, match="has no checkpoint that can be read"):
        load(tmp_path)


def test_names_of_tensors_that_are_alike() -> None:
    """Keys whose paths are equal, one after the other."""
    state = {key: torch.tensor(float(k)) for k, key in enumerate((1, "1_", "1", "1__"))}
    tensors: dict[str, Tensor] = {}
    packed = json.loads(json.dumps(pack("x", state, tensors)))
    assert len(tensors) == 4
    assert {key: float(value) for key, value in unpack(packed, tensors).items()} == {1: 0, "1_": 1, "1": 2, "1__": 3}


def test_when_a_run_was_made(tmp_path: Path) -> None:
    """With the zone of the clock."""
    run = RunDirectory.create(tmp_path / "run", settings_of(), "engram train copy")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", run.facts["created"])
    assert (run.status, run.facts["command"], run.facts["seed"]) == ("new", "engram train copy", 0)
    assert run.facts["versions"].keys() == {"engram", "torch", "python", "machine", "loop"}
    before = dict(run.facts)
    run.note(status="failed", odd=3)
    assert json.loads((run.folder / "run.json").read_text()) == {**before, "status": "failed", "odd": 3}
    assert RunDirectory(run.folder, "mine.py").allow == ("mine.py",)
    assert RunDirectory(run.folder, ["a", "b"]).allow == ("a", "b")


# Settings of one dictionary


def test_one_dictionary() -> None:
    """Lists in lists become tuples; a dictionary of options is taken as it is, and stays it."""
    options = {"activation": "relu"}
    given = {"task": "transfer-copy", "tests": [5, 6], "model": "rnn", "betas": [0.5, 0.75], "options": options}
    found = settings_from_flat({**given, "weight-decay": 0.5, "seed": 7, "bias": False})
    assert (found.task.tests, found.optimiser.betas, found.seed) == ((5, 6), (0.5, 0.75), 7)  # type: ignore[attr-defined]
    assert found.optimiser.weight_decay == 0.5
    assert found.model.options == {"activation": "relu", "bias": False}
    assert options == {"activation": "relu"}
    assert settings_from_flat({"task": "copy"}).model.name == "exprnn"


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, OptionError, "settings need a task, one of .*; got None"),
        ({"task": 3}, OptionError, "settings need a task"),
        ({"task": "copy", "model": 3}, DTypeError, "model must be a name such as"),
        ({"task": "copy", "options": [3]}, DTypeError, "options must be a table of options of the model"),
        ({"task": "mine.py:Task"}, Exception, "--allow|allow"),
        ({"task": "copy", "model": "mine.py:Mine"}, Exception, "--allow|allow"),
        ({"task": "copy", "dely": 3}, OptionError, "unknown setting 'dely' of exprnn on copy.*Did you mean 'delay'"),
    ],
)
def test_one_dictionary_that_is_refused(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        settings_from_flat(given)


# What is handed on


@pytest.mark.parametrize("kind", ["adam", "adamw", "rmsprop", "sgd"])
def test_what_the_optimiser_is_given(kind: str) -> None:
    """All that the settings say; of the orthogonal ones no decay."""
    given: dict[str, Any] = {"lr": 0.5, "lr_orthogonal": 0.25, "weight_decay": 0.125}
    own = {"betas": (0.5, 0.75), "eps": 0.1} if kind.startswith("adam") else {"momentum": 0.25}
    own |= {"alpha": 0.5, "eps": 0.1} if kind == "rmsprop" else {}
    settings = settings_of(optimizer=kind, model="exprnn", **given, **own)
    (optimizer,) = Optimizers(make_network(settings), settings.optimiser).all
    assert type(optimizer).__name__.lower() == kind
    plain, slow = optimizer.param_groups
    for group, lr, decay in ((plain, 0.5, 0.125), (slow, 0.25, 0.0)):
        assert {name: group[name] for name in ("lr", "weight_decay", *own)} == {
            "lr": lr, "weight_decay": decay, **own,
        }  # fmt: skip
    default = settings_of(optimizer=kind).resolved().optimiser
    assert default.momentum == (0.9 if kind == "sgd" else 0.0)
    assert default.own().get("momentum", 0.0) == (0.9 if kind == "sgd" else 0.0)


def test_the_step_on_the_manifold() -> None:
    settings = settings_of(model="full-capacity", lr=0.5, lr_orthogonal=0.25)
    _, stiefel = Optimizers(make_network(settings), settings.optimiser).all
    assert isinstance(stiefel, StiefelStep)
    assert [(group["lr"], group["alpha"]) for group in stiefel.param_groups] == [(0.25, 0.99)]


def test_a_batch_is_placed() -> None:
    """Numbers in the precision of the network; classes and masks stay what they are."""
    batch = Batch(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool))
    found = place(batch, torch.device("cpu"), torch.float64)
    assert [part.dtype for part in found] == [torch.float64, torch.int64, torch.bool]


def test_every_step_is_told_with_its_loss(tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    run = train(settings_of(log_every=1), tmp_path, "run", tell=lambda *said: told.append(said))
    resume(run.folder, steps=5, tell=lambda *said: told.append(said))
    lines = [line for line in RunDirectory(run.folder).metrics() if line["split"] == "train"]
    assert told == [(line["step"], line["loss"]) for line in lines]
    assert [step for step, _ in told] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["loss", "accuracy"])
def test_a_validation_that_is_not_finite(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss, or the score that decides."""
    loop = Loop(settings_of(stop_by="accuracy"), make_fabric(settings_of()))
    loop.step = 7
    monkeypatch.setattr(loop.objective, "evaluate", lambda *_: {"loss": 1.0, "accuracy": 0.5, name: value})
    with pytest.raises(StoppedError, match=f"the validation {name} is {value} after step 7"):
        loop.validate()
    assert (loop.best_weights, loop.validated) == ({}, 0)


def test_noise_differs_from_process_to_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """And from step to step, and seed to seed; the same again gives the same."""
    seeds: list[int] = []
    monkeypatch.setattr(Loop, "_seed", lambda self, seed: seeds.append(seed))
    for seed, step, rank in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 0)):
        settings = settings_of(seed=seed)
        loop = Loop(settings, make_fabric(settings))
        loop.step = step
        loop.fabric = SimpleNamespace(global_rank=rank, world_size=1, backward=lambda loss: loss.backward())  # type: ignore[assignment]
        loop.train_step()
    assert len({*seeds}) == 4
    assert seeds[0] == seeds[-1]


# What is refused before there is a directory


def test_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"tensorboard needs the package tensorboard: pip install 'engram\[tensorb"):
        train(settings_of(tensorboard=True), tmp_path, "run")
    failed: list[str] = []

    def start() -> None:
        try:
            train(settings_of(processes=2), tmp_path, "run")
        except OptionError as error:
            failed.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert failed == ["several processes can only be started from the main thread"]
    for name in ("..", "../x", "a/../../x", str(tmp_path / "x"), ""):
        with pytest.raises(OptionError, match="the name of a run is a folder within out"):
            train(settings_of(), tmp_path / "out", name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cpu", "device 'cpu' cannot be used here: no such luck$"),
        ("cuda:3", r"device 'cuda:3' cannot be used here: torch \S+ finds no cuda device. Here: cpu, mps$"),
        ("quantum", "device 'quantum' cannot be used here: there is no device 'quantum'. Here: cpu, mps$"),
    ],
)
def test_why_a_device_cannot_be_used(device: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import lightning_fabric

    def fails(**_: Any) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(lightning_fabric, "Fabric", fails)
    monkeypatch.setattr(fabrics.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(fabrics.torch.mps, "is_available", lambda: True)
    with pytest.raises(OptionError, match=words):
        make_fabric(settings_of(device=device))


def test_networks_of_other_shapes_do_not_fit() -> None:
    """Sizes, and how an input is laid out."""

    def task(inputs: int = 4, outputs: int = 3, shape: tuple[int, ...] = (2, 2)) -> Any:
        return SimpleNamespace(name="mine", input_size=inputs, output_size=outputs, input_shape=shape)

    _check_fit(task(), task())
    for other in (task(inputs=5), task(outputs=5), task(shape=(4,))):
        with pytest.raises(RunError, match="this network was trained with 4 inputs and 3 outputs"):
            _check_fit(other, task())


# The test of rates


def test_the_fall_is_counted_from_the_tenth_step_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a dip before it, however deep, no rate is suggested."""
    losses = [-9.0, *[3.0] * 9, *(3.0 - k / 4 for k in range(40))]
    monkeypatch.setattr(rates, "_losses", lambda *_: (losses, ""))
    found = rates.find_lr(settings_of(lr=0.5, lr_orthogonal=0.25), 1e-3, 1e2, lr_steps=60)
    start, lowest = sum(losses[:10]) / 10, min(found.smoothed[10:])
    assert lowest > found.smoothed[0]
    goal = start - 0.95 * (start - lowest)
    place = next(k for k in range(10, 50) if found.smoothed[k] <= goal)
    assert found.fallen == found.rates[place]
    assert found.exploded == pytest.approx(1e-3 * 1e5 ** (50 / 59))
    assert found.lr_orthogonal == pytest.approx(found.lr / 2)
    assert len(found.rates) == len(found.losses) == 50


def test_eleven_steps_tell_something(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, words in ((10, "the loss explodes, at a rate of"), (11, "lowered the loss, 2 at the start")):
        monkeypatch.setattr(rates, "_losses", lambda *_, count=count: ([2.0] * count, ""))
        with pytest.raises(StoppedError, match=words):
            rates.find_lr(settings_of(), lr_steps=20)


def test_a_test_of_rates_is_of_one_process_without_a_schedule() -> None:
    given = settings_of(processes=2, warmup=9, plateau=3, validate_every=1, lr=0.5, lr_orthogonal=0.125)
    found = rates._without_schedule(given)
    assert found.machine.processes == 1
    assert (found.optimiser.warmup, found.optimiser.plateau, found.optimiser.schedule) == (0, 0, "constant")
    assert (found.optimiser.lr, found.optimiser.lr_orthogonal) == (0.5, 0.125)


# Reports


class Events:
    """What TensorBoard would be told."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, int], float] = {}
        self.is_open = True

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.told[name, step] = value

    def close(self) -> None:
        self.is_open = False


def test_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal a bar that begins where the run does; every number goes to the events; lines are cleaned."""
    events, purged = Events(), list[int]()
    monkeypatch.setattr(reports, "_writer", lambda folder, step: (purged.append(step), events)[1])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    report = Report(tmp_path, Copy(5), total=10, show=True, tensorboard=True, step=4)
    try:
        (bar,) = report.progress.tasks
        assert (bar.total, bar.completed, purged) == (10, 4, [4])
        report.at(5, 0.5)
        assert (bar.completed, bar.fields["loss"]) == (5, 0.5)
        report.scores({"step": 5, "split": "valid", "loss": 0.25, "accuracy": 0.75, "seconds": 2.0})
        assert bar.fields["metric"] == 0.75
        report.scores({"step": 6, "split": "probe", "drift": 1e-9, "seconds": 3.0})
        assert bar.fields["metric"] == 0.75
        report.scores({"step": 6, "split": "train", "loss": 0.125, "accuracy": 1.0, "lr": 0.1, "seconds": 3.0})
        report.say("two\nlines \x1b[31m")
    finally:
        report.close()
    assert events.told == {
        ("valid/loss", 5): 0.25, ("valid/accuracy", 5): 0.75, ("valid/seconds", 5): 2.0, ("probe/drift", 6): 1e-9,
        ("probe/seconds", 6): 3.0, ("train/loss", 6): 0.125, ("train/accuracy", 6): 1.0, ("train/lr", 6): 0.1,
        ("train/seconds", 6): 3.0,
    }  # fmt: skip
    assert not events.is_open
    first, second, third = (tmp_path / "stdout.log").read_text().splitlines()
    assert (first, second) == ("step 5 valid: loss 0.25, accuracy 0.75", "step 6 probe: drift 1e-09")
    assert third.isprintable()
    assert third.startswith("two lines")
    assert "step 6 probe: drift 1e-09" in capsys.readouterr().err


def test_a_report_that_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(tmp_path, Copy(5), total=10, show=False, tensorboard=False, step=0)
    report.say("something")
    report.close()
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "stdout.log").read_text() == "something\n"
    assert report.log.file.closed


# Traps, and states that do not fit


@pytest.mark.parametrize("name", [*RUN_FILES, *(f"{name}.new" for name in RUN_FILES), "tensorboard/events.1"])
def test_no_file_of_a_run_may_be_a_link(name: str, tmp_path: Path) -> None:
    """It may lead out; neither where a run is made, nor where one is opened."""
    run = RunDirectory.create(tmp_path / "run", settings_of()).folder
    (tmp_path / "outside").write_text("mine")
    for folder in (tmp_path / "new", run):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / "outside")
        with pytest.raises(RunError, match="is not of a run: it is a symbolic link"):
            RunDirectory(run) if folder == run else RunDirectory.create(folder, settings_of())
    assert (tmp_path / "outside").read_text() == "mine"


def test_events_are_in_a_folder_of_the_run(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", settings_of()).folder
    (tmp_path / "outside").mkdir()
    for make in (lambda path: path.symlink_to(tmp_path / "outside"), lambda path: path.touch()):
        make(run / "tensorboard")
        with pytest.raises(RunError, match="tensorboard is not of a run: it must be a folder, and not a link to one"):
            RunDirectory(run)
        (run / "tensorboard").unlink()
    (run / "tensorboard").mkdir()
    assert RunDirectory(run).status == "new"


def test_a_task_whose_data_is_not_here(tmp_path: Path) -> None:
    """Its metric is known, what is reached by chance is not."""

    class Away(Copy):
        @property
        def chance(self) -> float:
            raise OptionError("its files are not here")

    assert directories._floor(Away(5)) == {"metric": "accuracy"}
    assert directories._floor(Copy(5)).keys() == {"metric", "chance", "memoryless_baseline"}


def changed(state: Any, change: str) -> Any:
    """A state of Adam with one thing wrong."""
    group, kept = state["param_groups"][0], state["state"][0]
    if change.startswith("lr "):
        group["lr"] = float(change.partition(" ")[2])
    elif change == "decay":
        group["weight_decay"] = 0.5
    elif change == "a moment less":
        del kept["exp_avg"]
    elif change == "a moment more":
        kept["more"] = kept["exp_avg"]
    elif change == "a shape":
        kept["exp_avg_sq"] = torch.zeros(3)
    elif change.startswith("step "):
        kept["step"] = torch.tensor(float(change.partition(" ")[2]))
    return state


STATES = {"as it is": True, "lr 0.5": True, "lr 0.25": True, "lr 0.0": True, "step 7": True, "step 0": True}
STATES |= dict.fromkeys(("lr 0.75", "lr -0.1", "lr nan", "decay", "a moment less", "a moment more", "a shape"), False)
STATES |= dict.fromkeys(("step 1.5", "step -1", "step nan"), False)


@pytest.mark.parametrize("change", STATES)
def test_states_of_an_optimiser(change: str) -> None:
    """A rate may have fallen; nothing else may have changed, and moments are of the parameters' shapes."""
    loop = Loop(settings_of(lr=0.5), make_fabric(settings_of()))
    loop.train_step()
    state = changed(loop.optimizers.all[0].state_dict(), change)
    if STATES[change]:
        loop.optimizers.restore([state])
    else:
        with pytest.raises((ValueError, LookupError, OverflowError)):
            loop.optimizers.restore([state])


def test_a_disk_that_is_full_is_the_reason(tmp_path: Path) -> None:
    """Of whatever stops a run in words, and of one of several whose validation is not finite."""

    def full(*_: object) -> None:
        raise StoppedError("no room")

    with pytest.raises(StoppedError, match="no room"):
        train(settings_of(), tmp_path, "run", tell=full)
    facts = RunDirectory(tmp_path / "run").facts
    assert (facts["status"], facts["reason"], facts["diverged"]) == ("failed", "no room", False)


def test_a_member_whose_validation_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails alone."""
    real = Loop.validate

    def validate(self: Loop, *args: Any) -> dict[str, float]:
        if self.settings.seed == 1:
            raise DivergedError("the validation loss is nan after step 2")
        return real(self, *args)

    monkeypatch.setattr(Loop, "validate", validate)
    settings = [settings_of(seed=seed, validate_every=2, valid_samples=4, steps=4) for seed in range(3)]
    runs = train_together(settings, [tmp_path / str(k) for k in range(3)])
    assert [(run.status, run.facts["step"]) for run in runs] == [("done", 4), ("failed", 2), ("done", 4)]
    assert runs[1].facts["diverged"] is True


def test_steps_without_files() -> None:
    """What a measurement calls: the same steps as those of a run."""
    settings = [settings_of(seed=seed) for seed in range(2)]
    seen: list[tuple[int, float]] = []
    real = Members.train_step

    def watched(self: Members) -> Any:
        taken = real(self)
        seen.extend((e, each.loss) for e, each in enumerate(taken))
        return taken

    with pytest.MonkeyPatch.context() as patch, together_steps(settings) as step:
        patch.setattr(Members, "train_step", watched)
        step(2)
        step(1)
    for e, own in enumerate(settings):
        loop = Loop(own, make_fabric(own))
        losses = [loop.train_step()[0] for _ in range(3)]
        assert [loss for k, loss in seen if k == e] == pytest.approx(losses, rel=1e-4)  # float32, of 25 steps in time

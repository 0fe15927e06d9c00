"""What can go wrong in a run: each ends with a clear message and a directory that can be resumed."""

import json
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.errors import DivergedError, OptionError, RunError, StoppedError
from engram.tasks import TransferCopy
from engram.train import RunDirectory, Settings, evaluate, resume, train
from engram.train._checkpoint import TENSORS, VALUES, load
from engram.train._loop import Loop
from engram.train._worker import Worker
from prepared import Prepared

posix = pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX")


def facts(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "run.json").read_bytes()))


# Of a program that trains; Ctrl-C reaches it even where the caller ignores it.
HEAD = """
import json, os, resource, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
os.fsync = lambda file: None  # as conftest.py has it
from engram.errors import EngramError
from engram.train import Settings, resume, train
"""
TRAIN = f"""{HEAD}
settings, out = Settings.from_dict(json.loads(sys.argv[1])), sys.argv[2]
try:
    train(settings, out, "run", show=True)
except KeyboardInterrupt:
    sys.exit(130)
except EngramError as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(1)
"""


def wait_for_lines(folder: Path, count: int) -> None:
    """Until metrics.jsonl has so many."""
    end = time.monotonic() + 600
    path = folder / "metrics.jsonl"
    while not (path.exists() and path.read_bytes().count(b"\n") >= count):
        assert time.monotonic() < end
        time.sleep(0.01)


# A loss that is not finite


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_loss_that_is_not_finite(clip: float, tmp_path: Path, small: Any) -> None:
    """The run stops, names the step, keeps the last good weights, and they can be tested."""
    with pytest.raises(StoppedError, match=r"is (nan|inf) at step (\d+)\. .*smaller lr \(now 1e\+30\)") as caught:
        train(small(lr=1e30, optimizer="sgd", clip=clip), tmp_path, "run")
    step = int(str(caught.value).split("at step ")[1].split(".")[0])
    run = RunDirectory(tmp_path / "run")
    assert (run.status, run.facts["reason"], run.facts["step"]) == ("failed", str(caught.value), step - 1)
    tensors, values = load(run.folder)
    assert values["step"] < step
    assert all(t.isfinite().all() for t in tensors.values())
    assert math.isfinite(evaluate(run.folder)["test"]["loss"])
    assert len(run.metrics()) == step - 1  # log_every is 1: the lines before it are there, none of it
    with pytest.raises(StoppedError, match=f"at step {step}\\."):  # again, at the same step
        resume(run.folder)


def test_the_last_good_state_is_that_before_the_bad_step(tmp_path: Path, small: Any, monkeypatch: Any) -> None:
    """A loss that becomes NaN in step 5 of its own: weights of step 3 had a good loss, those of 4 had not."""
    real = Loop._mean
    calls = 0

    def broken(self: Loop, loss: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return real(self, loss) if calls < 5 else torch.tensor(math.nan)

    monkeypatch.setattr(Loop, "_mean", broken)
    with pytest.raises(StoppedError, match="the loss is nan at step 5"):
        train(small(validate_every=0), tmp_path, "run")
    monkeypatch.undo()
    assert load(tmp_path / "run").values["step"] == 3
    train(small(validate_every=0), tmp_path, "whole")
    run = resume(tmp_path / "run")  # the reason has gone: it goes on, as if nothing had been
    assert (run.status, run.facts["reason"]) == ("done", "")
    assert (run.folder / TENSORS).read_bytes() == (tmp_path / "whole" / TENSORS).read_bytes()


def test_weights_that_end_up_not_finite(tmp_path: Path, small: Any, monkeypatch: Any) -> None:
    """In the very last step, after which no loss would tell."""
    real = Loop.train_step

    def broken(self: Loop) -> Any:
        result = real(self)
        if self.step == 4:
            self.network.head.bias.data[0] = math.inf
        return result

    monkeypatch.setattr(Loop, "train_step", broken)
    with pytest.raises(StoppedError, match=r"the weights are not finite after step 4\. The state of step 3 is kept"):
        train(small(steps=4, validate_every=0), tmp_path, "run")
    tensors, values = load(tmp_path / "run")
    assert values["step"] == 3
    assert all(t.isfinite().all() for t in tensors.values())
    assert facts(tmp_path / "run")["status"] == "failed"


def test_the_last_good_state_is_kept_between_two_saves(tmp_path: Path, small: Any, monkeypatch: Any) -> None:
    """With checkpoints far apart: the state of the last line of metrics.jsonl, and the best weights, are there."""
    real = Loop.train_step

    def broken(self: Loop) -> Any:
        if self.step == 8:
            self.network.head.bias.data[0] = math.nan
        return real(self)

    monkeypatch.setattr(Loop, "train_step", broken)
    settings = small(steps=20, validate_every=3, log_every=2, save_every=1e6)
    with pytest.raises(DivergedError, match=r"the loss is nan at step 9\. The state of step 6 is kept; start again"):
        train(settings, tmp_path, "run")
    tensors, values = load(tmp_path / "run")
    assert (values["step"], values["best"]["step"] > 0) == (6, True)
    assert all(t.isfinite().all() for t in tensors.values())
    assert evaluate(tmp_path / "run")["test"]["loss"] > 0


def test_a_validation_loss_that_is_not_finite(tmp_path: Path, small: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Loop, "evaluate", lambda *_: {"loss": math.nan, "accuracy": 0.5})
    with pytest.raises(DivergedError, match="the validation loss is nan after step 3"):
        train(small(steps=4, validate_every=3), tmp_path, "run")


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("which", ["clipped", "orthogonal"])
def test_a_gradient_that_is_not_finite(which: str, clip: float, tmp_path: Path, small: Any, monkeypatch: Any) -> None:
    """Whichever parameter it is of, and with clipping or without."""
    real = Loop._clip

    def broken(self: Loop) -> None:
        parameter = getattr(self.optimizers, which)[0]
        parameter.grad.view(-1)[0] = math.inf
        real(self)

    monkeypatch.setattr(Loop, "_clip", broken)
    with pytest.raises(DivergedError, match="the gradient is inf at step 1"):
        train(small(steps=4, clip=clip), tmp_path, "run")


# A full disk

LIMIT = f"""{HEAD}
settings, out = Settings.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2])
from engram.train import _worker
def full(*args, made=_worker.save):
    made(*args)
    if args[1].values["step"] == 3:  # from here on, no file may be longer than this
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
_worker.save = full
for limit in map(int, sys.argv[3:]):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writer, 1)  # standard output is a file, which the limit is for too
        for go in (lambda: train(settings, out, str(limit)), lambda: resume(out / str(limit))):
            try:
                go()
                print("done", flush=True)
            except EngramError as error:
                print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.close(writer)
    print(open(reader).read(), end="", flush=True)
    assert os.waitpid(child, 0)[1] == 0
"""


@posix
def test_a_full_disk(tmp_path: Path, small: Any, metrics: Any, prepared: Prepared) -> None:
    """No space for a line, for values or for tensors: the run ends, says what to do, and a resume ends alike.

    With room again, the run ends as one that never met the limit.
    """
    settings = small(hidden=20, log_every=100)
    whole = train(settings, tmp_path, "whole")
    sizes = {name: (whole.folder / name).stat().st_size for name in (TENSORS, VALUES, "run.json")}
    limits = (1, 100, sizes["run.json"] - 1, sizes[VALUES] - 9, sizes[TENSORS] - 9)
    done = prepared.run(LIMIT, json.dumps(settings.to_dict()), str(tmp_path), *map(str, limits))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(limits)
    for limit, first, second in zip(limits, lines[::2], lines[1::2], strict=True):
        run = tmp_path / str(limit)
        for line in (first, second):
            assert line.startswith("StoppedError ")
            assert "could not be written (" in line
            assert "intact" in line
            assert f"engram resume {run}" in line
        assert 3 <= load(run).values["step"] < 12  # the first ones may be short enough
        assert not list(run.glob("*.new"))  # nothing half written takes up room
        assert metrics(resume(run)) == metrics(whole)
        assert (run / TENSORS).read_bytes() == (whole.folder / TENSORS).read_bytes()
        assert facts(run)["status"] == "done"


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_disk_that_fails_late(operation: str, tmp_path: Path, small: Any, monkeypatch: Any) -> None:
    """A disk may say so only when asked to keep what was written, or to rename it."""
    train(small(steps=3), tmp_path, "run")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    from engram.train import _worker

    real = _worker.save

    def save(folder: Path, checkpoint: Any) -> None:
        if checkpoint.values["step"] == 5:
            monkeypatch.setattr(*((os, "fsync") if operation == "fsync" else (Path, "replace")), fails)
        real(folder, checkpoint)

    monkeypatch.setattr(_worker, "save", save)
    with pytest.raises(StoppedError, match=r"could not be written \(No space left on device\).*engram resume"):
        resume(tmp_path / "run", steps=8)
    monkeypatch.undo()
    assert load(tmp_path / "run").values["step"] == 4
    assert resume(tmp_path / "run").status == "done"


@posix
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
def test_a_folder_that_cannot_be_written(small: Any, prepared: Prepared) -> None:
    """Refused with its name, by train and by resume; evaluate only reads."""
    body = f"""{HEAD}
settings, out = Settings.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2])
train(settings, out, "run")  # as root, who may; also imports what nobody may not
os.setuid(65534)
from engram.train import evaluate
for go in (lambda: train(settings, out, "other"), lambda: resume(out / "run", steps=20)):
    try:
        go()
        print("done")
    except (EngramError, OSError) as error:
        print(type(error).__name__, error)
print(evaluate(out / "run")["test"]["loss"])
"""
    with tempfile.TemporaryDirectory() as folder:  # where nobody may look in, unlike tmp_path
        Path(folder).chmod(0o755)
        done = prepared.run(body, json.dumps(small().to_dict()), folder)
        assert done.returncode == 0, done.stderr
        first, second, third = done.stdout.splitlines()
        for line in (first, second):
            assert "ermission" in line
            assert folder in line
        assert float(third) == facts(Path(folder) / "run")["results"]["test"]["loss"]


# Two processes on one directory


@posix
def test_the_second_process_is_refused(tmp_path: Path, small: Any, prepared: Prepared) -> None:
    """While the first trains; once the first was killed, the lock is free."""
    run = tmp_path / "run"
    process = prepared.start(TRAIN, json.dumps(small(steps=10**6).to_dict()), str(tmp_path))
    try:
        wait_for_lines(run, 3)
        for _ in range(2):
            with pytest.raises(RunError, match=f"{run} is in use by another process: wait for it, or stop it"):
                resume(run)
        with pytest.raises(RunError, match="is in use by another process"):
            train(small(), tmp_path, "run")
        assert facts(run)["status"] == "running"
        assert evaluate(run, "valid")["valid"]["loss"] > 0  # whoever only reads may
    finally:
        process.signal(signal.SIGKILL)
        code = process.wait().returncode
    assert code == -signal.SIGKILL  # it had not ended by itself
    step = load(run).values["step"]
    assert resume(run, steps=step + 2).facts["step"] == step + 2


def test_runs_without_a_name_that_start_in_the_same_second(tmp_path: Path, small: Any) -> None:
    """Each has its own directory: none is refused, none is lost."""
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda seed: train(small(steps=1, seed=seed), tmp_path), range(4)))
    assert {run.folder for run in runs} == {*tmp_path.iterdir()}
    assert [run.settings.seed for run in runs] == [0, 1, 2, 3]
    assert [run.status for run in runs] == ["done"] * 4


# Ctrl-C


@posix
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path: Path, small: Any, metrics: Any, prepared: Prepared) -> None:
    """Nothing is lost, not even the step it came in: a resume does not train a step twice."""
    run = tmp_path / "run"
    process = prepared.start(TRAIN, json.dumps(small(steps=10**6, save_every=1000.0).to_dict()), str(tmp_path))
    wait_for_lines(run, 4)
    process.signal(signal.SIGINT)
    done = process.wait()
    assert done.returncode == 130
    step = facts(run)["step"]
    assert facts(run)["status"] == "stopped"
    said = f"stopped at step {step}, all saved. Resume with: engram resume {run}\n"
    assert done.stderr.replace("\n", "").endswith(said.replace("\n", ""))
    assert (run / "stdout.log").read_text().endswith(said)
    assert load(run).values["step"] == step
    assert metrics(run)[-1]["step"] == step
    again = resume(run, steps=step + 2)
    whole = train(small(steps=step + 2), tmp_path, "whole")
    assert (again.folder / TENSORS).read_bytes() == (whole.folder / TENSORS).read_bytes()
    assert metrics(again) == metrics(whole)


def interrupted(place: str, at: int, error: Callable[[Worker], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """After the at-th call of a method of Loop, do this."""
    real = getattr(Loop, place)
    calls = 0

    def then(self: Loop, *args: Any, **options: Any) -> Any:
        nonlocal calls
        result = real(self, *args, **options)
        calls += 1
        if calls == at:
            error(self)  # type: ignore[arg-type]
        return result

    monkeypatch.setattr(Loop, place, then)


def ask(_: object, number: signal.Signals = signal.SIGINT) -> None:
    signal.raise_signal(number)


def terminate(_: object) -> None:
    ask(_, signal.SIGTERM)


def ask_twice(_: object) -> None:
    ask(_)
    ask(_)


@posix
@pytest.mark.parametrize(
    ("place", "at"),
    [
        *(("train_step", at) for at in (1, 2, 4, 9)),
        *(("validate", at) for at in (1, 2, 3)),
        *(("evaluate", at) for at in (1, 3, 4)),  # the fourth is the first test
    ],
)
def test_ctrl_c_anywhere(
    place: str, at: int, tmp_path: Path, small: Any, metrics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training, validation and test: the run that is resumed ends as one that was never stopped.

    The task has two tests, and the best weights are not the last ones: both could be spoiled.
    """
    settings = small(TransferCopy(3, tests=(5,)), lr=1.0, optimizer="sgd", clip=0.0, steps=9, validate_every=3, seed=1)
    whole = train(settings, tmp_path, "whole")
    assert whole.facts["best"]["step"] < 9
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        interrupted(place, at, terminate if at == 2 else ask, patch)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path, "run")
    assert signal.getsignal(signal.SIGINT) is before
    assert facts(tmp_path / "run")["status"] == "stopped"
    run = resume(tmp_path / "run")
    assert metrics(run) == metrics(whole)
    assert run.facts["results"] == whole.facts["results"]
    assert (run.folder / TENSORS).read_bytes() == (whole.folder / TENSORS).read_bytes()


@posix
def test_a_second_ctrl_c_stops_at_once_and_spoils_nothing(
    tmp_path: Path, small: Any, metrics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come when half of the weights have moved: that state must not be saved."""
    settings = small(model="full-capacity", steps=6, validate_every=0)  # two optimisers
    whole = train(settings, tmp_path, "whole")
    real = torch.optim.Adam.step
    calls = 0

    def step(self: torch.optim.Adam, *args: Any) -> Any:
        nonlocal calls
        result = real(self, *args)
        calls += 1
        if calls == 4:
            ask_twice(self)  # the first optimiser has moved its part, the second has not
        return result

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", step)
        with pytest.raises(KeyboardInterrupt):
            train(settings, tmp_path, "run")
    assert calls == 4
    assert facts(tmp_path / "run")["status"] == "stopped"
    assert "will be done again. Resume with: engram resume" in (tmp_path / "run" / "stdout.log").read_text()
    run = resume(tmp_path / "run")
    assert metrics(run) == metrics(whole)
    assert (run.folder / TENSORS).read_bytes() == (whole.folder / TENSORS).read_bytes()


def test_an_error_of_the_program(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised as it is, run.json says that the run failed, and it can be resumed."""
    with monkeypatch.context() as patch:
        interrupted("train_step", 4, lambda _: 1 / 0, patch)  # type: ignore[arg-type, return-value]
        with pytest.raises(ZeroDivisionError):
            train(small(steps=6), tmp_path, "run")
    assert (facts(tmp_path / "run")["status"], facts(tmp_path / "run")["reason"]) == (
        "failed",
        "an error of the program",
    )
    assert resume(tmp_path / "run").status == "done"


# Directories


def test_a_name_that_is_taken(tmp_path: Path, small: Any) -> None:
    run = train(small(steps=2), tmp_path, "run")
    content = (run.folder / "run.json").read_bytes()
    with pytest.raises(RunError, match=f"{run.folder} holds a run already: resume it with engram resume {run.folder}"):
        train(small(steps=3), tmp_path, "run")
    assert (run.folder / "run.json").read_bytes() == content


def test_a_name_of_its_own(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made of task, model and time; two in the same second differ."""
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-120000")
    folders = {train(small(steps=1, validate_every=0), tmp_path).folder for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.name.startswith("copy-exprnn-2") for folder in folders)


def test_resume_of_what_is_done(tmp_path: Path, small: Any, metrics: Any) -> None:
    """Refused; with more steps it goes on, and is what it would have been from the start."""
    run = train(small(steps=5), tmp_path, "run")
    with pytest.raises(RunError, match=r"is done: engram evaluate .* --steps N trains it further"):
        resume(run.folder)
    more = resume(run.folder, steps=10)
    whole = train(small(steps=10), tmp_path, "whole")
    assert more.settings == whole.settings
    assert metrics(more) == metrics(whole)
    assert (more.folder / TENSORS).read_bytes() == (whole.folder / TENSORS).read_bytes()


@pytest.mark.parametrize("steps", [0, -3, 2.5, True])
def test_resume_for_a_wrong_number_of_steps(steps: Any, tmp_path: Path, small: Any) -> None:
    run = train(small(steps=2), tmp_path, "run")
    with pytest.raises((OptionError, TypeError), match="steps must be"):
        resume(run.folder, steps=steps)


def test_resume_of_what_is_not_a_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RunError, match=r"is not a run: it has no run\.json"):
            resume(folder)
    assert not (tmp_path / "missing").exists()


WRONG = {
    "empty": b"",
    "cut off": b'{"status": "run',
    "not text": b"\xff\xfe\x00",
    "a list": b"[1, 2]",
    "a number": b"3",
    "no settings": b'{"status": "done"}',
    "settings a number": b'{"settings": 3}',
    "settings a list": b'{"settings": [3]}',
    "no task": b'{"settings": {"model": {"name": "lstm"}}, "status": "", "versions": {}}',
    "an unknown task": b'{"settings": {"task": {"name": "cpy"}}, "status": "", "versions": {}}',
    "a wrong value": b'{"settings": {"task": "copy", "model": {"hidden": -3}}, "status": "", "versions": {}}',
    "a wrong type": b'{"settings": {"task": "copy", "optimiser": {"lr": "fast"}}, "status": "", "versions": {}}',
    "no status": None,
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("case", WRONG)
def test_a_damaged_run_json(case: str, tmp_path: Path, small: Any) -> None:
    """Refused by its name, whatever is in it."""
    run = train(small(steps=2), tmp_path, "run").folder
    content = WRONG[case]
    if content is None:
        content = json.dumps({k: v for k, v in facts(run).items() if k != "status"}).encode()
    (run / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=r"run\.json"):
        resume(run)


def test_a_run_of_the_first_version(tmp_path: Path, small: Any) -> None:
    """Its settings were flat, its model a name: refused in one line that says what to do."""
    run = train(small(steps=2), tmp_path, "run").folder
    told = facts(run)
    told["settings"] = {"task": {"name": "copy"}, "model": "exprnn", "hidden": 6, "option": [], "lr": 0.002}
    (run / "run.json").write_text(json.dumps(told))
    for use in (resume, evaluate, RunDirectory):
        with pytest.raises(RunError, match=r"run\.json: the run was made by engram 0\.1.*: start the run again$"):
            use(run)


def test_metrics_that_were_shortened(tmp_path: Path, small: Any) -> None:
    run = train(small(steps=3), tmp_path, "run").folder
    (run / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(RunError, match="is shorter than its checkpoint says"):
        resume(run, steps=4)


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path, small: Any) -> None:
    run = train(small(steps=3), tmp_path, "run")
    lines = run.metrics()
    with (run.folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "spl')
    assert run.metrics() == lines


def test_other_versions_are_noted(tmp_path: Path, small: Any) -> None:
    """Last bits may differ then; the run goes on."""
    run = train(small(steps=3), tmp_path, "run").folder
    changed = facts(run)
    changed["versions"]["torch"] = "1.0"
    (run / "run.json").write_text(json.dumps(changed))
    assert resume(run, steps=4).status == "done"
    assert "warning: not the machine or versions of the start (torch 1.0 -> " in (run / "stdout.log").read_text()


def test_what_is_refused_leaves_no_directory(tmp_path: Path, small: Callable[..., Settings]) -> None:
    for wrong in (small(options={"activation": "none"}), small(device="quantum"), small(embedding=3)):
        with pytest.raises(OptionError):
            train(wrong, tmp_path, "run")
    with pytest.raises(OptionError, match="the name of a run is a folder within out"):
        train(small(), tmp_path, "../run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"seed": 5}, {"optimiser": {"lr": 0.5}}, {"model": {"hidden": 7}}])
def test_settings_changed_by_hand(change: dict[str, Any], tmp_path: Path, small: Any) -> None:
    """They would be ignored, or mixed with the old ones."""
    run = train(small(steps=4), tmp_path, "run").folder
    told = facts(run)
    for name, value in change.items():
        old = told["settings"][name]
        told["settings"][name] = old | value if isinstance(value, dict) else value
    (run / "run.json").write_text(json.dumps(told))
    with pytest.raises(RunError, match=r"does not fit its settings: run.json was changed since"):
        resume(run, steps=6)


def test_a_run_whose_patience_was_over_can_be_trained_further(tmp_path: Path, small: Any) -> None:
    settings = small(steps=40, validate_every=1, patience=1, lr=0.5, optimizer="sgd", clip=0.0)
    run = train(settings, tmp_path, "run")
    ended = run.facts["step"]
    assert ended < 40
    assert resume(run.folder, steps=50).facts["step"] > ended

"""Several processes, other precisions, TensorBoard."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.errors import OptionError
from engram.tasks import PennTreebank
from engram.train import RunDirectory, Settings, evaluate, resume, train
from engram.train._checkpoint import load

# Spawned processes import the program that started them: it must be a file that does nothing when imported.
PROGRAM = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    from engram.errors import EngramError
    from engram.train import Settings, resume, train
    settings, out, name, more = Settings.from_dict(json.loads(sys.argv[1])), *sys.argv[2:]
    try:
        run = train(settings, out, name)
        if int(more):
            resume(run.folder, steps=int(more))
        print("done")
    except EngramError as error:
        print(type(error).__name__, error)
    except KeyboardInterrupt:
        print("interrupted")
"""


def command(settings: Settings, out: Path, name: str, more: int = 0, first: str = "") -> list[str]:
    path = out / "program.py"
    path.write_text(first + PROGRAM)
    return [sys.executable, str(path), json.dumps(settings.to_dict()), str(out), name, str(more)]


def resuming(folder: Path) -> list[str]:
    path = folder.parent / "resume.py"
    path.write_text(
        'import sys\nif __name__ == "__main__":\n    from engram.train import resume\n    resume(sys.argv[1])\n'
    )
    return [sys.executable, str(path), str(folder)]


def in_processes(settings: Settings, out: Path, name: str, more: int = 0, first: str = "") -> str:
    done = subprocess.run(command(settings, out, name, more, first), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def alike(one: RunDirectory, two: RunDirectory, metrics: Any) -> None:
    for a, b in zip(metrics(one), metrics(two), strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"split"}:
            assert a[name] == pytest.approx(b[name], abs=1e-5), (a, b)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")
@pytest.mark.parametrize("model", ["nnrnn", "full-capacity"])
def test_two_processes_are_as_one(model: str, tmp_path: Path, small: Any, metrics: Any) -> None:
    """All lines to 1e-5, the train accuracy too; also when the run goes on after its end; penalties count once."""
    options = {"gamma_penalty": 0.1, "decay": 0.1} if model == "nnrnn" else {}
    settings = small(model=model, options=options, precision="64-true")
    one = train(settings, tmp_path, "one")
    one = resume(one.folder, steps=20)
    assert in_processes(settings.replace(processes=2), tmp_path, "two", more=20) == "done"
    alike(one, RunDirectory(tmp_path / "two"), metrics)
    for name, tensor in load(one.folder).tensors.items():
        other = load(tmp_path / "two").tensors[name]
        # Adam divides a gradient by its own size plus 1e-8: an error of 1e-15 in it becomes lr * 1e-7 at most, 20 times
        torch.testing.assert_close(tensor, other, rtol=1e-8, atol=20 * 2e-3 * 1e-7)


@pytest.mark.slow
def test_two_processes_carry_the_state_of_text(tmp_path: Path, small: Any, metrics: Any, data_sets: str) -> None:
    """Each its own streams, also over a checkpoint in the middle of an epoch."""
    settings = small(PennTreebank(bptt=5, subset=200), "lstm", embedding=3, steps=5)
    one = resume(train(settings, tmp_path, "one").folder, steps=12)
    two = small(PennTreebank(bptt=5, subset=200), "lstm", embedding=3, steps=5, processes=2)
    assert in_processes(two, tmp_path, "two", more=12, first=data_sets) == "done"
    alike(one, RunDirectory(tmp_path / "two"), metrics)


@pytest.mark.slow
def test_what_stops_two_processes(tmp_path: Path, small: Any) -> None:
    """Told as with one process: the error itself, not the traceback of a process."""
    settings = small(lr=1e30, optimizer="sgd", clip=0.0, processes=2)
    said = in_processes(settings, tmp_path, "nan")
    assert said.startswith("DivergedError the loss is nan at step ")
    assert said.endswith("or clip (now 0)")
    run = RunDirectory(tmp_path / "nan")
    assert run.status == "failed"
    assert all(tensor.isfinite().all() for tensor in load(run.folder).tensors.values())


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_two_processes_killed_again_and_again(tmp_path: Path, small: Any, metrics: Any) -> None:
    """SIGKILL to all of them at some step, three times, then to the end: the bits of a run that was left alone."""
    settings = small(processes=2, steps=60, validate_every=17, options={"dropout": 0.3}, layers=2)
    assert in_processes(settings, tmp_path, "whole") == "done"
    lines = tmp_path / "killed" / "metrics.jsonl"
    for life, least in enumerate((3, 20, 41)):
        words = command(settings, tmp_path, "killed", more=0) if life == 0 else resuming(tmp_path / "killed")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            end = time.monotonic() + 600
            while not (lines.exists() and lines.read_bytes().count(b"\n") >= least):
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
    done = subprocess.run(resuming(tmp_path / "killed"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")
    whole, killed = load(tmp_path / "whole"), load(tmp_path / "killed")
    assert whole.tensors.keys() == killed.tensors.keys()
    assert all(tensor.equal(killed.tensors[name]) for name, tensor in whole.tensors.items())


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_with_two_processes(tmp_path: Path, small: Any) -> None:
    """A terminal sends it to all of them: they stop at the same step, save, and the run can be resumed."""
    words = command(small(steps=10**6, processes=2, save_every=1000.0), tmp_path, "run")
    lines = tmp_path / "run" / "metrics.jsonl"
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        end = time.monotonic() + 600
        while not (lines.exists() and lines.read_bytes().count(b"\n") > 5):
            assert time.monotonic() < end
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=600)
    assert out.splitlines()[-1] == "interrupted"
    run = RunDirectory(tmp_path / "run")
    assert run.status == "stopped"
    assert load(run.folder).values["step"] == run.facts["step"] == run.metrics()[-1]["step"]


def children(process: int) -> list[int]:
    """The processes of a run, in the order of their start."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process and b"spawn_main" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return sorted(found)


def when_training(process: "subprocess.Popen[str]", lines: Path) -> None:
    end = time.monotonic() + 150
    while not (lines.exists() and lines.read_bytes().count(b"\n") > 5):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_sigterm_with_two_processes(tmp_path: Path, small: Any) -> None:
    """Sent to the one that was started, as a scheduler does: all save, as after Ctrl-C."""
    words = command(small(steps=10**6, processes=2, save_every=1000.0), tmp_path, "run")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        when_training(process, tmp_path / "run" / "metrics.jsonl")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=100)
    assert (process.returncode, out.splitlines()[-1]) == (0, "interrupted")
    run = RunDirectory(tmp_path / "run")
    assert run.status == "stopped"
    assert load(run.folder).values["step"] == run.facts["step"] == run.metrics()[-1]["step"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_process(which: int, tmp_path: Path, small: Any) -> None:
    """Told in words: which one, by what, how to go on; the others end too, and the run can be resumed."""
    words = command(small(steps=10**6, processes=2), tmp_path, "run")
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        when_training(process, tmp_path / "run" / "metrics.jsonl")
        both = children(process.pid)
        assert len(both) == 2
        os.kill(both[which], signal.SIGKILL)
        out, err = process.communicate(timeout=100)
    assert "Traceback" not in err
    said = out.splitlines()[-1]
    known = f"StoppedError process {which + 1} of 2 was ended by the signal SIGKILL; the last checkpoint is intact."
    noticed = "StoppedError a process of the run was ended from outside; the last checkpoint is intact."
    assert said in (f"{start} Resume with: engram resume {tmp_path / 'run'}" for start in (known, noticed))
    run = RunDirectory(tmp_path / "run")
    assert (run.status, f"StoppedError {run.facts['reason']}") == ("failed", said)
    assert load(run.folder).values["step"] > 0


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed"])
def test_precisions(precision: str, tmp_path: Path, small: Any) -> None:
    """They train, in what they say: weights in float64; weights in float32 and coarser arithmetic."""
    usual = {"optimizer": "adam", "lr": 0.03, "steps": 40, "hidden": 16}
    run = train(small(precision=precision, **usual), tmp_path, precision)
    losses = [line["loss"] for line in run.metrics() if line["split"] == "train"]
    assert losses[-1] < 0.7 * losses[0]
    weights = load(run.folder).tensors["network.head.weight"]
    assert weights.dtype == (torch.float64 if precision == "64-true" else torch.float32)
    if precision == "bf16-mixed":
        exact = train(small(**usual), tmp_path, "exact")  # of the same weights
        assert 0 < max(abs(a - b["loss"]) for a, b in zip(losses[:3], exact.metrics(), strict=False)) < 0.05
    assert evaluate(run.folder)["test"]["loss"] == pytest.approx(run.facts["results"]["test"]["loss"], abs=0.05)


def test_float64_is_float64_throughout(tmp_path: Path, small: Any) -> None:
    """Outputs, losses and weights have digits that float32 has not."""
    run = train(small(precision="64-true"), tmp_path, "run")
    for line in run.metrics():
        assert torch.tensor(line["loss"], dtype=torch.float64) != torch.tensor(line["loss"]).double()
    weight = load(run.folder).tensors["network.head.weight"]
    assert not weight.equal(weight.float().double())


def test_tensorboard(tmp_path: Path, small: Any) -> None:
    """All numbers of metrics.jsonl; a run that goes on adds to them."""
    from tensorboard.backend.event_processing import event_accumulator

    run = train(small(tensorboard=True), tmp_path, "run")
    run = resume(run.folder, steps=15)
    reader = event_accumulator.EventAccumulator(str(run.folder / "tensorboard"))
    reader.Reload()
    for split in ("train", "valid", "test"):
        lines = [line for line in run.metrics() if line["split"] == split]
        events = {event.step: event.value for event in reader.Scalars(f"{split}/loss")}
        for line in lines:
            assert events[line["step"]] == pytest.approx(line["loss"], rel=1e-6)
    assert set(reader.Tags()["scalars"]) >= {"train/loss", "train/accuracy", "train/lr", "valid/loss", "test/accuracy"}


def test_no_tensorboard_unless_asked(tmp_path: Path, small: Any) -> None:
    assert not (train(small(steps=2), tmp_path, "run").folder / "tensorboard").exists()


@pytest.mark.parametrize("device", ["quantum", "cuda:99", ""])
def test_devices_that_are_not_here(device: str, tmp_path: Path, small: Any) -> None:
    with pytest.raises(OptionError, match=f"device '{device}' cannot be used here"):
        train(small(device=device), tmp_path, "run")
    assert not (tmp_path / "run").exists()


def test_device_auto(tmp_path: Path, small: Any) -> None:
    assert train(small(steps=2, device="auto"), tmp_path, "run").status == "done"

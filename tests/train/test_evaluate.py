"""What a run has learned: the scores of its end, on other exams, with its best weights or its last."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.errors import OptionError, RunError
from engram.tasks import Batch, Copy, CopyingMemory, PennTreebank, TransferCopy
from engram.train import RunDirectory, evaluate, load_network, make_network, steps_trained, train
from engram.train._evaluate import evaluate_split

# trained until it gets worse, so that best and last differ
WORSE: dict[str, Any] = {"steps": 9, "validate_every": 3, "lr": 0.3, "optimizer": "sgd", "clip": 0.0}


@pytest.fixture
def run(tmp_path: Path, small: Any) -> RunDirectory:
    made = train(small(**WORSE), tmp_path, "run")
    assert made.facts["best"]["step"] < 9
    return made


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_the_scores_of_the_end(precision: str, tmp_path: Path, small: Any) -> None:
    """Exactly those in run.json, of every exam."""
    run = train(small(TransferCopy(3, tests=(5, 6)), precision=precision, **WORSE), tmp_path, "run")
    scores = evaluate(run.folder)
    assert scores == run.facts["results"]
    assert scores.keys() == {"test", "test-5", "test-6"}
    dtype = torch.float64 if precision == "64-true" else torch.float32
    assert load_network(run.folder).dtype == dtype


@pytest.mark.usefixtures("data_sets")
def test_the_scores_of_text(tmp_path: Path, small: Any) -> None:
    """Read in windows whose state goes on: the same as the whole text at once."""
    task = PennTreebank(bptt=5, subset=200)
    run = train(small(task, "lstm", embedding=3, precision="64-true", test_samples=40), tmp_path, "run")
    assert evaluate(run.folder) == run.facts["results"]
    network, batches = load_network(run.folder), run.settings.batches("test")
    parts = [batches[k] for k in range(batches.per_epoch)]
    assert len(parts) > 2
    whole = Batch(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
    with torch.no_grad():
        loss = float(task.loss(network(whole.inputs)[0], whole))
    assert run.facts["results"]["test"]["loss"] == pytest.approx(loss, abs=1e-12)


def test_a_split(run: RunDirectory) -> None:
    """The validation of the best weights is the one that was the best."""
    best = {name: run.facts["best"][name] for name in ("loss", "accuracy")}
    assert evaluate(run.folder, "valid") == {"valid": best}
    assert evaluate(run.folder, "test") == run.facts["results"]


def test_best_or_last(run: RunDirectory) -> None:
    last = [line for line in run.metrics() if line["split"] == "valid"][-1]
    assert evaluate(run.folder, "valid", best=False)["valid"]["loss"] == last["loss"]
    assert last["loss"] != run.facts["best"]["loss"]


def test_of_a_training_set(tmp_path: Path, small: Any) -> None:
    """Of sequences that are drawn afresh there is none."""
    run = train(small(samples=12), tmp_path, "set")
    assert math.isfinite(evaluate(run.folder, "train")["train"]["loss"])
    run = train(small(), tmp_path, "fresh")
    with pytest.raises(RunError, match="samples new training sequences"):
        evaluate(run.folder, "train")


def test_other_options_are_another_exam(run: RunDirectory) -> None:
    """Loss and accuracy are those of the network on sequences of that task, computed here; the run is not changed."""
    before = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    scores = evaluate(run.folder, delay=20)
    assert scores != run.facts["results"]
    assert (run.settings.budget.batch, run.settings.budget.test_samples) == (4, 8)
    exam, network = Copy(20, 2).batches("test", 8, run.settings.seed, 8)[0], load_network(run.folder)
    with torch.no_grad():
        outputs = network(exam.inputs)[0]
    loss = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), exam.targets.flatten())
    right = (outputs.argmax(-1) == exam.targets)[-2:]  # the two symbols, at the end
    assert scores["test"]["loss"] == pytest.approx(float(loss), rel=1e-6)
    assert scores["test"]["accuracy"] == pytest.approx(float(right.float().mean()), rel=1e-6)
    assert {path.name: path.read_bytes() for path in run.folder.iterdir()} == before


def test_refusals(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"unknown option 'dely' of copy.*Did you mean 'delay'"):
        evaluate(run.folder, dely=3)
    with pytest.raises(OptionError, match=r"unknown split 'tset'.*Did you mean 'test'"):
        evaluate(run.folder, "tset")
    with pytest.raises(RunError, match="is not a run"):
        evaluate(tmp_path / "missing")


def test_a_network_that_does_not_fit(tmp_path: Path, small: Any) -> None:
    """Settings that were changed by hand."""
    run = train(small(), tmp_path, "run")
    facts = json.loads((run.folder / "run.json").read_bytes())
    facts["settings"]["model"]["hidden"] = 7
    (run.folder / "run.json").write_text(json.dumps(facts))
    for act in (lambda: evaluate(run.folder), lambda: load_network(run.folder)):
        with pytest.raises(RunError, match="does not fit its settings"):
            act()


def test_other_sizes_are_refused(tmp_path: Path, small: Any) -> None:
    """Another alphabet by the options of the task."""
    task = CopyingMemory(3, 4, 2)
    run = train(small(task), tmp_path, "run")
    other = CopyingMemory(3, 4, 9)
    message = (
        f"this network was trained with {task.input_size} inputs and {task.output_size} outputs; "
        f"with these options {task.name} has {other.input_size} and {other.output_size}"
    )
    with pytest.raises(RunError, match=message):
        evaluate(run.folder, symbols=9)


def test_of_a_run_that_is_not_finished(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its last checkpoint is."""
    from engram.train._loop import Loop

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "validate", stop)
        with pytest.raises(KeyboardInterrupt):
            train(small(), tmp_path, "run")
    assert math.isfinite(evaluate(tmp_path / "run")["test"]["loss"])


def test_load_network(run: RunDirectory) -> None:
    """In evaluation mode, of the right class; the global generator does not move."""
    before = torch.get_rng_state()
    network = load_network(run.folder)
    assert torch.get_rng_state().equal(before)
    assert not network.training
    assert network.state_dict().keys() == make_network(run.settings).state_dict().keys()


def test_steps_of_the_weights(tmp_path: Path, small: Any) -> None:
    """Those of the best validation, or the last ones; without a validation there are only these."""
    run = train(small(**WORSE), tmp_path, "run")
    assert run.facts["best"]["step"] < 9  # else nothing would be tested
    assert steps_trained(run.folder) == run.facts["best"]["step"]
    assert steps_trained(run.folder, best=False) == 9
    never = train(small(steps=3, validate_every=0), tmp_path, "never")
    assert steps_trained(never.folder) == 3


def test_evaluate_split_weighs_by_what_is_scored(small: Any) -> None:
    """Batches of 4 and of 1 sequence: an average over sequences, not over batches; and the mode is given back."""
    task = Copy(3, 2)
    network = make_network(small(task, "lstm", layers=2, options={"dropout": 0.5}))
    assert network.training
    uneven = task.batches("test", 4, 0, 5)
    parts = [uneven[k] for k in range(2)]
    together = Batch(*(torch.cat(tensors, 1) for tensors in zip(*parts, strict=True)))
    place = (torch.device("cpu"), torch.float32)
    seen: list[int] = []
    got = evaluate_split(network, task, uneven, *place, seen.append)
    assert seen == [1, 2]
    assert network.training
    network.eval()
    loss = task.loss(network(together.inputs)[0], together).item()
    assert got["loss"] == pytest.approx(loss, rel=1e-6)
    assert evaluate_split(network, task, uneven, *place) == got
    assert not network.training  # nor is a network in evaluation set to training


def test_evaluate_split_gives_the_mode_back_when_it_is_left(small: Any) -> None:
    network = make_network(small())

    def leave(_: int) -> None:
        raise KeyboardInterrupt

    place = (torch.device("cpu"), torch.float32)
    with pytest.raises(KeyboardInterrupt):
        evaluate_split(network, Copy(3, 2), Copy(3, 2).batches("test", 4, 0, 8), *place, leave)
    assert network.training
    assert torch.is_grad_enabled()


def test_an_exam_by_its_name(tmp_path: Path, small: Any) -> None:
    """Its own task, not that of the training."""
    run = train(small(TransferCopy(3, tests=(5, 6)), steps=2), tmp_path, "run")
    assert evaluate(run.folder, "test-6") == {"test-6": run.facts["results"]["test-6"]}
    assert evaluate(run.folder)["test-6"]["loss"] != evaluate(run.folder)["test"]["loss"]

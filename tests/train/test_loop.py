"""The loop against the slow obvious one, and its timetable: validation, patience, plateau, epochs, logging."""

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.models import MODELS
from engram.state import each
from engram.tasks import Copy, PennTreebank, Task, seed_of
from engram.train import RunDirectory, Settings, load_network, make_fabric, make_network, plan, train
from engram.train._checkpoint import Checkpoint, load, save
from engram.train._loop import Loop
from tiers import MODELS_OF_EACH_KIND, slow_but

LAYERS = [name for name, entry in MODELS.items() if not entry.answers_itself]

pytestmark = pytest.mark.usefixtures("data_sets")
TEXT = PennTreebank(bptt=5, subset=200)


def make_loop(settings: Settings) -> Loop:
    return Loop(settings, make_fabric(settings))


def run_of(settings: Settings, folder: Path) -> RunDirectory:
    return train(settings, folder, "run")


# Against the slow obvious loop


def obvious(settings: Settings, start: dict[str, Tensor], steps: int) -> tuple[dict[str, Tensor], list[float]]:
    """Plain torch, everything written out. Adam for all; what is orthogonal at a rate of its own, and not clipped."""
    network = make_network(settings).double()
    network.load_state_dict(start)
    slow = [p for name, p in network.named_parameters() if "original" in name]
    plain = [p for name, p in network.named_parameters() if "original" not in name]
    rates = {"params": plain, "lr": settings.optimiser.lr}, {"params": slow, "lr": settings.optimiser.lr_orthogonal}
    optimizer = torch.optim.Adam([group for group in rates if group["params"]])
    batches = settings.batches("train")
    state, losses = None, []
    for k in range(steps):
        torch.manual_seed(seed_of(settings.seed, "noise", k, 0))
        inputs, targets, mask = batches[k]
        inputs = inputs.double() if inputs.is_floating_point() else inputs
        starts = not batches.carries or k % batches.per_epoch == 0
        outputs, state = network(inputs, None if starts else state)
        state = each(lambda s: s.detach(), state)
        loss = settings.task.loss(outputs, type(batches[k])(inputs, targets, mask))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in plain if p.grad is not None))
        for p in plain:
            if p.grad is not None and norm > settings.optimiser.clip:
                p.grad.mul_(settings.optimiser.clip / (norm + 1e-6))
        optimizer.step()
    return dict(network.named_parameters()), losses


CASES = [
    (Copy(5, 3), "exprnn", {}),
    (Copy(5, 3), "lstm", {"layers": 2, "options": {"dropout": 0.3}}),
    (TEXT, "lstm", {"embedding": 4}),
    (TEXT, "exprnn", {"embedding": 0}),
]


@pytest.mark.parametrize(("task", "model", "options"), CASES)
def test_equals_the_obvious_loop(task: Task, model: str, options: dict[str, Any], small: Any, tmp_path: Path) -> None:
    """Weights to 1e-12 in float64: batches, carried state, noise, clipping and rates are what they are said to be."""
    options |= {"precision": "64-true", "lr": 0.02, "lr_orthogonal": 0.003, "clip": 0.5, "validate_every": 0}
    settings = small(task, model, steps=25, **options)
    start = load_network(train(small(task, model, steps=0, **options), tmp_path, "start").folder).state_dict()
    weights, losses = obvious(settings, start, 25)
    run = run_of(settings, tmp_path)
    if settings.batches("train").carries:
        assert 1 < settings.batches("train").per_epoch < 12  # windows that go on and epochs that begin again
    assert [line["loss"] for line in run.metrics() if line["split"] == "train"] == pytest.approx(losses, abs=1e-12)
    for name, weight in load_network(run.folder).named_parameters():
        torch.testing.assert_close(weight, weights[name], rtol=0, atol=1e-12)
        assert not weight.equal(start[name])


def test_the_carried_state_matters(small: Any) -> None:
    """Else the test above would not see it missing."""
    loop = make_loop(small(TEXT, "lstm", embedding=4))
    other = make_loop(small(TEXT, "lstm", embedding=4))
    for _ in range(3):
        assert loop.train_step()[0] == other.train_step()[0]
    other.objective.carries.clear()  # type: ignore[attr-defined]
    assert loop.train_step()[0] != other.train_step()[0]


def test_a_loss_that_is_not_finite_changes_nothing(small: Any) -> None:
    """The weights, the optimiser and the step are those before it."""
    from engram.errors import StoppedError

    loop = make_loop(small())
    for _ in range(3):
        loop.train_step()
    before = loop.state()
    with torch.no_grad():
        kept = loop.network.head.bias.clone()
        loop.network.head.bias.fill_(math.nan)
    with pytest.raises(StoppedError, match="the loss is nan at step 4"):
        loop.train_step()
    with torch.no_grad():
        loop.network.head.bias.copy_(kept)
    after = loop.state()
    assert all(before.tensors[name].equal(after.tensors[name]) for name in before.tensors)
    assert after.values["step"] == 3


# A state restored goes on bit for bit


@pytest.mark.parametrize("options", [{}, {"layers": 2}], ids=["one layer", "two layers"])
@pytest.mark.parametrize("model", slow_but(LAYERS, MODELS_OF_EACH_KIND))
def test_every_model_goes_on_bit_for_bit(model: str, options: Any, small: Any, tmp_path: Path) -> None:
    """Through a file, with the state of the text; weights, optimisers and all counters."""
    settings = small(TEXT, model, embedding=3, **options)
    loop = make_loop(settings)
    for _ in range(7):
        loop.train_step()
    save(tmp_path, loop.state())
    again = make_loop(settings)
    again.restore(load(tmp_path))
    for _ in range(7):
        assert loop.train_step()[0] == again.train_step()[0]
    assert same(loop.state(), again.state())


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("exprnn", {"options": {"rebase_every": 3}}),
        ("nnrnn", {"options": {"rebase_every": 4, "gamma_penalty": 0.1, "decay": 0.1}}),
        ("rnn", {"options": {"map": "projected"}}),
        ("exprnn", {"optimizer": "sgd"}),
        ("exprnn", {"optimizer": "rmsprop", "precision": "64-true"}),
        ("full-capacity", {"optimizer": "adamw", "weight_decay": 0.1}),
        ("exprnn", {"precision": "bf16-mixed", "layers": 2, "options": {"dropout": 0.5}}),
    ],
)
def test_every_option_goes_on_bit_for_bit(model: str, options: Any, small: Any, tmp_path: Path) -> None:
    """Bases that move, all optimisers, precisions; also with a validation, a best and a rate that fell in between."""
    settings = small(None, model, plateau=1, lr=0.3, **options)
    loop = make_loop(settings)

    def work(loop: Loop, steps: int) -> Iterator[float]:
        for _ in range(steps):
            yield loop.train_step()[0]
            if loop.step % 2 == 0:
                yield loop.validate()["loss"]

    list(work(loop, 7))
    save(tmp_path, loop.state())
    again = make_loop(settings)
    again.restore(load(tmp_path))
    assert list(work(loop, 14)) == list(work(again, 14))
    assert same(loop.state(), again.state())


def same(one: Checkpoint, two: Checkpoint) -> bool:
    values = [{name: value for name, value in each.values.items() if name != "seconds"} for each in (one, two)]
    tensors = one.tensors.keys() == two.tensors.keys()
    return tensors and values[0] == values[1] and all(one.tensors[k].equal(two.tensors[k]) for k in one.tensors)


def test_a_state_is_a_copy(small: Any) -> None:
    loop = make_loop(small())
    loop.train_step()
    loop.validate()
    state = loop.state()
    kept = {name: tensor.clone() for name, tensor in state.tensors.items()}
    loop.train_step()
    loop.validate()
    assert all(kept[name].equal(state.tensors[name]) for name in kept)


# The timetable


def steps_of(run: RunDirectory, split: str) -> list[int]:
    return [line["step"] for line in run.metrics() if line["split"] == split]


def test_lines(tmp_path: Path, small: Any) -> None:
    """A train line every log_every steps and at the end, a validation every validate_every and at the end, a test."""
    run = run_of(small(steps=11, log_every=3, validate_every=4), tmp_path)
    assert steps_of(run, "train") == [3, 6, 9, 11]
    assert steps_of(run, "valid") == [4, 8, 11]
    assert steps_of(run, "test") == [11]
    train_line = next(line for line in run.metrics() if line["split"] == "train")
    assert train_line.keys() == {"step", "split", "loss", "accuracy", "lr", "seconds"}
    assert run.facts["results"]["test"].keys() == {"loss", "accuracy"}
    assert run.facts["best"]["step"] in (4, 8, 11)
    assert (run.facts["total_steps"], run.facts["step"]) == (11, 11)


def test_no_validation(tmp_path: Path, small: Any) -> None:
    """The last weights are the ones that are tested."""
    run = run_of(small(validate_every=0), tmp_path)
    assert steps_of(run, "valid") == []
    assert run.facts["best"] is None
    assert not any(name.startswith("best.") for name in load(run.folder).tensors)


def test_no_steps(tmp_path: Path, small: Any) -> None:
    """A network as it is drawn can be tested too."""
    run = run_of(small(steps=0), tmp_path)
    assert [line["split"] for line in run.metrics()] == ["test"]


def test_usual_lengths(small: Any) -> None:
    """Without steps: 1000 drawn ones and a validation every 100, or one epoch of a set and a validation at its end."""
    loop = make_loop(small(steps=None, validate_every=None))
    assert (loop.total, loop.every) == (1000, 100)
    loop = make_loop(small(steps=None, validate_every=None, samples=21))
    assert (loop.total, loop.every) == (5, 5)
    loop = make_loop(small(steps=None, validate_every=None, samples=21, epochs=3))
    assert (loop.total, loop.every) == (15, 5)
    loop = make_loop(small(steps=7, validate_every=2, samples=21))
    assert (loop.total, loop.every) == (7, 2)


def batch_log(loop: Loop, steps: int) -> list[Tensor]:
    return [loop.objective.batches[k].inputs for k in range(steps)]  # type: ignore[attr-defined]


def test_a_fixed_set_is_seen_once_an_epoch(small: Any) -> None:
    """12 sequences in batches of 4: every epoch all of them, in an order of its own."""
    seen = batch_log(make_loop(small(Copy(3, 5), samples=12)), 6)
    rows = [sorted(str(row.tolist()) for batch in seen[k : k + 3] for row in batch.unbind(1)) for k in (0, 3)]
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == 12
    assert not all(a.equal(b) for a, b in zip(seen[:3], seen[3:], strict=True))


def test_fresh_sequences_are_never_seen_twice(small: Any) -> None:
    seen = batch_log(make_loop(small(Copy(3, 10))), 6)
    rows = [str(row.tolist()) for batch in seen for row in batch.unbind(1)]
    assert len(set(rows)) == 24
    other = batch_log(make_loop(small(Copy(3, 10), seed=1)), 1)
    assert not other[0].equal(seen[0])


def scripted(losses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Validations (and tests after them) give these losses."""
    remaining = iter(losses)
    monkeypatch.setattr(Loop, "evaluate", lambda *_: {"loss": next(remaining), "accuracy": 0.5})


def test_patience(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two validations without a better loss end the run; one that is equal is not better."""
    scripted([5.0, 4.0, 4.5, 3.0, 3.0, 8.0, 7.0, 9.0], monkeypatch)
    run = run_of(small(steps=100, validate_every=1, patience=2), tmp_path)
    assert steps_of(run, "valid") == [1, 2, 3, 4, 5, 6]
    assert run.facts["best"] == {"step": 4, "loss": 3.0, "accuracy": 0.5}
    assert run.status == "done"
    assert run.facts["results"]["test"]["loss"] == 7.0


def test_plateau(tmp_path: Path, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every two validations without a better loss all rates are multiplied; a better one starts the count."""
    scripted([5.0, 6.0, 6.0, 6.0, 6.0, 4.0, 6.0, 3.0, 6.0, 6.0, 0.0], monkeypatch)
    run = run_of(small(steps=10, validate_every=1, plateau=2, plateau_factor=0.1, lr=1e-2), tmp_path)
    rates = [line["lr"] for line in run.metrics() if line["split"] == "train"]
    assert rates == pytest.approx([1e-2] * 3 + [1e-3] * 2 + [1e-4] * 5)
    (group, slow) = load(run.folder).values["optimizers"][0]["dict"][1][1]["list"]
    assert [dict(g["dict"])["lr"]["value"] for g in (group, slow)] == pytest.approx([1e-4, 1e-5])
    assert load(run.folder).values["falls"] == 3  # the next step would be taken with 1e-5


def test_the_best_weights_are_tested(tmp_path: Path, small: Any) -> None:
    """Trained until it gets worse: the test is of the best validation, and both weights are kept."""
    settings = small(steps=9, validate_every=3, lr=0.3, optimizer="sgd", clip=0.0)
    run = run_of(settings, tmp_path)
    valid = {line["step"]: line["loss"] for line in run.metrics() if line["split"] == "valid"}
    best = min(valid, key=lambda step: valid[step])
    assert best < 9
    assert run.facts["best"]["step"] == best
    loop = make_loop(settings)
    for _ in range(best):
        loop.train_step()
    assert loop.evaluate("test") == run.facts["results"]["test"]
    assert load_network(run.folder).head.weight.equal(loop.network.head.weight)
    for _ in range(9 - best):
        loop.train_step()
    assert load_network(run.folder, best=False).head.weight.equal(loop.network.head.weight)


def test_a_validation_does_not_disturb_training(tmp_path: Path, small: Any, metrics: Any) -> None:
    """Neither the numbers of the noise nor dropout itself: the same losses with and without."""
    settings = small(model="lstm", layers=2, options={"dropout": 0.5})
    often = train(settings, tmp_path, "often")
    never = train(small(model="lstm", layers=2, options={"dropout": 0.5}, validate_every=0), tmp_path, "never")
    lines = [[line for line in metrics(run) if line["split"] == "train"] for run in (often, never)]
    assert lines[0] == lines[1]


def test_saving_does_not_disturb_training(tmp_path: Path, small: Any, metrics: Any) -> None:
    one, two = (train(small(save_every=every), tmp_path, str(every)) for every in (0, 1000))
    assert metrics(one) == metrics(two)
    assert load(one.folder).tensors["network.head.weight"].equal(load(two.folder).tensors["network.head.weight"])


# The caller


def test_the_caller_is_left_alone(tmp_path: Path, small: Any) -> None:
    """Random numbers, threads, dtype and gradients are as before, and do not matter."""

    def world() -> list[Any]:
        numpy = np.random.get_state()  # noqa: NPY002 - the one that must not move
        return [
            torch.get_rng_state().tolist(),
            random.getstate(),
            numpy[1].tolist(),  # type: ignore[index]
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        ]

    torch.manual_seed(5)
    before = world()
    one = train(small(threads=2), tmp_path, "one")
    plan(small(threads=2), measured=1)
    assert world() == before
    torch.manual_seed(6)
    torch.rand(3)
    two = train(small(threads=2), tmp_path, "two")
    for name, tensor in load(one.folder).tensors.items():
        assert tensor.equal(load(two.folder).tensors[name])


def test_plan(small: Any) -> None:
    """Counts and lengths of the run that would be; nothing is written."""
    settings = small(steps=1000)
    facts = plan(settings, measured=2)
    assert facts["parameters"] == sum(p.numel() for p in make_network(settings).parameters())
    assert (facts["steps"], facts["sequence_length"]) == (1000, settings.task.steps)
    assert facts["seconds"] == pytest.approx(1000 * facts["seconds_a_step"])
    assert 10 < facts["peak_memory_mb"] < 100_000

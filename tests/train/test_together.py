"""Runs that are trained as one batched model: each gives what it gives alone, whoever it is trained with."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.errors import OptionError, RunError
from engram.loops import use_threads
from engram.tasks import Adding, Copy, LagCopy, TransferCopy
from engram.train import (
    RunDirectory,
    Settings,
    _together,
    evaluate,
    load_network,
    make_fabric,
    resume,
    train,
    train_together,
    why_not_together,
)
from engram.train._checkpoint import TENSORS, load
from engram.train._loop import Loop
from engram.train._members import Members, Now
from engram.train._why_not_together import keeps_bits
from prepared import Prepared
from tiers import slow

STEPS = 100


class Mean(nn.Module):
    """A module that is not engram's: a causal mean, and two linear layers with a batch normalisation between them."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.normal = nn.BatchNorm1d(hidden_size)

    def forward(self, input: Tensor) -> Tensor:
        steps = torch.arange(1, len(input) + 1).view(-1, 1, 1)
        hidden = self.first(input.cumsum(0) / steps)
        found: Tensor = self.second(torch.tanh(self.normal(hidden.flatten(0, 1)).view_as(hidden)))
        return found


def loops_of(settings: list[Settings]) -> list[Loop]:
    return [Loop(each.resolved(), make_fabric(each)) for each in settings]


def curves(settings: list[Settings], steps: int = STEPS) -> list[list[float]]:
    """The losses of each, trained as one."""
    members = Members(list(loops_of(settings)), Now())
    taken = [members.train_step() for _ in range(steps)]
    return [[step[k].loss for step in taken] for k in range(len(settings))]


def alone(settings: Settings, steps: int = STEPS) -> list[float]:
    (loop,) = loops_of([settings])
    return [loop.train_step()[0] for _ in range(steps)]


MODELS = ["exprnn", "lstm", slow("nnrnn"), slow("cprnn"), slow("rnn"), slow("gru"), f"{__name__}:Mean"]


@pytest.mark.parametrize("model", MODELS)
def test_same_curves_as_single_runs(model: str, small: Any) -> None:
    """In float64, over 100 steps, to 1e-5: in fact to rounding."""
    settings = [small(model=model, precision="64-true", seed=k, lr=0.002 * (1 + k)) for k in range(3)]
    for own, found in zip(settings, curves(settings), strict=True):
        expected = alone(own)
        assert len(found) == len(expected) == STEPS
        assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-9
        assert abs(expected[0] - expected[-1]) > 1e-3  # it did learn


OPTIMISERS: list[dict[str, Any]] = [
    {"optimizer": "adam", "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1},
    {"optimizer": "adamw", "eps": 1e-4, "weight_decay": 0.3, "warmup": 4},
    {"optimizer": "rmsprop", "alpha": 0.8, "momentum": 0.5, "schedule": "cosine"},
    {"optimizer": "rmsprop", "eps": 1e-4, "step_size": 3},
    {"optimizer": "sgd", "lr": 0.1},
    {"optimizer": "sgd", "lr": 0.1, "momentum": 0.0, "clip": 0.01},
]


@pytest.mark.parametrize("options", OPTIMISERS, ids=lambda o: "-".join(map(str, o.values())))
def test_optimisers(options: dict[str, Any], small: Any) -> None:
    """Each member has rates, clipping and schedules of its own."""
    usual = small(model="nnrnn", precision="64-true", **options)
    other = usual.replace(seed=1, lr=3 * usual.optimiser.lr, clip=0.05, lr_orthogonal=0.01)
    settings = [usual, other, usual.replace(clip=0.0, warmup=3)]
    for own, found in zip(settings, curves(settings, 10), strict=True):
        assert found == pytest.approx(alone(own, 10), abs=1e-10)


def weights(folders: list[Path]) -> list[dict[str, Tensor]]:
    return [load(folder).tensors for folder in folders]


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "model",
    ["exprnn", "lstm", slow("nnrnn"), slow("cprnn"), slow("gru"), slow("householder"), "linear-rnn", slow("depth-rnn")],
)
def test_bits_do_not_depend_on_the_companions(model: str, small: Any, tmp_path: Path) -> None:
    """Neither on who they are, nor on how many, nor on the place, nor on the threads, nor on who has dropped out."""
    task = LagCopy(lag=2, features=3, length=9) if model in ("linear-rnn", "depth-rnn") else Copy(7, 3)
    own = small(task, model, hidden=7, steps=20, seed=5, validate_every=0)
    assert keeps_bits(loops_of([own])[0].network, own.budget.batch)
    others = [own.replace(seed=k, lr=0.05 / k, steps=9 * k) for k in (1, 2, 3)]
    groups = [[own], [own, others[0]], [others[1], own, others[2]], [*others, own], [others[2], others[0], own]]
    found = []
    for k, group in enumerate(groups):
        folders = [tmp_path / f"{k}-{j}" for j in range(len(group))]
        torch.set_num_threads(1 + k % 2)
        try:
            train_together(group, folders)
        finally:
            torch.set_num_threads(1)
        found += [state for run, state in zip(group, weights(folders), strict=True) if run is own]
    assert len(found) == len(groups)
    assert all(equal(found[0], each) for each in found[1:])


def test_bits_of_other_modules_do_not_depend_on_values(small: Any) -> None:
    """Nor on what the companions compute, where the members stay as many."""
    own = small(model=f"{__name__}:Mean", seed=5)
    assert not keeps_bits(loops_of([own])[0].network, own.budget.batch)
    ends = []
    for seeds in ([5, 1, 2], [5, 3, 4]):
        loops = loops_of([own.replace(seed=seed) for seed in seeds])
        members = Members(list(loops), Now())
        for _ in range(10):
            members.train_step()
        ends.append({name: t.clone() for name, t in loops[0].network.state_dict().items()})
    assert equal(*ends)


def test_loops_use_threads(small: Any) -> None:
    """The same bits at one and at three threads of C."""
    ends = []
    for threads in (1, 3):
        loops = loops_of([small(hidden=33, batch=9, seed=k) for k in range(3)])
        with use_threads(threads):
            members = Members(list(loops), Now())
            for _ in range(3):
                members.train_step()
        ends.append([loop.network.state_dict() for loop in loops])
    assert all(equal(*pair) for pair in zip(*ends, strict=True))


def test_directories(small: Any, metrics: Any, tmp_path: Path) -> None:
    """Every member has the files of a run, with the lines that it has alone; those that have ended drop out."""
    usual = small(TransferCopy(3, 2), precision="64-true", steps=24)
    settings = [usual, usual.replace(seed=1, steps=9, log_every=3), usual.replace(seed=2, lr=0.9, patience=1)]
    told: list[int] = []
    runs = train_together(settings, [tmp_path / f"m{k}" for k in range(3)], tell=lambda k, *_: told.append(k))
    assert {*told} == {0, 1, 2}
    assert runs[2].facts["step"] < 24  # its patience was over
    for k, (own, run) in enumerate(zip(settings, runs, strict=True)):
        single = train(own, tmp_path, f"s{k}")
        lines, expected = metrics(run), metrics(single)
        assert [line.keys() for line in lines] == [line.keys() for line in expected]
        for line, other in zip(lines, expected, strict=True):
            assert line == pytest.approx(other, abs=1e-9)
        assert run.status == single.status == "done"
        assert run.facts["step"] == single.facts["step"]
        for split, scores in single.facts["results"].items():
            assert run.facts["results"][split] == pytest.approx(scores, abs=1e-9)
        for ours, theirs in zip(
            load_network(run.folder).parameters(), load_network(single.folder).parameters(), strict=True
        ):
            assert torch.allclose(ours, theirs, atol=1e-9)
        assert evaluate(run.folder) == run.facts["results"]


def test_a_member_goes_on_alone(small: Any, tmp_path: Path) -> None:
    """Its checkpoint is an ordinary one."""
    settings = [small(steps=6, seed=k, precision="64-true") for k in range(2)]
    train_together(settings, [tmp_path / "a", tmp_path / "b"])
    further = resume(tmp_path / "b", steps=12)
    single = train(settings[1].replace(steps=12), tmp_path, "c")
    found, expected = (load_network(run.folder, best=False).state_dict() for run in (further, single))
    assert all(torch.allclose(found[name], expected[name], atol=1e-9) for name in expected)


def test_one_that_diverges_fails_alone(small: Any, tmp_path: Path) -> None:
    usual = small(Adding(6), "linear-rnn", steps=30, optimizer="sgd", clip=0.0, validate_every=10)
    settings = [usual, usual.replace(lr=1e9, seed=1), usual.replace(seed=2)]
    runs = train_together(settings, [tmp_path / f"m{k}" for k in range(3)])
    assert [run.status for run in runs] == ["done", "failed", "done"]
    assert "start again with a smaller lr" in runs[1].facts["reason"]
    again = train_together(settings, [tmp_path / f"m{k}" for k in range(3)])
    assert [run.status for run in again] == ["done", "failed", "done"]


def test_one_that_diverges_stays_as_it_was(small: Any) -> None:
    """Its weights and moments after the step that was not finite are those before it, and its companion goes on."""
    usual = small(Adding(6), "linear-rnn", optimizer="adam", clip=0.0)
    loops = loops_of([usual, usual.replace(lr=1e30, seed=1)])
    members = Members(list(loops), Now())
    for _ in range(20):
        before = [members.stacked.weights.clone(), *(rows.clone() for rows in members.stacked.moments.values())]
        taken = members.train_step()
        if taken[1].fault is not None:
            break
    assert [each.fault is None for each in taken] == [True, False]
    after = [members.stacked.weights, *members.stacked.moments.values()]
    assert len(after) == 3  # and the two moments of Adam
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old[1], new[1])
        assert not torch.equal(old[0], new[0])
    assert loops[1].step == loops[0].step - 1


def states(folders: list[Path]) -> list[Any]:
    return [(load(folder).values["step"], (folder / TENSORS).read_bytes()) for folder in folders]


@pytest.mark.parametrize("model", ["exprnn", f"{__name__}:Mean"])
@pytest.mark.parametrize("gently", [True, False])
def test_stopped_and_resumed(
    model: str, gently: bool, small: Any, metrics: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C between two steps, or at once in the middle of one: the same bits as without it."""
    monkeypatch.setattr(_together, "TELL_EVERY", 0.0)
    settings = [small(model=model, seed=k, steps=(12, 5, 10)[k], save_every=0 if k else 10.0) for k in range(3)]
    whole, folders = ([tmp_path / f"{name}{k}" for k in range(3)] for name in ("whole", "stopped"))
    train_together(settings, whole)
    stops = [3, 4, 7, 8, 11]

    def stop(k: int, step: int, loss: float) -> None:
        if k == 0 and stops and step >= stops[0]:
            stops.pop(0)
            if gently:
                signal.raise_signal(signal.SIGINT)
            else:
                raise KeyboardInterrupt

    for _ in range(len(stops)):
        with pytest.raises(KeyboardInterrupt):
            train_together(settings, folders, tell=stop)
        assert {RunDirectory(folder, ["tests"]).status for folder in folders} <= {"stopped", "done"}
    train_together(settings, folders, tell=stop)
    assert not stops
    assert states(folders) == states(whole)
    runs = [[RunDirectory(folder, ["tests"]) for folder in each] for each in (folders, whole)]
    assert [metrics(run) for run in runs[0]] == [metrics(run) for run in runs[1]]


PROGRAM = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
from engram.train import Settings, train_together

settings = [Settings.from_dict(each) for each in json.loads(sys.argv[1])]
out, kills, chance = Path(sys.argv[2]), int(sys.argv[3]), random.Random(int(sys.argv[4]))

def live(name):
    child = os.fork()
    if not child:
        try:
            os.fsync = lambda file: time.sleep(0.001 if name == "killed" else 0)
            train_together(settings, [out / f"{name}{k}" for k in range(len(settings))])
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child

def length():
    return sum(path.read_bytes().count(b"\\n") for path in out.glob("killed*/metrics.jsonl"))

assert os.waitpid(live("whole"), 0)[1] == 0
lines = []
for life in range(kills):
    before, more, wait = length(), chance.randint(1, 20), chance.uniform(0, 0.01)
    child = live("killed")
    while length() < before + more:
        assert not os.waitpid(child, os.WNOHANG)[0], "it ended by itself"
        time.sleep(0.001)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lines.append(length())
assert os.waitpid(live("killed"), 0)[1] == 0
print(json.dumps(lines))
"""


@pytest.mark.parametrize(("model", "kills"), [("exprnn", 2), slow("exprnn", 15), slow("lstm", 6)])
def test_kills(model: str, kills: int, small: Any, metrics: Any, tmp_path: Path, prepared: Prepared) -> None:
    """SIGKILL at random instants: every member ends with the bits that it has without."""
    steps = 30 + 12 * kills
    usual = small(model=model, validate_every=steps // 5, plateau=1, lr=0.02)
    settings = [usual.replace(seed=k, steps=steps - 7 * k, lr=0.02 / (1 + k)) for k in range(3)]
    given = json.dumps([each.to_dict() for each in settings])
    done = prepared.run(PROGRAM, given, str(tmp_path), str(kills), str(kills))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[-1] > kills
    whole, killed = ([tmp_path / f"{name}{k}" for k in range(3)] for name in ("whole", "killed"))
    assert states(killed) == states(whole)
    assert [metrics(folder) for folder in killed] == [metrics(folder) for folder in whole]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "task": ({"task": Copy(4, 2)}, "the same task"),
    "model": ({"hidden": 7}, "the same model"),
    "batch": ({"batch": 5}, "the same batch"),
    "precision": ({"precision": "64-true"}, "the same precision"),
    "optimizer": ({"optimizer": "sgd"}, "the same optimizer"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_runs_that_differ_too_much(which: str, small: Any, tmp_path: Path) -> None:
    changes, words = REFUSED[which]
    settings = [small(), small().replace(**changes)]
    assert words in why_not_together(settings)
    with pytest.raises(OptionError, match=words):
        train_together(settings, [tmp_path / "a", tmp_path / "b"])
    assert not any(tmp_path.iterdir())


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "dropout": ({"layers": 2, "options": {"dropout": 0.5}}, "random numbers"),
    "processes": ({"processes": 2}, "single process"),
    "bf16": ({"precision": "bf16-mixed"}, "float32 or float64"),
    "stiefel": ({"model": "full-capacity"}, "StiefelStep"),
    "torch": ({"model": "torch-lstm"}, "vmap"),
}


@pytest.mark.parametrize("which", UNFIT)
def test_runs_that_cannot_be_batched(which: str, small: Any) -> None:
    changes, words = UNFIT[which]
    assert words in why_not_together([small(seed=k, **changes) for k in range(2)])


def test_momentum_of_some(small: Any) -> None:
    settings = [small(optimizer="sgd", momentum=momentum) for momentum in (0.0, 0.9)]
    assert "momentum" in why_not_together(settings)
    assert why_not_together([]) == "there is no run"


def test_folders(small: Any, tmp_path: Path) -> None:
    settings = [small(seed=k, steps=2) for k in range(2)]
    with pytest.raises(OptionError, match="a folder of its own"):
        train_together(settings, [tmp_path / "a", tmp_path / "a"])
    train_together(settings, [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(RunError, match="other settings"):
        train_together(settings[::-1], [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(RunError, match="other settings"):
        train_together([small(seed=k, steps=4) for k in range(2)], [tmp_path / "a", tmp_path / "b"])


def test_probes(small: Any, tmp_path: Path) -> None:
    """Each member's own network is measured."""
    settings = [small(seed=k, steps=4, probe_every=2) for k in range(2)]

    def observe(network: Any, task: Any) -> dict[str, float]:
        return {"norm": float(network.head.weight.detach().norm())}

    runs = train_together(settings, [tmp_path / "a", tmp_path / "b"], observe=observe)
    norms = [[line["norm"] for line in run.metrics() if line["split"] == "probe"] for run in runs]
    assert len(norms[0]) == len(norms[1]) == 2
    assert norms[0] != norms[1]

"""The whole profile: every part or its reason, as words, JSON, picture and page."""

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import engram
from engram.errors import OptionError, RunError, ShapeError
from engram.probe import PARTS, Cost, NotMeasured, Subject, fisher_memory, profile, profile_run
from engram.tasks import Adding, Copy, PAutomaC, StartEnd, Task
from engram.train import RunDirectory, Settings, train
from readable import faults, strange_colors
from tiers import slow_but

KEYS = {"gradient_reach", "fisher_memory", "memory_capacity", "spectrum", "lyapunov", "separation_rank"}


@pytest.fixture(scope="module")
def lstm() -> Any:
    torch.manual_seed(0)
    return profile(nn.LSTM(3, 6), length=40)


def test_all_parts(lstm: Any) -> None:
    found = json.loads(json.dumps(lstm.to_dict(), allow_nan=False))
    assert set(PARTS) == KEYS | {"structure"}
    assert set(found) >= KEYS
    assert [name for name in PARTS if "reason" in found[name]] == ["structure"]
    assert len(found["gradient_reach"]["norms"]) == 40
    assert len(found["memory_capacity"]["lags"]) == 41
    assert found["lyapunov"]["exponents"][0] < 0
    assert "step linearised" in found["notes"][0]
    assert "gated model: the spectrum is that of the step's Jacobian" in found["notes"][1]


def test_words_say_the_verdict_first(lstm: Any) -> None:
    lines = lstm.words().splitlines()
    assert lines[0] == "LSTM (LSTM: 3 inputs, 6 outputs, a state of 12 numbers), 40 steps"
    assert lines[1].startswith("Verdict: The gradient vanishes, from ")
    assert lstm.verdict == lines[1].removeprefix("Verdict: ") == lstm.to_dict()["verdict"]
    assert lines[2:4] == [f"Note: {note}" for note in lstm.notes]
    assert lines[4:] == [f"- {part.words()}" for part in lstm.parts.values()]
    for part in lstm.parts.values():
        if not isinstance(part, NotMeasured):
            assert part.words().startswith(f"{part.title}: {part.headline()}")


def test_a_matrix_that_is_a_rate_of_change() -> None:
    """The eigenvalues of an antisymmetric RNN are those of I + epsilon W near zero, not those of W."""
    layer = engram.nn.AntisymmetricRNN(3, 6, epsilon=0.01, gamma=0.1, deviation=4.0, dtype=torch.float64)
    quiet = torch.zeros(20, 2, 3, dtype=torch.float64)  # the state stays at zero, where tanh has the slope 1
    found = profile(layer, data=quiet, length=20, parts=("spectrum",))
    step = torch.eye(6, dtype=torch.float64) + 0.01 * layer.weight_hh_l0.detach()
    assert found.parts["spectrum"].radius == pytest.approx(float(torch.linalg.eigvals(step).abs().max()), abs=1e-9)
    assert found.parts["spectrum"].radius < 1.1 < float(torch.linalg.eigvals(layer.weight_hh_l0.detach()).abs().max())


def test_the_parts_agree(linear: Any) -> None:
    """Of 0.9 Q every part sees 0.9: the gradient, the spectrum, the Lyapunov exponents; and it is normal."""
    rotation = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0]
    found = profile(linear(0.9 * rotation, torch.randn(5, 1)), length=60)
    parts = found.parts
    assert parts["gradient_reach"].decay.rate == pytest.approx(-0.10536, abs=1e-4)
    assert parts["spectrum"].radius == pytest.approx(0.9)
    assert parts["lyapunov"].exponents == pytest.approx([-0.10536] * 5, abs=1e-4)
    assert parts["fisher_memory"].total == pytest.approx(parts["fisher_memory"].normal_bound)
    assert parts["structure"].matrices[0].drift == pytest.approx(0.19)
    assert found.notes == []  # linear: nothing was linearised


def test_where_a_model_is_linearised() -> None:
    """At the state after the first sequence, with its last input; tanh has the slope 1 - h^2 of the next state."""
    model = nn.RNN(2, 4, dtype=torch.float64)
    x = 2 * torch.randn(12, 3, 2, dtype=torch.float64)
    found = profile(model, data=x, length=12, parts=["fisher_memory"]).parts["fisher_memory"]
    state = model(x[:, :1])[1].detach()
    following = model(x[-1:, :1], state)[1].detach()
    slope = (1 - following[0, 0] ** 2)[:, None]
    signal = (slope * model.weight_ih_l0.detach()).sum(1) / 2**0.5  # all inputs alike, length 1
    right = fisher_memory(slope * model.weight_hh_l0.detach(), signal, lags=12)
    np.testing.assert_allclose(found.matrix, right.matrix, rtol=1e-9, atol=1e-12)
    assert (found.steps, found.total) == (None, pytest.approx(right.total))


def test_noise_that_grows_is_followed_for_the_length_measured(linear: Any) -> None:
    """An orthogonal W has no stationary state: J(k) = |v|^2 / T over the T steps measured."""
    rotation = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0]
    found = profile(linear(rotation, torch.eye(5)[:, :1]), length=25, parts=["fisher_memory"]).parts["fisher_memory"]
    assert found.steps == 25
    np.testing.assert_allclose(found.curve, 1 / 25, rtol=1e-9)


def test_the_sixteen_largest_exponents(linear: Any) -> None:
    """Of 20 units, along all steps after the first; a tenth of them settle."""
    gains = torch.linspace(0.05, 0.95, 20, dtype=torch.float64)
    found = profile(linear(torch.diag(gains), torch.ones(20, 1)), length=60, parts=["lyapunov"]).parts["lyapunov"]
    assert (found.size, found.burn_in, found.steps) == (20, 5, 54)
    np.testing.assert_allclose(found.exponents[:3], np.log([0.95, 0.9026316, 0.8552632]), atol=0.05)
    assert len(found.exponents) == 16


def test_without_a_state() -> None:
    """Of a model that only maps inputs to outputs, three parts are left; the others say why not."""
    found = profile(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), length=20).to_dict()
    assert {name for name in PARTS if "reason" not in found[name]} == {
        "gradient_reach",
        "memory_capacity",
        "separation_rank",
    }
    assert found["lyapunov"] == {"reason": "the state of this model cannot be handed in: it returns none"}


def test_too_large_for_the_exact_parts() -> None:
    """More than 64 outputs and 512 states: sampled, and said."""
    parts = ("gradient_reach", "fisher_memory", "spectrum", "lyapunov")
    found = profile(nn.GRU(2, 520), length=10, parts=parts)
    assert not found.parts["gradient_reach"].exact
    assert found.parts["fisher_memory"].method == "128 of 520 directions"
    assert not found.parts["fisher_memory"].whole
    assert "total memory is at least" in found.parts["fisher_memory"].words()
    assert found.summary()["Fisher memory"].startswith("≥ ")
    assert len(found.parts["spectrum"].eigenvalues) == 128
    assert (
        "520 numbers is too large for its Jacobian: Fisher memory and spectrum are of the 128 directions"
        in found.notes[0]
    )
    assert found.notes[1:] == ["of a state of 520 numbers Lyapunov exponents are along one sequence"]


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("no gradient of this\nmore words")


class Forward(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return NoGradient.apply(x)


def test_a_model_without_a_gradient() -> None:
    """What torch refuses in one part is the reason of that part; the others are measured."""
    found = profile(Forward(), input_size=2, length=10, parts=("gradient_reach", "separation_rank"))
    assert found.parts["gradient_reach"] == NotMeasured("Gradient reach", "RuntimeError: no gradient of this")
    assert found.parts["separation_rank"].rank == 2  # start + end


def test_data_in_the_order_of_the_module() -> None:
    """The same inputs, batch first or time first, give the same numbers; others give others."""
    first, last = nn.RNN(3, 5), nn.RNN(3, 5, batch_first=True)
    last.load_state_dict(first.state_dict())
    x = 3 * torch.randn(20, 2, 3)
    options: dict[str, Any] = {"parts": ["gradient_reach"], "length": 20}
    one, two = profile(first, data=x, **options), profile(last, data=x.transpose(0, 1), **options)
    assert one.parts["gradient_reach"].norms == pytest.approx(two.parts["gradient_reach"].norms)
    assert one.parts["gradient_reach"].norms != profile(first, **options).parts["gradient_reach"].norms


def test_cost_comes_first() -> None:
    told: list[Any] = []
    found = profile(
        nn.GRU(2, 3), length=16, parts=("gradient_reach", "structure"), before=told.append, each=told.append
    )
    assert isinstance(told[0], Cost)
    assert told[1:] == ["gradient_reach", "structure"]
    assert (found.cost.passes, found.cost.steps) == (1 + 3, 2 * 16)
    assert found.cost.seconds > 0
    assert "4 passes over whole sequences and 32 single steps" in found.cost.words()


def test_the_same_seed_the_same_numbers() -> None:
    module = nn.GRU(2, 3)
    one, two, other = (profile(module, length=16, seed=seed).to_dict() for seed in (3, 3, 4))
    assert [one[name] for name in PARTS] == [two[name] for name in PARTS]
    assert one["gradient_reach"] != other["gradient_reach"]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"parts": ["fischer_memory"]}, OptionError, "Did you mean 'fisher_memory'?"),
        ({"length": 3}, OptionError, "length must be at least 8"),
        ({"seed": 2**64}, OptionError, "seed must be at most"),
        ({"seed": -1}, OptionError, "seed must be at least 0"),
        ({"data": torch.ones(5, 3)}, ShapeError, "data must be sequences of rank 3 with 2 features"),
        ({"input_size": 7}, ShapeError, "refused inputs"),
    ],
)
def test_what_is_refused(options: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words.replace("?", r"\?")):
        profile(nn.GRU(2, 3), **options)


# Pictures


def test_the_picture(lstm: Any, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        lstm.plot(tmp_path / name)
    profile(nn.GRU(1, 2), length=8, parts=["structure"]).plot(tmp_path / "c.png")
    content = (tmp_path / "a.svg").read_text()
    assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    for words in ("Gradient reach", "Fisher memory", "Memory capacity", "Lyapunov", "Separation rank", "not measured"):
        assert words in content
    assert content == (tmp_path / "b.svg").read_text()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OptionError, match=r"must end in .svg or .png"):
        lstm.plot(tmp_path / "d.txt")


PLOTTED: dict[str, Callable[[], nn.Module]] = {
    "rac": lambda: engram.nn.RAC(3, 4, 2),
    "nnrnn": lambda: engram.nn.NonNormalRNN(3, 12, num_layers=2),
    "torch's LSTM": lambda: nn.LSTM(8, 16),
    "no state": lambda: nn.Linear(2, 2),
    "no weights": nn.ReLU,
}


@pytest.mark.parametrize("name", slow_but(PLOTTED, {"no weights"}))
def test_every_figure_is_readable(name: str, tmp_path: Path) -> None:
    """Also where curves are zero or missing (a warning would fail the test)."""
    found = profile(PLOTTED[name](), input_size=3 if name == "no weights" else None, length=60)
    assert faults(found.figure()) == []
    found.plot(tmp_path / "a.svg")
    assert strange_colors((tmp_path / "a.svg").read_text()) == set()


# Runs


def _trained(folder: Path, task: Task, model: str, **options: Any) -> RunDirectory:
    usual = {"hidden": 6, "batch": 4, "steps": 3, "valid_samples": 8, "test_samples": 8, "threads": 1}
    return train(Settings.of(task, model, **(usual | options)), folder, "run", show=False)


TASKS: list[tuple[Task, str]] = [(Copy(6, 2), "nnrnn"), (Adding(20), "lstm"), (StartEnd(12, 2, 3), "tensor-train")]


@pytest.mark.parametrize(("task", "model"), TASKS, ids=lambda part: getattr(part, "name", part))
def test_a_run(tmp_path: Path, task: Task, model: str) -> None:
    run = _trained(tmp_path, task, model)
    found = profile_run(run.folder)
    assert found.length == task.steps
    assert found.name == f"{model} on {task.name}, 3 steps trained"
    assert not isinstance(found.parts["gradient_reach"], NotMeasured)
    assert isinstance(found.parts["lyapunov"], NotMeasured) == (model == "tensor-train")


def test_a_run_is_measured_on_its_loss(tmp_path: Path) -> None:
    """Adding is answered once: dL/dh_t is of (y - target)^2 at the end, as plain autograd has it."""
    run = _trained(tmp_path, Adding(20), "rnn")
    found = profile_run(run.folder, parts=["gradient_reach"], batch=3, seed=1)
    from engram.tasks import seeded
    from engram.train import load_network

    network: Any = load_network(run.folder)
    batch = Adding(20).sample(3, seeded(1, "probe"))
    state = None
    states = []
    for x in batch.inputs:
        output, state = network(x[None], state)
        state = state.detach().requires_grad_() if not states else state
        state.retain_grad()
        states.append(state)
    Adding(20).loss(output, batch).backward()
    expected = [float(s.grad.square().sum((0, 2)).mean().sqrt()) for s in states[:-1]]
    assert found.parts["gradient_reach"].states[1:] == pytest.approx(expected[::-1], rel=1e-4)


@pytest.mark.parametrize("best", [True, False])
def test_which_weights_of_a_run(best: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are asked for; and no more code is allowed than that."""
    from engram.probe import _run

    asked, load = [], _run.load_network
    monkeypatch.setattr(_run, "load_network", lambda folder, **how: asked.append(how) or load(folder, **how))
    run = _trained(tmp_path, Adding(10), "rnn")
    profile_run(run.folder, best=best, parts=["structure"], allow=["mine"])
    assert asked == [{"best": best, "allow": ["mine"]}]


def test_a_run_of_symbols(tmp_path: Path) -> None:
    subject = Subject(engram.train.make_network(Settings.of(PAutomaC(), "gru", hidden=5)))
    data = torch.randint(subject.input_size, (15, 3))
    found = profile(
        subject.module, data=data, length=15, parts=["gradient_reach", "separation_rank"], batch_first=False
    )
    assert found.length == 15
    assert len(found.parts["separation_rank"].by_split) == 5


def test_a_part_of_a_run(tmp_path: Path) -> None:
    run = _trained(tmp_path, Copy(30, 2), "exprnn")
    assert profile_run(run.folder, length=10, parts=["gradient_reach"]).length == 10
    with pytest.raises(RunError, match="length must be at most 34, the steps of this run's task, got 99"):
        profile_run(run.folder, length=99)
    with pytest.raises(RunError, match="is not a run"):
        profile_run(tmp_path)


def test_another_thread_may_train_meanwhile() -> None:
    """torch's cache of parametrizations is one switch for the whole process: the probe leaves it alone."""
    probed, trained, done = engram.nn.ExpRNN(2, 6), engram.nn.ExpRNN(2, 6), threading.Event()

    def measure() -> int:
        count = 0
        while not done.is_set():
            profile(probed, length=10, parts=("gradient_reach",))
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(measure)
        try:
            optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
            for _ in range(100):
                trained(torch.randn(5, 3, 2))[0].square().sum().backward()  # fails where the graph of a step is kept
                optimizer.step()
                optimizer.zero_grad()
        finally:
            done.set()
        assert measuring.result() > 0

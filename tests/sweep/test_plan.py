"""The plan: widths from budgets, names from hashes, ladders."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import nn

from engram.models import make_network
from engram.sweep import Estimate, Plan, _budget, identity, is_solved, make_plan, read_sweep
from engram.sweep._alike import Alike
from engram.sweep._estimate import _steps
from engram.sweep._plan import WITHOUT_EFFECT
from engram.tasks import Copy
from engram.train import Settings, settings_from_flat


@pytest.mark.parametrize(
    ("model", "layers", "budget"),
    [("exprnn", 1, 2048), ("lstm", 2, 8192), ("rnn", 3, 500), ("rnn", 1, 40), ("cprnn", 2, 3000)],
)
def test_width_is_the_largest_within_the_budget(write: Any, model: str, layers: int, budget: int) -> None:
    plan = make_plan(
        read_sweep(write(f"[base]\ntask = 'copy'\nmodel = '{model}'\nlayers = {layers}\nparameters = {budget}"))
    )
    (run,) = plan.runs
    assert plan.varied == ("hidden", "seed")
    assert run.values["hidden"] == run.settings.model.hidden
    counts = []
    for width in (run.settings.model.hidden, run.settings.model.hidden + 1):
        network = make_network(run.settings.task, replace(run.settings.model, hidden=width))
        counts.append(sum(p.numel() for p in network.parameters()))
    assert counts[0] <= budget < counts[1]


@pytest.mark.parametrize("budget", [300, 553, 1000])
def test_width_where_the_parameters_are_no_polynomial(write: Any, budget: int) -> None:
    """N log2 N of them, so that three narrow networks do not tell the number of a wide one."""
    text = "[base]\ntask = 'copy'\nmodel = 'eurnn'\nmodel_layers = 'fft'\n"
    (run,) = make_plan(read_sweep(write(f"{text}parameters = {budget}"))).runs
    widths = [replace(run.settings.model, hidden=run.settings.model.hidden + more) for more in (0, 1)]
    fits, wider = (sum(p.numel() for p in make_network(run.settings.task, model).parameters()) for model in widths)
    assert fits <= budget < wider


def test_no_number_of_workers_is_faster_than_the_longest_run() -> None:
    left = Estimate(done=2, left=3, longest=50.0, total=100.0)
    assert [left.on(workers) for workers in (1, 2, 3, 100)] == [100.0, 50.0, 50.0, 50.0]


def test_width_of_a_model_that_needs_more_than_one_unit(write: Any) -> None:
    text = "[base]\ntask = 'copy'\nmodel = 'householder'\nreflections = 5\nparameters = 1000"
    (run,) = make_plan(read_sweep(write(text))).runs
    assert run.settings.model.hidden > 5


@pytest.mark.parametrize("width", [7, 8, 9, 11, 13, 16, 23])
@pytest.mark.parametrize("model", ["model = 'householder'\nreflections = 5", "model = 'rnn'"])
def test_a_network_that_just_fits(write: Any, model: str, width: int) -> None:
    """A budget is the most: with one parameter less the network is narrower."""
    base = f"[base]\ntask = 'copy'\n{model}\n"
    (given,) = make_plan(read_sweep(write(f"{base}hidden = {width}"))).runs
    count = sum(p.numel() for p in make_network(given.settings.task, given.settings.model).parameters())
    for budget, expected in ((count, width), (count - 1, width - 1)):
        (run,) = make_plan(read_sweep(write(f"{base}parameters = {budget}"))).runs
        assert run.settings.model.hidden == expected


def test_what_is_not_trained_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """N^2 trained numbers, and a thousand that stay as they are, such as those of a random encoder."""

    def made(task: Any, model: Any) -> nn.Module:
        module = nn.Module()
        module.trained = nn.Parameter(torch.zeros(model.hidden, model.hidden))
        module.frozen = nn.Parameter(torch.zeros(1000), requires_grad=False)
        return module

    monkeypatch.setattr(_budget, "make_network", made)
    shape = Alike("what is not trained is not counted", SETTINGS)
    assert [_budget.parameters_of(shape, width) for width in (1, 5)] == [1, 25]
    assert [_budget._widest(shape, budget) for budget in (1, 24, 25, 26, 10**6)] == [1, 4, 5, 5, 1000]


SETTINGS = Settings.of(Copy(delay=5), "lstm", hidden=8, steps=10, threads=1)
OTHER: dict[str, dict[str, Any]] = {
    "model": {
        "name": "gru", "hidden": 9, "layers": 2, "embedding": 3, "readout_bias": False, "options": {"bias": False},
        "encoder": "random", "context": "whole", "l1": 0.1, "l1_on": "weights",
    },
    "optimiser": {
        "name": "adamw", "lr": 1.0, "lr_orthogonal": 1.0, "weight_decay": 0.1, "clip": 0.5, "alpha": None,
        "betas": (0.8, 0.9), "momentum": None, "eps": 1e-6, "schedule": "cosine", "plateau": 2, "plateau_factor": 0.1,
        "step_size": 3, "step_factor": 0.3, "cosine_end": None, "cosine_steps": None, "warmup": 3, "groups": None,
    },
    "budget": {
        "steps": 11, "epochs": None, "batch": 8, "samples": 128, "valid_samples": 5, "test_samples": 7,
        "validate_every": 2, "patience": 3, "stop_by": "accuracy", "stop_at": 0.9,
    },
    "machine": {
        "device": "cpu:0", "processes": None, "threads": 2, "precision": "64-true", "save_every": 1.0, "log_every": 3,
        "probe_every": 2, "tensorboard": True,
    },
}  # fmt: skip
"""Another value of every setting; None where it needs another one first."""


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [(group, name, value) for group, values in OTHER.items() for name, value in values.items() if value is not None],
)
def test_identity_has_all_that_decides_a_result(group: str, name: str, value: Any) -> None:
    changed = replace(SETTINGS, **{group: replace(getattr(SETTINGS, group), **{name: value})})
    assert (identity(changed) == identity(SETTINGS)) == (name in WITHOUT_EFFECT)


def test_every_setting_is_in_the_table_above() -> None:
    for group, values in OTHER.items():
        assert {field.name for field in fields(getattr(SETTINGS, group))} == {*values}


def test_identity_has_task_seed_version_and_whether_runs_train_together(monkeypatch: pytest.MonkeyPatch) -> None:
    import engram.sweep._plan as module

    found = {
        identity(SETTINGS),
        identity(SETTINGS.replace(seed=1)),
        identity(SETTINGS.replace(task=Copy(delay=6))),
        identity(SETTINGS, together=True),
    }
    monkeypatch.setattr(module, "__version__", "9.9")
    found.add(identity(SETTINGS))
    assert len(found) == 5


def test_identity_does_not_depend_on_how_defaults_are_written() -> None:
    assert identity(SETTINGS) == identity(SETTINGS.resolved())
    flat = {"task": "copy", "delay": 5, "model": "lstm", "hidden": 8, "steps": 10, "threads": 1}
    assert identity(settings_from_flat(flat)) == identity(SETTINGS)


def test_code_outside_engram_counts_by_its_text_and_not_by_its_place(tmp_path: Any) -> None:
    text = "import engram\nclass Mine(engram.nn.RNN):\n    pass\n"
    found = []
    for place, code in (("a", text), ("b", text), ("c", text + "# changed\n")):
        (tmp_path / place).mkdir()
        path = tmp_path / place / "mine.py"
        path.write_text(code)
        found.append(identity(Settings.of(Copy(delay=5), f"{path}:Mine", threads=1)))
    assert found[0] == found[1] != found[2]


def test_runs_have_one_thread_unless_the_file_says_otherwise(write: Any) -> None:
    for line, threads in (("", 1), ("threads = 2", 2)):
        (run,) = make_plan(read_sweep(write(f"[base]\ntask = 'copy'\n{line}"))).runs
        assert run.settings.machine.threads == threads


def test_equal_runs_are_one(write: Any) -> None:
    plan = make_plan(
        read_sweep(write("[base]\ntask = 'copy'\n[grid]\nlr = [1.0, 2.0]\n[[when]]\nif = 'lr=2'\nset = {lr = 1.0}"))
    )
    assert len(plan.runs) == 1


def ladder_plan(write: Any) -> Plan:
    return make_plan(
        read_sweep(
            write(
                "seeds = 2\n[base]\ntask = 'copy'\n[ladder]\nover = 'delay'\nvalues = [1, 2, 3]\n"
                "solved = 'accuracy>0.9'"
            )
        )
    )


def test_ladder_opens_step_by_step(write: Any) -> None:
    plan = ladder_plan(write)
    good, bad = ({"status": "done", "results": {"test": {"accuracy": a}}} for a in (0.95, 0.5))
    first, second, third, other, *_ = plan.runs
    assert [plan.is_open(run, {}) for run in (first, second, third, other)] == [True, None, None, True]
    results = {first.identity: good}
    assert [plan.is_open(run, results) for run in (second, third)] == [True, None]
    results[second.identity] = bad
    assert plan.is_open(third, results) is False
    results = {first.identity: bad}
    assert [plan.is_open(run, results) for run in (second, third)] == [False, False]
    assert plan.comes_after(third, {first.identity})
    assert not plan.comes_after(first, {first.identity})
    diverged = {first.identity: {"status": "diverged", "results": {}}}
    assert plan.is_open(second, diverged) is False


def test_planning_uses_no_random_numbers(write: Any) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    make_plan(read_sweep(write("[base]\ntask = 'copy'\nparameters = 2000")))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["test-400_loss", "test_400_loss"])
def test_a_ladder_over_one_of_several_tests(write: Any, name: str) -> None:
    text = "[base]\ntask = 'transfer-copy'\n[ladder]\nover = 'hidden'\nvalues = [4, 8]\nsolved = '{} < 1'"
    plan = make_plan(read_sweep(write(text.format(name))))
    result = {"status": "done", "results": {"test": {"loss": 2.0}, "test-400": {"loss": 0.5}}}
    assert is_solved(plan.solved, result)
    result["results"]["test-400"]["loss"] = 1.5  # type: ignore[index]
    assert not is_solved(plan.solved, result)


def test_a_validation_is_a_third_of_a_step_for_each_batch() -> None:
    """Ten steps of 4, two validations of 8 sequences and a test of 16: 32 sequences that are only gone through."""
    settings = Settings.of(Copy(5), steps=10, batch=4, validate_every=5, valid_samples=8, test_samples=16)
    assert _steps(settings) == pytest.approx(10 + 32 / 4 / 3)

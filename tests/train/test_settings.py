"""Settings: every wrong value is refused with the rule; what is written to a file comes back the same."""

import json
import tomllib
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relational.conftest import Shown

from engram.errors import DTypeError, EngramError, OptionError
from engram.models import MODELS, Model
from engram.tasks import TASKS, Adding, Copy, PennTreebank, TransferCopy
from engram.train import Budget, Group, Machine, Optimiser, Settings
from engram.train._settings import FLAT
from engram.train._settings_machine import PRECISIONS

INF, NAN = float("inf"), float("nan")
WRONG: dict[str, list[tuple[Any, str]]] = {
    "task": [
        ("copy", r"task must be a task such as engram\.tasks\.Copy\(delay=200\), got 'copy'"),
        (None, "task must be a task"),
    ],
    "model": [("nnrn", "unknown model 'nnrn': expected one of .*Did you mean 'nnrnn'"), ("", "unknown model ''")],
    "hidden": [(0, "hidden must be at least 1, got 0"), (-1, "at least 1"), (2.0, "whole number"), (True, "whole")],
    "layers": [(0, "layers must be at least 1, got 0"), ("2", r"layers must be a whole number \(int\), got '2'")],
    "options": [
        (("dropout=0.3",), "options must be a dictionary such as .*, got"),
        ({3: 4}, "unknown option 3 of exprnn"),
    ],
    "readout_bias": [("no", "readout_bias must be True or False, got 'no'")],
    "embedding": [(-1, "embedding must be at least 0, got -1"), (1.5, "embedding must be a whole number")],
    "encoder": [("learnt", "unknown encoder 'learnt'"), (3, "encoder must be a text, got 3")],
    "context": [("3+", "unknown context '3\\+'"), (2, "context must be a text, got 2")],
    "l1": [(-1.0, "l1 must be a strength of at least 0, got -1.0"), ("1", "l1 must be a number")],
    "l1_on": [("code", "unknown l1_on 'code': expected one of codes, weights")],
    "steps": [(-1, "steps must be at least 0, got -1"), (1e3, "steps must be a whole number")],
    "epochs": [(0, "epochs must be at least 1, got 0"), (0.5, "epochs must be a whole number")],
    "batch": [(0, "batch must be at least 1, got 0"), (None, "batch must be a whole number")],
    "optimizer": [("adm", "unknown optimizer 'adm': expected one of .*Did you mean 'adam'"), ("Adam", "unknown")],
    "lr": [
        (0.0, r"lr must be positive, got 0\.0"),
        (-1e-3, "lr must be positive"),
        (INF, "lr must be positive, got inf"),
        (NAN, "lr must be positive, got nan"),
        ("fast", "lr must be a number, got 'fast' of type str"),
        (None, "lr must be a number, got None"),
        (True, "lr must be a number, got True"),
    ],
    "lr_orthogonal": [(0.0, "lr_orthogonal must be positive"), ("1", "lr_orthogonal must be a number")],
    "weight_decay": [(-0.1, "weight_decay must not be negative, got -0.1"), (NAN, "negative"), ("0", "a number")],
    "clip": [(-1.0, "clip must not be negative, got -1.0"), (INF, "clip must not"), (None, "clip must be a number")],
    "patience": [(-1, "patience must be at least 0, got -1"), (1.0, "patience must be a whole number")],
    "stop_at": [(NAN, "stop_at must be a number to compare with"), ("1", "stop_at must be a number")],
    "plateau": [(-1, "plateau must be at least 0, got -1")],
    "plateau_factor": [
        (0.0, r"plateau_factor must be between 0 and 1, got 0\.0"),
        (1.0, "plateau_factor must be between 0 and 1"),
        (NAN, "plateau_factor must be between"),
        ([], "plateau_factor must be a number"),
    ],
    "alpha": [
        (1.0, "alpha must be at least 0 and below 1"),
        (0.5, "alpha is an option of rmsprop; the optimizer is adam"),
    ],
    "betas": [((0.9, 1.0), "betas must be at least 0 and below 1"), (0.9, "betas must be two numbers, got 0.9")],
    "momentum": [(-0.1, "momentum must be at least 0 and below 1"), (0.5, "momentum is an option of rmsprop and sgd")],
    "eps": [(0.0, "eps must be positive"), (NAN, "eps must be positive, got nan")],
    "schedule": [
        ("cosin", "unknown schedule 'cosin': .*Did you mean 'cosine'"),
        ("plateau", "the schedule plateau needs plateau"),
        ("step", "the schedule step needs step_size"),
    ],
    "step_size": [(-1, "step_size must be at least 0"), (0.5, "step_size must be a whole number")],
    "step_factor": [(1.0, r"step_factor must be between 0 and 1, got 1\.0")],
    "cosine_end": [
        (2.0, "cosine_end must be a share"),
        (0.5, "cosine_end is an option of the schedule cosine; "),
    ],
    "cosine_steps": [(0, "cosine_steps must be at least 1"), (5, "cosine_steps is an option of the schedule cosine")],
    "warmup": [(-1, "warmup must be at least 0, got -1")],
    "groups": [(("head.* lr=1",), "groups must be a tuple of engram.train.Group"), ([], "groups must be a tuple")],
    "stop_by": [("", "stop_by must be the name of a score"), (3, "stop_by must be the name of a score")],
    "samples": [(-1, "samples must be at least 0, got -1"), (None, "samples must be a whole number")],
    "valid_samples": [(0, "valid_samples must be at least 1, got 0")],
    "test_samples": [(0, "test_samples must be at least 1, got 0")],
    "validate_every": [(-1, "validate_every must be at least 0, got -1")],
    "log_every": [(0, "log_every must be at least 1, got 0")],
    "probe_every": [(-1, "probe_every must be at least 0, got -1")],
    "save_every": [(-1.0, "save_every must not be negative"), (NAN, "save_every"), ("1", "must be a number")],
    "tensorboard": [("no", "tensorboard must be true or false, got 'no'"), (1, "tensorboard must be true or false")],
    "seed": [(-1, "seed must be at least 0, got -1"), (0.5, "seed must be a whole number")],
    "device": [(0, "device must be a name such as cpu or cuda:1, got 0")],
    "processes": [(0, "processes must be at least 1, got 0"), (3, "a multiple of processes, got 64 and 3")],
    "threads": [(-1, "threads must be at least 0, got -1")],
    "precision": [("16", "unknown precision '16': expected one of 32-true, 64-true, bf16-mixed"), (32, "unknown")],
}


@pytest.mark.parametrize(("name", "value", "message"), [(n, v, m) for n, vs in WRONG.items() for v, m in vs])
def test_wrong_values(name: str, value: Any, message: str) -> None:
    with pytest.raises(EngramError, match=message):
        Settings.of(**({"task": Copy(5), "model": "exprnn"} | {name: value}))


def test_every_setting_has_a_wrong_value() -> None:
    """None was forgotten above."""
    assert WRONG.keys() == {*FLAT, "task", "seed"}


def test_steps_or_epochs() -> None:
    with pytest.raises(OptionError, match="give steps or epochs, not both; got 3 and 4"):
        Settings.of(Copy(5), "exprnn", steps=3, epochs=4)


def test_fixed_once_made() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings.of(Copy(5), "exprnn").seed = 1  # type: ignore[misc]


SIZES = st.integers(1, 10**6)
COUNTS = st.integers(0, 10**6)
RATES = st.floats(0, 1e6, exclude_min=True)
SMOOTHING = st.floats(0, 1, exclude_max=True)
FRACTIONS = st.floats(0.01, 0.99)
SCHEDULES = st.one_of(
    st.fixed_dictionaries({"plateau": SIZES, "plateau_factor": FRACTIONS}),
    st.fixed_dictionaries({"schedule": st.just("step"), "step_size": SIZES, "step_factor": FRACTIONS}),
    st.fixed_dictionaries({"schedule": st.just("cosine"), "cosine_end": SMOOTHING, "cosine_steps": st.none() | SIZES}),
    st.just({}),
)
KINDS = st.one_of(
    st.fixed_dictionaries({"optimizer": st.sampled_from(["adam", "adamw"]), "betas": st.tuples(SMOOTHING, SMOOTHING)}),
    st.fixed_dictionaries({"optimizer": st.just("rmsprop"), "alpha": SMOOTHING, "momentum": SMOOTHING, "eps": RATES}),
    st.fixed_dictionaries({"optimizer": st.just("sgd"), "momentum": st.none() | SMOOTHING}),
)
FLAT_SETTINGS = st.fixed_dictionaries(
    {
        "task": st.sampled_from([Copy(7), Adding(9), TransferCopy(3, tests=(5, 6)), TransferCopy(3, tests=())]),
        "model": st.sampled_from(sorted(name for name in MODELS if not MODELS[name].answers_itself)),
        "hidden": SIZES,
        "layers": st.integers(1, 1000),
        "options": st.dictionaries(st.just("dropout"), st.sampled_from([0.3, "henaff", (1, 2), True, 7])),
        "embedding": st.none() | COUNTS,
        "encoder": st.sampled_from(["", "learned", "random"]),
        "context": st.sampled_from(["", "off", "whole", "segmented", "3+2"]),
        "l1": st.floats(0, 10),
        "l1_on": st.sampled_from(["codes", "weights"]),
        "readout_bias": st.booleans(),
        "epochs": st.none() | SIZES,
        "batch": SIZES.map(lambda n: 2 * n),
        "lr": RATES,
        "lr_orthogonal": st.none() | RATES,
        "weight_decay": RATES,
        "clip": RATES,
        "warmup": COUNTS,
        "groups": st.lists(st.builds(Group, st.sampled_from(["head.*", "*"]), st.none() | RATES, RATES)).map(tuple),
        "patience": COUNTS,
        "stop_at": st.none() | RATES,
        "stop_by": st.sampled_from(["loss", "max:x"]),
        "samples": SIZES.map(lambda n: 2 * n),
        "valid_samples": st.none() | SIZES,
        "test_samples": st.none() | SIZES,
        "validate_every": st.none() | SIZES,
        "log_every": SIZES,
        "save_every": RATES,
        "tensorboard": st.booleans(),
        "seed": st.integers(0, 2**63 - 1),
        "device": st.sampled_from(["cpu", "cuda:1"]),
        "processes": st.sampled_from([1, 2]),
        "threads": st.integers(0, 1024),
        "precision": st.sampled_from(PRECISIONS),
    }
)
SETTINGS = st.builds(
    lambda *parts: Settings.of(**{k: v for part in parts for k, v in part.items()}), FLAT_SETTINGS, SCHEDULES, KINDS
)


@given(SETTINGS)
def test_to_a_file_and_back(settings: Settings) -> None:
    """Equal, and of the same types, after JSON, which knows no tuples."""
    back = Settings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert back == settings
    assert repr(back) == repr(settings)


FILE = """
seed = 3
[task]
name = "transfer-copy"
tests = [5, 6]
[model]
name = "lstm"
hidden = 9
[model.options]
dropout = 0.3
[optimiser]
name = "rmsprop"
lr = 1
alpha = 0.9
[[optimiser.groups]]
pattern = "head.*"
lr = 0.5
[budget]
batch = 4
[machine]
threads = 2
"""


def test_from_toml() -> None:
    """The file mirrors the groups; what it leaves out is the default."""
    settings = Settings.from_dict(tomllib.loads(FILE))
    assert settings == Settings(
        TransferCopy(tests=(5, 6)),
        Model("lstm", hidden=9, options={"dropout": 0.3}),
        Optimiser("rmsprop", lr=1, alpha=0.9, groups=(Group("head.*", 0.5),)),
        Budget(batch=4),
        Machine(threads=2),
        seed=3,
    )
    assert Settings.from_dict(tomllib.loads('task = "copy"')) == Settings(Copy())


def test_flat_names() -> None:
    """One name for each setting, whatever its group; the name of a group's own name is what it names."""
    settings = Settings.of(Copy(5), "lstm", hidden=9, optimizer="sgd", momentum=0.5, steps=3, threads=2, seed=4)
    assert settings == Settings(
        Copy(5), Model("lstm", hidden=9), Optimiser("sgd", momentum=0.5), Budget(steps=3), Machine(threads=2), 4
    )
    changed = settings.replace(hidden=10, task=Copy(6), seed=5)
    assert (changed.model.hidden, changed.task, changed.seed, changed.model.name) == (10, Copy(6), 5, "lstm")
    assert settings.model.hidden == 9
    with pytest.raises(OptionError, match=r"unknown setting 'hiden'.*Did you mean 'hidden'"):
        settings.replace(hiden=3)


def test_two_meanings_of_one_name_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"model must be an engram Model, got 'lstm'.*Settings\.of"):
        Settings(Copy(5), "lstm")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="step_size is an option of the schedule step; the schedule is plateau"):
        Optimiser(plateau=3, step_size=4)
    with pytest.raises(OptionError, match="plateau is an option of the schedule plateau; the schedule is constant"):
        Optimiser(plateau=3, schedule="constant")


RESOLVED: dict[str, tuple[Settings, dict[str, Any]]] = {
    "defaults": (
        Settings.of(Copy(5), hidden=8),
        {"lr_orthogonal": 2e-4, "steps": 1000, "epochs": None, "validate_every": 100, "valid_samples": 256}
        | {"test_samples": 1024, "threads": 1, "embedding": 0, "momentum": 0.0, "schedule": "constant"}
        | {"context": "off"},
    ),
    "epochs": (
        Settings.of(Copy(5), samples=30, batch=10, epochs=4),
        {"steps": 12, "epochs": None, "validate_every": 3},
    ),
    "sgd": (Settings.of(Copy(5), optimizer="sgd", plateau=2), {"momentum": 0.9, "schedule": "plateau"}),
    "cosine": (Settings.of(Copy(5), schedule="cosine", steps=7), {"cosine_steps": 7}),
    "given": (
        Settings.of(Copy(5), lr_orthogonal=1.0, steps=3, validate_every=0, valid_samples=9, threads=3, step_size=5),
        {"lr_orthogonal": 1.0, "steps": 3, "validate_every": 0, "valid_samples": 9, "threads": 3, "schedule": "step"},
    ),
}


@pytest.mark.parametrize("case", RESOLVED)
def test_resolved(case: str) -> None:
    """Values in place of None, which give the same run; nothing is left to resolve then."""
    settings, expected = RESOLVED[case]
    resolved = settings.resolved()
    assert {name: getattr(getattr(resolved, FLAT[name][0]), FLAT[name][1]) for name in expected} == expected
    assert resolved.resolved() == resolved
    assert resolved.fingerprint() == settings.fingerprint()
    left = {name for name in FLAT if getattr(getattr(resolved, FLAT[name][0]), FLAT[name][1]) is None}
    assert left <= {"epochs", "cosine_steps", "stop_at"}  # steps say it; no such schedule; never


# For every setting: what is given beside it, and two values of it.
CHANGES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "task": ({}, Copy(5), Copy(6)),
    "model": ({}, "exprnn", "lstm"),
    "hidden": ({}, 5, 6),
    "layers": ({}, 1, 2),
    "options": ({}, {}, {"init": "cayley"}),
    "readout_bias": ({}, True, False),
    "embedding": ({"task": PennTreebank(5)}, 0, 3),
    "encoder": ({"task": Shown()}, "learned", "random"),
    "context": ({"task": Shown()}, "off", "whole"),
    "l1": ({"task": Shown()}, 0.0, 1.0),
    "l1_on": ({"task": Shown(), "l1": 1.0}, "codes", "weights"),
    "optimizer": ({}, "adam", "adamw"),
    "lr": ({}, 1e-3, 2e-3),
    "lr_orthogonal": ({}, 1e-3, 2e-3),
    "weight_decay": ({}, 0.0, 1e-4),
    "clip": ({}, 1.0, 2.0),
    "alpha": ({"optimizer": "rmsprop"}, 0.99, 0.9),
    "betas": ({}, (0.9, 0.999), (0.9, 0.99)),
    "momentum": ({"optimizer": "sgd"}, 0.9, 0.8),
    "eps": ({}, 1e-8, 1e-7),
    "schedule": ({}, "constant", "cosine"),
    "plateau": ({}, 2, 3),
    "plateau_factor": ({"plateau": 2}, 0.5, 0.4),
    "step_size": ({}, 2, 3),
    "step_factor": ({"step_size": 2}, 0.1, 0.2),
    "cosine_end": ({"schedule": "cosine"}, 0.0, 0.1),
    "cosine_steps": ({"schedule": "cosine"}, 10, 11),
    "warmup": ({}, 0, 3),
    "groups": ({}, (Group("head.*", lr=1e-3),), (Group("head.*", lr=1e-3, weight_decay=0.1),)),
    "steps": ({}, 7, 8),
    "epochs": ({"samples": 128, "validate_every": 2}, 1, 2),
    "batch": ({}, 4, 8),
    "samples": ({"validate_every": 5}, 128, 256),
    "valid_samples": ({}, 8, 9),
    "test_samples": ({}, 8, 9),
    "validate_every": ({}, 5, 6),
    "patience": ({}, 0, 3),
    "stop_by": ({}, "loss", "accuracy"),
    "stop_at": ({}, None, 0.5),
    "device": ({}, "cpu", "cuda"),
    "processes": ({}, 1, 2),
    "threads": ({}, 1, 2),
    "precision": ({}, "32-true", "64-true"),
    "save_every": ({}, 0.0, 1.0),
    "log_every": ({}, 1, 2),
    "probe_every": ({}, 0, 5),
    "tensorboard": ({}, False, True),
    "seed": ({}, 0, 1),
}
MAY_CHANGE = {"steps", "epochs", "test_samples", "device", "threads", "save_every", "log_every", "probe_every"}
MAY_CHANGE |= {"stop_at", "tensorboard"}


@pytest.mark.parametrize("name", CHANGES)
def test_fingerprints(name: str) -> None:
    """A checkpoint goes on only under the settings that decide what a step computes; all others may change."""
    beside, one, other = CHANGES[name]
    first, second = (
        Settings.of(**({"task": Copy(5), "model": "exprnn"} | beside | {name: value})).fingerprint()
        for value in (one, other)
    )
    assert (first == second) == (name in MAY_CHANGE)


def test_every_setting_is_changed() -> None:
    """None was forgotten above."""
    assert CHANGES.keys() == {*FLAT, "task", "seed"}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_to_a_file_and_back(name: str) -> None:
    settings = Settings.from_dict({"task": name})
    assert Settings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


FROM: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown group": ({"task": "copy", "modle": {}}, "unknown setting 'modle'.*Did you mean 'model'"),
    "an unknown setting": ({"task": "copy", "model": {"hiden": 3}}, r"'hiden' of \[model\].*Did you mean 'hidden'"),
    "one of another group": ({"task": "copy", "budget": {"lr": 3}}, r"unknown setting 'lr' of \[budget\]"),
    "a flat setting": ({"task": "copy", "lr": 3}, r"lr is a setting of the group optimiser: write \[optimiser\]"),
    "a flat optimizer": ({"task": "copy", "optimizer": "sgd"}, r"write \[optimiser\] and below it name = "),
    "a model by name": (
        {"task": "copy", "model": "lstm"},
        r"model is a group of settings, \[model\] with NAME = VALUE",
    ),
    "an unknown task": ({"task": "coppy"}, "unknown task 'coppy'.*Did you mean 'copy'"),
    "an unknown option of the task": (
        {"task": {"name": "copy", "dely": 3}},
        "unknown option 'dely' of copy.*Did you mean 'delay'",
    ),
    "no task": ({"seed": 3}, r"settings need a task, a name or a table with a name \(copy, .*got None"),
    "a table without a name": ({"task": {"delay": 3}}, "settings need a task"),
    "a task that is a list": ({"task": ["copy"]}, "settings need a task"),
    "a wrong value": ({"task": "copy", "optimiser": {"lr": "fast"}}, "lr must be a number"),
    "a name that is no text": ({"task": {"name": ["copy"]}}, "settings need a task|unknown task"),
    "a group of another form": ({"task": "copy", "optimiser": {"groups": [3]}}, "groups must be a tuple of"),
    "a group without a pattern": ({"task": "copy", "optimiser": {"groups": [{"lr": 3}]}}, "pattern must be a text"),
    "an unknown part of a group": (
        {"task": "copy", "optimiser": {"groups": [{"pattern": "*", "decay": 3}]}},
        r"unknown setting 'decay' of \[optimiser.groups\]",
    ),
}


@pytest.mark.parametrize("case", FROM)
def test_wrong_files(case: str) -> None:
    values, message = FROM[case]
    with pytest.raises(EngramError, match=message):
        Settings.from_dict(values)


def test_from_dict_leaves_its_argument_alone() -> None:
    values = {
        "task": {"name": "transfer-copy", "tests": [5]},
        "model": {"name": "spectral", "options": {"reflections": [1, 2]}},
        "optimiser": {"betas": [0.1, 0.2], "groups": [{"pattern": "*"}]},
    }
    before = json.dumps(values)
    Settings.from_dict(values)
    assert json.dumps(values) == before


def test_sizes_of_the_splits() -> None:
    """As given; else 256 and 1024 of drawn sequences. Fresh training sequences never end."""
    settings = Settings.of(Copy(5), "exprnn", batch=8)
    sizes = {split: settings.batches(split).per_epoch * 8 for split in ("train", "valid", "test")}
    assert sizes == {"train": 0, "valid": 256, "test": 1024}
    settings = settings.replace(samples=16, valid_samples=24, test_samples=32)
    sizes = {split: settings.batches(split).per_epoch * 8 for split in ("train", "valid", "test")}
    assert sizes == {"train": 16, "valid": 24, "test": 32}
    assert settings.batches("test", Copy(9))[0].inputs.shape[0] == Copy(9).steps


def test_types_are_told_apart_from_ranges() -> None:
    """As torch does: TypeError for the one, ValueError for the other."""
    with pytest.raises(DTypeError):
        Settings.of(Copy(5), "exprnn", lr="fast")  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        Settings.of(Copy(5), "exprnn", lr=-1.0)


def test_what_would_be_ignored_is_refused() -> None:
    with pytest.raises(OptionError, match="patience and plateau count validations, and this run has none"):
        Settings.of(Copy(5), patience=2, validate_every=0)
    with pytest.raises(OptionError, match="stop_at waits for a validation, and this run has none"):
        Settings.of(Copy(5), stop_at=0.5, validate_every=0)
    with pytest.raises(OptionError, match="copy has no epochs: give steps, or samples with epochs"):
        Settings.of(Copy(5), epochs=3)
    with pytest.raises(OptionError, match="multiple of processes, got 3 and 2"):
        Settings.of(Copy(5), batch=4, samples=3, processes=2)

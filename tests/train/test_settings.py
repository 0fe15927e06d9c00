"""Settings: every wrong value is refused with the rule; what is written to a file comes back the same."""

import json
import tomllib
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import DTypeError, EngramError, OptionError
from engram.models import MODELS
from engram.tasks import TASKS, Adding, Copy, TransferCopy
from engram.train import Settings, read_options
from engram.train._settings import OPTIMIZERS, PRECISIONS

INF, NAN = float("inf"), float("nan")
WRONG: dict[str, list[tuple[Any, str]]] = {
    "task": [
        ("copy", r"task must be a task such as engram\.tasks\.Copy\(delay=200\), got 'copy'"),
        (None, "task must be a task"),
    ],
    "model": [("nnrn", "unknown model 'nnrn': expected one of .*Did you mean 'nnrnn'"), ("", "unknown model ''")],
    "hidden": [(0, "hidden must be at least 1, got 0"), (-1, "at least 1"), (2.0, "whole number"), (True, "whole")],
    "layers": [(0, "layers must be at least 1, got 0"), ("2", r"layers must be a whole number \(int\), got '2'")],
    "option": [
        (("dropout",), "an option is NAME=VALUE, such as activation=tanh; got 'dropout'"),
        (("=3",), "an option is NAME=VALUE"),
        (("a b=3",), "an option is NAME=VALUE"),
        ("dropout=0.3", "option must be several of NAME=VALUE"),
    ],
    "embedding": [(-1, "embedding must be at least 0, got -1"), (1.5, "embedding must be a whole number")],
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
    "plateau": [(-1, "plateau must be at least 0, got -1")],
    "plateau_factor": [
        (0.0, r"plateau_factor must be between 0 and 1, got 0\.0"),
        (1.0, "plateau_factor must be between 0 and 1"),
        (NAN, "plateau_factor must be between"),
        ([], "plateau_factor must be a number"),
    ],
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
        Settings(**({"task": Copy(5), "model": "exprnn"} | {name: value}))


def test_every_setting_has_a_wrong_value() -> None:
    """None was forgotten above."""
    assert WRONG.keys() == {field.name for field in fields(Settings)}


def test_steps_or_epochs() -> None:
    with pytest.raises(OptionError, match="give steps or epochs, not both; got 3 and 4"):
        Settings(Copy(5), "exprnn", steps=3, epochs=4)


def test_fixed_once_made() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings(Copy(5), "exprnn").lr = 1.0  # type: ignore[misc]


SIZES = st.integers(1, 10**6)
COUNTS = st.integers(0, 10**6)
RATES = st.floats(0, 1e6, exclude_min=True)
SETTINGS = st.builds(
    Settings,
    task=st.sampled_from([Copy(7), Adding(9), TransferCopy(3, tests=(5, 6)), TransferCopy(3, tests=())]),
    model=st.sampled_from(sorted(MODELS)),
    hidden=SIZES,
    layers=st.integers(1, 1000),
    option=st.lists(st.sampled_from(["dropout=0.3", "init=henaff", "a=(1, 2)", "b="])).map(tuple),
    embedding=st.none() | COUNTS,
    epochs=st.none() | SIZES,
    batch=SIZES.map(lambda n: 2 * n),
    optimizer=st.sampled_from(OPTIMIZERS),
    lr=RATES,
    lr_orthogonal=st.none() | RATES,
    weight_decay=RATES,
    clip=RATES,
    patience=COUNTS,
    plateau=COUNTS,
    plateau_factor=st.floats(0.01, 0.99),
    samples=SIZES.map(lambda n: 2 * n),
    valid_samples=st.none() | SIZES,
    test_samples=st.none() | SIZES,
    validate_every=st.none() | SIZES,
    log_every=SIZES,
    save_every=RATES,
    tensorboard=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
    device=st.sampled_from(["cpu", "cuda:1"]),
    processes=st.sampled_from([1, 2]),
    threads=st.integers(0, 1024),
    precision=st.sampled_from(PRECISIONS),
)


@given(SETTINGS)
def test_to_a_file_and_back(settings: Settings) -> None:
    """Equal, and of the same types, after JSON, which knows no tuples."""
    back = Settings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert back == settings
    assert repr(back) == repr(settings)


def test_from_toml() -> None:
    """What is left out is as usual; a task may be a name or a table."""
    settings = Settings.from_dict(tomllib.loads('task = "copy"\nmodel = "lstm"\noption = ["dropout=0.3"]\nlr = 1'))
    assert settings == Settings(Copy(), "lstm", option=("dropout=0.3",), lr=1)
    settings = Settings.from_dict(tomllib.loads('model = "lstm"\n[task]\nname = "transfer-copy"\ntests = [5, 6]'))
    assert settings.task.options()["tests"] == (5, 6)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_to_a_file_and_back(name: str) -> None:
    settings = Settings.from_dict({"task": name, "model": "lstm"})
    assert Settings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


FROM = {
    "an unknown setting": ({"task": "copy", "model": "lstm", "hiden": 3}, "unknown setting 'hiden'.*mean 'hidden'"),
    "an unknown task": ({"task": "coppy", "model": "lstm"}, "unknown task 'coppy'.*Did you mean 'copy'"),
    "an unknown option of the task": (
        {"task": {"name": "copy", "dely": 3}, "model": "lstm"},
        "unknown option of copy 'dely'.*Did you mean 'delay'",
    ),
    "no task": ({"model": "lstm"}, r"settings need a task, a name or a table with a name \(copy, .*got None"),
    "a table without a name": ({"task": {"delay": 3}, "model": "lstm"}, "settings need a task"),
    "a task that is a list": ({"task": ["copy"], "model": "lstm"}, "settings need a task"),
    "a wrong value": ({"task": "copy", "model": "lstm", "lr": "fast"}, "lr must be a number"),
    "a name that is no text": ({"task": {"name": ["copy"]}, "model": "lstm"}, "settings need a task|unknown task"),
}


@pytest.mark.parametrize("case", FROM)
def test_wrong_files(case: str) -> None:
    values, message = FROM[case]
    with pytest.raises(EngramError, match=message):
        Settings.from_dict(values)


def test_from_dict_leaves_its_argument_alone() -> None:
    values = {"task": {"name": "transfer-copy", "tests": [5]}, "model": "lstm", "option": ["dropout=0.1"]}
    before = json.dumps(values)
    Settings.from_dict(values)
    assert json.dumps(values) == before


READ: dict[str, Any] = {
    "a=3": 3,
    "a=-3": -3,
    "a=1e-3": 0.001,
    "a=True": True,
    "a=None": None,
    "a=(1, 2)": (1, 2),
    "a=tanh": "tanh",
    "a='3'": "3",
    "a=": "",
    "a=b=c": "b=c",
    "a=true": "true",
    "a=__import__('os')": "__import__('os')",
    "a=1+": "1+",
    "a={[]: 1}": "{[]: 1}",
    "a=" + "(" * 9999: "(" * 9999,
    "a=" + "-" * 99999 + "1": "-" * 99999 + "1",
}


@pytest.mark.parametrize("word", READ, ids=lambda word: word[:20])
def test_read_options(word: str) -> None:
    """Numbers and such are read as Python's, what is not Python's is text, and nothing is run."""
    value = read_options([word])["a"]
    assert (value, type(value)) == (READ[word], type(READ[word]))


def test_read_several_options() -> None:
    assert read_options(["a=1", "b=x"]) == {"a": 1, "b": "x"}
    assert read_options([]) == {}


@pytest.mark.parametrize("word", ["", "a", "=", "=a", "1=2", "a-b=2", " =3"])
def test_wrong_options(word: str) -> None:
    with pytest.raises(OptionError, match="an option is NAME=VALUE, such as activation=tanh; got"):
        read_options([word])


def test_sizes_of_the_splits() -> None:
    """As given; else 256 and 1024 of drawn sequences. Fresh training sequences never end."""
    settings = Settings(Copy(5), "exprnn", batch=8)
    sizes = {split: settings.batches(split).per_epoch * 8 for split in ("train", "valid", "test")}
    assert sizes == {"train": 0, "valid": 256, "test": 1024}
    settings = replace(settings, samples=16, valid_samples=24, test_samples=32)
    sizes = {split: settings.batches(split).per_epoch * 8 for split in ("train", "valid", "test")}
    assert sizes == {"train": 16, "valid": 24, "test": 32}
    assert settings.batches("test", Copy(9))[0].inputs.shape[0] == Copy(9).steps


def test_types_are_told_apart_from_ranges() -> None:
    """As torch does: TypeError for the one, ValueError for the other."""
    with pytest.raises(DTypeError):
        Settings(Copy(5), "exprnn", lr="fast")  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        Settings(Copy(5), "exprnn", lr=-1.0)


def test_what_would_be_ignored_is_refused() -> None:
    with pytest.raises(OptionError, match="patience and plateau count validations, and this run has none"):
        Settings(Copy(5), patience=2, validate_every=0)
    with pytest.raises(OptionError, match="copy draws fresh sequences without end: give steps, or samples for epochs"):
        Settings(Copy(5), epochs=3)
    with pytest.raises(OptionError, match="multiple of processes, got 3 and 2"):
        Settings(Copy(5), batch=4, samples=3, processes=2)

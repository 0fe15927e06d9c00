"""``engram train``, ``resume`` and ``evaluate``, as typed: files, settings, streams. In this process: it is fast."""

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch

from engram.cli import main
from engram.errors import EngramError
from engram.models import MODELS
from engram.train import RunDirectory, load_network, to_toml
from engram.train._interrupt import Interrupt
from engram.train._settings import FLAT
from tiers import MODELS_OF_EACH_KIND, slow_but

SMALL = ["train", "copy", "--hidden", "8", "--delay", "3", "--steps", "3", "--batch", "4"]
QUICK = [*SMALL, "--valid-samples", "8", "--test-samples", "8", "--log-every", "1"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command that must succeed, and gives what it says on standard output."""

    def run(*words: str) -> str:
        capsys.readouterr()
        code = main(list(words))
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command that must be refused, and gives its one line."""

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert re.fullmatch(r"engram: [^\n]+\n", said.err)
        return said.err.removeprefix("engram: ").strip()

    return run


def settings(folder: str | Path) -> dict[str, Any]:
    return flat(json.loads(Path(folder, "run.json").read_text())["settings"])


def flat(groups: dict[str, Any]) -> dict[str, Any]:
    """Settings by the names of the flags."""
    return {"task": groups["task"], "seed": groups["seed"]} | {
        name: groups[group][own] for name, (group, own) in FLAT.items()
    }


def lines(folder: str | Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the times."""
    found = RunDirectory(folder).metrics()
    return [{name: value for name, value in line.items() if name != "seconds"} for line in found]


# train


def test_what_one_needs_to_type(told: Any) -> None:
    out = told("train", "copy", "--model", "nnrnn", "--hidden", "128", "--delay", "200", "--steps", "1", "--batch", "2")
    (folder,) = Path("runs").iterdir()
    assert re.fullmatch(r"copy-nnrnn-\d{8}-\d{6}", folder.name)
    assert re.search(
        r"^test: loss [\d.]+, accuracy [\d.]+ \([\d,]+ times the memoryless baseline\)$", out, re.MULTILINE
    )
    assert f"run: {folder}" in out
    found = settings(folder)
    assert (found["model"], found["hidden"], found["task"]["delay"]) == ("nnrnn", 128, 200)


def test_files_and_lines(told: Any) -> None:
    told(*QUICK, "--name", "first")
    folder = Path("runs/first")
    made = {path.name for path in folder.iterdir()}
    assert {"run.json", "metrics.jsonl", "stdout.log", "checkpoint.json", "checkpoint.safetensors"} <= made
    raw = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["split"]) for line in raw] == [
        (1, "train"),
        (2, "train"),
        (3, "train"),
        (3, "valid"),
        (3, "test"),
    ]
    assert all(line.keys() >= {"step", "split", "loss", "accuracy", "seconds"} for line in raw)
    seconds = [line["seconds"] for line in raw]
    assert seconds == sorted(seconds)
    facts = json.loads((folder / "run.json").read_text())
    assert facts["status"] == "done"
    assert facts["results"]["test"]["loss"] == raw[-1]["loss"]


FLAGS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "model": (["--model", "lstm"], {"model": "lstm"}),
    "hidden": (["--hidden", "5"], {"hidden": 5}),
    "layers": (["--layers", "2"], {"layers": 2}),
    "steps": (["--steps", "2"], {"steps": 2}),
    "batch": (["--batch", "3"], {"batch": 3}),
    "lr": (["--lr", "1e-4"], {"lr": 1e-4}),
    "lr with equals": (["--lr=1e-4"], {"lr": 1e-4}),
    "lr-orthogonal": (["--lr-orthogonal", "0.5"], {"lr_orthogonal": 0.5}),
    "lr_orthogonal": (["--lr_orthogonal", "0.5"], {"lr_orthogonal": 0.5}),
    "optimizer": (["--optimizer", "rmsprop"], {"optimizer": "rmsprop"}),
    "seed": (["--seed", "7"], {"seed": 7}),
    "threads": (["--threads", "1"], {"threads": 1}),
    "weight-decay": (["--weight-decay", "0.1"], {"weight_decay": 0.1}),
    "clip": (["--clip", "0"], {"clip": 0.0}),
    "patience": (["--patience", "3"], {"patience": 3}),
    "stop-at": (["--stop-at", "0.5"], {"stop_at": 0.5}),
    "plateau": (["--plateau", "2", "--plateau-factor", "0.1"], {"plateau": 2, "plateau_factor": 0.1}),
    "samples": (["--samples", "8"], {"samples": 8}),
    "validate-every": (["--validate-every", "1"], {"validate_every": 1}),
    "log-every": (["--log-every", "2"], {"log_every": 2}),
    "save-every": (["--save-every", "0"], {"save_every": 0.0}),
    "precision": (["--precision", "64-true"], {"precision": "64-true"}),
    "alpha": (["--optimizer", "rmsprop", "--alpha", "0.5"], {"optimizer": "rmsprop", "alpha": 0.5}),
    "betas": (["--betas", "0.5", "0.6", "--eps", "1e-5"], {"betas": [0.5, 0.6], "eps": 1e-5}),
    "momentum": (["--optimizer", "sgd", "--momentum", "0.5"], {"optimizer": "sgd", "momentum": 0.5}),
    "step": (["--step-size", "2", "--step-factor", "0.3"], {"step_size": 2, "step_factor": 0.3, "schedule": "step"}),
    "cosine": (
        ["--schedule", "cosine", "--cosine-end", "0.1", "--warmup", "2"],
        {"schedule": "cosine", "cosine_end": 0.1, "cosine_steps": 3, "warmup": 2},
    ),
    "groups": (
        ["--group", "head.* lr=1e-4", "--group", "*bias decay=0"],
        {
            "groups": [
                {"pattern": "head.*", "lr": 1e-4, "weight_decay": None},
                {"pattern": "*bias", "lr": None, "weight_decay": 0.0},
            ]
        },
    ),
    "stop-by": (["--stop-by", "accuracy"], {"stop_by": "accuracy"}),
    "no-readout-bias": (["--no-readout-bias"], {"readout_bias": False}),
    "an option of the model": (["--activation", "tanh"], {"options": {"activation": "tanh"}}),
    "two options": (
        ["--activation", "tanh", "--activation-in=depth"],
        {"options": {"activation": "tanh", "activation_in": "depth"}},
    ),
    "a flag of the model": (["--bias", "--rebase-every", "5"], {"options": {"bias": True, "rebase_every": 5}}),
    "an option of torch's": (["--model", "torch-gru", "--no-bias"], {"model": "torch-gru", "options": {"bias": False}}),
    "options of the lstm": (
        ["--model", "lstm", "--chrono", "50", "--layer-norm", "--proj-size", "3"],
        {"model": "lstm", "options": {"chrono": 50, "layer_norm": True, "proj_size": 3}},
    ),
    "options of the others": (
        ["--model", "min-gru", "--no-parallel", "--positive"],
        {"model": "min-gru", "options": {"parallel": False, "positive": True}},
    ),
    "a tuple": (
        ["--model", "spectral", "--reflections", "3", "None"],
        {"model": "spectral", "options": {"reflections": [3, None]}},
    ),
    "an option that is called as another flag": (
        ["--model", "eurnn", "--model-layers", "4"],
        {"model": "eurnn", "options": {"layers": 4}},
    ),
    "of the task": (
        ["--length", "2", "--layout", "at"],
        {"task": {"name": "copy", "delay": 3, "length": 2, "layout": "at"}},
    ),
    "the last one counts": (["--seed", "1", "--seed", "2"], {"seed": 2}),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The settings of a run without flags."""
    folder = tmp_path_factory.mktemp("plain")
    assert main([*QUICK, "--out", str(folder), "--name", "plain"]) == 0
    return settings(folder / "plain")


SLOW_FLAGS = {"model", "options of the lstm", "options of the others", "two options", "precision", "lr_orthogonal"}
"""Those that compile a loop of their own, and those like another one."""


@pytest.mark.parametrize("case", slow_but(FLAGS, FLAGS.keys() - SLOW_FLAGS))
def test_every_flag_has_its_effect(case: str, told: Any, plain: dict[str, Any]) -> None:
    words, expected = FLAGS[case]
    told(*QUICK, "--name", "flagged", *words)
    before, after = plain, settings("runs/flagged")
    assert {name: after[name] for name in expected} == expected
    moved = {"lr": {"lr_orthogonal"}, "optimizer": {"momentum"}, "plateau": {"schedule"}, "samples": {"validate_every"}}
    allowed = {*expected, *(follower for name in expected for follower in moved.get(name, ()))}
    assert {name for name in after if after[name] != before[name]} <= allowed


def test_flags_change_what_is_computed(told: Any) -> None:
    """Not only what is written down."""
    told(*QUICK, "--name", "plain")
    told(*QUICK, "--name", "again")
    assert lines("runs/plain") == lines("runs/again")
    for words in (["--lr", "0.1"], ["--lr-orthogonal", "0.1"], ["--seed", "1"], ["--optimizer", "sgd"]):
        name = words[0].strip("-")
        told(*QUICK, "--name", name, *words)
        assert lines(Path("runs", name))[-1]["loss"] != lines("runs/plain")[-1]["loss"]


def test_the_task_may_stand_anywhere(told: Any) -> None:
    told("train", "--delay", "3", "--json", *QUICK[2:], "copy", "--name", "copy")
    assert settings("runs/copy")["task"]["delay"] == 3


def test_json_is_all_there_is(told: Any) -> None:
    out = told(*QUICK, "--name", "first", "--json")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert found.keys() == {"run", "status", "step", "parameters", "results", "best"}
    assert (found["run"], found["status"], found["step"]) == ("runs/first", "done", 3)
    assert found["results"]["test"].keys() == {"loss", "accuracy"}
    assert found["parameters"] == sum(p.numel() for p in load_network("runs/first").parameters())


def test_dry_run_writes_nothing(told: Any, tmp_path: Path) -> None:
    text = told(*SMALL, "--dry-run")
    assert "# 197 parameters; 3 steps of 23 time steps\n# about 0 s of training" in text  # 28 + 80 + 8 + 81; 3 + 20
    assert re.search(r"[\d.]+ ms per step\) and [\d,]+ MB", text)
    assert tomllib.loads(text)["model"]["hidden"] == 8
    assert not list(tmp_path.iterdir())


def test_dry_run_as_json(told: Any, tmp_path: Path) -> None:
    out = told(*SMALL, "--steps", "1000", "--dry-run", "--json", "--out", "elsewhere")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["parameters"], found["steps"], found["sequence_length"]) == (197, 1000, 23)
    assert found["seconds"] == pytest.approx(1000 * found["seconds_a_step"])
    assert found["seconds_a_step"] > 0
    assert found["peak_memory_mb"] > 50  # torch alone
    assert found["settings"]["model"]["hidden"] == 8
    assert not list(tmp_path.iterdir())


def test_dry_run_counts_what_a_run_has(told: Any) -> None:
    planned = json.loads(told(*QUICK, "--model", "goru", "--layers", "2", "--dry-run", "--json"))["parameters"]
    assert json.loads(told(*QUICK, "--model", "goru", "--layers", "2", "--json"))["parameters"] == planned


DRY = {
    "defaults": ["copy", "--delay", "3", "--steps", "3"],
    "a set in epochs": ["copy", "--delay", "3", "--samples", "12", "--epochs", "2"],
    "an option": ["copy", "--delay", "3", "--steps", "3", "--model", "scornn", "--rho", "3", "--activation", "tanh"],
    "a group": ["copy", "--delay", "3", "--steps", "3", "--model", "cprnn", "--rank", "3", "--group", "*bias* decay=1"],
    "a tuple": ["copy", "--delay", "3", "--steps", "3", "--model", "spectral", "--reflections", "3", "None"],
    "a schedule": ["adding", "--length", "6", "--steps", "4", "--schedule", "cosine", "--warmup", "2", "--stop-by=mse"],
    "several exams": ["transfer-copy", "--delay", "3", "--tests", "5", "6", "--steps", "2", "--model", "lstm"],
    "an optimiser": ["copy", "--delay", "3", "--steps", "3", "--optimizer", "sgd", "--plateau", "2"],
    "no bias": ["copy", "--delay", "3", "--steps", "3", "--no-readout-bias"],
    "symbols": ["pautomac", "--steps", "2", "--model", "gru"],
}


@pytest.mark.parametrize("case", slow_but(DRY, DRY.keys() - {"defaults", "a group", "an optimiser", "symbols"}))
@pytest.mark.usefixtures("data_sets")
def test_a_dry_run_is_a_file_that_gives_the_run(case: str, told: Any) -> None:
    """Nothing in it is left to decide; the same fingerprint, the same settings, the same bits."""
    words = [*DRY[case], "--hidden", "6", "--batch", "4", "--log-every", "1"]
    if case != "defaults":
        words += ["--valid-samples", "8", "--test-samples", "8"]
    text = told("train", *words, "--dry-run")
    write(text)
    told("train", *words, "--name", "words")
    told("train", "--config", "settings.toml", "--name", "file")
    runs = [RunDirectory(f"runs/{name}") for name in ("words", "file")]
    assert runs[0].settings.fingerprint() == runs[1].settings.fingerprint()
    assert runs[0].settings == runs[1].settings
    assert lines("runs/words") == lines("runs/file")
    assert equal_weights("runs/words", "runs/file")
    found = tomllib.loads(text)
    assert {"lr_orthogonal", "schedule", "momentum"} <= found["optimiser"].keys()
    assert {"steps", "valid_samples", "test_samples", "validate_every"} <= found["budget"].keys()
    assert found["machine"]["threads"] == 1
    assert "embedding" in found["model"]
    told("train", "--config", "settings.toml", "--dry-run")  # once more: nothing changes
    assert plan(told, "--config", "settings.toml") == plan(told, *words)


# names


def test_same_name_is_refused(told: Any, refused: Any) -> None:
    told(*QUICK, "--name", "first")
    before = Path("runs/first/run.json").read_bytes()
    assert "runs/first holds a run already: resume it with engram resume runs/first" in refused(
        *QUICK, "--name", "first"
    )
    assert Path("runs/first/run.json").read_bytes() == before


def test_names_never_collide(told: Any) -> None:
    """Three within a second, as in a loop of a shell."""
    folders = {json.loads(told(*QUICK, "--steps", "1", "--json"))["run"] for _ in range(3)}
    assert len(folders) == 3
    assert {str(path) for path in Path("runs").iterdir()} == folders


ODD = ["a b", "größe-λ", "[red]x", "b[/b]", ":smile:", "100%", "{x}", "sweep/first", "-x"]


@pytest.mark.parametrize("name", slow_but(ODD, {"größe-λ", "b[/b]", "100%", "sweep/first"}))
def test_odd_names(name: str, told: Any, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(*QUICK, "--out", "my runs", f"--name={name}")
    folder = Path("my runs", name)
    assert (folder / "run.json").exists()
    assert f"run: {folder} (engram evaluate '{folder}' --plot" in out
    assert main(["evaluate", str(folder), "--plot"]) == 0
    assert f"figure: {folder}/curves.svg\n" in capsys.readouterr().err
    assert (folder / "curves.svg").exists()


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/x", "", "."])
def test_a_name_that_leaves_the_folder_is_refused(name: str, refused: Any, tmp_path: Path) -> None:
    assert refused(*QUICK, f"--name={name}").endswith(f"a folder within --out, such as first; got {name!r}")
    assert not list(tmp_path.iterdir())


REFUSED = {
    "option of the model": (["--foo", "3"], "unknown option --foo of engram train"),
    "a word as an option": (["--task", "copy"], "write it without --task: engram train .*copy"),
    "option of torch's": (["--model", "torch-lstm", "--dropout", "3"], "option of torch-lstm: .*dropout"),
    "option of ours": (["--model", "lstm", "--dropout", "3"], r"dropout must be a number in \[0, 1\).*got 3"),
    "value of an option": (["--activation", "tahn"], "Did you mean 'tanh'"),
    "device": (["--device", "gpu9"], "device 'gpu9' cannot be used here"),
    "embedding": (["--embedding", "3"], "embedding is for tasks of symbols"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_nothing_behind(case: str, refused: Any, tmp_path: Path) -> None:
    """So that the same name can be used once the mistake is mended."""
    words, message = REFUSED[case]
    assert re.search(message, refused(*QUICK, "--name", "first", *words))
    assert not list(tmp_path.iterdir())


def test_out_that_is_a_file(refused: Any) -> None:
    Path("taken").write_text("")
    assert "taken" in refused(*QUICK, "--out", "taken")


# settings from a file


def write(text: str, name: str = "settings.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


FILE = """
[task]
name = "copy"
delay = 4
layout = "at"
[model]
name = "lstm"
hidden = 6
[model.options]
bias = false
dropout = 0.0
[optimiser]
lr-orthogonal = 0.5
weight_decay = 1e-3
[budget]
steps = 2
batch = 4
valid_samples = 4
test_samples = 4
[machine]
tensorboard = false
"""


@pytest.mark.parametrize("given", [["--config", "settings.toml"], ["--config=settings.toml"]])
def test_config(given: list[str], told: Any) -> None:
    """The task is from the file too. Hyphens and underscores are alike."""
    write(FILE)
    told("train", *given, "--name", "first")
    found = settings("runs/first")
    assert found["task"] == {"name": "copy", "delay": 4, "length": 10, "layout": "at"}
    expected = {"model": "lstm", "hidden": 6, "steps": 2, "batch": 4, "lr_orthogonal": 0.5, "weight_decay": 1e-3}
    assert {name: found[name] for name in expected} == expected
    assert found["options"] == {"bias": False}  # and what is the default is not written


def plan(told: Any, *words: str) -> dict[str, Any]:
    return flat(json.loads(told("train", *words, "--dry-run", "--json"))["settings"])


@pytest.mark.parametrize("words", [["--hidden", "5"], ["--hidden=5"]])
def test_flags_override_the_file(words: list[str], told: Any) -> None:
    write(FILE)
    found = plan(told, "--config", "settings.toml", *words, "--lr_orthogonal", "0.25", "--bias")
    assert (found["hidden"], found["lr_orthogonal"], found["options"]) == (5, 0.25, {})
    assert found["model"] == "lstm"


def test_epochs_go_before_steps_of_the_file(told: Any) -> None:
    write(FILE)
    found = plan(told, "--config", "settings.toml", "--epochs", "2", "--samples", "8")
    assert found["steps"] == 4  # two epochs of two batches of four


def test_another_model_than_that_of_the_file(told: Any) -> None:
    """Its options are not those of the file's."""
    write(FILE)
    found = plan(told, "--config", "settings.toml", "--model", "scornn", "--rho", "2")
    assert (found["model"], found["options"], found["hidden"]) == ("scornn", {"rho": 2}, 6)


def test_a_model_that_the_file_does_not_name(told: Any) -> None:
    write("[budget]\nbatch = 2\nsteps = 2\n")
    found = plan(told, "copy", "--config", "settings.toml", "--model", "gru", "--no-bias")
    assert (found["model"], found["options"], found["batch"]) == ("gru", {"bias": False}, 2)


def test_flags_that_the_file_has_set(told: Any) -> None:
    write(FILE.replace("tensorboard = false", "tensorboard = true"))
    assert plan(told, "--config", "settings.toml", "--tensorboard")["tensorboard"] is True
    assert plan(told, "--config", "settings.toml", "--no-tensorboard")["tensorboard"] is False


def test_groups_of_a_file(told: Any) -> None:
    write(FILE + "[[optimiser.groups]]\npattern = 'head.*'\nlr = 0.5\n")
    assert plan(told, "--config", "settings.toml")["groups"] == [{"pattern": "head.*", "lr": 0.5, "weight_decay": None}]
    found = plan(told, "--config", "settings.toml", "--group", "*bias* decay=0.5")["groups"]
    assert [group["pattern"] for group in found] == ["*bias*"]  # the command line overrides the file


@pytest.mark.parametrize("words", [["copy", "--config", "settings.toml"], ["--config", "settings.toml", "copy"]])
def test_the_task_in_both_places(words: list[str], told: Any) -> None:
    write(FILE)
    assert plan(told, *words, "--delay", "5")["task"] == {"name": "copy", "delay": 5, "length": 10, "layout": "at"}


def test_another_task_than_that_of_the_file(told: Any) -> None:
    write(FILE)
    found = plan(told, "parity", "--config", "settings.toml")
    assert (found["task"]["name"], found["hidden"]) == ("parity", 6)


def test_a_task_by_its_name_alone(told: Any) -> None:
    write('task = "parity"\n[model]\nhidden = 4\n[budget]\nbatch = 2')
    assert plan(told, "--config", "settings.toml")["task"]["name"] == "parity"


@pytest.mark.parametrize("value", [True, False])
def test_booleans_that_are_on_unless_said(value: bool, told: Any) -> None:
    write(f"[task]\nname = 'contractive'\nlength = 8\nnormalised = {str(value).lower()}\n[budget]\nbatch = 2")
    assert plan(told, "--config", "settings.toml")["task"]["normalised"] is value


def test_booleans_that_are_off_unless_said(told: Any) -> None:
    write("[machine]\ntensorboard = true\n[budget]\nbatch = 2")
    assert plan(told, "copy", "--config", "settings.toml")["tensorboard"] is True


def test_lists_of_a_task(told: Any) -> None:
    write("[task]\nname = 'transfer-copy'\ndelay = 3\ntests = [5, 6]\n[budget]\nbatch = 2")
    assert plan(told, "--config", "settings.toml")["task"]["tests"] == [5, 6]


def test_the_settings_of_a_run_can_be_a_file(told: Any) -> None:
    """What run.json holds, written as TOML, gives the same run."""
    told(*QUICK, "--name", "first", "--model", "scornn", "--seed", "5", "--activation", "tanh")
    write(to_toml(json.loads(Path("runs/first/run.json").read_text())["settings"]))
    told("train", "--config", "settings.toml", "--name", "second")
    assert settings("runs/second") == settings("runs/first")
    assert lines("runs/second") == lines("runs/first")


WRONG_FILES = {
    "unknown key": ("[model]\nhiden = 3", r"unknown setting 'hiden' of \[model\]: .* Did you mean 'hidden'\?"),
    "unknown group": ("[modle]\nhidden = 3", r"unknown setting 'modle': .* Did you mean 'model'\?"),
    "a flat key": ("hidden = 3", r"hidden is a setting of the group model: write \[model\] and below it hidden = "),
    "a model by name": ("model = 'lstm'", r"model is a group of settings, \[model\] with .* got 'lstm'"),
    "nested without end": ("hidden = " + "[" * 100_000, r"--config settings.toml is not TOML"),
    "an unknown option of the model": (
        'task = "copy"\n[model.options]\nrebase_evry = 3',
        r"unknown option 'rebase_evry' of exprnn: .* Did you mean 'rebase_every'\?",
    ),
    "an option of a wrong type": ('task = "copy"\n[model.options]\nrebase_every = "x"', r"rebase.every"),
    "not TOML": ("hidden = = 3", r"--config settings.toml is not TOML: .*line 1"),
    "not text": ("hidden = \udcff", r"--config settings.toml is not TOML"),
    "task is a number": ("task = 3", r"task in settings.toml must be a name or a table with a name, got 3"),
    "task is a list": ("task = ['copy']", r"task in settings.toml must be a name or a table"),
    "unknown task": ("task = 'cpoy'", r"unknown task 'cpoy': .* Did you mean 'copy'\?"),
    "unknown option of the task": ("[task]\nname = 'copy'\ndealy = 3", r"'dealy'.* Did you mean 'delay'\?"),
    "wrong type": ("task = 'copy'\n[model]\nhidden = 'many'", r"hidden must be a whole number \(int\), got 'many'"),
    "a boolean for a number": ("task = 'copy'\n[model]\nhidden = false", r"hidden must be a whole number .*got F"),
    "a list for a number": ("task = 'copy'\n[model]\nhidden = [3]", r"hidden must be a whole number \(int\)"),
    "out of range": ("task = 'copy'\n[model]\nhidden = 0", r"hidden must be at least 1, got 0"),
    "negative": ("task = 'copy'\n[optimiser]\nlr = -1e-3", r"lr must be positive, got -0.001"),
    "wrong choice": ("task = 'copy'\n[optimiser]\nname = 'adma'", r"unknown optimizer 'adma': .* Did you mean 'adam'"),
    "looks like an option": ("task = 'copy'\n[model]\nname = '--help'", r"unknown model '--help'"),
    "a name of another type": ("task = 'copy'\n[model]\nname = ['rnn']", r"model must be a name such as exprnn"),
    "no task": ("[model]\nhidden = 3", r"engram train needs a task, one of: copy, "),
    "of the command line only": ("task = 'copy'\nname = 'x'", r"unknown setting 'name'"),
    "groups that are none": ("task = 'copy'\n[optimiser]\ngroups = 3", r"groups must be a tuple of"),
}


def test_a_file_that_begins_with_a_byte_order_mark(told: Any) -> None:
    """Notepad and PowerShell write one."""
    Path("settings.toml").write_bytes(b"\xef\xbb\xbfseed = 7\ntask = 'copy'\n")
    assert plan(told, "--config", "settings.toml")["seed"] == 7


@pytest.mark.parametrize("case", WRONG_FILES)
def test_wrong_files(case: str, refused: Any) -> None:
    text, message = WRONG_FILES[case]
    Path("settings.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert re.search(message, refused("train", "--config", "settings.toml"))
    assert not Path("runs").exists()


def test_no_file(refused: Any, tmp_path: Path) -> None:
    assert refused("train", "copy", "--config", "a.toml") == "--config a.toml: No such file or directory"
    assert refused("train", "copy", "--config", ".") == "--config .: it is a folder, and must be a plain file"
    assert refused("train", "copy", "--config") == "--config needs a value. See --help"


# resume


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the step after this one is computed."""
    checks = []

    def check(self: Interrupt, *_: object) -> None:
        checks.append(1)
        self.asked = len(checks) == step
        original(self)

    original = Interrupt.check
    monkeypatch.setattr(Interrupt, "check", check)


def equal_weights(first: str, second: str) -> bool:
    pairs = [load_network(folder, best=False).state_dict() for folder in (first, second)]
    assert pairs[0].keys() == pairs[1].keys()
    return all(torch.equal(pairs[0][name], pairs[1][name]) for name in pairs[0])


def test_resume_after_ctrl_c(told: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told(*QUICK, "--name", "whole")
    with monkeypatch.context() as patch:
        stop_at(2, patch)
        assert main([*QUICK, "--name", "cut"]) == 130
    said = capsys.readouterr()
    assert "Resume with: engram resume runs/cut" in said.err
    assert "Traceback" not in said.err
    assert RunDirectory("runs/cut").status == "stopped"
    found = json.loads(told("resume", "runs/cut", "--json"))
    assert (found["status"], found["step"]) == ("done", 3)
    assert lines("runs/cut") == lines("runs/whole")
    assert equal_weights("runs/cut", "runs/whole")


def test_a_run_that_diverges_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, one line that says what to change, and a run directory that says the same."""
    words = ["train", "adding", "--length", "5", "--model", "rnn", "--activation", "identity", "--hidden", "4"]
    assert main([*words, "--steps", "9", "--batch", "2", "--lr", "1e30", "--clip", "0", "--name", "far"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"engram: the loss is (nan|inf) at step \d\. .* smaller --lr \(now 1e\+30\).*", last)
    assert RunDirectory("runs/far").status == "failed"


def test_evaluate_a_stopped_run(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_at(1, patch)
        assert main([*QUICK, "--name", "cut"]) == 130
    assert json.loads(told("evaluate", "runs/cut", "--plot", "--json")).keys() == {"test"}
    assert Path("runs/cut/curves.svg").exists()


def test_resume_a_run_that_is_done(told: Any, refused: Any) -> None:
    told(*QUICK, "--name", "first")
    assert "is done" in refused("resume", "runs/first")
    assert "--steps N" in refused("resume", "runs/first")


@pytest.mark.parametrize("model", ["exprnn", "full-capacity", "lstm"])
def test_more_steps_are_as_if_they_had_been_asked_for(model: str, told: Any) -> None:
    """Settings, weights, and the lines of each step; the end of the shorter run was tested too, and that line stays."""
    told(*QUICK, "--model", model, "--steps", "6", "--name", "long", "--validate-every", "3")
    told(*QUICK, "--model", model, "--steps", "3", "--name", "short", "--validate-every", "3")
    found = json.loads(told("resume", "runs/short", "--steps", "6", "--json"))
    assert (found["status"], found["step"]) == ("done", 6)
    assert settings("runs/short") == settings("runs/long")
    assert equal_weights("runs/short", "runs/long")
    extended = lines("runs/short")
    assert [line for line in extended if line["split"] != "test" or line["step"] == 6] == lines("runs/long")
    assert RunDirectory("runs/short").facts["results"] == RunDirectory("runs/long").facts["results"]


def test_fewer_steps_than_were_taken(told: Any, refused: Any) -> None:
    told(*QUICK, "--name", "first")
    before = settings("runs/first"), lines("runs/first")
    assert "is at step 3 already" in refused("resume", "runs/first", "--steps", "2")
    assert (settings("runs/first"), lines("runs/first")) == before
    assert refused("resume", "runs/first", "--steps", "0") == "--steps must be at least 1, got 0"


# evaluate


def texts(path: str | Path) -> str:
    """The words of an SVG: matplotlib draws letters as shapes and leaves the words as comments."""
    content = Path(path).read_text(encoding="utf-8")
    assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    return " ".join(re.findall(r"<!-- (.*?) -->", content) + re.findall(r">([^<>]+)</text>", content))


def test_evaluate(told: Any) -> None:
    told(*QUICK, "--name", "first")
    results = RunDirectory("runs/first").facts["results"]
    assert json.loads(told("evaluate", "runs/first", "--json")) == results
    out = told("evaluate", "runs/first/")
    assert re.fullmatch(r"test: loss [\d.]+, accuracy [\d.]+\n", out)
    assert not Path("runs/first/curves.svg").exists()


EVALUATED = [(name, "32-true") for name, entry in MODELS.items() if not entry.answers_itself]
EVALUATED += [("exprnn", "64-true"), ("urnn", "64-true")]


@pytest.mark.parametrize(
    ("model", "precision"),
    slow_but(EVALUATED, [*((name, "32-true") for name in MODELS_OF_EACH_KIND), ("urnn", "64-true")]),
)
def test_evaluate_finds_what_the_run_found(model: str, precision: str, told: Any) -> None:
    """Complex weights among them. In double precision Fabric rounds the outputs of a run to single: 1e-6."""
    told(*QUICK, "--model", model, "--precision", precision, "--name", "first")
    found = json.loads(told("evaluate", "runs/first", "--json"))
    assert found["test"] == pytest.approx(RunDirectory("runs/first").facts["results"]["test"], rel=1e-6)


def test_evaluate_changes_nothing(told: Any) -> None:
    told(*QUICK, "--name", "first")
    before = {path.name: path.read_bytes() for path in Path("runs/first").iterdir()}
    told("evaluate", "runs/first", "--option", "delay=9", "--split", "valid", "--last")
    assert {path.name: path.read_bytes() for path in Path("runs/first").iterdir()} == before


def test_plot(told: Any) -> None:
    told(*QUICK, "--name", "first")
    told("evaluate", "runs/first", "--plot")
    said = texts("runs/first/curves.svg")
    for word in ("step", "loss", "accuracy", "train", "valid", "test", "without memory", "chance", "exprnn on copy"):
        assert word in said


def test_options_of_the_exam(told: Any) -> None:
    """A longer delay is another exam; the same one is the same."""
    told(*QUICK, "--name", "first")
    plain = json.loads(told("evaluate", "runs/first", "--json"))
    assert json.loads(told("evaluate", "runs/first", "--json", "--option", "delay=3")) == plain
    longer = json.loads(told("evaluate", "runs/first", "--json", "--option", "delay=40", "length=2"))
    assert longer["test"]["loss"] != plain["test"]["loss"]
    twice = json.loads(told("evaluate", "--option=delay=40", "--json", "--option", "length=2", "runs/first"))
    assert twice == longer


def test_split_and_last(told: Any) -> None:
    worse = ["--lr", "10", "--optimizer", "sgd", "--seed", "1"]  # so that the best is not the last
    told(*QUICK, "--name", "first", "--validate-every", "1", *worse)
    found = {line["step"]: line["loss"] for line in lines("runs/first") if line["split"] == "valid"}
    best = min(found, key=lambda step: found[step])
    assert best != 3
    for words, step in ((["--split", "valid"], best), (["--split", "valid", "--last"], 3)):
        scores = json.loads(told("evaluate", "runs/first", "--json", *words))
        assert scores.keys() == {"valid"}
        assert scores["valid"]["loss"] == pytest.approx(found[step], rel=1e-6)


def test_training_sequences(told: Any, refused: Any) -> None:
    """Of a fixed set they can be looked at; fresh ones have no end."""
    told(*QUICK, "--name", "fixed", "--samples", "8")
    told(*QUICK, "--name", "fresh")
    assert json.loads(told("evaluate", "runs/fixed", "--split", "train", "--json"))["train"]["loss"] > 0
    assert "samples new training sequences" in refused("evaluate", "runs/fresh", "--split", "train")


def test_several_exams(told: Any) -> None:
    words = ["--tests", "5", "6", "--name", "first", "--test-samples", "4", "--valid-samples", "4"]
    told("train", "transfer-copy", "--hidden", "4", "--delay", "3", "--steps", "1", "--batch", "2", *words)
    assert json.loads(told("evaluate", "runs/first", "--plot", "--json")).keys() == {"test", "test-5", "test-6"}


WRONG_EXAMS = {
    "unknown option": (["--option", "dleay=3"], "Did you mean 'delay'"),
    "no value": (["--option", "delay"], "an option is NAME=VALUE"),
    "wrong type": (["--option", "delay=soon"], "delay must be a whole number"),
    "out of range": (["--option", "delay=-1"], "delay must be at least 1, got -1"),
    "split": (["--split", "tset"], "unknown split 'tset': expected one of test, train, valid. Did you mean 'test'?"),
}


@pytest.mark.parametrize("case", WRONG_EXAMS)
def test_wrong_exams(case: str, told: Any, refused: Any) -> None:
    words, message = WRONG_EXAMS[case]
    told(*QUICK, "--name", "first")
    assert message in refused("evaluate", "runs/first", *words)


def test_a_network_of_other_sizes(told: Any, refused: Any) -> None:
    told("train", "lag-copy", *QUICK[2:4], "--steps", "1", "--batch", "2", "--name", "first")
    assert "5 inputs" in refused("evaluate", "runs/first", "--option", "features=7")


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_what_is_not_a_run(command: str, refused: Any) -> None:
    Path("empty").mkdir()
    Path("file").write_text("")
    for place in ("nowhere", "empty", "file"):
        assert f"{place} is not a run" in refused(command, place)


def test_settings_that_were_changed_by_hand(told: Any, refused: Any) -> None:
    """torch tells each weight that does not fit in a line of its own; here it is one line."""
    told(*QUICK, "--name", "first")
    path = Path("runs/first/run.json")
    path.write_text(path.read_text().replace('"hidden": 8', '"hidden": 9'))
    assert "does not fit its settings" in refused("evaluate", "runs/first")
    assert "does not fit its settings" in refused("resume", "runs/first", "--steps", "9")


def test_a_newline_in_a_word(refused: Any) -> None:
    assert "unknown task 'co\\npy'" in refused("train", "co\npy")
    assert "a b.toml" in refused("train", "copy", "--config", "a\nb.toml")


def test_debug_shows_where() -> None:
    with pytest.raises(EngramError, match="nowhere is not a run"):
        main(["evaluate", "nowhere", "--debug"])


def test_memory_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """4 TB are refused before anything is built; what only shows while it runs is told by the system."""
    words = ["train", "copy", "--delay", "3", "--hidden", "1000000"]
    assert main(words) == 2
    need = r"a weight of the network needs 4,000,000 MB or more \(1,000,000,000,000 numbers\)"
    told = rf"engram: {need}, and [\d,]+ MB are free: .*\n"
    assert re.fullmatch(told, capsys.readouterr().err)
    words = ["demo", "--delay", "1000000000", "--updates", "1"]
    assert main(words) == 1
    assert re.fullmatch(r"engram: there is not enough memory: .*\n", capsys.readouterr().err)
    with pytest.raises(RuntimeError, match="allocate"):
        main([*words, "--debug"])

"""What people type, mistakes included: one line that helps, and exit code 2."""

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from engram.certify import CLAIMS
from engram.cli import main
from engram.cli._certify import SUBJECTS
from engram.cli._convert import CONVERSIONS
from engram.cli._draw import PICTURES
from engram.cli._parse import COMMANDS, parse
from engram.models import MODELS
from engram.tasks import TASKS

WRONG = {
    "trian copy": "unknown command 'trian': .* Did you mean 'train'?",
    "Train copy": "Did you mean 'train'?",
    "evalute runs/x": "Did you mean 'evaluate'?",
    "frobnicate": "unknown command 'frobnicate': expected one of bench, certify, completion, convert, demo, draw",
    "--frobnicate": "--frobnicate",
    "-x": "-x",
    "copy": "unknown command 'copy'",
    "train": "engram train needs a task, one of: copy, copying-memory, ",
    "train --model lstm": "engram train needs a task",
    "train start-end --model tensor-train --features -3": "features must be at least 0, got -3",
    "train start-end --model tensor-train --equal-cores maybe": "--equal-cores is a flag and takes no value",
    "train start-end --model rac --log-scale maybe": "--log-scale is a flag and takes no value, got 'maybe'",
    "train --hidden": "engram train needs a task",
    "train cpoy": "unknown task 'cpoy': .* Did you mean 'copy'?",
    "train --hidden 8 cpoy": "unknown task 'cpoy': .* Did you mean 'copy'?",
    "train Copy": "Did you mean 'copy'?",
    "train psmnits": "Did you mean 'psmnist'?",
    "train copy adding": "adding",
    "train copy --model nnrn": "unknown model 'nnrn': .* Did you mean 'nnrnn'?",
    "train copy --model LSTM": "Did you mean 'lstm'?",
    "train copy --model": "--model needs a value",
    "train copy --modle lstm": "Did you mean --model?",
    "train copy --modle=lstm": "Did you mean --model?",
    "train copy --hiden 8": "Did you mean --hidden?",
    "train copy --delya 8": "Did you mean --delay?",
    "train copy --lr-orthogonl 8": "Did you mean --lr-orthogonal?",
    "train psmnist --delay 3": "Unrecognized or misplaced options: --delay 3. See --help",
    "train copy --hidden eight": "--hidden must be a whole number, got 'eight'",
    "train copy --hidden 8.5": "--hidden must be a whole number, got '8.5'",
    "train copy --hidden": "--hidden needs a value",
    "train copy --hidden --delay 3": "--hidden needs a value",
    "train copy --hidden 0": "hidden must be at least 1, got 0",
    "train copy --hidden -3": "hidden must be at least 1, got -3",
    "train copy --hidden=-3": "hidden must be at least 1, got -3",
    "train copy --delay -5": "delay must be at least 1, got -5",
    "train copy --delay soon": "--delay must be a whole number, got 'soon'",
    "train copy --layout befor": "unknown --layout 'befor': expected one of after, at",
    "train copy --steps 1e3": "--steps must be a whole number, got '1e3'",
    "train copy --steps -1": "steps must be at least 0, got -1",
    "train copy --steps 5 --epochs 1": "give steps or epochs, not both",
    "train copy --layers 0": "layers must be at least 1, got 0",
    "train copy --batch 0": "batch must be at least 1, got 0",
    "train copy --batch 5 --processes 2": "batch (and samples) must be a multiple of processes, got 5 and 2",
    "train copy --lr fast": "--lr must be a number, got 'fast'",
    "train copy --lr -1": "lr must be positive, got -1",
    "train copy --lr -1e-3": "lr must be positive, got -0.001",
    "train copy --lr nan": "lr must be positive, got nan",
    "train copy --lr inf": "lr must be positive, got inf",
    "train copy --lr-orthogonal slow": "--lr-orthogonal must be a number, got 'slow'",
    "train copy --lr-orthogonal 0": "lr_orthogonal must be positive, got 0",
    "train copy --optimizer adma": "unknown --optimizer 'adma': expected one of adam, .* Did you mean 'adam'?",
    "train copy --precision 16": "unknown --precision '16': expected one of 32-true, 64-true, bf16-mixed",
    "train copy --seed -1": "seed must be at least 0, got -1",
    "train copy --threads -1": "threads must be at least 0, got -1",
    "train copy --option activation=tanh": "options of a model are flags: --activation relu; in a file they are under",
    "train copy --model scornn --rho many": "--rho must be a whole number, got 'many'",
    "train copy --model scornn --roh 3": "Did you mean --rho?",
    "train copy --model lstm --rho 3": "Unrecognized options: --rho",
    "train copy --model spectral --reflections 3": "--reflections",
    "train copy --activation tahn": "unknown activation 'tahn': .* Did you mean 'tanh'?",
    "train copy --dropout much": "--dropout must be a number, got 'much'",
    "train copy --alpha 0.5": "alpha is an option of rmsprop; the optimizer is adam",
    "train copy --optimizer sgd --momentum 1": "momentum must be at least 0 and below 1, got 1.0",
    "train copy --betas 0.9": "--betas",
    "train copy --schedule cosin": "unknown --schedule 'cosin': .* Did you mean 'cosine'?",
    "train copy --schedule step": "the schedule step needs step_size",
    "train copy --plateau 2 --step-size 3": "step_size is an option of the schedule step, and the schedule is plateau",
    "train copy --group haed.*": "the group 'haed.*' matches no parameter; they are",
    "train copy --group": "--group needs a value",
    "train copy --group=": "pattern must be a text such as head.*, got ''",
    "train copy --stop-by acuracy": "unknown score to stop by 'acuracy': expected one of accuracy, loss. Did you mean",
    "train copy --out": "--out needs a value",
    "train copy --json=yes": "yes",
    "train copy --version": "--version",
    "train transfer-copy --tests 5 x": "x",
    "train psmnist --images mnits": "unknown --images 'mnits': expected one of fashion, mnist. Did you mean 'mnist'?",
    "resume": "Missing from engram resume: PATH The run directory",
    "resume nowhere": "nowhere is not a run: it has no run.json. Runs are made by: engram train TASK",
    "resume a b": "b",
    "resume a --steps x": "--steps must be a whole number, got 'x'",
    "evaluate": "Missing from engram evaluate: PATH The run directory",
    "evaluate nowhere --plot": "nowhere is not a run",
    "evaluate nowhere --splt test": "Did you mean --split?",
    "probe": "engram probe needs a model: a run directory, or module:factory",
    "probe nowhere": "there is no run nowhere; a model is given as module:factory",
    "probe no.such:model": "there is no module 'no', here or installed",
    "probe torch.nn:LSTMM": "Did you mean 'LSTM'?",
    "probe torch.nn:LSTM --lenght 9": "Did you mean --length?",
    "list modls": "unknown word 'modls': expected one of claims, maps, models, tasks. Did you mean 'models'?",
    "list model": "Did you mean 'models'?",
    "list models tasks": "tasks",
    "list --jsn": "Did you mean --json?",
    "bench trian": "Did you mean 'train'?",
    "bench train --repeats x": "--repeats must be a whole number, got 'x'",
    "bench train --repeats 0": "--repeats must be at least 1, got 0",
    "bench train --figure a.pdf": "--figure must end in .svg or .png, got a.pdf",
    "completion bsh": "Did you mean 'bash'?",
    "completion fish": "unknown shell 'fish': expected one of bash, zsh",
    "draw": "engram draw needs a picture, one of: spectrum, rac",
    "draw spectrm": "Did you mean 'spectrum'?",
    "draw rac --steps 5": "steps must be even",
    "draw rac --depth 9": "choose a smaller --depth or --steps",
    "convert": "engram convert needs a conversion, one of: unitary, flat, deepen, automaton, torch",
    "convert flatt runs/x": "unknown conversion 'flatt': .* Did you mean 'flat'?",
    "convert flat": "Missing from engram convert flat: PATH The run directory",
    "convert flat runs/x": "-o PATH",
    "convert flat nowhere -o x": "nowhere is not a run: it has no run.json",
    "convert torch nowhere -o x.pt": "-o must end in .safetensors, got x.pt",
    "convert automaton nowhere -o x.json": "nowhere is not there",
    "convert automaton nowhere -o x.txt": "-o must end in .safetensors (the network) or .json",
    "certify": "engram certify needs a claim, one of: rac, tt, atlas, min-width, ",
    "certify rack": "unknown claim 'rack': .* Did you mean 'rac'?",
    "demo --delay 0": "--delay must be at least 1, got 0",
    "demo --delay soon": "--delay must be a whole number, got 'soon'",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_words(
    line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"engram: [^\n]+\n", said.err)
    first, _, last = WRONG[line].partition(" .* ")
    assert first in said.err
    assert last in said.err
    assert not re.search(r"\s{2}|[─│╭╮╰╯]|Traceback|NoneType|int\(\)", said.err.strip())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", ["train copy --hidden eight", "train cpoy", "list modls", "resume"])
def test_debug_shows_where(line: str) -> None:
    with pytest.raises(Exception, match=re.escape(WRONG[line].split(" .* ")[0])):
        main([*line.split(), "--debug"])


def test_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Frames break lines; ours does not."""
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["train", "copy", "--optimizer", "adma"]) == 2
    assert capsys.readouterr().err.endswith("expected one of adam, adamw, rmsprop, sgd. Did you mean 'adam'?\n")


# help

OPTIONS = ("model", "hidden", "layers", "steps", "batch", "lr", "lr-orthogonal", "optimizer", "seed", "threads", "out")
OPTIONS += ("name", "dry-run", "json")


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main([*words, "--help"])
    assert left.value.code == 0
    said = capsys.readouterr()
    assert said.err == ""
    return re.sub(r"[\s│]+", " ", said.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(rf"Examples?: engram {command}\b", help_of(capsys, command))


@pytest.mark.parametrize("task", TASKS)
def test_help_of_a_task(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The options of the task beside those of training, and an example that is understood."""
    said = help_of(capsys, "train", task)
    for option in TASKS[task]().options():
        assert f"--{option.replace('_', '-')} " in said.replace("--no-", "--")
    for option in OPTIONS:
        assert f"--{option} " in said
    example = re.search(rf"Example: engram (train {task}(?: --[\w-]+ [\w.]+)+)", said)
    assert example is not None
    assert parse(example[1].split()).task == TASKS[task]()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_help_of_a_claim(subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its sizes as options, also of a claim that was added to the list a moment ago; an example that is understood."""
    said = help_of(capsys, "certify", subject)
    if subject in CLAIMS:
        assert all(f"--{field.name.replace('_', '-')} " in said for field in fields(CLAIMS[subject]))
    example = re.search(rf"Examples?: engram (certify {subject}(?: --[\w-]+(?: [\w.]+)?)*)", said)
    assert example is not None
    assert parse(example[1].split()).subject is not None


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_help_of_a_conversion(conversion: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(rf"Examples?: engram convert {conversion} ", help_of(capsys, "convert", conversion))


@pytest.mark.parametrize("picture", PICTURES)
def test_help_of_a_picture(picture: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"Example: engram draw {picture} " in help_of(capsys, "draw", picture)


def test_nothing_is_a_call_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert all(f"• {command} " in said.out for command in COMMANDS)


# list


def listed(capsys: pytest.CaptureFixture[str], what: str) -> list[dict[str, object]]:
    assert main(["list", what, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_list_models_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "models")
    assert [row["name"] for row in rows] == list(MODELS)
    assert all(value for row in rows for value in row.values())
    assert all(row["class"].endswith(f".{MODELS[row['name']].kind.__name__}") for row in rows)  # type: ignore[attr-defined,index]


def test_list_tasks_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "tasks")
    assert [row["name"] for row in rows] == list(TASKS)
    for row in rows:
        task = TASKS[str(row["name"])]
        assert row["options"] == json.loads(json.dumps(task().options()))
        assert (row["metric"], row["data set"]) == (task.metric, task.is_data_set)
        assert all(row[key] for key in ("class", "what", "answer at", "source"))


@pytest.mark.parametrize("what", ["models", "tasks", "maps"])
def test_the_table_says_the_same(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    rows = listed(capsys, what)
    assert main(["list", what]) == 0
    out = capsys.readouterr().out
    column = "metric" if what == "tasks" else "source"
    assert all(str(row["name"]) in out and str(row[column])[:10] in out for row in rows)


# completion


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A script that the shell itself can read, and that knows commands, tasks and options."""
    with pytest.raises(SystemExit) as left:
        main(["completion", shell])
    assert left.value.code in (0, None)
    said = capsys.readouterr()
    assert said.err == ""
    for word in (*COMMANDS, *TASKS, "--lr-orthogonal", "--dry-run"):
        assert word in said.out
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(said.out)
        checked = subprocess.run([program, "-n", str(tmp_path / "script")], capture_output=True, text=True, timeout=600)
        assert (checked.returncode, checked.stderr) == (0, "")

"""What people type, mistakes included: one line that helps, and exit code 2."""

import os
import re
from pathlib import Path

import pytest

from engram.cli import main

WRONG = {
    "trian copy": "unknown command 'trian': .* Did you mean 'train'?",
    "Train copy": "Did you mean 'train'?",
    "evalute runs/x": "Did you mean 'evaluate'?",
    "frobnicate": "unknown command 'frobnicate': expected one of bench, certify, compare, completion, convert, demo",
    "--frobnicate": "unknown option --frobnicate of engram: the name of a command comes first",
    "-x": "unknown option -x of engram",
    "copy": "unknown command 'copy'",
    "train": "engram train needs a task, one of: copy, copying-memory, ",
    "train --model lstm": "engram train needs a task",
    "train start-end --model tensor-train --features -3": "--features must be at least 0, got -3",
    "train start-end --model tensor-train --equal-cores maybe": "--equal-cores is a flag and takes no value",
    "train start-end --model rac --log-scale maybe": "--log-scale is a flag and takes no value, got 'maybe'",
    "train --hidden": "engram train needs a task",
    "train cpoy": "unknown task 'cpoy': .* Did you mean 'copy'?",
    "train --hidden 8 cpoy": "unknown task 'cpoy': .* Did you mean 'copy'?",
    "train Copy": "Did you mean 'copy'?",
    "train psmnits": "Did you mean 'psmnist'?",
    "train copy adding": "engram train takes no further word, got 'adding'. Example: engram train copy",
    "train copy --model nnrn": "unknown model 'nnrn': .* Did you mean 'nnrnn'?",
    "train copy --model LSTM": "Did you mean 'lstm'?",
    "train copy --model": "--model needs a value",
    "train copy --modle lstm": "Did you mean --model?",
    "train copy --modle=lstm": "Did you mean --model?",
    "train copy --hiden 8": "Did you mean --hidden?",
    "train copy --delya 8": "Did you mean --delay?",
    "train copy --lr-orthogonl 8": "Did you mean --lr-orthogonal?",
    "train psmnist --delay 3": "--delay is an option of the tasks copy, copying-memory",
    "train copy --hidden eight": "--hidden must be a whole number, got 'eight'",
    "train copy --hidden 8.5": "--hidden must be a whole number, got '8.5'",
    "train copy --hidden": "--hidden needs a value",
    "train copy --hidden --delay 3": "--hidden needs a value",
    "train copy --hidden 0": "--hidden must be at least 1, got 0",
    "train copy --hidden -3": "--hidden must be at least 1, got -3",
    "train copy --hidden=-3": "--hidden must be at least 1, got -3",
    "train copy --delay -5": "--delay must be at least 1, got -5",
    "train copy --delay soon": "--delay must be a whole number, got 'soon'",
    "train copy --layout befor": "unknown --layout 'befor': expected one of after, at",
    "train copy --steps 1e3": "--steps must be a whole number, got '1e3': write 1000",
    "train copy --steps -1": "--steps must be at least 1, got -1",
    "train copy --steps 5 --epochs 1": "give --steps or --epochs, not both; got 5 and 1",
    "train copy --layers 0": "--layers must be at least 1, got 0",
    "train copy --batch 0": "--batch must be at least 1, got 0",
    "train copy --batch 5 --processes 2": "--batch (and --samples) must be a multiple of --processes, got 5 and 2",
    "train copy --lr fast": "--lr must be a number, got 'fast'",
    "train copy --lr -1": "--lr must be positive, got -1",
    "train copy --lr -1e-3": "--lr must be positive, got -0.001",
    "train copy --lr nan": "--lr must be positive, got nan",
    "train copy --lr inf": "--lr must be positive, got inf",
    "train copy --lr-orthogonal slow": "--lr-orthogonal must be a number, got 'slow'",
    "train copy --lr-orthogonal 0": "--lr-orthogonal must be positive, got 0",
    "train copy --optimizer adma": "unknown --optimizer 'adma': expected one of adam, .* Did you mean 'adam'?",
    "train copy --precision 16": "unknown --precision '16': expected one of 32-true, 64-true, bf16-mixed",
    "train copy --seed -1": "--seed must be at least 0, got -1",
    "train copy --threads -1": "--threads must be at least 0, got -1",
    "train copy --option activation=tanh": "options of a model are flags: --activation relu; in a file they are under",
    "train copy --model scornn --rho many": "--rho must be a whole number, got 'many'",
    "train copy --model scornn --roh 3": "Did you mean --rho?",
    "train copy --model lstm --rho 3": "--rho of engram train here. --rho is an option of the models scornn, rel",
    "train copy --model spectral --reflections 3": "--reflections needs 2 values, got 1",
    "train copy --activation tahn": "unknown activation 'tahn': .* Did you mean 'tanh'?",
    "train copy --dropout much": "--dropout must be a number, got 'much'",
    "train copy --alpha 0.5": "--alpha is an option of rmsprop; the optimizer is adam",
    "train copy --optimizer sgd --momentum 1": "--momentum must be at least 0 and below 1, got 1.0",
    "train copy --betas 0.9": "--betas needs 2 values, got 1",
    "train copy --schedule cosin": "unknown --schedule 'cosin': .* Did you mean 'cosine'?",
    "train copy --schedule step": "the schedule step needs --step-size",
    "train copy --plateau 2 --step-size 3": "--step-size is an option of the schedule step; the schedule is plateau",
    "train copy --group haed.*": "the group 'haed.*' matches no parameter; they are",
    "train copy --group": "--group needs a value",
    "train copy --group=": "pattern must be a text such as head.*, got ''",
    "train copy --stop-by acuracy": "unknown score 'acuracy' to stop by: expected one of accuracy, loss. Did you mean",
    "train copy --out": "--out needs a value",
    "train copy --version": "unknown option --version of engram train",
    "train transfer-copy --tests 5 x": "--tests must be a whole number, got 'x'",
    "train psmnist --images mnits": "unknown --images 'mnits': expected one of fashion, mnist. Did you mean 'mnist'?",
    "resume": "engram resume needs RUN, the run directory. Example: engram resume runs/copy-nnrnn",
    "resume nowhere": "nowhere is not a run: there is no such folder. Runs are made by: engram train TASK",
    "resume a b": "engram resume takes no further word, got 'b'",
    "resume a --steps x": "--steps must be a whole number, got 'x'",
    "evaluate": "engram evaluate needs RUN, a run directory. Example: engram evaluate runs/first --plot",
    "evaluate nowhere --plot": "nowhere is not a run: there is no such folder",
    "evaluate nowhere --splt test": "Did you mean --split?",
    "probe": "engram probe needs a model: a run directory, or module:factory",
    "probe nowhere": "there is no run nowhere; a model is given as module:factory",
    "probe no.such:model": "there is no module 'no', here or installed",
    "probe torch.nn:LSTMM": "Did you mean 'LSTM'?",
    "probe torch.nn:LSTM --lenght 9": "Did you mean --length?",
    "list modls": "unknown kind 'modls': expected one of claims, maps, models, tasks. Did you mean 'models'?",
    "list model": "Did you mean 'models'?",
    "list models tasks": "unknown model 'tasks': expected one of 2rnn, ",
    "list --jsn": "Did you mean --json?",
    "bench trian": "unknown benchmark 'trian': .* Did you mean 'train'?",
    "bench train --repeats x": "--repeats must be a whole number, got 'x'",
    "bench train --repeats 0": "--repeats must be at least 1, got 0",
    "bench train --figure a.pdf": "--figure must end in .svg or .png, got a.pdf",
    "completion bsh": "unknown shell 'bsh': expected one of bash, fish, zsh. Did you mean 'bash'?",
    "convert": "engram convert needs a conversion, one of: unitary, flat, deepen, automaton, torch",
    "convert flatt runs/x": "unknown conversion 'flatt': .* Did you mean 'flat'?",
    "convert flat": "engram convert flat needs RUN, the run directory. Example: engram convert flat runs/deep",
    "convert flat runs/x": "engram convert flat needs -o, the directory of the new run. Example: ",
    "convert flat nowhere -o x": "nowhere is not a run: there is no such folder",
    "convert torch nowhere -o x.pt": "-o must end in .safetensors, got x.pt",
    "convert automaton nowhere -o x.json": "nowhere is not there: give a PAutomaC model",
    "convert automaton nowhere -o x.txt": "-o must end in .safetensors (the network) or .json",
    "certify": "engram certify needs a claim, one of: rac, tt, atlas, min-width, ",
    "certify rack": "unknown claim 'rack': .* Did you mean 'rac'?",
    "demo --delay 0": "--delay must be at least 1, got 0",
    "demo --delay soon": "--delay must be a whole number, got 'soon'",
    "train copy --rhoo 3": "unknown option --rhoo of engram train here. --rho is an option of the models scornn, rel",
    "train copy --model scornn --rhoo 3": "unknown option --rhoo of engram train. Did you mean --rho?",
    "train copy --every 5": "--every is called --probe-every now",
    "train copy --steps 0": "--steps must be at least 1, got 0; --dry-run shows a run without training",
    "train copy --epochs 3": "copy has no epochs: give --steps, or --samples with --epochs",
    "train copy --patience 3 --validate-every 0": "count validations, and this run has none: see --validate-every",
    "train copy --bias False": "--bias is a flag and takes no value, got 'False': write --no-bias",
    "train copy --json yes": "--json is a flag and takes no value, got 'yes'",
    "train copy --device cuda": "--device 'cuda' cannot be used here: torch ",
    "train copy --device gpu9": "--device 'gpu9' cannot be used here: there is no device 'gpu9'. Here: cpu",
    "train copy --probe-every -1": "--probe-every must be at least 0, got -1",
    "plot": "engram plot needs a figure, one of: spectrum, task, attention, rac",
    "plot spectrm": "unknown figure 'spectrm': .* Did you mean 'spectrum'?",
    "plot rac --steps 5": "--steps must be even",
    "plot rac --depth 9": "choose a smaller --depth or fewer --steps",
    "plot spectrum nowhere": "nowhere is not a run: there is no such folder",
    "plot spectrum nowhere --model rnn": "--model: without a run only; nowhere has a model of its own",
    "plot spectrum --model lstm": "lstm has no square recurrent matrix whose spectrum could be plotted",
    "plot spectrum --hidden 0": "--hidden must be at least 1, got 0",
    "size": "engram size needs --lag, p, the steps between an input and its copy. Example: engram size --lag 200",
    "size --lga 3": "unknown option --lga of engram size. Did you mean --lag?",
    "size --lag 0": "--lag must be at least 1, got 0",
    "certify rac --steps 7": "--steps must be even",
    "certify rac-deep --modes 3": "certify rac-deep needs --channels, R, the units of a layer. Example: engram certify",
    "certify atlas --max-side 1": "--max-side must be at least 2, got 1",
    "list models nnrn": "unknown model 'nnrn': .* Did you mean 'nnrnn'?",
    "help trian": "Did you mean 'train'?",
    "verify": "engram verify needs at least one certificate. Example: engram verify ",
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


def test_a_file_that_is_no_certificate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.json").write_text("hello")
    faults = {
        "nowhere.json": "nowhere.json: there is no such file. engram certify writes certificates",
        "text.json": "text.json: it is not a certificate: it is not JSON",
    }
    for name, fault in faults.items():
        assert main(["verify", name]) == 2
        said = capsys.readouterr()
        assert said.out == f"{name}: NOT VERIFIED\n"
        assert re.fullmatch(r"engram: [^\n]+\n", said.err)
        assert fault in said.err
        assert "engram certify writes certificates: engram certify rac" in said.err


def test_the_run_that_was_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is looked for by the end of its name, by a misspelt one, and the newest is named where none is given."""
    monkeypatch.chdir(tmp_path)
    for place in ("runs/old", "runs/first"):
        Path(place).mkdir(parents=True)
        Path(place, "run.json").write_text("{}")
    os.utime("runs/old/run.json", (1, 1))
    Path("file").touch()
    cures = {
        "first": "first is not a run: there is no such folder. Did you mean runs/first?",
        "runs/frist": "Did you mean runs/first?",
        "runs": "runs is not a run: it has no run.json. The newest run here is runs/first",
        "file": "file is not a run: it is a file. The newest run here is runs/first",
    }
    for name, cure in cures.items():
        for command in (["resume"], ["evaluate"], ["plot", "spectrum"]):
            assert main([*command, name]) == 2
            assert cure in capsys.readouterr().err
    assert main(["resume"]) == 2
    assert capsys.readouterr().err.endswith("The newest one here: engram resume runs/first\n")


def test_an_old_name(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``draw`` is ``plot``, with a notice of one line."""
    monkeypatch.chdir(tmp_path)
    assert main(["draw", "rac", "--steps", "4", "--depth", "2", "-o", "a.svg"]) == 0
    said = capsys.readouterr()
    assert said.err == "engram: draw is called plot now; the old name goes with the next version\n"
    assert "figure: a.svg" in said.out
    assert Path("a.svg").exists()

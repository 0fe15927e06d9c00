"""A run directory from a stranger: links, pipes and folders where files should be."""

import json
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from engram.cli import main
from engram.cli._console import terminal
from engram.tasks import Copy
from engram.train import Settings, train
from engram.train._directory import FILES
from engram.train._settings import FLAT
from tiers import slow_but

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
NAMES = (*FILES, *(f"{name}.new" for name in FILES), "tensorboard", "tensorboard/events.out.tfevents.1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "resume": ("resume", "RUN", "--steps", "4"),
    "evaluate": ("evaluate", "RUN"),
    "plot": ("evaluate", "RUN", "--plot"),
    "probe": ("probe", "RUN", "--parts", "spectrum"),
    "convert": ("convert", "torch", "RUN", "-o", "OUT.safetensors"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings.of(Copy(9, 2), "rnn", hidden=4, batch=4, steps=2, test_samples=8, threads=1)
    return train(settings, tmp_path_factory.mktemp("runs"), "finished").folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("planted"))


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


TRAPS = [link, link_to_nothing, pipe, folder]
IN_TURN = [(name, TRAPS[k % 2 + n]) for k, name in enumerate(NAMES) for n in (0, 2)]
"""Every name with a link and with something that is no file."""


@pytest.mark.parametrize(("name", "trap"), slow_but(product(NAMES, TRAPS), IN_TURN))
def test_traps(name: str, trap: Callable[[Path, Path], None], run: Path, capsys: Any) -> None:
    """Refused in one line by whoever reads or writes the run; what is outside stays as it was."""
    path, outside = run / name, run.parent / "outside"
    if name == "tensorboard" and trap is folder:
        trap = link
        outside.mkdir()
    else:
        outside.write_bytes(path.read_bytes() if path.exists() else b"mine")
    before = outside.stat()
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    trap(path, outside)
    for words in COMMANDS.values():
        said = [word.replace("RUN", str(run)).replace("OUT", str(run.parent / "out")) for word in words]
        assert main(said) == 2, words
        err = capsys.readouterr().err
        assert err.startswith(f"engram: {path} is not of a run: it "), words
        assert err.count("\n") == 1
    after = outside.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert {each.name for each in run.parent.iterdir()} == {"run", "outside"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_link_to_a_run_is_fine(name: str, run: Path, capsys: Any) -> None:
    """The person has typed it."""
    (run.parent / "link").symlink_to(run)
    words = [w.replace("RUN", str(run.parent / "link")).replace("OUT", str(run.parent / "o")) for w in COMMANDS[name]]
    assert main(words) == 0, capsys.readouterr().err


def test_a_new_run_in_a_prepared_folder(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stdout.log").symlink_to(tmp_path / "outside")
    words = f"train copy --out {tmp_path} --name run --hidden 4 --steps 1 --delay 3"
    assert main(words.split()) == 2
    assert "it is a symbolic link" in capsys.readouterr().err
    assert (tmp_path / "outside").read_text() == "mine"


def test_planted_lines(run: Path, capsys: Any) -> None:
    """Text from run.json reaches a log and the terminal without its line breaks and escape sequences."""
    path = run / "run.json"
    text = path.read_text()
    version = text.split('"python": "')[1].split('"')[0]
    path.write_text(text.replace(f'"python": "{version}"', '"python": "3\\nroot:: planted\\u001b[2J"'))
    assert main(["resume", str(run), "--steps", "4"]) == 0
    log = (run / "stdout.log").read_text()
    assert "python 3 root:: planted [2J -> " in log
    assert "\x1b" not in log + capsys.readouterr().err
    path.write_text(text.replace('"copy"', '"co\\npy\\u001b[2J"'))
    assert main(["evaluate", str(run)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err


LINES = {
    b"\xff\n": "cannot be read",
    b"7\n": "a line has a step and a split, got 7",
    b'{"step": 1}\n': "a line has a step and a split",
    b'{"step": -1, "split": "train"}\n': "step must be at least 0, got -1",
    b'{"step": 1.5, "split": "train"}\n': "step must be a whole number",
    b'{"step": 1, "split": "train", "loss": "low"}\n': "loss must be a number, got 'low'",
    b'{"step": 1, "split": "train", "loss": [1]}\n': "loss must be a number",
    b'{"step": 1, "split": "train", "loss": 1' + b"0" * 400 + b"}\n": "loss must be a number below",
    b"[" * 10**5 + b"\n": "cannot be read",
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: repr(line[:40]))
def test_metrics_of_a_stranger(line: bytes, run: Path, capsys: Any) -> None:
    (run / "metrics.jsonl").write_bytes(line)
    assert main(["evaluate", str(run), "--plot"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert LINES[line] in err
    assert not (run / "curves.svg").exists()


def test_a_file_longer_than_memory(run: Path, capsys: Any) -> None:
    """A hole of a terabyte takes no room on the disk of the sender."""
    for names in (("checkpoint.safetensors", "checkpoint-before.safetensors"), ("run.json",)):
        for name in names:
            with (run / name).open("r+b") as file:
                file.truncate(2**40)
        assert main(["evaluate", str(run)]) == 2
        err = capsys.readouterr().err
        assert "1,099,511,627,776 bytes, and at most" in err
        assert err.count("\n") == 1


SETTINGS = [
    *(
        (name, value)
        for name in ("hidden", "layers", "embedding", "threads", "processes", "seed", "log_every", "test_samples")
        for value in (10**400, -1, 1.5, "x", [], {}, True)
    ),
    *((name, value) for name in ("hidden", "layers", "threads", "processes") for value in (2**62, 10**7)),
    ("batch", 2**62),
    *((name, value) for name in ("lr", "clip", "save_every") for value in (10**400, "x", None, float("nan"), -1)),
    *(
        (name, value)
        for name in ("task", "model", "device", "optimizer", "options", "precision", "groups", "betas", "stop_by")
        for value in (7, [[]], *(() if name == "options" else ({},)))
    ),
    *((("task", name), value) for name in ("delay", "length") for value in (10**400, 2**62, 10**9, -1, "x", None)),
    ("options", {"dropout": 10**400}),
    ("options", {"layers": 2}),
    ("options", {"activation": 7}),
    ("groups", [{"pattern": "*", "lr": -1}]),
    ("schedule", "sometimes"),
    *((name, value) for name in ("plateau", "step_size", "warmup", "falls") for value in (-1, 0.5, "x")),
    *((group, value) for group in ("optimiser", "budget", "machine") for value in (7, "x", [])),
]


READ = [(*setting, command) for setting in SETTINGS for command in ("resume", "evaluate")]
READ_IN_TURN = [(*setting, ("resume", "evaluate")[k % 2]) for k, setting in enumerate(SETTINGS)]
"""Every setting with one of the commands."""


@pytest.mark.parametrize(("name", "value", "command"), slow_but(READ, READ_IN_TURN), ids=lambda part: str(part)[:20])
def test_settings_of_a_stranger(name: Any, value: Any, command: str, run: Path, capsys: Any) -> None:
    """One line and exit code 2, at once: no crash, no hang, nobody's memory filled."""
    facts = json.loads((run / "run.json").read_text())
    settings = facts["settings"]
    group, last = name if isinstance(name, tuple) else FLAT.get(name, ("", name))
    (settings[group] if group else settings)[last] = value
    (run / "run.json").write_text(json.dumps(facts))
    assert main([*COMMANDS[command][:1], str(run), *(["--steps", "4"] if command == "resume" else [])]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < 700


FLAGS = [
    "--threads 100000",
    "--layers 10000000",
    "--processes 100000 --batch 100000",
    "--hidden 1000000",
    "--hidden 100000000000000000000",
    f"--hidden 1{'0' * 400}",
    f"--hidden 1{'0' * 5000}",
    f"--lr 1{'0' * 400}",
    "--lr nan",
    "--lr inf",
    "--delay 4611686018427387904",
    "--delay 1000000000",
    "--batch 4611686018427387904",
    "--samples 4611686018427387904",
    "--seed -1",
    "--steps 1.5",
    "--activation 7",
]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda words: words[:30])
@pytest.mark.parametrize("in_a_file", [False, True])
def test_sizes_without_end(flags: str, in_a_file: bool, tmp_path: Path, capsys: Any) -> None:
    """From the command line, and from a settings file."""
    words = flags.split()
    if in_a_file:
        text = ""
        for name, value in zip((word[2:] for word in words[::2]), words[1::2], strict=True):
            places = {"delay": "task", "seed": "", "activation": "model.options"}
            place = places.get(name, FLAT.get(name, ("",))[0])
            text += f"[{place}]\n{name} = {value}\n" if place else f"{name} = {value}\n"
        (tmp_path / "settings.toml").write_text(text)
        words = ["--config", str(tmp_path / "settings.toml")]
    assert main(["train", "copy", "--out", str(tmp_path / "runs"), *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_what_is_said_is_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder may be called so, and is shown with its whole name."""
    for stderr in (False, True):
        terminal(stderr).print("runs/[red]x[/red] :smile: 3 [link=a]b")
    said = capsys.readouterr()
    assert said.out == said.err == "runs/[red]x[/red] :smile: 3 [link=a]b\n"

"""Help: every command has it, with an example that works, in plain words."""

import re
from dataclasses import fields

import pytest

from engram.certify import CLAIMS
from engram.cli import main
from engram.cli._app import COMMANDS, parse
from engram.cli._catalogue import catalogue
from engram.models import MODELS
from engram.tasks import TASKS
from tiers import slow_but

OPTIONS = ("model", "hidden", "layers", "steps", "batch", "lr", "lr-orthogonal", "optimizer", "seed", "threads", "out")
OPTIONS += ("name", "dry-run", "json", "probe-every")
PAGES = [[]] + [[name] for name in COMMANDS]
PAGES += [[name, below] for name, known in catalogue()["commands"].items() for below in known.get("below", ())]
PAGES += [["train", task] for task in TASKS] + [["train", "copy", "--model", model] for model in MODELS]


_seen: dict[tuple[str, ...], str] = {}


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """A page in one line. Several tests look at the same page, which takes a tenth of a second to make."""
    if words not in _seen:
        assert main([*words, "--help"]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        _seen[words] = re.sub(r"[\s│]+", " ", said.out)
    return _seen[words]


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_plain_words(page: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """No markup of docstrings, no types of Python, no empty defaults, no names of files that users do not have."""
    said = help_of(capsys, *page)
    assert said.startswith(f"Usage: engram {' '.join(page[:1] if page[:1] == ['train'] else page)}".rstrip())
    python = (r"`", r":\w+:", r"\{None\}", r"None\|", r"\|None", r"default: None", r"default: \(\)")
    for wrong in (*python, r"\bARGS\b", r"spec/", r"default: as [^.]*\. \[default: 0\]"):
        assert not re.search(wrong, said), wrong
    assert not re.search(r"\b(proof|Proof|Optional|NoneType|typing)\b", said.replace("of the proof", ""))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert re.search(rf"Examples?: engram {command}\b", help_of(capsys, command))


@pytest.mark.parametrize("words", [["--help"], ["-h"], [], ["help"]], ids=["--help", "-h", "nothing", "help"])
def test_the_first_page(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The commands, in the order of use, with what they are for; no words at all is a call for help."""
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("Usage: engram COMMAND")
    found = [name for name in re.findall(r"^│ (\w+) ", said.out, re.MULTILINE) if name in COMMANDS]
    assert found == list(COMMANDS)
    for text in ("--debug", "--version", "Train a model on a task", "Measure speed and memory"):
        assert text in said.out


def test_help_and_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """``engram help size`` is ``engram size --help``."""
    assert main(["help", "size"]) == 0
    page = capsys.readouterr().out
    assert main(["size", "--help"]) == 0
    assert capsys.readouterr().out == page
    assert "in theory" in page


@pytest.mark.parametrize("task", TASKS)
def test_help_of_a_task(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The options of the task beside those of training, and an example that is understood."""
    said = help_of(capsys, "train", task)
    for field in fields(TASKS[task]):
        assert f"--{field.name.replace('_', '-')} " in said
    for option in OPTIONS:
        assert f"--{option} " in said
    example = re.search(rf"Example: engram (train {task}(?: --[\w-]+ [\w.]+)+)", said)
    assert example is not None
    assert parse(example[1].split()).settings.task == TASKS[task]()


BELOW = [*catalogue()["commands"]["certify"]["below"]]


@pytest.mark.parametrize("claim", slow_but(BELOW, BELOW[::3]))
def test_help_of_a_claim(claim: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its sizes as options, and an example that is understood."""
    said = help_of(capsys, "certify", claim)
    if claim in CLAIMS:
        assert all(f"--{field.name.replace('_', '-')} " in said for field in fields(CLAIMS[claim]))
    example = re.search(rf"Examples?: engram (certify {claim}(?: --[\w-]+(?: [\w.]+)?)*)", said)
    assert example is not None
    assert hasattr(parse(example[1].split()), "run")


@pytest.mark.parametrize("group", ["convert", "plot"])
def test_help_of_a_group(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    for below in catalogue()["commands"][group]["below"]:
        assert re.search(rf"Examples?: engram {group} {below} ", help_of(capsys, group, below))


def test_defaults_of_a_file_are_shown(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/settings.toml"
    with open(path, "w") as file:  # noqa: PTH123 - a text of a line
        file.write("[task]\nname = 'copy'\ndelay = 7\n[model]\nhidden = 33\n")
    said = help_of(capsys, "train", "--config", path)
    assert re.search(r"--hidden INT [^-]*\[default: 33\]", said)
    assert re.search(r"--delay INT [^-]*\[default: 7\]", said)


@pytest.mark.parametrize(
    "words", ["train --help copy", "train copy --help", "train copy -h --steps 3", "help train copy"]
)
def test_help_may_stand_anywhere(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 0
    assert capsys.readouterr().out.startswith("Usage: engram train")

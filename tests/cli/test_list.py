"""``engram list``, and the catalogue that it reads: the same as the code says, without importing torch."""

import json
import re
import subprocess
import sys
from dataclasses import fields

import pytest

from engram.cli import main
from engram.cli._catalogue import build, catalogue
from engram.models import MODELS
from engram.tasks import TASKS


def test_the_catalogue_is_true() -> None:
    """If this fails, something was renamed or reworded: ``python -m engram.cli._catalogue`` writes it anew."""
    assert json.loads(json.dumps(build(), default=str)) == catalogue()


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["list", *words, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_models_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "models")
    assert [row["name"] for row in rows] == list(MODELS)
    assert all(row[key] for row in rows for key in ("good for", "equation", "recurrent parameters", "source"))
    assert all(row["class"].endswith(f".{MODELS[row['name']].kind.__name__}") for row in rows)  # type: ignore[attr-defined,index]


def test_tasks_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "tasks")
    assert [row["name"] for row in rows] == list(TASKS)
    for row in rows:
        task = TASKS[str(row["name"])]
        defaults = {each.name: each.default for each in fields(task)}  # some say auto, which a task made decides
        assert row["options"] == json.loads(json.dumps(defaults))
        assert (row["metric"], row["data set"]) == (task.metric, task.is_data_set)
        assert all(row[key] for key in ("class", "what", "answer at", "source"))


@pytest.mark.parametrize("what", ["models", "tasks", "maps", "claims"])
def test_one_line_each(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, what)
    assert main(["list", what]) == 0
    *lines, empty, advice = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [row["name"] for row in rows]
    assert empty == ""
    assert advice == f"engram list {what} {rows[0]['name']} shows all about one of them."


def test_models_are_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "models"]) == 0
    page = capsys.readouterr().out
    assert "exprnn           long memory: copy and pixel tasks; the default\n" in page
    assert main(["list"]) == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize("name", MODELS)
def test_all_about_one_model(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "models", name]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"name: {name}\n")
    for option in MODELS[name].options:
        assert re.search(rf"^    --{option.replace('_', '-')}\b", page, re.MULTILINE)
    assert all(f"\n{key}: " in page for key in ("good for", "equation", "per step", "to build W", "source"))
    assert listed(capsys, "models", name) == next(row for row in catalogue()["models"] if row["name"] == name)


AT_ONCE = ("--help", "--version", "list models", "list tasks", "list maps")
AT_ONCE += ("train --help", "train copy --help", "help train psmnist", "plot task dist-n --help")


@pytest.mark.parametrize("command", AT_ONCE)
def test_without_torch(command: str) -> None:
    """These answer at once: torch alone takes more than a second to import."""
    program = f"import sys; from engram.cli import main; main({command.split()!r}); "
    program += "print({'torch', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "set()"

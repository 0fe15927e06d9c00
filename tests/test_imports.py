"""Code of other people by name: what is found, what is refused and how it is told; the gate for names in files."""

import pickle
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from torch import nn

from engram.errors import OptionError
from engram.imports import absolute_names, check_allowed, code_hash, full_name, load, load_class, name_of

MODULE = """
from torch import nn
import helper

class Mine(nn.Module):
    size = helper.SIZE

class Plain:
    pass

value = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file, a module beside it that it imports, and a package."""
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "helper.py").write_text("SIZE = 7\n")
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "models.py").write_text(MODULE)
    (tmp_path / "some_package" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name == "helper" or name.startswith("some_package")]:
        del sys.modules[name]


def test_a_class_of_a_file_and_of_a_package(folder: Path) -> None:
    of_file = load_class("mine.py:Mine", nn.Module)
    assert of_file.size == 7  # type: ignore[attr-defined]
    assert load_class(str(folder / "mine.py") + ":Mine", nn.Module) is of_file  # the same path, loaded once
    assert name_of(of_file) == full_name("mine.py:Mine") == f"{(folder / 'mine.py').resolve()}:Mine"
    of_package = load_class("some_package.models:Mine", nn.Module)
    assert name_of(of_package) == full_name("some_package.models:Mine") == "some_package.models:Mine"
    assert of_package is not of_file


def test_new_contents_are_read(folder: Path) -> None:
    """Even within the second, and of the same length: what Python's own stored bytecode would not notice."""
    before = load("mine.py:value")
    (folder / "mine.py").write_text(MODULE.replace("value = 3", "value = 4"))
    assert (before, load("mine.py:value")) == (3, 4)


def test_two_files_of_one_name(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "mine.py").write_text("value = 9\n")
    assert (load("mine.py:value"), load("other/mine.py:value")) == (3, 9)
    assert "mine" not in sys.modules


def test_two_files_of_one_text(folder: Path) -> None:
    """Each is a module of its own, which finds what lies beside it, and its classes are found again where they are."""
    (folder / "other").mkdir()
    (folder / "other" / "mine.py").write_text(MODULE)
    here, there = load("mine.py:Mine"), load("other/mine.py:Mine")
    assert (name_of(here), name_of(there)) == (full_name("mine.py:Mine"), full_name("other/mine.py:Mine"))
    assert here is not there


def test_the_path_is_left_as_it_was(folder: Path) -> None:
    """A file finds what lies beside it while it is read, and not for ever; the current folder is added at the end,
    once, so that no file of it stands for a module of Python."""
    (folder / "other").mkdir()
    for name, text in (("a.py", "value = 1\n"), ("b.py", "1 / 0\n")):
        (folder / "other" / name).write_text(text)
    before = [*sys.path]
    load("other/a.py:value")
    with pytest.raises(OptionError, match="division by zero"):
        load("other/b.py:value")
    assert sys.path == before
    sys.path[:] = [place for place in before if place not in ("", str(folder))]
    before = [*sys.path]
    for _ in range(2):
        load("some_package.models:Mine")
        assert sys.path == [*before, str(folder)]


def test_a_file_that_changes_the_path(folder: Path) -> None:
    """What it takes away itself need not be taken away again."""
    (folder / "takes.py").write_text("import sys\nsys.path.remove(sys.path[0])\nvalue = 5\n")
    before = [*sys.path]
    assert load("takes.py:value") == 5
    assert sys.path == before


def test_names_within_names(folder: Path) -> None:
    """A class within a class; the hint names nothing private; a module of a file says where it is from."""
    (folder / "nested.py").write_text("class Outer:\n    class Inner:\n        pass\n_privat = where = 1\n")
    inner = load("nested.py:Outer.Inner")
    assert name_of(inner) == f"{(folder / 'nested.py').resolve()}:Outer.Inner"
    with pytest.raises(OptionError, match=r"there is no 'private' in nested\.py$"):
        load("nested.py:private")
    with pytest.raises(OptionError, match="Did you mean 'where'"):
        load("nested.py:wher")
    assert sys.modules[inner.__module__].__file__ == str((folder / "nested.py").resolve())
    assert inner.__module__.startswith("engram_file_nested_")


REFUSED = {
    "nothing.py:Mine": r"nothing\.py cannot be read: No such file",
    "mine.py:Mein": r"there is no 'Mein' in mine\.py\. Did you mean 'Mine'\?",
    "mine.py:Plain": r"mine\.py:Plain must be a subclass of torch\.nn\.\S*Module; it is the class Plain",
    "mine.py:value": r"must be a subclass of .*; it is of type int",
    "broken.py:Mine": r"broken\.py cannot be imported: ZeroDivisionError: division by zero",
    "syntax.py:Mine": r"syntax\.py cannot be imported: SyntaxError",
    "leaves.py:Mine": r"leaves\.py cannot be imported: SystemExit",
    "needy.py:Mine": r"needy\.py cannot be imported: ModuleNotFoundError: No module named 'not_there_at_all'",
    "nowhere.models:Mine": "there is no module 'nowhere', here or installed",
    "some_package.needy:Mine": "some_package.needy cannot be imported: it needs not_there_at_all, which is not",
    "some_package.nothing:Mine": "there is no module 'some_package.nothing', here or installed",
    "mine.py:": "is named as package.module:Class or file.py:Class, got 'mine.py:'",
    ":Mine": "is named as package.module:Class or file.py:Class",
    "mine.py:not a name": "is named as package.module:Class or file.py:Class",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_loaded(name: str, folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "syntax.py").write_text("class\n")
    (folder / "leaves.py").write_text("import sys; sys.exit(3)\n")
    (folder / "needy.py").write_text("import not_there_at_all\n")
    (folder / "some_package" / "needy.py").write_text("import not_there_at_all\n")
    modules = {*sys.modules}
    with pytest.raises(OptionError, match=REFUSED[name]) as told:
        load_class(name, nn.Module)
    assert "\n" not in str(told.value)
    left = {module for module in {*sys.modules} - modules if module.startswith("engram_file_")}
    assert all("mine" in module for module in left)  # what failed to load leaves nothing behind


ALLOWED = [
    ("copy", ()),  # engram's own
    ("a.b.models:Mine", ["a"]),
    ("a.b.models:Mine", ["c", "a.b"]),
    ("a.b.models:Mine", ["a.b.models"]),
    ("a.b.models:Mine", ["a.b.models:Mine"]),
    ("a.b.models:Mine", "a"),
    ("mine.py:Mine", ["mine.py"]),
    ("mine.py:Mine", ["mine.py:Mine"]),
    ("/tmp/x/../mine.py:Mine", ["/tmp/mine.py"]),
]
NOT_ALLOWED = [
    ("a.b.models:Mine", (), "a"),
    ("a.b.models:Mine", ["b", "a.b.model", "a.b.models.c", ""], "a"),
    ("ab.models:Mine", ["a"], "ab"),
    ("torch.nn:LSTM", (), "torch"),
    ("engram.nn:RNN", (), "engram"),
    ("/x/mine.py:Mine", (), "/x/mine.py"),
    ("/x/mine.py:Mine", ["mine", "/x", "/x/other.py", "mine.py"], "/x/mine.py"),
]


@pytest.mark.parametrize(("name", "allow"), ALLOWED)
def test_allowed(name: str, allow: list[str]) -> None:
    check_allowed(name, allow)


@pytest.mark.parametrize(("name", "allow", "permit"), NOT_ALLOWED)
def test_not_allowed(name: str, allow: list[str], permit: str) -> None:
    """One line that names the code and says what to type."""
    with pytest.raises(OptionError, match="is code outside engram") as told:
        check_allowed(name, allow)
    assert str(told.value).startswith(name)
    assert f"--allow {permit} " in str(told.value)


def test_names_that_hold_from_any_folder(folder: Path) -> None:
    """Of files the whole path, without the class; what is no file stays as it is, and nothing is dropped."""
    path = str((folder / "mine.py").resolve())
    assert absolute_names(["mine.py", "mine.py:Mine", "a.b:C", "a", ""]) == (path, path, "a.b:C", "a")
    assert absolute_names("mine.py") == (path,)
    assert absolute_names(()) == ()


def test_a_hash_tells_that_the_code_was_changed(folder: Path) -> None:
    kind = load("mine.py:Mine")
    before = code_hash(kind)
    assert before == sha256(MODULE.encode()).hexdigest()[:12]
    (folder / "mine.py").write_text(MODULE + "# more\n")
    assert code_hash(kind) != before
    (folder / "mine.py").unlink()
    assert code_hash(kind) == code_hash(int) == ""


def test_what_has_no_name() -> None:
    class Local:
        pass

    with pytest.raises(OptionError, match="define it at the top of a file"):
        name_of(Local)


def test_a_task_of_a_file_is_pickled_by_its_name(folder: Path) -> None:
    """Another process has no such module and reads the file again."""
    from engram.tasks import Copy, make_task, task_name

    (folder / "mytask.py").write_text(
        "from dataclasses import dataclass\nfrom engram.tasks import Copy\n"
        "@dataclass(frozen=True)\nclass Mine(Copy):\n    more: int = 1\n"
    )
    task = make_task("mytask.py:Mine", delay=4, more=5)
    assert isinstance(task, Copy)
    assert task_name(task) == full_name("mytask.py:Mine")  # though it has inherited the name copy
    content = pickle.dumps(task)
    kind = sys.modules.pop(type(task).__module__)
    again = pickle.loads(content)
    assert again.options() == task.options() == {"delay": 4, "length": 10, "layout": "after", "more": 5}
    assert type(again).__module__ == kind.__name__
    with pytest.raises(OptionError, match=r"unknown option 'dealy' of mytask.py:Mine.*Did you mean 'delay'"):
        make_task("mytask.py:Mine", dealy=4)
    with pytest.raises(OptionError, match=r"must be a subclass of engram\.tasks"):
        make_task("helper.py:SIZE")

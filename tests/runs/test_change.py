"""Runs removed, renamed and archived; what is refused stays as it was."""

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from filelock import FileLock

from engram.errors import EngramError, OptionError, RunError
from engram.runs import archive_run, contents, list_runs, remove_run, rename_run
from engram.runs._archive import _pack as PACK
from made_runs import make_run


def files(folder: Path) -> dict[str, str]:
    """Everything below a folder, by name and hash; the lock is no content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
        if path.name != "lock"
    }


ACTIONS: dict[str, Callable[[Path], object]] = {
    "remove": remove_run,
    "rename": lambda folder: rename_run(folder, "new"),
    "archive": archive_run,
}


@pytest.fixture(params=ACTIONS)
def action(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return ACTIONS[request.param]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs" / "first")


def test_remove(run: Path) -> None:
    other = make_run(run.with_name("second"))
    before = files(other)
    (run / "notes.txt").write_text("mine")
    (run / "sub").mkdir()
    remove_run(run)
    assert [entry.name for entry in run.parent.iterdir()] == ["second"]
    assert files(other) == before


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
def test_remove_does_not_follow_links(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (run / "link").symlink_to(outside)
    (run / "file").symlink_to(outside / "precious")
    assert contents(run).others == ("file", "link")
    remove_run(run)
    assert not run.exists()
    assert (outside / "precious").read_text() == "x"


def test_refused_for_what_is_not_a_run(action: Callable[[Path], object], run: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "file").touch()
    (tmp_path / "link").symlink_to(run)
    for folder, words in (
        (plain, "no run.json"),
        (tmp_path / "none", "no such folder"),
        (plain / "file", "no such folder"),
        (tmp_path / "link", "is a link"),
        (run.parent, "no run.json"),
        (run / "..", "no such folder"),
        (Path(), "no such folder"),
    ):
        with pytest.raises(RunError, match=words):
            action(folder)
    assert files(plain) == {"file": hashlib.sha256().hexdigest()}
    assert run.is_dir()


def test_refused_while_in_use(action: Callable[[Path], object], run: Path) -> None:
    before = files(run.parent)
    with FileLock(run / "lock"), pytest.raises(RunError, match="in use"):
        action(run)
    (run / "lease.3").write_text("{}")
    with pytest.raises(RunError, match="in use"):
        action(run)
    (run / "lease.3").unlink()
    assert files(run.parent) == before


def test_refused_with_a_run_inside(action: Callable[[Path], object], run: Path) -> None:
    make_run(run / "inner")
    before = files(run.parent)
    with pytest.raises(RunError, match="another run within it, inner"):
        action(run)
    assert files(run.parent) == before


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
def test_refused_where_the_lock_is_a_link(action: Callable[[Path], object], run: Path, tmp_path: Path) -> None:
    (run / "lock").unlink()
    (run / "lock").symlink_to(tmp_path / "planted")
    with pytest.raises(RunError, match="symbolic link"):
        action(run)
    assert not (tmp_path / "planted").exists()
    assert run.is_dir()


def test_what_is_in_a_run(run: Path) -> None:
    """Sizes of all files; those of TensorBoard are engram's, what stands in a folder of its own is not."""
    before = contents(run)
    assert before.size == sum(path.stat().st_size for path in run.iterdir())
    for name in ("tensorboard/events.0", "tensorboard/deep/notes", "mine/run.txt"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(bytes(1000))
    found = contents(run)
    assert found.size == before.size + 3000
    assert found.others == ("mine/run.txt", "tensorboard/deep/notes")
    assert found.folders == ("mine", "tensorboard", "tensorboard/deep")


def test_rename(run: Path) -> None:
    before = files(run)
    assert rename_run(run, "better name") == run.with_name("better name")
    assert files(run.with_name("better name")) == before
    assert not run.exists()


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "..",
        ".",
        "",
        "a/b",
        "/tmp/x",
        ".hidden",
        "-rf",
        "a\nb",
        "\x1b[31m",
        "a\\b",
        "x" * 201,
        "ä" * 101,
        " x",
        "a:b",
    ],
)
def test_names_that_are_refused(name: str, run: Path) -> None:
    with pytest.raises(OptionError, match="a name"):
        rename_run(run, name)
    assert run.is_dir()


def test_rename_takes_no_name_that_is_taken(run: Path) -> None:
    (run.parent / "empty").mkdir()
    (run.parent / "file").touch()
    (run.parent / "link").symlink_to("nowhere")
    for name in ("empty", "file", "link", "first"):
        with pytest.raises(RunError, match="there already"):
            rename_run(run, name)
    assert {entry.name for entry in run.parent.iterdir()} == {"first", "empty", "file", "link"}


@pytest.mark.parametrize(
    "name", ["result.json", "rung-100.json", "rung-100.json.0123456789abcdef.new", "result.json.new"]
)
def test_a_run_of_a_sweep_keeps_its_name(run: Path, name: str) -> None:
    (run / name).write_text("{}")
    assert contents(run).others == ()
    with pytest.raises(RunError, match="of a sweep"):
        rename_run(run, "new")


def test_archive_and_back(run: Path) -> None:
    (run / "sub").mkdir()
    (run / "sub" / "notes ü.txt").write_text("mine")
    (run / "empty").mkdir()
    os.link(run / "stdout.log", run / "second name")
    before = files(run)
    path = archive_run(run)
    assert path == run.with_name("first.tar.gz")
    assert [entry.name for entry in run.parent.iterdir()] == ["first.tar.gz"]
    with tarfile.open(path) as archive:
        archive.extractall(run.parent, filter="data")
    assert files(run) == before
    assert [row.name for row in list_runs(run.parent)] == ["first"]


def test_an_archive_is_never_replaced(run: Path) -> None:
    run.with_name("first.tar.gz").write_text("older")
    with pytest.raises(RunError, match="there already"):
        archive_run(run)
    assert run.with_name("first.tar.gz").read_text() == "older"
    assert run.is_dir()


def test_links_are_not_packed(run: Path) -> None:
    (run / "link").symlink_to("run.json")
    with pytest.raises(RunError, match="link or a special file"):
        archive_run(run)
    assert [entry.name for entry in run.parent.iterdir()] == ["first"]


@pytest.mark.parametrize("when", ["_pack", "_compare", "_appear"])
def test_what_fails_leaves_the_run(when: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk before the archive has its name: nothing is left of it, and the run is whole."""
    before = files(run.parent)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"engram.runs._archive.{when}", full)
    with pytest.raises(RunError, match=r"No space left on device.*the run is intact"):
        archive_run(run)
    assert files(run.parent) == before


@pytest.mark.parametrize("name", ["new file", "stdout.log"])
def test_a_file_that_changes_while_it_is_packed(name: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def and_change(folder: Path, folders: Iterable[str], names: Iterable[str], new: Path) -> None:
        PACK(folder, folders, names, new)
        (folder / name).write_text("late")

    monkeypatch.setattr("engram.runs._archive._pack", and_change)
    with pytest.raises(RunError, match="changed while it was packed"):
        archive_run(run)
    assert (run / name).read_text() == "late"
    assert {entry.name for entry in run.parent.iterdir()} == {"first"}


def test_an_archive_that_was_damaged_on_disk(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def and_damage(folder: Path, folders: Iterable[str], names: Iterable[str], new: Path) -> None:
        PACK(folder, folders, names, new)
        content = bytearray(new.read_bytes())
        content[len(content) // 2] ^= 255
        new.write_bytes(content)

    monkeypatch.setattr("engram.runs._archive._pack", and_damage)
    before = files(run.parent)
    with pytest.raises(EngramError, match=r"cannot be read back|changed while"):
        archive_run(run)
    assert files(run.parent) == before

"""Files from strangers: what is refused, and that nothing is written through a link."""

import gzip
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engram import files
from engram.errors import FileError
from engram.files import (
    beside,
    check_plain,
    gunzip,
    one_line,
    open_to_append,
    parse_json,
    prepare,
    printable,
    publish,
    read_bounded,
    read_json,
    seal,
    sealed,
    sha256,
    sync_folder,
    unseal,
    write_whole,
)

posix = pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")


# Traps: what may stand where a plain file is expected


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def dangling_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("made through the link"))


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def device(path: Path, outside: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


TRAPS = {
    link: "it is a symbolic link",
    dangling_link: "it is a symbolic link",
    folder: "it is a folder",
    pipe: "it is a pipe",
    device: "it is a device",
}
READERS: dict[str, Callable[[Path], Any]] = {
    "read_bounded": lambda path: read_bounded(path, 10),
    "read_json": lambda path: read_json(path, 10),
    "open_to_append": open_to_append,
    "check_plain": check_plain,
}


@posix
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("trap", TRAPS)
def test_traps_are_not_opened(trap: Callable[[Path, Path], None], name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("{}")
    trap(tmp_path / "file", outside)
    with pytest.raises(FileError, match=f"{TRAPS[trap]}, and must be a plain file"):
        READERS[name](tmp_path / "file")
    assert outside.read_text() == "{}"
    assert not (tmp_path / "made through the link").exists()


def write_in_halves(path: Path, content: bytes) -> None:
    prepare(path, content)
    publish(path)


@posix
@pytest.mark.parametrize("write", [write_whole, write_in_halves])
@pytest.mark.parametrize("trap", [link, dangling_link, pipe])
@pytest.mark.parametrize("where", ["file", "file.new"])
def test_a_write_follows_no_trap(where: str, trap: Any, write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    """One that stands where a person wants a file is refused; in a run directory, which is ours, it is replaced."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    trap(tmp_path / where, outside)
    if write is write_whole and where == "file":
        with pytest.raises(FileError, match=r"file could not be written: it is a (symbolic link|pipe), and must be"):
            write(tmp_path / "file", b"whole")
    else:
        write(tmp_path / "file", b"whole")
        assert read_bounded(tmp_path / "file", 10) == b"whole"
    assert outside.read_text() == "mine"
    assert not (tmp_path / "made through the link").exists()


@posix
def test_a_link_made_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody puts a link where content is to wait for its name, after what stood there was taken away."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    unlink = Path.unlink

    def and_link(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        path.symlink_to(outside)

    monkeypatch.setattr(Path, "unlink", and_link)
    with pytest.raises(FileExistsError):
        prepare(tmp_path / "file", b"whole")
    monkeypatch.undo()
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("write", [write_whole, write_in_halves])
def test_a_write_that_fails_leaves_nothing(write: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises((OSError, FileError), match="file"):
        write(tmp_path / "file", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("write", [write_whole, write_in_halves])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_full_disk_leaves_the_old_content(
    error: BaseException, write: Callable[[Path, bytes], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def full(handle: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(type(error)):
        write(tmp_path / "file", b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_several_may_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another write of the same file, between the content of this one and its name, takes nothing from it."""
    sync, more = os.fsync, [b"second"]

    def and_another(handle: int) -> None:
        sync(handle)
        if more:
            write_whole(tmp_path / "file", more.pop())

    monkeypatch.setattr(os, "fsync", and_another)
    write_whole(tmp_path / "file", b"first")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"first")]


@posix
@pytest.mark.parametrize("trap", [folder, pipe])
def test_another_file_at_the_last_moment(
    trap: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at again once it is open: it may have changed since. What was opened is closed."""
    trap(tmp_path / "file", tmp_path)
    monkeypatch.setattr(files, "check_plain", lambda path: None)
    opened, closed = [], []
    open_, close = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *words: opened.append(open_(*words)) or opened[-1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(os, "close", lambda handle: (closed.append(handle), close(handle)))
    with pytest.raises(FileError, match="it must be a plain file"):
        read_bounded(tmp_path / "file", 10)
    assert opened == closed != []


def handles() -> int:
    folder = Path("/proc/self/fd")
    return len([*folder.iterdir()]) if folder.exists() else 0


@posix
def test_what_is_opened_is_closed(tmp_path: Path) -> None:
    """However it ends: a thousand refusals would use up all the handles of a process."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "other").hardlink_to(tmp_path / "file")
    before = handles()
    for action in (lambda path: read_bounded(path, 4), open_to_append):
        with pytest.raises(FileError):
            action(tmp_path / "file")
    read_bounded(tmp_path / "file", 5)
    write_whole(tmp_path / "third", b"")
    assert handles() == before


def test_a_folder_is_not_synced_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "os", SimpleNamespace(name="nt"))  # which has no open: it would fail
    sync_folder(tmp_path)


def test_what_is_prepared_is_not_yet_there(tmp_path: Path) -> None:
    prepare(tmp_path / "file", b"new")
    assert not (tmp_path / "file").exists()
    assert beside(tmp_path / "file").read_bytes() == b"new"


@posix
@pytest.mark.parametrize("write", [write_whole, write_in_halves])
def test_content_is_on_the_disk_before_its_name(
    write: Callable[[Path, bytes], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First all of it, then the name, then the folder that has the name: whenever the power fails, it is whole."""
    seen: list[str] = []

    def sync(handle: int) -> None:
        found = os.fstat(handle)
        named = (tmp_path / "file").exists()
        seen.append(f"folder, named {named}" if stat.S_ISDIR(found.st_mode) else f"{found.st_size}, named {named}")

    monkeypatch.setattr(os, "fsync", sync)
    write(tmp_path / "file", b"whole")
    assert seen == ["5, named False", "folder, named True"]


def test_a_file_to_append_to(tmp_path: Path) -> None:
    for line in (b"one\n", b"two\n"):
        with open_to_append(tmp_path / "file") as file:
            file.write(line)
    assert (tmp_path / "file").read_bytes() == b"one\ntwo\n"


def test_bounded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bounded(tmp_path / "file", 5) == b"12345"
    with pytest.raises(FileError, match="it has 5 bytes, and at most 4 are read"):
        read_bounded(tmp_path / "file", 4)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "none", 4)


def test_gunzip() -> None:
    packed = gzip.compress(b"0" * 10**6)
    assert gunzip(packed, 10**6) == b"0" * 10**6
    with pytest.raises(FileError, match="unpacks to more than 999,999 bytes"):
        gunzip(packed, 10**6 - 1)
    for broken in (b"no gzip", packed[:-9], packed[:20] + b"?" + packed[21:]):
        with pytest.raises(FileError, match="not a whole gzip file"):
            gunzip(broken, 10**7)


# JSON

WRONG_JSON = {
    b"": "it is empty",
    b" \n": "it is empty",
    b"no": "it is not JSON",
    b"\xff{}": "it is not JSON",
    b'{"a": 1, "a": 2}': "it has 'a' twice in one object",
    b'[{"b": {"a": 1, "a": 1}}]': "it has 'a' twice in one object",
    b"[NaN]": "the number NaN, which is not finite",
    b"[-Infinity]": "the number -Infinity, which is not finite",
    b"[1e400]": "the number 1e400, which is not finite",
    b"-" + b"9" * 1000: "a number of 1,001 digits",
    b"9" * 1001: "a number of 1,001 digits, and at most 1,000 are read",
    b"9" * 10**5: "a number of 100,000 digits",
    b"[" * 101 + b"]" * 101: "nested more than 100 deep",
    b'{"a":' * 101 + b"1" + b"}" * 101: "nested more than 100 deep",
    b"[" * 10**5: "it is not JSON",
}


@pytest.mark.parametrize("content", WRONG_JSON, ids=lambda content: repr(content[:12]))
def test_wrong_json(content: bytes) -> None:
    with pytest.raises(FileError, match=WRONG_JSON[content]) as caught:
        parse_json(content)
    assert "\n" not in str(caught.value)


def test_right_json() -> None:
    value = {"a": [1, -2.5, "é", None, True, {}], "b": 10**999, "c": {"a": [[[]]]}}
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(b"9" * 1000) == 10**1000 - 1  # as many digits as may be, and as many levels
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        parse_json(opened * 99 + b"[]" + closed * 99)
    assert parse_json(b"[Infinity, 1e999]", finite=False) == [float("inf"), float("inf")]


# Seals


def test_seals() -> None:
    values = {"b": 1, "a": [0.1, "é"]}
    content = json.loads(sealed(values))
    assert list(content) == ["b", "a", "seal"]
    assert unseal(content) == values
    assert unseal(dict(sorted(content.items()))) == values
    assert seal(values) == content["seal"]
    for changed in ({**content, "b": 2}, {**content, "c": 1}, {"b": 1, "seal": content["seal"]}):
        with pytest.raises(FileError, match="does not match its seal"):
            unseal(changed)
    for none in (values, [], "seal", None):
        with pytest.raises(FileError, match="it has no seal"):
            unseal(none)


def test_the_seals_of_checkpoints_of_version_0_1() -> None:
    values = {"step": 3, "best": {"loss": float("inf")}}
    assert unseal({**values, "seal": sha256(json.dumps(values, indent=1).encode())}) == values


# Text


def test_printable() -> None:
    assert printable("é 字 \N{GRINNING FACE} ok") == "é 字 \N{GRINNING FACE} ok"
    for control in ("\n", "\r", "\t", "\x1b", "\x00", "\x85", "\u2028", "\u202e", "\ud800", "\x9b"):
        assert printable(f"a{control}b") == "a b"


def test_one_line_of_what_another_library_said() -> None:
    assert one_line("expected:\n    a matrix\n\tof \x1b[31mreal numbers") == "expected: a matrix of  [31mreal numbers"
    assert one_line("a" * 5000) == "a" * 2000
    assert one_line("abc\ndef", most=5) == "abc d"


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="no /dev/null here")
def test_a_device_is_not_replaced() -> None:
    """As root, a rename would put a plain file in the place of /dev/null."""
    with pytest.raises(FileError, match="it is a device"):
        write_whole(Path("/dev/null"), b"content")
    assert Path("/dev/null").is_char_device()


@posix
def test_a_second_name_is_no_place_to_append(tmp_path: Path) -> None:
    """A hard link: what is appended to one name stands in the other too."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "file").hardlink_to(tmp_path / "mine")
    with pytest.raises(FileError, match="it has a second name"):
        open_to_append(tmp_path / "file")
    assert (tmp_path / "mine").read_text() == "mine"

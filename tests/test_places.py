"""What this machine has: folders that are private, memory in megabytes."""

import builtins
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engram import places
from engram.errors import OptionError
from engram.places import cache_folder, check_fits, free_memory, why_not_private

posix = pytest.mark.skipif(os.name == "nt", reason="owners and modes of POSIX")


def test_where_things_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$ENGRAM_CACHE as it is; else a folder of ours within the user's cache folder. Empty counts as not set."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("ENGRAM_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "engram"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path.home() / ".cache" / "engram"


@posix
def test_who_could_write_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither group nor others may write; who reads does not matter. A link and another's folder are not ours."""
    for mode, private in ((0o700, True), (0o755, True), (0o744, True), (0o770, False), (0o702, False), (0o720, False)):
        tmp_path.chmod(mode)
        assert (why_not_private(tmp_path) == "") == private, oct(mode)
    tmp_path.chmod(0o700)
    (tmp_path / "link").symlink_to(tmp_path)
    assert "is a link" in why_not_private(tmp_path / "link")
    assert "No such file" in why_not_private(tmp_path / "none")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert why_not_private(tmp_path).endswith("belongs to another user")


@posix
def test_modes_say_nothing_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setattr(places, "os", SimpleNamespace(name="nt"))
    assert why_not_private(tmp_path) == ""
    assert "is a link" in why_not_private(tmp_path / "link")


@posix
def test_a_file_may_be_private_and_a_pipe_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert why_not_private(tmp_path / "file") == ""
    assert why_not_private(tmp_path / "pipe").endswith("is a link or a special file")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The pseudo files of a machine that is made up; one that is not in it is not there."""
    found: dict[str, str] = {}

    def text(path: Any) -> str:
        if str(path) not in found:
            raise FileNotFoundError(str(path))
        return found[str(path)]

    monkeypatch.setattr(builtins, "open", lambda path, *_, **__: io.StringIO(text(path)))
    monkeypatch.setattr(places, "Path", type("Pseudo", (type(Path()),), {"read_text": lambda self: text(self)}))
    return found


MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8192000 kB\n"
GROUP = "/sys/fs/cgroup/memory."


@posix
def test_free_memory(machine: dict[str, str]) -> None:
    """In MB: of the machine what is available; in a container its limit less what is used, except for what the system
    gives back by itself; whatever is less. Numbers by hand."""
    machine["/proc/meminfo"] = MEMINFO
    assert free_memory() == 8192.0
    machine[GROUP + "stat"] = "anon 1\ninactive_file 500000000\n"
    machine[GROUP + "current"] = "2500000000\n"
    machine[GROUP + "max"] = "3000000000\n"
    assert free_memory() == 1000.0  # (3000 - (2500 - 500)) MB
    machine[GROUP + "max"] = "90000000000\n"
    assert free_memory() == 8192.0
    machine[GROUP + "max"] = "max\n"  # no limit
    assert free_memory() == 8192.0


@posix
def test_a_machine_that_does_not_say(machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """So many pages of so many bytes; 4 GB where nothing tells."""
    for text in ("", "MemTotal: 1 kB\n"):
        machine["/proc/meminfo"] = text
        monkeypatch.setattr(os, "sysconf", {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__)
        assert free_memory() == 4.096
        monkeypatch.setattr(os, "sysconf", lambda _: 1 // int(""))  # ValueError: no such name here
        assert free_memory() == 4000.0


def test_what_fits() -> None:
    """Four bytes for each number, a million bytes to an MB."""
    check_fits("a matrix", 25 * 10**7, 1000.0, "rows")  # exactly 1000 MB
    with pytest.raises(OptionError) as told:
        check_fits("a matrix", 26 * 10**7, 1000.4, "rows")
    assert str(told.value) == (
        "a matrix needs 1,040 MB or more (260,000,000 numbers), and 1,000 MB are free: choose fewer rows"
    )

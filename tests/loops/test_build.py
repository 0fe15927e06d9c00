"""Compiling at first use: kept, shared, and never needed. Whatever goes wrong, the loop of torch operations runs."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engram.loops import _build

STATUS = "import json; from engram.loops import status; print(json.dumps(status()))"
NUMBERS = """
import torch
from engram.loops import additive, use
weight = torch.full((3, 3), 0.1, dtype=torch.float64, requires_grad=True)
rest = torch.ones(4, 2, 3).double(), torch.eye(3).double(), None, weight, torch.zeros(2, 3).double()
def found(kernel):
    with use(kernel):
        return torch.autograd.grad(additive(*rest)[0].sum(), weight)[0]
torch.testing.assert_close(found("auto"), found("plain"), rtol=0, atol=1e-10)
"""
SCRUBBED = ("CC", "ENGRAM_KERNEL", "ENGRAM_COMPILE", "ENGRAM_CFLAGS")

Attempt = Callable[..., str]
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")


def start(program: str, cache: Path, **changes: str) -> subprocess.Popen[str]:
    """A fresh interpreter, in which nothing is compiled yet."""
    kept = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
    environment = {**kept, "ENGRAM_CACHE": str(cache), **changes}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True, env=environment)


def status(process: subprocess.Popen[str]) -> dict[str, str]:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Compile float32 anew in this process, in another environment; returns the reason, as in ``status()``."""

    def try_it(cache: Path, **changes: str) -> str:
        monkeypatch.setattr(_build, "_reasons", {})
        for name in SCRUBBED:
            monkeypatch.delenv(name, raising=False)
        for name, value in {"ENGRAM_CACHE": str(cache), **changes}.items():
            monkeypatch.setenv(name, value)
        library = _build._library.__wrapped__(torch.float32)
        reason = _build._reasons[torch.float32]
        assert (library is not None) == reason.startswith("compiled")
        return reason

    return try_it


def test_turned_off(tmp_path: Path) -> None:
    """The whole way: no library, a reason, and the right numbers."""
    found = status(start(NUMBERS + STATUS, tmp_path, ENGRAM_COMPILE="0"))
    assert found["float32"] == found["float64"] == "turned off by ENGRAM_COMPILE=0"
    assert not list(tmp_path.iterdir())


def test_no_compiler(tmp_path: Path) -> None:
    found = status(start(STATUS, tmp_path, PATH=str(tmp_path)))  # an empty folder
    assert found["float32"] == found["float64"] == "no C compiler found (looked for $CC, cc, gcc, clang)"


def test_compiler_that_always_fails(tmp_path: Path) -> None:
    false = shutil.which("false")
    assert false is not None
    found = status(start(STATUS, tmp_path, CC=false))
    assert "could not compile additive.c" in found["float32"]
    assert "could not compile additive.c" in found["float64"]


BROKEN = {
    "fails": ("echo 'no such machine' >&2; exit 1", "could not compile additive.c: no such machine"),
    "fails in another alphabet": (r"printf '\377\376' >&2; exit 1", "could not compile additive.c"),
    "writes nothing": ("exit 0", "No such file"),
    "writes nonsense": ('while [ "$1" != -o ]; do [ $# = 0 ] && exit; shift; done; echo hello > "$2"', "too short"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_compiler(tmp_path: Path, how: str, attempt: Attempt) -> None:
    text, reason = BROKEN[how]
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\n{text}\n")
    compiler.chmod(0o755)
    assert reason in attempt(tmp_path / "cache", CC=str(compiler))


@needs_compiler
def test_cache_cannot_be_written(tmp_path: Path, attempt: Attempt) -> None:
    """A file where the folder should be: permissions would not stop a privileged user."""
    (tmp_path / "cache").write_text("in the way")
    assert attempt(tmp_path / "cache").startswith("compiled for this process alone: ")


@needs_compiler
@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
@pytest.mark.parametrize("what", ["folder", "library"])
@pytest.mark.parametrize("fault", ["group", "others", "owner", "link"])
def test_a_cache_that_others_can_write(
    tmp_path: Path, what: str, fault: str, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading a library runs it: one that somebody else could have put there is not loaded."""
    good = attempt(tmp_path)
    folder = tmp_path / "loops"
    (library,) = folder.glob("*.so")
    path = folder if what == "folder" else library
    if fault == "owner":
        mine, lstat = os.geteuid(), Path.lstat
        monkeypatch.setattr(os, "geteuid", lambda: mine + (1 if what == "folder" else 0))
        if what == "library":  # only a privileged user could give it away
            fields = [*library.lstat()]
            fields[4] = mine + 1
            monkeypatch.setattr(Path, "lstat", lambda p: os.stat_result(fields) if p == library else lstat(p))
    elif fault == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.chmod(path.stat().st_mode | (0o020 if fault == "group" else 0o002))
    loaded: list[str] = []
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (loaded.append(name), load(name))[1])
    reason = attempt(tmp_path)
    assert len(loaded) == 1
    if what == "folder":
        assert reason.startswith("compiled for this process alone: ")
        assert not loaded[0].startswith(str(folder))
    else:  # made anew in its place
        assert reason == good
        assert fault == "owner" or not _build.why_not_private(library)


@needs_compiler
def test_compiled_once(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time the library is found: the compiler is only asked for its version."""
    first = attempt(tmp_path)
    assert first.startswith("compiled: ")
    asked: list[list[str]] = []
    run = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: (asked.append(command), run(command, **options))[1]
    )
    assert attempt(tmp_path) == first
    assert [command[1:] for command in asked] == [["--version"]]


@needs_compiler
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.7], ids=["emptied", "cut at 30 %", "cut at 70 %"])
def test_damaged_library_is_made_anew(tmp_path: Path, keep: float, attempt: Attempt) -> None:
    """Loading a truncated library ends the process with a bus error: it must be noticed before."""
    attempt(tmp_path)
    (library,) = (tmp_path / "loops").glob("*.so")
    content = library.read_bytes()
    library.unlink()  # this process has it loaded: damage a new file, not that one
    library.write_bytes(content[: int(keep * len(content))])
    assert attempt(tmp_path).startswith("compiled: ")
    assert any(path.read_bytes() == content for path in (tmp_path / "loops").glob("*.so"))


@needs_compiler
def test_two_processes_at_once(tmp_path: Path) -> None:
    """Both find an empty cache and compile; both end with whole libraries, and no scratch folder is left."""
    for process in [start(STATUS, tmp_path), start(STATUS, tmp_path)]:
        assert all(words == "auto" or words.startswith("compiled: ") for words in status(process).values())
    assert {path.suffix for path in (tmp_path / "loops").iterdir()} == {".so"}


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$ENGRAM_CACHE, else engram in $XDG_CACHE_HOME, else in ~/.cache; empty counts as unset."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for own, xdg, folder in (("own", "xdg", "own"), ("", "xdg", "xdg/engram"), ("", "", ".cache/engram")):
        monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path / own) if own else "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / xdg) if xdg else "")
        assert _build.cache_folder() == tmp_path / folder

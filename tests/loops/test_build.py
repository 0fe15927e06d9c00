"""Compiling at first use: kept, shared, and never needed. Whatever goes wrong, there is a reason in words."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from engram.loops import _build, _compilers
from engram.loops._library_names import LEVELS
from prepared import Prepared

SOURCE = '#include "runtime.h"\nREAL twice(REAL x) { return 2 * x; }\n'
PROGRAM = f"""
import json, torch
from engram.loops._build import library, reason
def found(dtype):
    return reason("twice", {SOURCE!r}, dtype)
print(json.dumps([found(torch.float32), found(torch.float64)]))
"""
SCRUBBED = ("CC", "ENGRAM_COMPILE", "ENGRAM_CFLAGS")
NONE = "no C compiler found (looked for $CC, cc, gcc, clang and the package ziglang)"

Attempt = Callable[..., str]
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
needs_modes = pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")


def start(cache: Path, program: str = PROGRAM, **changes: str) -> subprocess.Popen[str]:
    """A fresh interpreter, in which nothing is compiled yet."""
    kept = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
    environment = {**kept, "ENGRAM_CACHE": str(cache), **changes}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True, env=environment)


def reasons(process: subprocess.Popen[str]) -> list[str]:
    """Of float32 and float64."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Look for the library of SOURCE in float32 as a new process would, in another environment; returns the reason."""

    def try_it(cache: Path, source: str = SOURCE, **changes: str) -> str:
        for name in SCRUBBED:
            monkeypatch.delenv(name, raising=False)
        for name, value in {"ENGRAM_CACHE": str(cache), **changes}.items():
            monkeypatch.setenv(name, value)
        library, reason = _build._find("twice", source, torch.float32)
        assert (library is not None) == reason.startswith("compiled")
        if library is not None:
            library.twice.restype, library.twice.argtypes = ctypes.c_float, [ctypes.c_float]
            assert library.twice(1.5) == 3.0
        return reason

    return try_it


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_turned_off(tmp_path: Path, attempt: Attempt) -> None:
    assert attempt(tmp_path, ENGRAM_COMPILE="0") == "turned off by ENGRAM_COMPILE=0"
    assert not list(tmp_path.iterdir())


def test_no_compiler(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compilers, "find_spec", lambda name: None)  # the package ziglang
    assert attempt(tmp_path, PATH=str(tmp_path)) == NONE  # an empty folder


def test_other_dtypes() -> None:
    for dtype in (torch.float16, torch.complex64):
        assert _build.library("twice", SOURCE, dtype) is None
        assert _build.reason("twice", SOURCE, dtype) == f"no compiled loop for {dtype}"


CUT = 'while [ "$1" != -o ]; do [ $# = 0 ] && exit; shift; done; '
BROKEN = {
    "fails": ("echo 'no such machine' >&2; exit 1", "could not compile twice.c: no such machine"),
    "fails in another alphabet": (r"printf '\377\376' >&2; exit 1", "could not compile twice.c: \ufffd\ufffd"),
    "writes nothing": ("exit 0", "wrote no library for twice.c"),
    "writes nonsense": (CUT + 'echo hello > "$2"', "too short"),
    "writes a long nonsense": (CUT + 'head -c 9000 /dev/zero > "$2"', "invalid ELF header"),
    "is killed": ("kill -9 $$", "could not compile twice.c"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_compiler(tmp_path: Path, how: str, attempt: Attempt) -> None:
    text, reason = BROKEN[how]
    assert reason in attempt(tmp_path / "cache", CC=script(tmp_path / "compiler", text))
    assert list((tmp_path / "cache" / "loops").iterdir()) == []


@needs_compiler
@pytest.mark.parametrize("percent", [20, 50, 90])
def test_compiler_that_writes_half_a_library(tmp_path: Path, percent: int, attempt: Attempt) -> None:
    """To load it would end this process with a bus error."""
    cut = f'size=$(wc -c < "$2"); truncate -s $((size * {percent} / 100)) "$2"'
    compiler = script(tmp_path / "compiler", f'cc "$@" || exit 1; {CUT}{cut}')
    assert "could not compile twice.c: the library was cut at " in attempt(tmp_path / "cache", CC=compiler)
    assert list((tmp_path / "cache" / "loops").iterdir()) == []


@needs_compiler
def test_library_that_does_not_load(tmp_path: Path, attempt: Attempt) -> None:
    """It compiles and links; what it calls is nowhere. It is not kept, and the reason names what is missing."""
    source = '#include "runtime.h"\nREAL nowhere(REAL);\nREAL (*twice)(REAL) = nowhere;\n'
    assert "undefined symbol: nowhere" in attempt(tmp_path, source)
    assert list((tmp_path / "loops").iterdir()) == []


def test_compiler_that_hangs(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped together with the processes it started, which would hold its output open."""
    monkeypatch.setattr(_compilers, "TIMEOUT", 0.5)
    compiler = script(tmp_path / "compiler", f"sleep 300 & echo $! > {tmp_path}/child; wait")
    before = time.monotonic()
    assert attempt(tmp_path / "cache", CC=compiler) == f"{compiler} was stopped: not done after 0.5 seconds"
    assert time.monotonic() - before < 30
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail("the child of the compiler goes on")


@needs_compiler
def test_a_broken_compiler_before_a_good_one(tmp_path: Path, attempt: Attempt) -> None:
    """cc fails and clang works: clang's library is made, and found the next time without asking cc again."""
    good, calls = shutil.which("gcc") or shutil.which("cc"), tmp_path / "calls"
    folder = tmp_path / "bin"
    folder.mkdir()
    script(folder / "cc", f"echo >> {calls}; exit 1")
    script(folder / "clang", f'PATH={os.environ["PATH"]} exec {good} "$@"')
    first = attempt(tmp_path / "cache", PATH=str(folder))
    assert first.startswith("compiled: twice-")
    asked = calls.read_text()
    assert asked
    assert attempt(tmp_path / "cache", PATH=str(folder)) == first
    assert calls.read_text() == asked


@needs_compiler
def test_a_compiler_of_two_words(tmp_path: Path, attempt: Attempt) -> None:
    wrapper = script(tmp_path / "wrapper", 'exec "$@"')
    assert attempt(tmp_path / "cache", CC=f"{wrapper} cc").startswith("compiled: twice-")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the package ziglang is not installed")
@pytest.mark.parametrize("flags", [None, "-mcpu=baseline"])
def test_the_compiler_that_is_a_package(tmp_path: Path, flags: str | None, attempt: Attempt) -> None:
    """Without any other, and without a home; what it keeps of the C library lies beside ours."""
    changes = {} if flags is None else {"ENGRAM_CFLAGS": flags}
    first = attempt(tmp_path / "cache", PATH=str(tmp_path), HOME=str(tmp_path / "nowhere"), **changes)
    assert first.startswith("compiled: twice-")
    assert attempt(tmp_path / "cache", PATH=str(tmp_path), **changes) == first
    assert not (tmp_path / "nowhere").exists()
    assert {path.suffix or path.name for path in (tmp_path / "cache" / "loops").iterdir()} == {".so", "zig"}


@needs_compiler
def test_cache_cannot_be_written(tmp_path: Path, attempt: Attempt) -> None:
    """A file where the folder should be: permissions would not stop a privileged user."""
    (tmp_path / "cache").write_text("in the way")
    assert attempt(tmp_path / "cache").startswith("compiled for this process alone: ")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """From now on nothing can be written below a folder."""

    def fill(folder: Path) -> None:
        write = Path.write_text

        def refuse(path: Path, *arguments: object, **options: object) -> int:
            if path.is_relative_to(folder):
                raise OSError(28, "No space left on device", str(path))
            return write(path, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Path, "write_text", refuse)

    return fill


@needs_compiler
def test_full_disk(tmp_path: Path, attempt: Attempt, full_disk: Callable[[Path], None]) -> None:
    """The cache is on it: compiled elsewhere, for this process. Everything is on it: said so."""
    full_disk(tmp_path / "cache")
    reason = attempt(tmp_path / "cache")
    assert reason.startswith("compiled for this process alone: ")
    assert "No space left on device" in reason
    full_disk(Path(tempfile.gettempdir()))
    assert "No space left on device" in attempt(tmp_path / "cache")
    assert not list((tmp_path / "cache" / "loops").iterdir())


@needs_compiler
def test_no_place_for_temporary_files(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is enough: the compiler's own temporary files are another matter."""

    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert attempt(tmp_path).startswith("compiled: twice-")
    (tmp_path / "in the way").write_text("")
    assert "No usable temporary directory found" in attempt(tmp_path / "in the way")


@pytest.mark.slow  # test_full_disk has the same in this process
def test_nothing_can_be_written(tmp_path: Path) -> None:
    """The system itself refuses: no file of more than 4 kB."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    program = PROGRAM.replace("def found", limit + "def found")
    found = reasons(start(tmp_path, program, CC=script(tmp_path / "compiler", "exit 1")))
    assert all("File too large" in words for words in found)
    assert list((tmp_path / "loops").iterdir()) == []


@needs_compiler
def test_disk_that_fills_up_while_compiling(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the compiler meets the full disk, and its words are in any language: a file tells."""
    cache, write = tmp_path / "cache", Path.write_bytes

    def refuse(path: Path, content: bytes) -> int:
        if path.is_relative_to(cache):
            raise OSError(28, "No space left on device", str(path))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", refuse)
    compiler = script(tmp_path / "compiler", f'case "$*" in *{cache}*) echo voll >&2; exit 1;; esac; exec cc "$@"')
    reason = attempt(cache, CC=compiler)
    assert reason.startswith("compiled for this process alone: ")
    assert "No space left on device" in reason


@needs_compiler
@needs_modes
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
    monkeypatch.setattr(_build, "BUILT", tmp_path / "no wheel")  # where an installed engram would look first
    reason = attempt(tmp_path)
    assert len(loaded) == 1
    assert loaded[0] != str(library)
    if what == "folder":
        assert reason.startswith("compiled for this process alone: ")
        assert not loaded[0].startswith(str(folder))
    else:  # made anew in its place
        assert reason == good
        assert fault == "owner" or not _build.why_not_private(library)


@needs_compiler
def test_compiled_once(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time the library is found, and no compiler is started."""
    first = attempt(tmp_path)
    assert first.startswith("compiled: twice-")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert attempt(tmp_path) == first


@needs_compiler
def test_what_a_library_depends_on(tmp_path: Path, attempt: Attempt) -> None:
    """Another source, other flags, another compiler, another header: another library."""
    different = {
        attempt(tmp_path),
        attempt(tmp_path, SOURCE + "/* more */"),
        attempt(tmp_path, ENGRAM_CFLAGS="-O2"),
        attempt(tmp_path / "other", CC=script(tmp_path / "compiler", 'exec cc "$@"')),
    }
    assert len(different) == 4
    texts = _build.headers(_build.FOLDER)
    assert {"runtime.h", "pool.h", "product.h"} <= texts.keys()
    assert _build.stem("a", SOURCE, texts) != _build.stem("a", SOURCE, {**texts, "runtime.h": ""})


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
def test_poisoned_cache(tmp_path: Path, attempt: Attempt) -> None:
    """A file with the right name and the hash of its own content that is no library: not loaded, compiled again."""
    good = attempt(tmp_path)
    (library,) = (tmp_path / "loops").glob("*.so")
    library.unlink()
    nonsense = b"not a library" * 1000
    stem, _, _ = library.stem.rpartition("-")
    poison = library.with_name(f"{stem}-{_build.hash16(nonsense)}.so")
    poison.write_bytes(nonsense)
    poison.chmod(0o700)
    assert attempt(tmp_path) == good


@needs_compiler
def test_two_processes_at_once(tmp_path: Path, prepared: Prepared) -> None:
    """Both find an empty cache and compile; both end with whole libraries, and no scratch folder is left."""
    for process in [prepared.start(PROGRAM, ENGRAM_CACHE=str(tmp_path)) for _ in range(2)]:
        done = process.wait()
        assert done.returncode == 0, done.stderr
        assert [words.split()[0] for words in json.loads(done.stdout)] == ["compiled:"] * 2
    assert [path.suffix for path in (tmp_path / "loops").iterdir()] == [".so", ".so"]


@needs_compiler
def test_many_threads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them compiles, the others wait for it; two libraries are compiled side by side."""
    monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path))
    monkeypatch.setattr(_build, "_libraries", {})
    compiled: list[str] = []
    compile = _build._compile
    monkeypatch.setattr(_build, "_compile", lambda *given: (compiled.append(given[1]), compile(*given))[1])
    sources = [SOURCE + "/* threads */", SOURCE + "/* others */"] * 8
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda text: _build.library("threads", text, torch.float64), sources))
    assert len(compiled) == 2
    assert len({id(library) for library in found}) == 2
    assert None not in found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@needs_compiler
def test_fork_while_a_thread_compiles(tmp_path: Path, prepared: Prepared) -> None:
    """The child has not the thread that holds the lock: it compiles for itself in place of waiting."""
    slow = script(tmp_path / "slow", 'sleep 1; exec cc "$@"')
    program = f"""
import os, signal, threading, time, torch
from engram.loops import _build
def look():
    assert _build.library("twice", {SOURCE!r}, torch.float32) is not None
thread = threading.Thread(target=look)
thread.start()
time.sleep(0.3)
assert thread.is_alive() and any(lock.locked() for lock in _build._locks.values())
child = os.fork()
if child == 0:
    signal.alarm(60)
    look()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    done = prepared.run(program, ENGRAM_CACHE=str(tmp_path / "cache"), CC=slow)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("told", "has", "level"),
    [
        ("AVX512", (*_build.V3, *_build.V4), "avx512"),
        ("AVX2", (*_build.V3, *_build.V4), "avx2"),  # ATEN_CPU_CAPABILITY=avx2 on a better processor
        ("DEFAULT", (*_build.V3, *_build.V4), "x86-64"),
        ("AVX512", _build.V3, "avx2"),  # ATEN_CPU_CAPABILITY=avx512 on a processor that has it not
        ("AVX512", (*_build.V3, "avx512_f"), "avx2"),
        ("AVX512", (), "x86-64"),
        ("AVX2", ("avx2",), "x86-64"),
    ],
)
def test_level_of_the_wheel(told: str, has: tuple[str, ...], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: told)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(has, True))
    assert _build.levels()[0] == level
    assert _build.levels()[-1] == "x86-64"
    monkeypatch.setattr(_build.platform, "machine", lambda: "aarch64")
    assert _build.levels() == ()


@needs_compiler
def test_a_library_of_the_wheel_comes_first(tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler is needed; a damaged one is passed over; ENGRAM_COMPILE and ENGRAM_CFLAGS are obeyed."""
    attempt(tmp_path / "cache")
    (library,) = (tmp_path / "cache" / "loops").glob("*.so")
    monkeypatch.setattr(_build, "levels", lambda: ("avx2", "x86-64"))
    file = _build.shipped("twice", SOURCE, _build.headers(_build.FOLDER), "float32")
    false = script(tmp_path / "compiler", "exit 1")
    for damaged in (False, True):
        built = tmp_path / f"built-{damaged}"  # the system knows a loaded library by its path
        monkeypatch.setattr(_build, "BUILT", built)
        for level in ("avx2", "x86-64"):
            (built / level).mkdir(parents=True)
            shutil.copy(library, built / level / file)
        if damaged:
            (built / "avx2" / file).write_text("nonsense")
        level = "x86-64" if damaged else "avx2"
        assert attempt(tmp_path / "new", CC=false) == f"compiled: {file} of the wheel, for {level}"
    assert not (tmp_path / "new").exists()
    assert attempt(tmp_path / "new", CC=false, ENGRAM_COMPILE="0") == "turned off by ENGRAM_COMPILE=0"
    assert "could not compile" in attempt(tmp_path / "new", CC=false, ENGRAM_CFLAGS="-O1")


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$ENGRAM_CACHE, else engram in $XDG_CACHE_HOME, else in ~/.cache; empty counts as unset."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for own, xdg, folder in (("own", "xdg", "own"), ("", "xdg", "xdg/engram"), ("", "", ".cache/engram")):
        monkeypatch.setenv("ENGRAM_CACHE", str(tmp_path / own) if own else "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / xdg) if xdg else "")
        assert _build.cache_folder() == tmp_path / folder


@needs_compiler
@needs_modes
def test_nobody_else_can_write_a_library(tmp_path: Path, attempt: Attempt) -> None:
    """Whatever the umask of the user lets others do; else it would be made anew each time."""
    before = os.umask(0)
    try:
        first = attempt(tmp_path)
    finally:
        os.umask(before)
    (library,) = (tmp_path / "loops").glob("*.so")
    assert library.stat().st_mode & 0o077 == 0
    assert (tmp_path / "loops").stat().st_mode & 0o077 == 0
    assert attempt(tmp_path) == first


@needs_compiler
def test_another_processor_has_another_library(
    tmp_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-march=native means another thing there, and a home folder may be shared."""
    found = {attempt(tmp_path)}
    monkeypatch.setattr(_build, "_processor", lambda: "flags: another")
    found.add(attempt(tmp_path))
    monkeypatch.setattr(_build.platform, "machine", lambda: "another")
    found.add(attempt(tmp_path))
    monkeypatch.setattr(_build, "EFFORT", {"twice": "-O1"})
    found.add(attempt(tmp_path))
    assert len(found) == 4


def test_a_compiler_is_known_by_its_file(tmp_path: Path) -> None:
    """By its command, and by the size and the time of what is run."""
    path = script(tmp_path / "compiler", "exit 0")
    found = {_compilers.Compiler((path,)).identity(), _compilers.Compiler((path, "cc")).identity()}
    times = Path(path).stat().st_mtime_ns
    os.utime(path, ns=(times, times + 2 * 10**9))  # some file systems count in seconds
    found.add(_compilers.Compiler((path,)).identity())
    script(tmp_path / "compiler", "exit  0")
    os.utime(path, ns=(times, times))
    found.add(_compilers.Compiler((path,)).identity())
    assert len(found) == 4


def test_the_flags_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc and zig name them differently; the flags of a person replace them."""
    monkeypatch.delenv("ENGRAM_CFLAGS", raising=False)
    gcc, zig = _compilers.Compiler(("gcc",)), _compilers.Compiler(("zig", "cc"), zig=True)
    assert [gcc.level(level) for level in LEVELS] == ["-march=x86-64-v4", "-march=x86-64-v3", "-march=x86-64"]
    assert [zig.level(level) for level in LEVELS] == ["-mcpu=x86_64_v4", "-mcpu=x86_64_v3", "-mcpu=baseline"]
    assert gcc.processors() == ("-march=native", "-mcpu=native", "")
    assert zig.processors() == ("-mcpu=native", "-mcpu=baseline")
    monkeypatch.setenv("ENGRAM_CFLAGS", "")
    assert gcc.processors() == zig.processors() == ("",)


@needs_modes
def test_which_compilers_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$CC alone, with its words; if it is not there, cc, gcc and clang, of which two may be one; last zig's package."""
    monkeypatch.setattr(_compilers, "find_spec", lambda name: None)
    for name in ("gcc", "clang", "zig", "ccache"):
        script(tmp_path / name, f"exit {len(name)}")
    (tmp_path / "cc").symlink_to(tmp_path / "gcc")
    clang, zig, ccache, cc = (str(tmp_path / name) for name in ("clang", "zig", "ccache", "cc"))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {}
    for own in ("", "clang", "ccache gcc -m64", "zig cc", "no-such-compiler"):
        monkeypatch.setenv("CC", own)
        found[own] = [(compiler.command, compiler.zig) for compiler in _compilers.compilers()]
    every = [((cc,), False), ((clang,), False)]
    assert found == {
        "": every,
        "clang": [((clang,), False)],
        "ccache gcc -m64": [((ccache, "gcc", "-m64"), False)],
        "zig cc": [((zig, "cc"), True)],
        "no-such-compiler": every,
    }


def test_what_the_processor_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its flags; where no file tells them, as Python knows it."""
    monkeypatch.setattr(_build.platform, "processor", lambda: "as Python knows it")
    for text, expected in (
        ("model name : x\nflags : fma avx2\nflags : other\n", "flags : fma avx2"),
        ("Features : asimd\n", "Features : asimd"),
        ("model name : x\n", "as Python knows it"),
    ):
        monkeypatch.setattr(_build.Path, "read_text", lambda path, text=text: text)
        assert _build._processor() == expected

    def none(path: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(_build.Path, "read_text", none)
    assert _build._processor() == "as Python knows it"


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(_build, "cache_folder", homeless)
    assert _build._cache() == (Path(), "Could not determine home directory.")

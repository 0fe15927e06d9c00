"""The C compilers of this machine, and how one is run: with the same flags everywhere, and with a time limit.

``$CC`` alone if it is set and there; else cc, gcc, clang, and the package ``ziglang`` (``pip install
engram[compiler]``), whose clang needs nothing of the system. ``ENGRAM_CFLAGS`` replaces the flags that choose the
processor, for example ``-march=x86-64``.

No torch and nothing else of engram is imported here: ``hatch_build.py`` loads this file by itself.
"""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

# -ffast-math would break the exponential, which rounds by adding a large number and taking it away again.
FLAGS = (
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-ffp-contract=fast",
    "-shared",
    "-fPIC",
)
EFFORT = {"runtime": "-O3"}
"""A generated loop is written in vectors as it is: -O2, a quarter of the time to compile, makes it as fast as -O3."""
THREADS = ("-pthread", "-lm")  # the pool of threads, and fesetenv; after the source
DOUBLE = {"float32": "-DDOUBLE=0", "float64": "-DDOUBLE=1"}
TIMEOUT = 120.0
"""Seconds after which a compiler is stopped."""
FREE_BYTES = 4_000_000
"""If the disk has fewer free bytes than this, a failure is blamed on the disk, not on the compiler."""


class CompileError(RuntimeError):
    """The compiler failed, hung, or wrote no library."""


@dataclass(frozen=True)
class Compiler:
    """A command that takes the flags of gcc; zig's clang names processors differently."""

    command: tuple[str, ...]
    zig: bool = False

    @property
    def name(self) -> str:
        return shlex.join(self.command)

    def identity(self) -> str:
        """Changes when the compiler does; does not start it, for that takes longer than to load a library."""
        path = Path(self.command[0]).resolve()
        return f"{self.command} {path} {path.stat().st_size} {path.stat().st_mtime_ns}"

    def processors(self) -> tuple[str, ...]:
        """The flags for this processor, to be tried in this order: the first that compiles is kept."""
        if (own := os.environ.get("ENGRAM_CFLAGS")) is not None:
            return (own,)
        return ("-mcpu=native", "-mcpu=baseline") if self.zig else ("-march=native", "-mcpu=native", "")

    def level(self, level: str) -> str:
        """The flag for a level of the wheel (``LEVELS``)."""
        version = {"x86-64": "", "avx2": "v3", "avx512": "v4"}[level]
        if self.zig:
            return f"-mcpu=x86_64_{version}" if version else "-mcpu=baseline"
        return f"-march=x86-64-{version}" if version else "-march=x86-64"

    def compile(
        self,
        name: str,
        source: str,
        headers: dict[str, str],
        real: str,
        processors: Sequence[str],
        scratch: Path,
        zig_cache: Path | None = None,
    ) -> Path:
        """The library, in the empty folder ``scratch``. OSError if that cannot be written, CompileError for the rest.

        The headers lie beside the source and no folder is added to the search, so that ours hide no others.
        ``zig_cache`` is a folder for what zig makes of the C library at its first start, which takes it six seconds.
        """
        environment = {
            "ZIG_GLOBAL_CACHE_DIR": str(zig_cache or scratch),
            **os.environ,
            "ZIG_LOCAL_CACHE_DIR": str(scratch),
        }
        for file, text in {**headers, f"{name}.c": source}.items():
            (scratch / file).write_text(text)
        built, log = scratch / f"{name}.so", scratch / "log.txt"
        for flags in processors:
            options = [*self.command, *FLAGS, EFFORT.get(name, "-O2"), DOUBLE[real], *shlex.split(flags)]
            command = [*options, str(scratch / f"{name}.c"), "-o", str(built), *THREADS]
            if self._run(command, log, environment) == 0:
                if built.is_file():
                    return built
                raise CompileError(f"{self.name} wrote no library for {name}.c")
        printed = log.read_text(errors="replace").strip()[:500]
        (scratch / "free").write_bytes(bytes(FREE_BYTES))  # a full disk is an OSError here: another place may do
        raise CompileError(f"{self.name} could not compile {name}.c: {printed}")

    def _run(self, command: list[str], log: Path, environment: dict[str, str]) -> int:
        """The exit code. What the compiler prints goes to a file, and it runs in its own group of processes: when it is
        stopped, its children are stopped too, and no pipe stays open."""
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
            try:
                return process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                raise CompileError(f"{self.name} was stopped: not done after {TIMEOUT:g} seconds") from None
            finally:
                if process.poll() is None:
                    _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def compilers() -> list[Compiler]:
    """All that are installed, the preferred first."""
    own = shlex.split(os.environ.get("CC", ""))  # "ccache gcc" is two words
    if own and (path := shutil.which(own[0])):
        return [Compiler((path, *own[1:]), zig=Path(path).stem == "zig")]
    paths = [path for path in map(shutil.which, ("cc", "gcc", "clang")) if path]
    different = {Path(path).resolve(): path for path in reversed(paths)}  # cc mostly is gcc
    found = [Compiler((path,)) for path in paths if path in different.values()]
    spec = find_spec("ziglang")
    zig = spec and spec.origin and shutil.which("zig", path=str(Path(spec.origin).parent))
    return [*found, Compiler((zig, "cc"), zig=True)] if zig else found

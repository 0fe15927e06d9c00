"""Do the tests see a fault? Put faults into a copy of the tree, one at a time, and run the fast tests on each.

    make mutants                                all of tools/mutants.toml
    make mutants ONLY=loops                     those whose file or name contains a text
    python tools/mutants.py --check             only whether every text is still there, once

A mutant is a file, a text that occurs in it exactly once, the text in its place, and the tests that should fail: paths
in the order in which they are tried, the likeliest first. It is found if one of them fails, crashes or hangs, and the
report says which and why: read it, since on a busy machine a test may fail by itself. It is alive if all pass. One
whose text is gone or occurs twice is reported as lost and does not count: mend the list.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
COPIED = ("src", "tests", "docs", "README.md", "CHANGELOG.md", "CITATION.cff", "constraints.txt", "Makefile",
          "hatch_build.py", "pyproject.toml", "tools")  # fmt: skip
GOAL = 90
"""Per cent of the mutants that the fast tests are to find."""
ALL_PASSED, NO_TESTS = 0, 5  # what pytest returns
NOT_STARTED = 70


@dataclass(frozen=True)
class Mutant:
    """A fault: ``old`` in ``file`` becomes ``new``, and one of ``tests`` should fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def import_what_is_slow() -> None:
    """So that every copy has it. One thread for each, and for hypothesis the same examples every time."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CI": "true"}
    import lightning_fabric  # noqa: F401
    import torch  # noqa: F401


def read(path: Path) -> list[Mutant]:
    """The list, and that no two have the same name."""
    entries = tomllib.loads(path.read_text())["mutant"]
    mutants = [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    twice = [name for name, count in Counter(mutant.name for mutant in mutants).items() if count > 1]
    if twice:
        raise SystemExit(f"two mutants of {path.name} have the same name: {', '.join(twice)}")
    return mutants


def fault_of(mutant: Mutant, root: Path) -> str:
    """Why a mutant cannot be put in, in words; empty if it can."""
    path = root / mutant.file
    if not path.is_file():
        return f"{mutant.file} does not exist"
    count = path.read_text().count(mutant.old)
    if count != 1:
        return f"the text occurs {count} times in {mutant.file}, expected once: {mutant.old!r}"
    missing = [test for test in mutant.tests if not (root / test).exists()]
    return f"no such tests: {', '.join(missing)}" if missing else ""


class Copy:
    """A tree of its own, with a cache of compiled loops of its own."""

    def __init__(self, folder: Path, warm: Path, timeout: float) -> None:
        self.tree, self.cache, self.warm, self.timeout = folder / "tree", folder / "cache", warm, timeout
        self.tree.mkdir(parents=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, self.tree / name)
        self.count = 0

    def verdict(self, mutant: Mutant, first: bool) -> str:
        """Put it in, run its tests (or the first path only), take it out."""
        path = self.tree / mutant.file
        text = path.read_text()
        self._write(path, text.replace(mutant.old, mutant.new))
        try:
            for test in mutant.tests[:1] if first else mutant.tests:
                said = self.run(test)
                if said:
                    return f"found by {said}"
            return ""
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """With a time that no other version has, so that no compiled file of another version is taken for it."""
        path.write_text(text)
        self.count += 1
        os.utime(path, (self.count, self.count))

    def run(self, test: str) -> str:
        """What failed; empty if all passed."""
        shutil.rmtree(self.cache, ignore_errors=True)  # a mutant may spoil it
        shutil.copytree(self.warm, self.cache)
        self.cache.chmod(0o700)
        said = self.tree.with_name("said.txt")
        child = os.fork()  # of a process that has imported torch: starting anew takes longer than most tests
        if not child:
            self._test(test, said)
        code = _wait(child, self.timeout)
        if code is None:
            return f"{test}: no end after {self.timeout:.0f} s"
        if code == ALL_PASSED:
            return ""
        text = said.read_text(errors="replace")
        if code in (NO_TESTS, NOT_STARTED):
            raise SystemExit(f"no tests ran in {test}: {text.strip()[-500:]}")
        failed = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return failed[0].partition(" ")[2][:240] if failed else f"{test}: pytest ended with {code}"  # a crash

    def _test(self, test: str, said: Path) -> NoReturn:
        """In a process of its own: run the tests of the copy, and end."""
        code = NOT_STARTED
        try:
            os.setsid()
            os.chdir(self.tree)
            os.environ |= {"PYTHONPATH": str(self.tree / "src"), "ENGRAM_CACHE": str(self.cache)}
            sys.path.insert(0, str(self.tree / "src"))
            out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(out, stream)
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", test]))
            sys.stdout.flush()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)


def _wait(child: int, timeout: float) -> int | None:
    """The exit code of a child; None if it had to be killed, with all that it started."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def try_all(
    mutants: list[Mutant], copies: "Queue[Copy]", jobs: int, first: bool
) -> Iterator[tuple[Mutant, str, float]]:
    """Each mutant with what found it, empty if it lives, and the seconds; in the order in which they end."""

    def one(mutant: Mutant) -> tuple[Mutant, str, float]:
        copy, start = copies.get(), time.monotonic()
        try:
            return mutant, copy.verdict(mutant, first), time.monotonic() - start
        finally:
            copies.put(copy)

    pool = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="texts; only mutants whose name or file contains one of them")
    parser.add_argument("--check", action="store_true", help="only see that every text is there, once")
    parser.add_argument("--first", action="store_true", help="only the first path of each: quick, and less is found")
    parser.add_argument("--jobs", type=int, default=1, help="copies that are tested at the same time")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which tests count as hanging")
    parser.add_argument("--warm", type=Path, help="a cache of compiled loops to start from; default: an empty one")
    given = parser.parse_args()
    listed = read(LIST)
    chosen = [m for m in listed if not given.only or any(text in f"{m.name} {m.file}" for text in given.only)]
    lost = {mutant.name: fault for mutant in chosen if (fault := fault_of(mutant, ROOT))}
    for name, fault in lost.items():
        print(f"LOST   {name}: {fault}")
    chosen = [mutant for mutant in chosen if mutant.name not in lost]
    if given.check:
        print(f"{len(chosen)} of {len(chosen) + len(lost)} texts are there, once")
        return bool(lost)
    import_what_is_slow()
    alive = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        warm = given.warm or Path(folder) / "warm"
        warm.mkdir(mode=0o700, exist_ok=True)
        copies: Queue[Copy] = Queue()
        for k in range(given.jobs):
            copies.put(Copy(Path(folder) / str(k), warm, given.timeout))
        for mutant, found, seconds in try_all(chosen, copies, given.jobs, given.first):
            alive += [] if found else [mutant.name]
            print(f"{'found ' if found else 'ALIVE '} {seconds:5.0f} s  {mutant.name}: {found}", flush=True)
    count = len(chosen) - len(alive)
    share = 100 * count / max(1, len(chosen))
    print(f"{count} of {len(chosen)} mutants found, {share:.0f} % (goal: {GOAL} %); {len(lost)} lost")
    if alive:
        print(f"alive: {', '.join(alive)}")
    return int(share < GOAL or bool(lost))


if __name__ == "__main__":
    sys.exit(main())

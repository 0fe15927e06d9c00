"""A second process that takes part in a race: with an earlier engram, or with other environment variables."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Self, cast

from engram.bench import _worker_program
from engram.bench._size import Kind, Size
from engram.errors import OptionError


class SecondProcess:
    """Builds layers in a process of its own, and times a training step there each time it is asked.

    It waits while others run, so that its contestants can take turns with those of this process; what it reports are
    the seconds that it measured itself.

    Args:
        source: a folder with the package engram that it imports: an unpacked wheel or a ``src``. Default: ours.
        environment: variables to set, for example ``ENGRAM_COMPILE="0"``.
    """

    def __init__(self, source: Path | None = None, **environment: str) -> None:
        if source is not None and not (source / "engram" / "__init__.py").is_file():
            raise OptionError(
                f"a folder to measure against must hold the package engram (engram/__init__.py); {source} does not. "
                "Give an unpacked wheel, or the src of an earlier version"
            )
        ours = Path(_worker_program.__file__).parents[2]
        self.source = (source or ours).resolve()
        before = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(self.source), *([before] if before else [])])
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                _worker_program.__file__,
            ],  # -P: the folder of the program is no place to import from
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **environment, "PYTHONPATH": path},
        )
        self._requests, self._answers = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        try:
            self.engram: dict[str, str] = self._ask("engram")
            if self.source not in Path(self.engram["path"]).resolve().parents:
                raise RuntimeError(f"the worker imported {self.engram['path']} in place of engram in {self.source}")
        except BaseException:
            self.close()
            raise

    def contestants(self, size: Size, threads: int, kinds: dict[str, Kind]) -> dict[str, Callable[[], object]]:
        """Training steps of these layers, ready to be called; replaces those of the call before."""
        self._ask("size", threads, list(size))
        for name, (make, options) in kinds.items():
            self._ask("layer", name, make, options)
        return {name: lambda name=name: self._ask("step", name) for name in kinds}  # type: ignore[misc]

    def _ask(self, do: str, *what: Any) -> Any:
        try:
            print(json.dumps({"do": do, "with": what}), file=self._requests, flush=True)
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the worker with engram of {self.source} ended:\n{self._errors.read()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"in the worker with engram of {self.source}:\n{answer['error']}")
        return answer["answer"]

    def close(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

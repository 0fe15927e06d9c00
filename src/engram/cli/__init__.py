"""The command line: one file per command, each a frozen dataclass whose fields are its options."""

import io
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from engram import __version__
from engram.errors import EngramError, StoppedError
from engram.files import one_line

RENAMED = {"draw": "plot"}
"""Old names of commands, which work with a notice until the next version."""
UNDER_WAY = r"\.[0-9a-f]{16}\.new$"
"""What the name of a file ends in while it is written."""
MEMORY = ("can't allocate memory", "out of memory")


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit code 0; 1 if a run failed; 2 for something refused; 130 when interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        print(f"engram {__version__}")
        return 0
    if words[:1] == ["--complete"]:
        from engram.cli._complete import complete

        print("\n".join(complete(words[1:])))
        return 0
    if words and words[0] in RENAMED:
        old, words[0] = words[0], RENAMED[words[0]]
        print(f"engram: {old} is called {words[0]} now; the old name goes with the next version", file=sys.stderr)
    try:
        with _leaving_at_once():
            from engram.cli._app import parse  # which imports what the words ask for

            command: Any = parse(words)
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            command.run()
        sys.stdout.flush()  # a reader that has left is noticed here, not at the exit
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # engram list tasks | head
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - what is left is not wanted
        return 0
    except (EngramError, OSError) as error:  # OSError: a figure that cannot be written
        if debug:
            raise
        from engram.cli._flags import with_flags

        print("engram:", one_line(with_flags(_of_the_system(error) or str(error), words)), file=sys.stderr)
        return 1 if isinstance(error, StoppedError) else 2
    except Exception as error:  # memory that is not there; or a mistake of ours
        if debug:
            raise
        print("engram:", one_line(_unforeseen(error)), file=sys.stderr)
        return 1
    return 0


def _open_streams() -> None:
    """What is written to a closed stream is lost; a character that its encoding lacks is written by its number."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # engram list tasks >&-
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Ctrl-C ends the program within this block: there is nothing to save, and an import cut off may raise anything."""
    if threading.current_thread() is not threading.main_thread() or not callable(signal.getsignal(signal.SIGINT)):
        yield  # it cannot be caught here, or is ignored
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(*_: Any) -> NoReturn:
    os.write(2, b"\ninterrupted\n")
    os._exit(130)


def _warn(message: Warning | str, *_: Any) -> None:
    print(f"engram: warning: {one_line(str(message))}", file=sys.stderr)


def _of_the_system(error: Exception) -> str:
    """``runs/first: Permission denied``; of a file that is written beside, the name that was asked for."""
    if not (isinstance(error, OSError) and error.strerror and isinstance(error.filename, str)):
        return ""
    return f"{re.sub(UNDER_WAY, '', error.filename)}: {error.strerror}"


def _unforeseen(error: Exception) -> str:
    text = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in MEMORY):
        return f"there is not enough memory: try fewer hidden units, a smaller batch or shorter sequences ({text})"
    return f"{type(error).__name__}: {text}. This may be a mistake of engram; --debug shows where"

"""The command line: one file a command, each a frozen dataclass whose fields are its options."""

import os
import sys
from typing import Any

from engram import __version__
from engram.errors import EngramError, StoppedError


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit code 0; 1 if a run failed; 2 for something refused; 130 when interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        print(f"engram {__version__}")
        return 0
    from engram.cli._parse import parse  # imports everything; --version need not wait for it

    try:
        command: Any = parse(words or ["--help"])
        command.run()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # engram list tasks | head
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - what is left is not wanted
        return 0
    except (EngramError, OSError) as error:  # OSError: a figure that cannot be written
        if debug:
            raise
        print(f"engram: {error}", file=sys.stderr)
        return 1 if isinstance(error, StoppedError) else 2
    return 0

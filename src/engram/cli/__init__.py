"""The command line: one file a command, each a frozen dataclass whose fields are its options."""

import sys
from inspect import cleandoc
from typing import Annotated

import tyro

from engram import __version__
from engram.cli._bench import Bench
from engram.cli._demo import Demo
from engram.cli._draw import Draw
from engram.cli._list import List
from engram.errors import EngramError

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo", description=cleandoc(Demo.__doc__ or ""))]
    | Annotated[List, tyro.conf.subcommand("list", description=cleandoc(List.__doc__ or ""))]
    | Annotated[Draw, tyro.conf.subcommand("draw", description=cleandoc(Draw.__doc__ or ""))]
    | Annotated[Bench, tyro.conf.subcommand("bench", description=cleandoc(Bench.__doc__ or ""))]
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit code 0, or 2 for something refused, or 130 when interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        print(f"engram {__version__}")
        return 0
    command = tyro.cli(
        Command,
        prog="engram",
        description="Recurrent networks whose memory you can measure, prove and train fast. --debug shows tracebacks.",
        args=words or ["--help"],
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
    )
    try:
        command.run()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except (EngramError, OSError) as error:  # OSError: a figure that cannot be written
        if debug:
            raise
        print(f"engram: {error}", file=sys.stderr)
        return 2
    return 0

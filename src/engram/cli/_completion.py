"""``engram completion``."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Completion:
    """Print the script that lets a shell complete engram's commands and options with the Tab key.

    Example: engram completion bash > ~/.local/share/bash-completion/completions/engram
    """

    shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional] = "bash"
    """The shell."""

    def run(self) -> None:
        from engram.cli._parse import parse  # which imports this

        parse(["--tyro-print-completion", self.shell])

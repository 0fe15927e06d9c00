"""``--allow`` of every command that opens a run."""

from typing import Annotated

import tyro

Allow = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")]
"""Packages and files whose code a run may import; the flag may be given several times."""

"""The plan of a sweep file that a person names, and the folder of its runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from engram.errors import EngramError, OptionError
from engram.files import printable
from engram.sweep import Plan, grown, make_plan, read_sweep

File = Annotated[Path | None, Parameter(name="FILE", metavar="FILE")]


def plan_and_out(file: Path | None, out: Path | None, allow: Sequence[str]) -> tuple[Plan, Path]:
    """The plan of a sweep file, and the folder of its runs."""
    if file is None:
        raise OptionError("engram sweep needs FILE, a sweep file. engram sweep --example prints one")
    sweep = read_sweep(file)
    try:
        plan = make_plan(sweep, allow)
    except EngramError as error:
        raise OptionError(f"{file}: {error}") from None
    folder = Path("sweeps") / plan.name if out is None else out
    check_out(folder)
    return grown(plan, folder), folder


def check_out(out: Path) -> None:
    """The runs of a sweep stand in a folder, which may be new."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {printable(str(out))} is a file: give a folder, or the name of a new one")

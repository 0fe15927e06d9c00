"""The picture of a deep circuit: every joining unit is marked, and what nobody could read is refused."""

from pathlib import Path

import pytest

from engram.cli import main
from engram.errors import OptionError
from engram.report import plot_rac
from engram.report._rac import JOINT
from engram.theory.bounds import multiset
from tiers import slow


@pytest.mark.parametrize(("depth", "steps"), [(1, 4), (2, 2), slow(2, 8), slow(3, 4), (3, 6), slow(4, 4)])
def test_marks(tmp_path: Path, depth: int, steps: int) -> None:
    """Counted in the file: each mark is a broad line (and a thin one) of a colour of its own, and one in the legend."""
    path = tmp_path / "rac.svg"
    count = plot_rac(depth, steps, path)
    assert count == multiset(steps // 2, depth - 1)
    assert path.read_text().count(f"fill: none; stroke: {JOINT}") == 2 * count + 1


def test_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot_rac(2, 4, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize(
    ("depth", "steps", "ending", "said"),
    [
        (4, 8, "svg", "165 rows"),
        (9, 20, "svg", "rows"),
        (5, 20_000, "svg", "too many rows"),
        (10**9, 2, "svg", "too many rows"),
        (1, 26, "svg", "24 steps"),
        (2, 4, "pdf", r"\.svg or \.png"),
    ],
)
def test_refused(tmp_path: Path, depth: int, steps: int, ending: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        plot_rac(depth, steps, tmp_path / f"rac.{ending}")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rac.png"
    assert main(["plot", "rac", "--depth", "3", "--steps", "6", "-o", str(path)]) == 0
    assert "6 copies of the unit of layer 1 that joins Start and End" in capsys.readouterr().out
    assert path.read_bytes().startswith(b"\x89PNG")

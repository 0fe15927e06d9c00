"""The page and the picture of an atlas say what the table says."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from engram.atlas import Range, survey
from engram.certify import TTEqualCoresClaim, certify, rac_claim
from engram.errors import OptionError
from engram.report import atlas_page, atlas_summary, plot_atlas


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    claims = [rac_claim(2, 2, steps, depth) for steps in (2, 4, 6) for depth in (1, 2, 3)]
    claims += [rac_claim(4, 3, 4, 4), rac_claim(4, 3, 4, 4, 5), TTEqualCoresClaim(3, 2, 6)]  # type: ignore[list-item]
    ranks = [(claim, certify(claim).rank) for claim in claims]
    return {"range": asdict(Range()), **survey(ranks, 2147483629, 0)}  # type: ignore[arg-type]


def test_summary(found: dict[str, Any]) -> None:
    said = atlas_summary(found)
    assert "Conjecture 1 is certified at 10 of 10 sizes (M, R, T, L), 4 of them deeper" in said
    assert "rac-conjecture: holds on 10 of 11 grids, fails on 1 (the upper bound is below it)" in said
    assert "open" not in said


def test_page(found: dict[str, Any]) -> None:
    page = atlas_page(found).splitlines()
    assert "| 4 | 3 | 4 | 4 | 12 | 15 | 5 | 15 |" in page
    assert "| 2 | 2 | 6 | 2 >= 2 | 8 >= 4 | 8 >= 7 |  |" in page  # L = 1, 2, 3, 4
    assert "| 4 | 3 | 4 |  |  |  | 12 < 15 |" in page
    assert "`engram certify atlas --max-side 1024 --max-modes 8 --max-channels 6 --max-depth 7`" in page


def test_page_without_anything() -> None:
    """A limit below the smallest matrix."""
    assert "0 matrices" in atlas_page({"range": asdict(Range()), **survey([], 2147483629, 0)})


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_picture(found: dict[str, Any], ending: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"atlas.{ending}"
    plot_atlas(found, path)
    assert path.stat().st_size > 5000


def test_another_ending_is_refused(found: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.svg or \.png, got .*\.pdf"):
        plot_atlas(found, tmp_path / "atlas.pdf")

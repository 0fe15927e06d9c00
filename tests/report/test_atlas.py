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


def test_lists_and_verdicts_by_hand(found: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that is open and one that fails are told apart; a long list ends with how many more there are."""
    monkeypatch.setattr("engram.report._atlas.SHOWN", 2)
    claims = {
        "one": {"asked": 9, "hold": 7, "fail": 2, "open": 0},
        "two": {"asked": 1234, "hold": 1230, "fail": 0, "open": 4},
    }
    fails = {"few": {"columns": ["M", "rank"], "rows": [[1, None], [0, 2], [3, 4], [5, 6], [7, 8]]}}
    conjecture = {"sizes": 5, "certified": 2, "certified_beyond_the_theorems": 1}
    conjecture |= {"out_of_reach": [(3, 2, 4, 7), (1, 2, 4, 7)], "open": [(3, 3, 8, 3)]}  # type: ignore[dict-item]
    page = atlas_page(found | {"claims": claims, "fails": fails, "conjecture": conjecture}).splitlines()
    assert "* one: holds on 7 of 9 grids, fails on 2 (the upper bound is below it)" in page
    assert atlas_summary(found | {"fails": fails}).splitlines()[-1] == "few: 5 sizes"
    assert "* two: holds on 1,230 of 1,234 grids, open on 4" in page
    assert any(line.endswith("; at 2 no grid within the limit could reach it; at 1 it is open.") for line in page)
    start = page.index("**few**: 5 sizes")
    assert page[start + 2 : start + 8] == [
        "| M | rank |", "| --- | --- |", "| 1 | - |", "| 0 | 2 |", "", "... and 3 more in `atlas.json`.",
    ]  # fmt: skip
    assert "**No grid within the limit could reach Conjecture 1**, (M, R, T, L): (3, 2, 4, 7), (1, 2, 4, 7)" in page
    assert "**Open**, (M, R, T, L): (3, 3, 8, 3)" in page
    assert "| 3 | 2 | 6 | 1 | 8 | 18 | - | 18 |" in page  # printed, bound, rank of equal cores, none of others, upper

"""``How to add a claim`` of docs/certificates.md: its code runs, and what it makes is a claim like the others."""

import re
from pathlib import Path
from typing import Any

import pytest

from engram.certify import CLAIMS, Claim, RankClaim, certify
from engram.errors import OptionError

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks of the section define, run one after the other."""
    section = PAGE.read_text().partition("## How to add a claim")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 3
    before, found = dict(CLAIMS), dict[str, Any]()
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), found)
    assert before == CLAIMS  # the page leaves no claim behind
    return found


def test_the_claim_of_the_page(names: dict[str, Any]) -> None:
    kind = names["LowRankClaim"]
    assert issubclass(kind, Claim)
    found = certify(kind(**kind.example))
    assert found.holds
    assert found.statement == "Almost every product of matrices (6, 2) and (2, 6) has rank 2."
    assert certify(kind(hidden=2, inner=6)).found == {"rank": 2}
    with pytest.raises(OptionError, match="low-rank is estimated to need"):
        certify(kind(hidden=10**6, inner=10**6))


def test_every_claim_is_called_as_its_class() -> None:
    for name, kind in CLAIMS.items():
        assert kind.__name__.lower() == f"{name.replace('-', '')}claim"
        assert kind.__module__.startswith("engram.certify.")


def test_the_room_has_claims_only() -> None:
    """What ``engram.certify`` offers beside the claims: what they are made of, and what is done with them."""
    import engram.certify as room

    others = {name for name in room.__all__ if getattr(room, name) not in CLAIMS.values()}
    assert others == {
        "CLAIMS", "Claim", "RankClaim", "rac_claim", "Found", "Cost", "Certificate", "certify", "verify",
        "PRIME", "DAY", "check_large", "duration", "rounded",
    }  # fmt: skip
    assert issubclass(RankClaim, Claim)

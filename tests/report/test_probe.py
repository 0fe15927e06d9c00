"""The page of a profile."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import nn

from engram.probe import Profile, profile
from engram.report import probe_page, write_probe_page


@pytest.fixture(scope="module")
def found() -> Profile:
    torch.manual_seed(0)  # the seed of every test comes after the fixtures of a module
    parts = ("gradient_reach", "separation_rank", "structure")
    return profile(nn.GRU(2, 3, 2, dropout=0.5), length=12, parts=parts, name="<my> model")


class Balanced(HTMLParser):
    """Every element that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_one_page(found: Profile, tmp_path: Path) -> None:
    """Words, notes, reasons, picture and numbers; nothing is fetched from elsewhere; names are escaped."""
    write_probe_page(tmp_path / "pages" / "page.html", found)
    page = (tmp_path / "pages" / "page.html").read_text(encoding="utf-8")
    reader = Balanced()
    reader.feed(page)
    assert reader.open == []
    assert "<h1>&lt;my&gt; model</h1>" in page
    assert found.parts["gradient_reach"].words() in unescape(page)
    assert f"<p><strong>{found.verdict}</strong></p>" in page
    assert "dropout" in page
    assert "Structure: not measured: GRU has no square recurrent matrix" in page
    assert page.count("<svg ") == 1
    assert not re.search(r"""(src|href)=["']?http|<script|@import|url\((?!#)""", page)
    numbers = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert numbers is not None
    assert json.loads(unescape(numbers[1])) == found.to_dict()


def test_side_by_side(found: Profile) -> None:
    page = probe_page(found, profile(nn.RNN(2, 3), length=12, parts=["structure"], name="other"))
    assert page.count("<svg ") == 2
    assert page.count("<h1>") == 2
    assert "<tr><th>Gradient reach</th><td>vanishes at " in page
    assert "<tr><th>Structure</th><td>-</td><td>drift 0." in page

"""The page of a profile."""

import json
import re
from dataclasses import dataclass, replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import nn

from engram.figures import DARK, INK, PAPER, RED
from engram.probe import NotMeasured, Part, Profile, profile
from engram.report import probe_page, write_probe_page
from engram.report._probe import STYLE


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


def test_every_word_is_escaped(found: Profile) -> None:
    """Title, headings, verdict, notes, parts, table and numbers: what a name or a reason says stays text."""
    strange = NotMeasured("<u>part", "<i>reason & more")
    named = replace(found, name="<b>model", model="<b>sizes", notes=["<b>note"], parts={"strange": strange})
    page = probe_page(named, replace(named, parts={"strange": Loud(2.0)}))
    assert not re.search(r"<(?:u|i|b)>", page)
    assert "<p class='none'>&lt;u&gt;part: not measured: &lt;i&gt;reason &amp; more</p>" in page
    assert "<title>Memory of &lt;b&gt;model, &lt;b&gt;model</title>" in page
    assert "<p><strong>&lt;b&gt;loud</strong></p>" in page
    assert "<tr><th>&lt;u&gt;part</th><td>-</td><td>&lt;i&gt;2</td></tr>" in page


@dataclass(frozen=True)
class Loud(Part):
    name, title, question = "strange", "<u>part", "?"
    number: float

    cost = measure = None  # type: ignore[assignment]

    def headline(self) -> str:
        return "<b>loud"

    def brief(self) -> str:
        return "<i>2"

    def plot(self, axes: object) -> None:
        """Nothing."""


def test_pictures_of_equal_names_do_not_share_their_parts(found: Profile) -> None:
    """On one page ids must differ, or the second picture would take its shapes from the first."""
    pictures = re.findall(r"<svg .*?</svg>", probe_page(found, found), re.DOTALL)
    first, second = ({*re.findall(r'clipPath id="(\w+)"', picture)} for picture in pictures)
    assert first
    assert not first & second


def test_the_page_is_dark_where_the_reader_is() -> None:
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", rules)) for rules in STYLE.split("body {")[0].split("@media"))
    assert light.keys() == dark.keys() == {"paper", "ink", "muted", "faint", "warning"}
    assert {name: DARK[color] for name, color in light.items()} == dark
    assert (light["paper"], light["ink"], light["warning"]) == (PAPER, INK, RED)

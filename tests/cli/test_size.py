"""``engram size``: depth and width for a lag."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from engram.cli._size import Size
from engram.errors import OptionError


def test_json(capsys: Any) -> None:
    Size(lag=200, json=True).run()
    content = json.loads(capsys.readouterr().out)
    assert content["sizes"][0] == {"depth": 1, "hidden": 201, "parameters": 40803, "units": 201, "fewest": False}
    best = [row for row in content["sizes"] if row["fewest"]]
    assert best == [{"depth": 200, "hidden": 2, "parameters": 1998, "units": 400, "fewest": True}]


def test_the_table(capsys: Any) -> None:
    Size(lag=8, channels=5).run()
    out = capsys.readouterr().out
    assert re.search(r"8 │ +10 │ +1,630 │ +80 │ fewest", out)
    assert out.count("│ fewest") == 1
    assert "fewest in theory: 1,630 parameters, 8 x 10 units\n" in out
    assert "whether training finds them is another question" in out


def test_a_huge_lag_in_few_layers(capsys: Any) -> None:
    Size(lag=10**12, max_depth=3, json=True).run()
    assert [row["depth"] for row in json.loads(capsys.readouterr().out)["sizes"]] == [1, 2, 3]


def test_the_picture(tmp_path: Path, capsys: Any) -> None:
    for name in ("a.svg", "b.svg"):
        Size(lag=8, channels=5, output=tmp_path / name, json=True).run()
    content = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    said = " ".join(re.findall(r"<!-- (.*?) -->", content))
    assert "fewest parameters: 1,630, with 8 x 10 units" in said
    assert content == (tmp_path / "b.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (Size(lag=0), "--lag must be at least 1"),
        (Size(lag=5, channels=0), "--channels must be at least 1"),
        (Size(lag=5, max_depth=0), "depth must be at least 1"),
        (Size(lag=10**12), "more than 10,000 sizes: set max_depth"),
        (Size(lag=5, output=Path("size.txt")), "must end in .svg or .png"),
    ],
)
def test_what_is_refused(size: Size, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        size.run()

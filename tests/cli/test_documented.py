"""Every command that a page of the documentation shows is understood."""

import re
import shlex
from pathlib import Path

import pytest

from engram.cli._app import parse

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [block for page in PAGES for block in re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL)]
WHOLE = [re.sub(r"\\\n\s*", " ", block) for block in BLOCKS]  # a line that ends in a backslash goes on
FOUND = {line.strip() for block in WHOLE for line in block.splitlines() if line.strip().startswith("engram ")}
LINES = sorted(line for line in FOUND if ".py:" not in line)  # models.md makes such files, and has tests of its own


@pytest.mark.parametrize("line", LINES)
def test_understood(line: str) -> None:
    """As far as it can be without the runs and files that it names; S is any seed."""
    words = ["0" if word == "S" else word for word in shlex.split(line, comments=True)]
    assert hasattr(parse(words[1:]), "run")


def test_there_are_such_lines() -> None:
    assert len(LINES) > 20

"""docs/probe.md is true: its code runs, its table has the questions, its transcript has the words."""

import re
from pathlib import Path

import torch
from torch import nn

from engram.probe import PARTS, Part, profile

PAGE = Path(__file__).parents[2] / "docs" / "probe.md"


def test_the_code_runs_and_adds_a_part() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert len(blocks) == 3
    added = names["Saturation"]
    assert isinstance(added, type)
    assert issubclass(added, Part)
    assert added.name not in PARTS


def test_every_question_is_there() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [(part.name, part.question) for part in PARTS.values()]


def test_the_transcript_has_the_words_of_today() -> None:
    """Of the LSTM, every line; the numbers are masked, they depend on the machine and here on fewer steps."""
    shown = re.search(r"probe-lstm.svg\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    torch.manual_seed(0)
    said = profile(nn.LSTM(8, 32), length=60, name="torch.nn:LSTM").words()

    def masked(text: str) -> str:
        return re.sub(r"\s+", " ", re.sub(r"-?\d+(\.\d+)?(e-\d+)?", "#", text)).strip()

    assert masked(shown[1]) == masked(said)

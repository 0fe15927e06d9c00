"""How wide one layer must be: from the certified rank, the theorem and the conjecture, kept apart."""

import json

import pytest

from engram.atlas import min_width
from engram.cli import main
from engram.errors import OptionError
from engram.theory.bounds import multiset


def test_within_the_limit() -> None:
    found = min_width(3, 3, 8, 2)
    assert found["certified"] == {"width": 45, "steps": 8, "templates": 3, "prime": 2147483629, "seed": 0}
    assert (found["proven"], found["conjectured"]) == ({"width": 15, "steps": 8}, None)
    assert found["width"] == 45
    assert found["parameters"] == {"deep": 39, "shallow": 3 * 45 + 45**2 + 45, "shallow_if_conjectured": None}


def test_more_templates_prove_more() -> None:
    assert min_width(2, 2, 8, 3)["width"] == 16
    assert min_width(2, 2, 8, 3, templates=3)["width"] == 54


def test_a_shallow_one_needs_its_own_width() -> None:
    assert min_width(3, 4, 6, 1)["width"] == 4


def test_beyond_the_limit() -> None:
    """Certified at 6 steps, where 9^3 rows fit; at 100 steps the theorem says more: it is a fact, too."""
    found = min_width(9, 3, 100, 2)
    assert (found["certified"]["steps"], found["certified"]["width"]) == (6, 30)
    assert found["proven"] == {"width": 1326, "steps": 100}
    assert found["width"] == 1326
    assert found["parameters"]["shallow"] == 9 * 1326 + 1326**2 + 1326


@pytest.mark.parametrize(("max_side", "steps"), [(15, 6), (16, 8), (17, 8)])
def test_a_grid_of_as_many_rows_as_are_allowed(max_side: int, steps: int) -> None:
    """2^4 = 16 rows at 8 steps."""
    assert min_width(2, 2, 20, 2, max_side=max_side)["certified"]["steps"] == steps


def test_a_conjecture_is_no_fact() -> None:
    found = min_width(9, 3, 100, 3)
    assert found["proven"] is None
    assert found["conjectured"]["width"] == 814726
    assert found["width"] == found["certified"]["width"] == 243


def test_too_many_templates() -> None:
    with pytest.raises(OptionError, match="at least 9 rows, and max_side is 8"):
        min_width(9, 3, 100, 3, max_side=8)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "min-width", "--task", "start-end", "--depth", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sizes"] == {"modes": 9, "channels": 3, "steps": 100, "depth": 3, "outputs": 3}
    assert found["task"] == "start-end"
    assert main(["certify", "min-width", "--task", "copying-memory", "--steps", "6", "--modes", "3"]) == 0
    said = capsys.readouterr().out
    assert "certified:    a circuit of depth 1 needs 27 channels or more" in said
    assert "theorem:      10 or more over 6 steps" in said
    assert "conjecture" not in said


def test_command_tells_conjectures_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", "min-width", "--modes", "9", "--steps", "100", "--depth", "4"]) == 0
    said = capsys.readouterr().out
    assert "over 6 steps" in said
    assert "(Conjecture 1, not proven)" in said
    assert "theorem" not in said


def test_a_length_beyond_all_grids() -> None:
    """Neither a grid nor a power of that length is made."""
    found = min_width(3, 3, 10**9, 3)
    assert (found["certified"]["steps"], found["certified"]["width"]) == (12, 729)
    assert found["conjectured"]["width"] == multiset(3, multiset(10**9 // 2, 2))
    assert min_width(3, 4, 10**9, 1)["width"] == 4

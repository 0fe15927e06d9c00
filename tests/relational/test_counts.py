"""Parameter counts: those of Table C.3 of Kerg (2022), and those of the layer sizes of Webb et al. 2021."""

import pytest
from tests.relational.conftest import Shown
from torch import nn

from engram.models import Model, make_network

TASKS = {
    "same/different": (2, 2),
    "RMTS": (6, 2),
    "dist3": (9, 4),
    "identity rules": (9, 4),
    "same/different 6": (6, 2),
    "RMTS 3": (9, 2),
    "identity rules 4": (13, 6),
}
"""T and the number of classes."""
CORELNET = (200_418, 205_026, 211_684, 211_684, 205_026, 211_170, 223_974)
ESBN = (1_910_757, 1_910_757, 1_911_783, 1_911_783, 1_910_757, 1_910_757, 1_912_809)
NHID = {  # the widths with which CoRelNet-nhid has the counts of the table; that of same/different 6 is of no width
    "same/different": (285_313, 1_910_760),
    "RMTS": (71_328, 1_910_754),
    "dist3": (34_258, 1_911_784),
    "identity rules": (34_258, 1_911_784),
    "RMTS 3": (35_664, 1_910_754),
    "identity rules 4": (17_489, 1_912_808),
}


def count(name: str, steps: int, classes: int, **settings: object) -> int:
    network: nn.Module = make_network(Shown(steps, classes), Model(name, **settings))  # type: ignore[arg-type]
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(("task", "expected"), list(zip(TASKS, CORELNET, strict=True)))
def test_corelnet(task: str, expected: int) -> None:
    assert count("corelnet", *TASKS[task]) == expected
    steps, classes = TASKS[task]
    assert expected == 198_624 + 256 + steps * (steps + 1) // 2 * 256 + 256 + 257 * classes
    full = count("corelnet", *TASKS[task], options={"entries": "full"})
    assert full == expected + 256 * steps * (steps - 1) // 2 != expected


@pytest.mark.parametrize(("task", "expected"), list(zip(TASKS, ESBN, strict=True)))
def test_esbn(task: str, expected: int) -> None:
    assert count("esbn", *TASKS[task]) == expected


@pytest.mark.parametrize("task", NHID)
def test_corelnet_nhid(task: str) -> None:
    hidden, expected = NHID[task]
    assert count("corelnet", *TASKS[task], hidden=hidden) == expected


def test_no_width_has_the_count_of_same_different_6() -> None:
    """Printed is 1,910,760, as for same/different; a unit more or less is 24 parameters."""
    steps, classes = TASKS["same/different 6"]
    counts = [count("corelnet", steps, classes, hidden=hidden) for hidden in (71_328, 71_329)]
    assert counts == [1_910_754, 1_910_778]


@pytest.mark.parametrize(
    ("name", "steps", "expected"),
    [
        ("transformer", 2, 430_946),
        ("rn", 2, 529_122),
        ("lstm", 2, 1_514_722),
        ("ntm", 2, 2_573_038),
        ("predinet", 2, 471_834),
        ("predinet", 6, 1_000_218),
        ("mnm", 2, 579_299 - 33_920),  # without two layers that the program has and never uses
    ],
)
def test_the_others(name: str, steps: int, expected: int) -> None:
    assert count(name, steps, 2, **({"hidden": 512} if name == "lstm" else {})) == expected


def test_a_symmetric_transformer_has_no_keys_of_its_own() -> None:
    assert count("transformer", 2, 2, options={"symmetric": True}) == 430_946 - (128 * 128 + 128)

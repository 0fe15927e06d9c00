"""Wrong options: one line that names what is allowed."""

import re
from typing import Any

import pytest

from engram.errors import DTypeError, EngramError, OptionError
from engram.tasks import make_task

LARGEST = {  # m: the least but 0, and the largest
    "same-different": (2, 98),
    "rmts": (5, 95),
    "dist3": (4, 96),
    "identity-rules": (4, 96),
    "rmts3": (8, 94),
    "same-different6": (2, 98),
    "identity-rules4": (6, 94),
    "dist-n": (11, 89),
    "separated": (2, 98),
    "comparison": (1, 99),
    "transitive-comparison": (1, 99),
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_holdout_is_named(name: str) -> None:
    least, most = LARGEST[name]
    for holdout in (0, least, most):
        task = make_task(name, holdout=holdout)
        assert len(task.batches("train", 4)[0].inputs) == task.steps
        assert len(task.batches("test", 4, size=16)[0].inputs) == task.steps
    for holdout in {least - 1, most + 1} - {0}:
        with pytest.raises(OptionError) as caught:
            make_task(name, holdout=holdout)
        text = str(caught.value)
        assert "\n" not in text
        assert text.startswith("holdout must be ")
        assert f"got {holdout}" in text
        assert str(most) in text or holdout > 100


WRONG: dict[str, tuple[str, dict[str, Any], type[EngramError], str]] = {
    "too many for rmts": (
        *("rmts", {"holdout": 97}, OptionError),
        "holdout must be 0 or from 5 to 95: of the 100 shapes rmts needs 5 for training and 5 for the test; got 97",
    ),
    "negative": ("rmts", {"holdout": -1}, OptionError, "holdout must be at least 0, got -1"),
    "a half": ("rmts", {"holdout": 1.5}, DTypeError, "holdout must be a whole number"),
    "N too large": (
        *("dist-n", {"number": 50}, OptionError),
        "number must be from 2 to 49 with holdout=50: N + 1 different shapes are shown, in training and in the test, "
        "out of 100; got 50",
    ),
    "N above the objects": ("dist-n", {"number": 100, "holdout": 0}, OptionError, "number must be from 2 to 99"),
    "N of one": ("dist-n", {"number": 1}, OptionError, "number must be from 2 to 49"),
    "too few to restrict": ("dist-n", {"number": 3, "restricted": True}, OptionError, "number must be from 4 to 49"),
    "spurious": ("dist3", {"spurious": "no"}, DTypeError, "spurious must be True or False, got 'no'"),
    "level": (
        *("same-different6", {"level": "row"}, OptionError),
        "unknown level 'row': expected one of image, pattern",
    ),
    "pattern": (
        *("identity-rules4", {"without": ("ABCA",)}, OptionError),
        "unknown pattern 'ABCA': expected one of AAAA, AABA, AABB, ABAA, ABAB, ABBA, ABBB",
    ),
    "no pattern left": (
        *("identity-rules4", {"without": ("ABCA", "ABCB", "ABCC"), "flipped": True}, OptionError),
        "without must leave one of the patterns ABCA, ABCB, ABCC to train on",
    ),
    "one pattern as a word": ("identity-rules4", {"without": "ABAA"}, DTypeError, "without must be several patterns"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    name, options, error, message = WRONG[case]
    with pytest.raises(error, match=re.escape(message)):
        make_task(name, **options)


def test_wrong_split_and_size() -> None:
    task = make_task("rmts")
    with pytest.raises(OptionError, match="unknown split 'tset': expected one of test, train, valid"):
        task.batches("tset", 4)
    with pytest.raises(OptionError, match="batch_size must be at least 1"):
        task.batches("train", 0)
    with pytest.raises(OptionError, match="batch_size must be at least 1"):
        task.sample(0, None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="size must be at least 0"):
        task.batches("test", 4, size=-1)

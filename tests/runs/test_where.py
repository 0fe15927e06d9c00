"""Conditions as text: what they mean, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import OptionError
from engram.runs import Where

ROW = {"task": "copy", "hidden": 64, "lr": 1e-3, "model": "exprnn", "trained": True, "schedule": None, "best-of": 3}

TRUE = [
    "task=copy",
    "task = copy and hidden>=64",
    "hidden<100 and hidden!=65",
    "lr=0.001",
    "lr<=1e-3",
    "not task=adding",
    "task=adding or model=exprnn",
    "task=adding or hidden>3 and model=exprnn",
    "(task=adding or hidden>3) and not (model=lstm)",
    "trained=true",
    "trained != 1",
    "schedule=none",
    "missing!=3",
    'task="copy"',
    "hidden == 64.0",
]
FALSE = [
    "task=adding",
    "hidden>64",
    "missing=3",
    "missing<3",
    "task<3",
    "task=copy and hidden=3",
    "trained=1",
    "lr>abc",
]


@pytest.mark.parametrize("text", TRUE)
def test_holds(text: str) -> None:
    assert Where(text)(ROW)


@pytest.mark.parametrize("text", FALSE)
def test_does_not_hold(text: str) -> None:
    assert not Where(text)(ROW)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a name, got its end"),
        ("task", "expected one of = != < <= > >=, got its end"),
        ("task=", "expected a value, got its end"),
        ("task=copy hidden=3", "expected and, or, or the end, got 'hidden'"),
        ("(task=copy", "expected a closing parenthesis, got its end"),
        ("task=copy and", "expected a name, got its end"),
        ("=3", "expected a name, got '='"),
        ("task copy", "expected one of = != < <= > >=, got 'copy'"),
        ('task="copy', "cannot be read"),
        ("x" * 20_000, "a condition is a text"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Where(text)


def test_unknown_name_has_the_nearest() -> None:
    with pytest.raises(OptionError, match="Did you mean 'hidden'"):
        Where("hiden>3", known=("hidden", "task"))
    assert Where("hidden>3", known=("hidden", "task")).names == ("hidden",)


def test_hyphens_are_underscores() -> None:
    assert Where("lr-orthogonal=3")({"lr_orthogonal": 3})


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(OptionError):
        Where(text)(ROW)


@given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
def test_comparisons_are_pythons(a: int, b: int, sign: str) -> None:
    python = eval(f"{a} {'==' if sign == '=' else sign} {b}")
    assert Where(f"a {sign} {b}")({"a": a}) == python


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(OptionError, match="nested"):
        Where("(" * 5000 + "a=1" + ")" * 4000)


@pytest.mark.parametrize("opening", ["(", "not "])
def test_fifty_deep_and_no_deeper(opening: str) -> None:
    """A comparison is one of them."""
    close = ")" if opening == "(" else ""
    for depth, taken in ((49, True), (50, False)):
        text = opening * depth + "hidden=64" + close * depth
        if taken:
            assert Where(text)(ROW) is (opening == "(" or depth % 2 == 0)
        else:
            with pytest.raises(OptionError, match="is nested more than 50 deep"):
                Where(text)


@pytest.mark.parametrize("part", ["task=adding", "(task=adding)", "not task=copy", "(not (task=copy))"])
@pytest.mark.parametrize("word", ["or", "and"])
def test_long_is_not_deep(part: str, word: str) -> None:
    """Two hundred conditions beside each other, all of which fail."""
    assert not Where(f" {word} ".join([part] * 200))(ROW)
    assert Where(f" {word} ".join([part] * 200) + " or hidden=64")(ROW)


def test_as_long_as_is_read() -> None:
    text = "hidden=64"
    assert Where(text + " " * (10_000 - len(text)))(ROW)
    with pytest.raises(OptionError, match="a condition is a text such as"):
        Where(text + " " * (10_001 - len(text)))
    with pytest.raises(OptionError, match="a condition is a text such as"):
        Where(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("a=TRUE", True, True),
        ("a=False", False, True),
        ("a=None", None, True),
        ("a='none'", None, False),  # in quotes it is a text
        ("a='none'", "none", True),
        ("a='7'", 7, False),
        ("a='7'", "7", True),
        ("a=7", 7, True),
        ("a=007", 7, True),
        ("a=9007199254740993", 9007199254740993, True),  # which no float64 is
        ("a=9007199254740993", 9007199254740992, False),
        ("a=inf", float("inf"), True),
        ("a=1", True, False),
        ("a!=1", True, True),
        ("a<2", True, False),
        ("a!=true", 1, True),
        ("a!='x'", 3, True),
        ("a<'x'", 3, False),
        ("a>='b'", "b", True),
        ("a>'b'", "c", True),
        ('a="x y and z=3"', "x y and z=3", True),
        ('a=""', "", True),
    ],
)
def test_values(text: str, value: object, holds: bool) -> None:
    assert Where(text)({"a": value}) is holds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'task'=copy", "expected a name, got \"'task'\""),
        ("task=(copy)", r"expected a value, got '\('"),
        ("task==", "expected a value, got its end"),
        ("task='='", None),
        ("task=copy and and hidden=3", "expected one of = != < <= > >=, got 'hidden'"),
        ("task=copy)", r"expected and, or, or the end, got '\)'"),
        ("task=copy 'and' hidden=3", "expected and, or, or the end, got \"'and'\""),
    ],
)
def test_what_stands_where(text: str, words: str | None) -> None:
    if words is None:
        assert not Where(text)(ROW)
        return
    with pytest.raises(OptionError, match=words):
        Where(text)


def test_each_name_once_in_the_order_of_the_text() -> None:
    assert Where("b=1 and a=2 or not b-c=3 and b<4").names == ("b", "a", "b_c")

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

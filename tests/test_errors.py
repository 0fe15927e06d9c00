"""The exceptions: one family, also of torch's kind, with messages that help."""

import inspect
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import errors
from engram.errors import (
    BusyError,
    CertificateError,
    DataError,
    DivergedError,
    DTypeError,
    EngramError,
    FileError,
    ManifoldError,
    NonFiniteError,
    OptionError,
    RunError,
    ShapeError,
    StepError,
    StoppedError,
    check_between,
    check_choice,
    check_flag,
    check_number,
    check_size,
    unknown,
)

CAUGHT_AS = {
    ShapeError: (ValueError, RuntimeError),
    DTypeError: (TypeError, ValueError),
    StepError: (RuntimeError,),
    OptionError: (ValueError,),
    NonFiniteError: (ValueError,),
    ManifoldError: (ValueError,),
    FileError: (ValueError,),
    DataError: (ValueError,),
    CertificateError: (ValueError,),
    RunError: (),
    BusyError: (RunError,),
    StoppedError: (),
    DivergedError: (StoppedError,),
}


def test_the_table_is_complete() -> None:
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, EngramError)}
    assert classes == {EngramError, *CAUGHT_AS}


@pytest.mark.parametrize("error", CAUGHT_AS)
def test_code_written_for_torch_catches_them(error: type[EngramError]) -> None:
    for kind in (EngramError, *CAUGHT_AS[error]):
        with pytest.raises(kind, match="why"):
            raise error("why")
    assert error.__doc__


NEAREST = {
    "tahn": "tanh",
    "TANH": "tanh",
    "Relu": "relu",
    "modReLU": "modrelu",
    "sigmod": "sigmoid",
    "mind": None,  # sigmoid is nearest, and not near
    "xyzzy": None,
    "": None,
    None: None,
    3: None,
}
KNOWN = ("identity", "tanh", "relu", "sigmoid", "modrelu")


def test_of_a_long_list_the_nearest_names() -> None:
    names = [f"name{k}" for k in range(100)] + ["hidden"] * 2
    message = str(unknown("setting", "hiden", names))
    assert message == "unknown setting 'hiden': expected one of hidden and 100 others. Did you mean 'hidden'?"
    for other in ("xyzzy", "hxxxxn"):  # nothing is near, or not near enough to be a slip: the whole list
        assert ", ".join(sorted(set(names))) in str(unknown("setting", other, names))


@pytest.mark.parametrize(("count", "shown"), [(50, 50), (51, 5)])
def test_how_long_a_list_is_told(count: int, shown: int) -> None:
    """Fifty names in full; of more the five nearest, if the name is a slip. The nearest one is the hint."""
    message = str(unknown("name", "hidden", [f"hidden{k:02}" for k in range(count)]))
    assert len(message.partition("expected one of ")[2].partition(". Did")[0].split(", ")) == shown
    assert ("and 46 others" in message) == (count == 51)
    assert "Did you mean 'hidden" in message


def test_where_a_name_is_unknown() -> None:
    """The name stands before ``of``, ``in`` and ``to``, once."""
    for kind, said in {
        "option of copy": "unknown option 'x' of copy:",
        "name in a list of lists": "unknown name 'x' in a list of lists:",
        "way to Rome": "unknown way 'x' to Rome:", "softness": "unknown softness 'x':",
    }.items():  # fmt: skip
        assert str(unknown(kind, "x", ["one"])).startswith(f"{said} expected one of one.")


@pytest.mark.parametrize("name", NEAREST)
def test_nearest_name(name: object) -> None:
    message = str(unknown("activation", name, KNOWN))
    assert message.startswith(f"unknown activation {name!r}: expected one of identity, modrelu, relu, sigmoid, tanh.")
    hint = f" Did you mean {NEAREST[name]!r}?" if NEAREST[name] else ""  # type: ignore[index]
    assert message.endswith(f"tanh.{hint}")


def test_choice_returns_the_name() -> None:
    assert check_choice("activation", "relu", KNOWN) == "relu"
    with pytest.raises(OptionError, match="unknown activation 'rel'.*Did you mean 'relu'"):  # noqa: RUF043
        check_choice("activation", "rel", KNOWN)


@pytest.mark.parametrize("known", [KNOWN, {*KNOWN}, dict.fromkeys(KNOWN)], ids=["tuple", "set", "dict"])
@pytest.mark.parametrize("wrong", [["tanh"], {"tanh": 1}, {"tanh"}, ("tanh",), b"tanh", None, 3, True, float], ids=str)
def test_a_choice_of_another_type_is_refused_by_name(wrong: object, known: Iterable[str]) -> None:
    """Also what has no hash, for which a set or a dictionary would raise a TypeError of its own."""
    with pytest.raises(OptionError) as caught:
        check_choice("activation", wrong, known)  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"unknown activation {wrong!r}: expected one of identity, modrelu, relu, ")


@given(value=st.integers(1, 10**6))
def test_size_returns_the_value(value: int) -> None:
    assert check_size("n", value) == value
    assert check_size("n", value, least=value) == value
    assert check_size("n", value, most=value) == value


WRONG_SIZES = [
    (0, OptionError, "n must be at least 1, got 0"),
    (-7, OptionError, "n must be at least 1, got -7"),
    (2.0, DTypeError, "n must be a whole number (int), got 2.0 of type float"),
    ("2", DTypeError, "n must be a whole number (int), got '2' of type str"),
    (True, DTypeError, "n must be a whole number (int), got True of type bool"),
    (None, DTypeError, "n must be a whole number (int), got None of type NoneType"),
    (2**63, OptionError, "n must be at most 9,223,372,036,854,775,807, got 9223372036854775808"),
    (10**400, OptionError, "n must be at most 9,223,372,036,854,775,807, got a number of 401 digits"),
    (-(10**5000), OptionError, "n must be at least 1, got a number of 5,001 digits"),  # more than Python writes
]


@pytest.mark.parametrize(("value", "error", "message"), WRONG_SIZES, ids=[message for *_, message in WRONG_SIZES])
def test_wrong_size(value: object, error: type[EngramError], message: str) -> None:
    with pytest.raises(error) as caught:
        check_size("n", value)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [0.5, 1e-300, 0.999])
def test_between_returns_the_value(value: float) -> None:
    assert check_between("epsilon", value, 0, 1) == value


@pytest.mark.parametrize("value", [0, 0.0, 1, 1.0, -0.1, 2, float("nan"), float("inf")])
def test_neither_end_is_between(value: float) -> None:
    with pytest.raises(OptionError, match=rf"epsilon must lie between 0 and 1.*got {value}"):
        check_between("epsilon", value, 0, 1)


def test_numbers_and_flags_are_not_taken_for_each_other() -> None:
    assert check_number("n", 3) == 3
    assert check_number("n", float("-inf")) == float("-inf")
    assert check_flag("n", False) is False
    for wrong in (True, "1", None):
        with pytest.raises(DTypeError, match="n must be a number"):
            check_number("n", wrong)
    for wrong in (0, 1, "no", None):
        with pytest.raises(DTypeError, match="n must be True or False"):
            check_flag("n", wrong)
    with pytest.raises(OptionError, match="n must be a number below"):
        check_number("n", -(2**63))

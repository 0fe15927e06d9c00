"""Which rows, in which order."""

from typing import Any

import pytest

from engram.errors import OptionError
from engram.runs import Row, list_runs, select
from made_runs import make_run


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    out = tmp_path_factory.mktemp("runs")
    for k, (model, hidden) in enumerate([("exprnn", 64), ("lstm", 128), ("exprnn", 128), ("gru", 32)]):
        make_run(out / f"r{k}", model=model, hidden=hidden, seed=k, accuracy=0.2 * k, delay=5 + k)
    make_run(out / "r4", status="failed", results=..., best=None, validations=0, model="lstm")
    (out / "r5").mkdir()
    (out / "r5" / "run.json").write_text("no")
    return list_runs(out)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("hidden>64", ["r1", "r2"]),
        ("model=exprnn and hidden>64", ["r2"]),
        ("test_accuracy>=0.4", ["r2", "r3"]),
        ("score>0.5", ["r3"]),
        ("status=damaged", ["r5"]),
        ("status=failed or delay=6", ["r1", "r4"]),
        ("name=r3", ["r3"]),
        ("run=r3", ["r3"]),
        ("size>64", ["r1", "r2"]),
        ("age<1", ["r5"]),
        ("not status=done", ["r4", "r5"]),
        ("hidden>1000", []),
    ],
)
def test_where(rows: list[Row], where: str, names: list[str]) -> None:
    found = select(rows, where)
    assert sorted(row.name for row in found if where != "age<1" or row.name == "r5") == names


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("score", ["r0", "r1", "r2", "r3"]),
        ("-score", ["r3", "r2", "r1", "r0"]),
        ("-hidden", ["r1", "r2", "r0", "r3", "r4"]),
        ("-size", ["r1", "r2", "r0", "r3", "r4"]),
        ("delay", ["r0", "r4", "r1", "r2", "r3"]),
        ("-test-accuracy", ["r3", "r2", "r1", "r0"]),
        ("test-accuracy", ["r0", "r1", "r2", "r3"]),
    ],
)
def test_sort(rows: list[Row], sort: str, first: list[str]) -> None:
    """Rows without the value come last, whatever the order."""
    found = [row.name for row in select(sorted(rows, key=lambda row: row.name), sort=sort)]
    assert found[: len(first)] == first
    assert len(found) == len(rows)


def test_unknown_names(rows: list[Row]) -> None:
    with pytest.raises(OptionError, match="Did you mean 'hidden'"):
        select(rows, "hiden=3")
    with pytest.raises(OptionError, match="Did you mean 'score'"):
        select(rows, sort="-scoer")
    assert select(rows, "rho>3 and task=copy", also=["rho"]) == []
    assert select([], "anything=3", "whatever") == []


def test_no_rows_know_no_names() -> None:
    """So none is wrong; and a name that is known elsewhere can be sorted by, though no row has it."""
    assert select([], "anything=3", sort="-whatever") == []
    rows = [Row("a", "new"), Row("b", "done")]
    assert select(rows, sort="rho", also=["rho"]) == rows
    with pytest.raises(OptionError, match="unknown name 'rho' to sort by"):
        select(rows, sort="rho")


def test_what_is_sorted() -> None:
    """Numbers, then texts; what is empty last; equal ones in the order in which they came."""
    values: list[Any] = ["b", 2, None, "", "a", 0, -1.5, 2.0, True]
    rows = [Row(str(k), "done", settings={"x": value}) for k, value in enumerate(values)]
    assert [row.name for row in select(rows, sort="x")] == [*"658174023"]
    assert [row.name for row in select(rows, sort="-x")] == [*"041785623"]
    assert [row.name for row in select(rows)] == [*"012345678"]


def test_a_score_goes_before_a_setting_of_its_name() -> None:
    row = Row("a", "done", task="copy", settings={"task": "x", "test_loss": 3, "lr": 1}, scores={"test_loss": 0.5})
    assert [row.get(name) for name in ("task", "test_loss", "lr", "none")] == ["copy", 0.5, 1, None]
    assert row.flat() == {**row.flat(), "task": "copy", "test_loss": 0.5, "lr": 1, "name": "a"}
    assert "settings" not in row.flat()

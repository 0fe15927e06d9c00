"""The sweep file: which runs it stands for, and what is refused, with its line."""

from typing import Any

import pytest

from engram.errors import OptionError
from engram.models import MODELS, default_hidden, model_class
from engram.runs import Where
from engram.sweep import SweepFile, make_plan, read_sweep
from engram.sweep._file import Ladder
from engram.sweep._lines import line_of, line_of_setting
from engram.sweep._search_file import Range, Search


def rows(**parts: Any) -> list[dict[str, Any]]:
    return [row for row, _, _ in SweepFile(**parts).rows()]


def test_grid_is_every_combination_in_order() -> None:
    found = rows(base={"task": "copy"}, grid={"a": [1, 2], "b": ["x", "y"]}, seeds=(0, 7))
    assert found[:3] == [
        {"task": "copy", "a": 1, "b": "x", "seed": 0},
        {"task": "copy", "a": 1, "b": "x", "seed": 7},
        {"task": "copy", "a": 1, "b": "y", "seed": 0},
    ]
    assert len(found) == 8


def test_list_is_combined_with_the_grid_and_overrides_the_base() -> None:
    found = rows(base={"lr": 1, "task": "copy"}, list=({"lr": 2}, {"lr": 3, "clip": 0}), grid={"a": [1, 2]})
    assert [(row["lr"], row.get("clip"), row["a"]) for row in found] == [
        (2, None, 1),
        (2, None, 2),
        (3, 0, 1),
        (3, 0, 2),
    ]


def test_conditions_apply_in_order_and_see_what_was_set(write: Any) -> None:
    file = read_sweep(
        write(
            """
            seeds = 1
            [base]
            task = "copy"
            lr = 1.0
            [grid]
            model = ["rnn", "lstm", "gru"]
            [[when]]
            if = "model=lstm"
            set = {lr = 2.0}
            [[when]]
            if = "lr=2"
            set = {clip = 0.5}
            [[when]]
            if = "model=gru"
            skip = true
            """
        )
    )
    assert [(row["model"], row["lr"], row.get("clip")) for row, _, _ in file.rows()] == [
        ("rnn", 1.0, None),
        ("lstm", 2.0, 0.5),
    ]


def test_ladder_goes_over_its_values_for_every_combination() -> None:
    from engram.sweep._file import Ladder

    file = SweepFile(grid={"a": [1, 2]}, ladder=Ladder("delay", (10, 20), Where("accuracy>0.9")))
    assert [(row["a"], row["delay"], ladder, place) for row, ladder, place in file.rows()] == [
        (1, 10, 0, 0),
        (1, 20, 0, 1),
        (2, 10, 1, 0),
        (2, 20, 1, 1),
    ]


def test_names_with_hyphens(write: Any) -> None:
    file = read_sweep(write('[base]\ntask = "copy"\nvalidate-every = 5\n[grid]\nlr-orthogonal = [1e-3]'))
    assert file.base["validate_every"] == 5
    assert list(file.grid) == ["lr_orthogonal"]


REFUSED = [
    ("seedz = 3", "line 1: unknown name 'seedz' in a sweep file.*Did you mean 'seeds'"),
    ("\n\n[gird]\nlr = [1]", "line 3: unknown name 'gird' in a sweep file.*Did you mean 'grid'"),
    ("[base]\ntask = 'copy'\nseed = 3", "line 3: seeds stand at the top"),
    ("[grid]\nlr = 3", "line 2: lr in .grid. must be a list of values"),
    ("[grid]\nlr = []", "line 2: lr in .grid. must be a list of values"),
    ("[grid]\nlr = [1]\n[[list]]\na = 2\n[[list]]\nlr = 3", "line 6: lr is in .grid. and in"),
    ("seeds = 0", "seeds must be"),
    ("seeds = [1, 1]", "line 1: seeds must differ"),
    ("seeds = 'x'", "seeds must be"),
    ("[[when]]\nif = 'a=1'", "line 2: ..when.. has if ="),
    ("[[when]]\nif = 'a='\nskip = true", "line 2: the condition 'a='"),
    (
        "[base]\nhidden = 3\n[[when]]\nif = 'hiden=1'\nskip = true",
        "unknown name .* in the condition.*Did you mean 'hidden'",
    ),
    ("[[when]]\nif = 'a=1'\nskip = true\nset = {lr = 1}", "line 2: ..when.. has if ="),
    ("[[when]]\nif = 'task=copy'\nskip = false", "line 3: skip must be true"),
    ("[[when]]\nif = 'task=copy'\nskipp = true", "line 3: unknown name 'skipp' in ..when.."),
    ("[ladder]\nover = 'delay'", "line 1: .ladder. has over"),
    ("[ladder]\nover = 'delay'\nvalues = 3\nsolved = 'loss<1'", "line 2: .ladder. goes over"),
    ("name = '../x'", "line 1: name must be that of a folder"),
    ("name = '.x'", "name must be that of a folder"),
    ("retries = -1", "retries must be"),
    ("together = 3", "together must be"),
    ("base = 3", "line 1: base must be a table"),
    ("list = 3", "line 1: list is written as tables"),
    ("[base", "is not TOML"),
    ("\nretries = 'x'", "line 2: retries must be"),
    ("seeds = [-1]", "line 1: a seed must be"),
    ("[base]\nvalid-samples = 3\nvalid_samples = 4", "line 2: valid-samples is given twice"),
    ("[grid]\ndelay = [1]\n[ladder]\nover = 'delay'\nvalues = [1]\nsolved = 'loss<1'", "line 4: the ladder goes over"),
    ("[ladder]\nover = 'seed'\nvalues = [1]\nsolved = 'loss<1'", "line 2: a ladder cannot go over seeds"),
    ("\n[[when]]\nif = 'hiden=1'\nskip = true", "line 3: unknown name 'hiden' in the condition 'hiden=1'.*'hidden'"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_refused_with_the_line(write: Any, text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_sweep(write(text))


def test_too_many_runs_are_refused_with_their_number(write: Any) -> None:
    grid = "\n".join(f"{name} = {list(range(100))}" for name in ("a", "b", "c", "d"))
    with pytest.raises(OptionError, match=r"100,000,000 runs, and at most 1,000,000"):
        read_sweep(write(f"[grid]\n{grid}"))


MANY: dict[str, dict[str, Any]] = {
    "list": {"list": tuple({"lr": float(k)} for k in range(1, 1002))},
    "grid": {"grid": {"lr": [1.0] * 7, "clip": [1.0] * 143}},
    "ladder": {"ladder": Ladder("delay", tuple(range(1001)), Where("loss<1"))},
    "search": {"search": Search({"lr": Range(0.1, 1.0)}, trials=1001)},
}


@pytest.mark.parametrize("what", MANY)
def test_all_that_makes_runs_is_counted(what: str) -> None:
    """A thousand seeds of a thousand and one settings; nine hundred of them are allowed."""
    with pytest.raises(OptionError, match=r"the sweep has 1,001,000 runs"):
        SweepFile(**MANY[what], seeds=tuple(range(1000)))
    assert len(SweepFile(**MANY[what], seeds=tuple(range(900))).seeds) == 900


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[base]\ntask = 'copy'\ndelai = 3", r"run 1 \(seed=0\): unknown setting 'delai' of exprnn on copy.*'delay'"),
        ("[base]\ntask = 'copi'", "run 1 .*unknown task 'copi'.*Did you mean 'copy'"),
        ("[base]\nmodel = 'lstm'", "run 1 .*settings need a task"),
        ("[base]\ntask = 'copy'\n[grid]\nlr = [1, -1]", r"run 2 \(lr=-1, seed=0\): lr must be positive"),
        (
            "[base]\ntask = 'copy'\nparameters = 10",
            "^line 3: run 1 .*parameters = 10 is met by no width of exprnn on copy: hidden = 1 has 29 already",
        ),
        ("[base]\ntask = 'copy'\nparameters = 1000\nhidden = 3", "parameters decides the width"),
        ("[base]\ntask = 'x.py:Task'", "run 1 .*allow"),
        (
            "[base]\ntask = 'copy'\n[ladder]\nover = 'delay'\nvalues = [1]\nsolved = 'acuracy>1'",
            "^line 6: unknown name 'acuracy' in the condition 'acuracy>1'.*Did you mean 'accuracy'",
        ),
    ],
)
def test_runs_are_checked_before_any_starts(write: Any, text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_plan(read_sweep(write(text)))


def test_condition_sees_the_defaults(write: Any) -> None:
    text = "[base]\ntask = 'copy'\n[[when]]\nif = 'layers=1 and model=exprnn'\nset = {clip = 0.5}"
    assert [row["clip"] for row, _, _ in read_sweep(write(text)).rows()] == [0.5]


def test_condition_sees_the_width_of_the_model(write: Any) -> None:
    """Some models have a default width of their own."""
    others = {name: width for name in MODELS if (width := default_hidden(model_class(name))) != 128}
    name, width = next(iter(others.items()))
    grid = f"[base]\ntask = 'copy'\n[grid]\nmodel = ['lstm', '{name}']\n"
    for hidden, changed in ((128, ["lstm"]), (width, [name])):
        text = f"{grid}[[when]]\nif = 'hidden={hidden}'\nset = {{lr = 3.0}}"
        rows = [row for row, _, _ in read_sweep(write(text)).rows()]
        assert [row["model"] for row in rows if row.get("lr") == 3.0] == changed


def test_condition_sees_the_defaults_of_the_task(write: Any) -> None:
    """Those of its papers: the rate, and the width of an LSTM; and a run has what the condition saw."""
    grid = "[base]\ntask = 'rmts'\nsteps = 1\n[grid]\nmodel = ['lstm', 'gru']\n"
    for condition, changed in (("hidden=512", ["lstm"]), ("hidden=128", ["gru"]), ("lr=5e-4", ["lstm", "gru"])):
        text = f"{grid}[[when]]\nif = '{condition}'\nset = {{save_every = 3.0}}"
        runs = make_plan(read_sweep(write(text))).runs
        assert [run.settings.model.name for run in runs if run.settings.machine.save_every == 3.0] == changed
        assert [run.settings.model.hidden for run in runs] == [512, 128]


def test_sweep_without_a_run_is_refused(write: Any) -> None:
    with pytest.raises(OptionError, match="the sweep has no run"):
        make_plan(read_sweep(write("[base]\ntask = 'copy'\n[[when]]\nif = 'task=copy'\nskip = true")))


def test_none_is_written_as_text(write: Any) -> None:
    file = read_sweep(write("[grid]\nmomentum = ['None', 0.5]\n[base]\nlr_orthogonal = 'None'"))
    assert file.grid["momentum"] == [None, 0.5]
    assert file.base["lr_orthogonal"] is None


def test_missing_file_says_how_to_get_one(tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="engram sweep --example"):
        read_sweep(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("[base]\ntask = 'copy'\nhiden = 3", 3, "'hidden'"),
        ("[base]\ntask = 'copy'\n[grid]\nlrr = [1e-3]", 4, "'lr'"),
        ("[base]\ntask = 'copy'\n[[list]]\nlr = 1e-3\n[[list]]\nlr = 2e-3\nvalid-sample = 3", 7, "valid_samples"),
        ("[base]\ntask = 'copy'\n[[when]]\nif = 'task=copy'\nset = {lrr = 1}", 5, "'lr'"),
        ("[base]\ntask = 'copy'\n[ladder]\nover = 'dely'\nvalues = [3]\nsolved = 'loss<1'", 4, "'delay'"),
        ("[base]\ntask = 'copy'\nhidden = 'four'", 3, "whole number"),
        ("[base]\ntask = 'copy'\noptions = 3", 3, "options must be a table"),
        ("[base]\ntask = 'cpy'", 2, "'copy'"),
        ("[base]\ntask = 'copy'\nhidden = 4\nactivation = 'tahn'", 4, "'tanh'"),
    ],
)
def test_a_wrong_setting_is_told_with_its_line(write: Any, text: str, line: int, about: str) -> None:
    with pytest.raises(OptionError, match=rf"^line {line}: .*{about}"):
        make_plan(read_sweep(write(text)))


def test_no_line_rather_than_a_wrong_one(write: Any) -> None:
    text = "[base]\ntask = 'copy'\nhidden = 4\n[[list]]\nhidden = 'four'"
    with pytest.raises(OptionError, match=r"^run 1 \(hidden=four, seed=0\): hidden must be a whole number"):
        make_plan(read_sweep(write(text)))


@pytest.mark.parametrize("name", ["a\\nb", "a\\u001b[31m", "a\\u0000", "a" * 300])
def test_a_name_that_no_terminal_or_disk_takes(write: Any, name: str) -> None:
    with pytest.raises(OptionError, match="line 1: name must be that of a folder"):
        read_sweep(write(f'name = "{name}"\n[base]\ntask = "copy"'))


def test_a_comment_sets_nothing() -> None:
    text = "[base]\n# hiden = 3\nlr = 1  # not hiden = 5\nhiden = 4"
    assert line_of_setting(text, ["lr", "hiden"], "unknown setting 'hiden' of exprnn: expected one of") == 4
    assert line_of_setting(text, ["lr"], "lr must be positive, got 0") == 3
    assert line_of(text, "base", "hiden") == 4

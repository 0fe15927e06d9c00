"""Small runs of a sweep that train together: which, and that it changes no byte how they are put together."""

from pathlib import Path
from typing import Any

import pytest
from tests.sweep.conftest import run_here

from engram.sweep import FORMATS, Here, Sweep, make_plan, read_sweep, rows_of, units
from engram.sweep._together import MOST, SMALL, _fits, in_parts, kind_of
from engram.tasks import Adding, Copy
from engram.train import Settings

SETTINGS = Settings.of(Copy(delay=5), "exprnn", hidden=8, batch=4, steps=4, threads=1)


def test_runs_that_differ_in_seed_and_rates_are_of_one_kind() -> None:
    kinds = {kind_of(SETTINGS.replace(**change)) for change in ({}, {"seed": 3}, {"lr": 0.1}, {"clip": 0.0})}
    assert len(kinds) == 1
    assert kinds != {""}


@pytest.mark.parametrize("change", [{"hidden": 9}, {"steps": 5}, {"batch": 5}, {"model": "lstm"}, {"task": Adding(5)}])
def test_others_are_not(change: dict[str, Any]) -> None:
    assert kind_of(SETTINGS.replace(**change)) != kind_of(SETTINGS)


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS.replace(hidden=int((SMALL / 4) ** 0.5) + 1),  # too large to gain
        SETTINGS.replace(model="lstm", layers=2, options={"dropout": 0.5}),
        SETTINGS.replace(processes=2),
        SETTINGS.replace(precision="bf16-mixed"),
    ],
)
def test_what_cannot_train_together_trains_alone(settings: Settings) -> None:
    assert kind_of(settings) == ""


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_each_number_of_layers_is_decided_by_itself(order: tuple[int, int]) -> None:
    """Dropout is between layers: whichever comes first, one layer trains together and two do not."""
    _fits.cache_clear()
    settings = SETTINGS.replace(model="lstm", options={"dropout": 0.5})
    assert [kind_of(settings.replace(layers=layers)) != "" for layers in order] == [layers == 1 for layers in order]


@pytest.mark.parametrize(
    ("count", "workers", "sizes"), [(5, 2, [3, 2]), (40, 2, [8] * 5), (3, 8, [1] * 3), (1, 1, [1])]
)
def test_parts(count: int, workers: int, sizes: list[int]) -> None:
    assert [len(range(count)[part]) for part in in_parts(count, workers)] == sizes
    assert max(sizes) <= MOST


@pytest.mark.parametrize(("workers", "sizes"), [(1, [3, 3]), (2, [3, 3]), (3, [2, 1, 2, 1]), (8, [1] * 6)])
def test_kinds_that_keep_all_workers_busy_stay_whole(workers: int, sizes: list[int], write: Any) -> None:
    plan = make_plan(read_sweep(write("seeds = 3\n[base]\ntask = 'copy'\n[grid]\nhidden = [4, 8]")))
    assert [len(unit) for unit in units(plan, {}, workers)] == sizes


def test_deep_runs_train_together() -> None:
    """Every layer is a call of its own: depth does not make the calls worth less."""
    assert kind_of(SETTINGS.replace(layers=16, hidden=int((SMALL / 4) ** 0.5)))


def test_file_may_refuse(write: Any) -> None:
    text = "seeds = 2\n{}\n[base]\ntask = 'copy'\nhidden = 8"
    together, alone = (make_plan(read_sweep(write(text.format(line)))) for line in ("", "together = false"))
    assert [len(unit) for unit in units(together, {}, 1)] == [2]
    assert [len(unit) for unit in units(alone, {}, 1)] == [1, 1]
    assert {run.identity for run in together.runs}.isdisjoint(run.identity for run in alone.runs)


class Many(Here):
    """An engine that says it has more places than it has, so that runs are cut into other parts."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots = slots

    def submit(self, *job: Any) -> None:
        self.jobs = [*getattr(self, "jobs", []), job]

    def events(self, seconds: float) -> list[Any]:
        if not getattr(self, "jobs", []):
            return []
        self.job = self.jobs.pop()
        return super().events(seconds)


def test_how_runs_are_put_together_changes_no_byte(small: Any, tmp_path: Path) -> None:
    plan = small(rest="lr = [1e-3, 1e-2]")
    assert all(run.kind for run in plan.runs)
    tables = {
        FORMATS["csv"](rows_of(plan, Sweep(plan, tmp_path / str(slots), Many(slots)).run())) for slots in (1, 2, 3, 8)
    }
    assert len(tables) == 1


def test_more_seeds_train_only_those(small: Any, tmp_path: Path) -> None:
    plan = small()
    run_here(plan, tmp_path)
    file = tmp_path / "sweep.toml"
    file.write_text(file.read_text().replace("seeds = 2", "seeds = 3"))
    more, trained = make_plan(read_sweep(file)), list[str]()
    sweep = Sweep(more, tmp_path, Here(), observe=lambda what, unit, _: trained.extend(
        run.identity for run in unit if what == "done"))  # fmt: skip
    sweep.run()
    assert sorted(trained) == sorted({run.identity for run in more.runs} - {run.identity for run in plan.runs})

"""``engram train TASK --find-lr``."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.table import Table

from engram.cli._console import for_tables, terminal
from engram.errors import OptionError
from engram.figures import check_figure
from engram.report import plot_rates
from engram.train import RULE, RateTest, Settings, find_lr

ROWS = 12
"""Of the table, about."""


@dataclass(frozen=True)
class FindLr:
    """The range of rates, and where a figure goes."""

    lr_from: float = 1e-6
    lr_to: float = 10.0
    lr_steps: int = 200
    lr_figure: Path | None = None

    @classmethod
    def of(cls, run: dict[str, Any]) -> "FindLr | None":
        """What the options of a run ask for, which are taken out of ``run``; None: to train."""
        given = {each.name: run.pop(each.name) for each in fields(cls) if each.name in run}
        if run.pop("find_lr", False):
            for name in ("dry_run", "seeds"):
                if run.get(name):
                    raise OptionError(f"give find_lr or {name}, not both")
            return cls(**given)
        for name in given:
            raise OptionError(f"{name} is for find_lr, which was not given: it would do nothing")
        return None

    def run(self, settings: Settings, as_json: bool) -> None:
        """Test the rates; print a table and the suggested rate."""
        if self.lr_figure is not None:
            check_figure(self.lr_figure)
        test = find_lr(settings, self.lr_from, self.lr_to, self.lr_steps)
        if as_json:
            print(json.dumps(test.to_dict()))
        else:
            for_tables().print(_table(test))
            _say(test)
        if self.lr_figure is not None:
            model, task = settings.model, settings.task
            plot_rates(test, self.lr_figure, f"{model.label} on {task.name}, {model.hidden} hidden units")
            terminal(stderr=True).print(f"figure: {self.lr_figure}")


def _table(test: RateTest) -> Table:
    table = Table(title="loss at growing rates")
    for column in ("rate", "loss", "smoothed", ""):
        table.add_column(column, justify="right")
    count = len(test.rates)
    fallen = test.rates.index(test.fallen)
    shown = {*range(0, count, -(-count // ROWS)), fallen, count - 1}
    for k in sorted(shown):
        mark = "95 % of the fall" if k == fallen else ""
        table.add_row(*(f"{values[k]:.3g}" for values in (test.rates, test.losses, test.smoothed)), mark)
    if test.exploded is not None:
        table.add_row(f"{test.exploded:.3g}", "", "", "exploded")
    return table


def _say(test: RateTest) -> None:
    words = [f"--lr {test.lr:g}"]
    if abs(test.lr_orthogonal - test.lr / 10) > 1e-4 * test.lr:  # not the default
        words.append(f"--lr-orthogonal {test.lr_orthogonal:g}")
    words += [f'--group "{group}"' for group in test.groups]
    console = terminal()
    console.print(f"suggested: {' '.join(words)}\n({RULE}; nothing was written)")
    if test.exploded is None and test.fallen > test.rates[-1] / 10:
        console.print(f"The loss still fell near the largest rate, {test.rates[-1]:g}: a larger --lr-to may tell more.")

"""``engram plot attention``."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._options import read_options
from engram.cli._run_words import Allow, Run, check_run
from engram.errors import OptionError, check_size, unknown
from engram.files import printable
from engram.nn import Attentive
from engram.report import plot_attention_weights
from engram.tasks import make_task, task_name
from engram.train import RunDirectory, load_network


@dataclass(frozen=True)
class PlotAttention:
    """The attention of a trained run on one test sequence: a heat map of the steps it looked back at.

    Of models with attention in their recurrence: memrnn, memlstm, relrnn, rellstm, and your own.

    Examples:
        engram plot attention runs/first
        engram plot attention runs/first --option delay=400 --layer 2 -o attention.svg
    """

    folder: Annotated[Path, *Run.__metadata__]
    """A run directory."""
    _: KW_ONLY
    layer: int = 1
    """Which layer, counted from 1."""
    sequence: int = 1
    """Which sequence of the test split, counted from 1."""
    option: Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE")] = ()
    """Options of the task to change, as NAME=VALUE: delay=400."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    output: Annotated[Path, Parameter(alias="-o")] = Path("attention.svg")
    """Where the figure goes (.svg or .png)."""

    def run(self) -> None:
        check_run(self.folder)
        sequence = check_size("--sequence", self.sequence)
        run = RunDirectory(self.folder, self.allow)
        network: Any = load_network(self.folder, best=not self.last, allow=self.allow).eval()
        core = network.core
        if not isinstance(core, Attentive):
            raise OptionError(
                f"{printable(str(self.folder))} ({run.settings.model.label}) has no attention in its recurrence. Train "
                "relrnn, rellstm, memrnn or memlstm"
            )
        layer = check_size("--layer", self.layer, most=core.num_layers)
        task, options = run.settings.task, read_options(self.option)
        if strange := [name for name in options if name not in task.options()]:
            raise unknown(f"option of {task.name}", strange[0], task.options())
        if options:
            task = make_task(task_name(task), **{**task.options(), **options})
        inputs = task.batches("test", sequence, run.settings.seed, sequence)[0].inputs[:, sequence - 1 :]
        with torch.no_grad():
            *_, attention = core(network.encode(inputs), return_attention=True)
        title = f"{run.settings.model.label}, layer {layer}, {len(inputs)} steps of {task.name}"
        plot_attention_weights(attention, self.output, title, cell=(layer - 1) * core.directions)
        terminal().print(f"figure: {self.output}")

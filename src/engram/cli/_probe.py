"""``engram probe``."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from cyclopts import Parameter
from rich.table import Table
from rich.text import Text
from torch import nn

from engram.cli._console import for_tables, terminal
from engram.cli._options import apart, read_options
from engram.cli._run_words import Allow, check_run, without_files
from engram.errors import OptionError, check_choice
from engram.imports import load
from engram.probe import PARTS, Cost, Profile, profile, profile_run
from engram.report import write_probe_page


@dataclass(frozen=True)
class Probe:
    """Measure a model's memory: of a run, or of any PyTorch model given as module:factory. Nothing is changed.

    Several models are shown side by side.

    Examples:
        engram probe runs/first -o page.html
        engram probe mypackage.models:make_model --input-size 8 --length 500
        engram probe runs/lstm runs/exprnn runs/s4d -o page.html
        engram probe torch.nn:LSTM --option input_size=8 hidden_size=32 --parts gradient_reach memory_capacity
    """

    models: Annotated[tuple[str, ...], Parameter(name="MODEL", metavar="RUN")]
    """Run directories, finished or still training; or module:factory, found from the current directory too."""
    _: KW_ONLY
    input_size: int | None = None
    """D, where the model does not say how many inputs it reads."""
    length: int | None = None
    """How many steps to look back; default: 200, of a run those of its task, up to 1,000."""
    parts: Annotated[tuple[str, ...], Parameter(metavar="PART", show_default=False)] = tuple(PARTS)
    """What is measured; default: all. gradient_reach, fisher_memory, memory_capacity, spectrum, lyapunov,
    separation_rank, structure."""
    option: Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE")] = ()
    """Arguments of the factory, as NAME=VALUE."""
    batch_first: bool | None = None
    """Whether the model reads (batch, time, features); default: found out."""
    seed: int = 0
    """Random seed for the weights that a factory samples, and for the inputs."""
    last: bool = False
    """Of a run: the last weights, not those of the best validation."""
    allow: Allow = ()
    """Of a run: packages or files whose code it may import, of a model or a task of your own."""
    output: Annotated[Path | None, Parameter(alias="-o")] = None
    """Where a page (.html) or a figure (.svg or .png) goes."""
    json: bool = False
    """Print one JSON object, the parts by name; of several models a list of them."""

    def __post_init__(self) -> None:
        option, models = apart(self.option, self.models)
        object.__setattr__(self, "option", option)
        object.__setattr__(self, "models", tuple(without_files(models)))

    def run(self) -> None:
        if not self.parts:
            raise OptionError(f"--parts names at least one of {', '.join(PARTS)}")
        for part in self.parts:
            check_choice("part", part, PARTS)
        if self.output is not None and self.output.suffix not in (".html", ".svg", ".png"):
            raise OptionError(f"--output must end in .html, .svg or .png, got {self.output}")
        if not self.models:
            raise OptionError("engram probe needs a model: a run directory, or module:factory such as torch.nn:LSTM")
        if self.output is not None and self.output.suffix != ".html" and len(self.models) > 1:
            raise OptionError(f"a figure is of one model; several go on a page (.html), got {self.output}")
        console = terminal(stderr=True)
        found = []
        for model in self.models:
            with console.status(Text(f"preparing {model} ...")) as status:

                def before(cost: Cost, model: str = model) -> None:
                    console.print(f"cost of {model}: {cost.words()}")

                def each(part: str, status: Any = status, model: str = model) -> None:
                    status.update(Text(f"{model}: measuring {part.replace('_', ' ')} ..."))

                found.append(self._profile(model, before=before, each=each))
        self._show(found)
        if self.output is not None:
            if self.output.suffix == ".html":
                write_probe_page(self.output, *found)
            else:
                found[0].plot(self.output)
            console.print(f"{'page' if self.output.suffix == '.html' else 'figure'}: {self.output}")

    def _show(self, found: list[Profile]) -> None:
        if self.json:
            objects = [each.to_dict() for each in found]
            print(json.dumps(objects[0] if len(objects) == 1 else objects))
            return
        print("\n\n".join(each.words() for each in found))
        if len(found) > 1:
            table = Table("", *(each.name for each in found))
            columns = [each.summary() for each in found]
            for name in columns[0]:
                table.add_row(name, *(column[name] for column in columns))
            for_tables().print(table)

    def _profile(self, model: str, **hooks: Any) -> Profile:
        common: dict[str, Any] = {"parts": self.parts, "seed": self.seed, **hooks}
        if Path(model).exists() or ":" not in model:
            if self.input_size is not None or self.option or self.batch_first is not None:
                raise OptionError("--input-size, --option and --batch-first are for module:factory; a run knows them")
            if not Path(model).exists():
                raise OptionError(f"there is no run {model}; a model is given as module:factory, such as torch.nn:LSTM")
            check_run(Path(model))
            return profile_run(model, best=not self.last, length=self.length, allow=self.allow, **common)
        torch.manual_seed(self.seed)
        module = make(model, read_options(self.option))
        if self.length is not None:
            common["length"] = self.length
        return profile(module, input_size=self.input_size, batch_first=self.batch_first, name=model, **common)


def make(name: str, options: dict[str, Any]) -> nn.Module:
    """The model that ``package.module:factory`` makes, or is; every way in which that can fail is told in one line."""
    if not all(name.rpartition(":")[::2]):
        raise OptionError(f"a model is given as module:factory, such as torch.nn:LSTM; got {name!r}")
    factory = load(name)
    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise OptionError(f"{name} is not a factory: it cannot be called, it is of type {type(factory).__name__}")
    try:
        made = factory(**options)
    except Exception as error:
        raise OptionError(
            f"{name} raised {type(error).__name__}: {error}. Arguments go as --option NAME=VALUE"
        ) from error
    if not isinstance(made, nn.Module):
        raise OptionError(f"{name} must make a torch.nn.Module, it made {type(made).__name__}")
    return made

"""``engram certify min-width``."""

import json
import math
from dataclasses import dataclass
from typing import Any

from engram.atlas import min_width
from engram.certify import PRIME
from engram.errors import OptionError, check_choice
from engram.tasks import TASKS


@dataclass(frozen=True, kw_only=True)
class MinWidth:
    """How wide must a circuit of one layer be to imitate a deep one? From the certified rank, with parameter counts.

    Examples:
        engram certify min-width --modes 3 --channels 3 --steps 8 --depth 2
        engram certify min-width --task start-end --channels 4 --depth 3
    """

    task: str | None = None
    """A task of engram list tasks, which gives modes, steps and outputs."""
    modes: int | None = None
    """M, the numbers that encode one input; default: 3."""
    channels: int = 3
    """R, the units of a layer of the deep circuit."""
    steps: int | None = None
    """T, even; default: 8."""
    depth: int = 2
    """L, its layers."""
    outputs: int | None = None
    """C, the numbers that are read out; default: 1."""
    templates: int = 0
    """K, the inputs of the grid; default: as many as modes."""
    max_side: int = 1024
    """The most rows of the matrix; a longer sequence is certified at the longest length that fits."""
    seed: int = 0
    """Random seed of the weights."""
    prime: int = PRIME
    """p, the prime of the field in which ranks are computed."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        given = {"modes": 3, "steps": 8, "outputs": 1}
        if self.task is not None:
            task = TASKS[check_choice("task", self.task, TASKS)]()
            if task.is_data_set:
                raise OptionError(f"{self.task} is a data set: in place of --task give --modes, --steps and --outputs")
            given = {"modes": task.input_size, "steps": task.steps - task.steps % 2, "outputs": task.output_size}
        given |= {name: value for name in given if (value := getattr(self, name)) is not None}
        found = min_width(
            channels=self.channels,
            depth=self.depth,
            templates=self.templates,
            max_side=self.max_side,
            seed=self.seed,
            prime=self.prime,
            **given,
        )
        print(json.dumps({"task": self.task, **found}) if self.json else told(found))


def told(found: dict[str, Any]) -> str:
    """In words: what is certified, what is a theorem, what is a conjecture."""
    sizes, certified, count = found["sizes"], found["certified"], found["parameters"]
    lines = [
        f"deep circuit: depth {sizes['depth']}, {sizes['channels']} channels, {sizes['modes']} modes, "
        f"{sizes['outputs']} output{'s' * (sizes['outputs'] > 1)}: {count['deep']:,} parameters",
        f"certified:    a circuit of depth 1 needs {certified['width']:,} channels or more to imitate almost every "
        f"such circuit over {certified['steps']} steps (rank found with {certified['templates']} templates)",
    ]
    if found["proven"]:
        lines.append(f"theorem:      {found['proven']['width']:,} or more over {sizes['steps']} steps")
    lines.append(f"so its width is at least {found['width']:,}: {count['shallow']:,} parameters")
    if found["conjectured"]:
        lines.append(
            f"conjecture:   {_large(found['conjectured']['width'])} or more over {sizes['steps']} steps, "
            f"{_large(count['shallow_if_conjectured'])} parameters (Conjecture 1, not proven)"
        )
    return "\n".join(lines)


def _large(number: int) -> str:
    return f"{number:,}" if number < 10**12 else f"about 10^{math.floor(math.log10(number))}"

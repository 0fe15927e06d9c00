"""The groups of settings as flags: names that are words of the command line, and what a file alone can say left out."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from engram.models import Model
from engram.train import Group, Machine, Optimiser

GroupFlag = Annotated[
    Group,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar='"PATTERN lr=RATE decay=DECAY"',
        instance_from_str=lambda words: Group.read(words[0]),
        is_instance=lambda value: isinstance(value, Group),
        str_from_instance=lambda group: [str(group)],
    ),
]


@dataclass(frozen=True)
class ModelFlags(Model):
    """Which network, and its sizes."""

    name: Annotated[str, tyro.conf.arg(name="model")] = "exprnn"
    """A name of `engram list models`, or file.py:Class, package.module:Class. With --help: its options too."""
    options: tyro.conf.Suppress[tyro.conf.Fixed[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class OptimiserFlags(Optimiser):
    """Which optimiser, at which rates, and how they change."""

    name: Annotated[Literal["adam", "adamw", "rmsprop", "sgd"], tyro.conf.arg(name="optimizer")] = "adam"
    """adam, adamw, rmsprop or sgd."""
    groups: Annotated[tyro.conf.UseAppendAction[tuple[GroupFlag, ...]], tyro.conf.arg(name="group")] = ()
    """A rate and a decay for the parameters whose names match: --group "head.* lr=1e-4 decay=0"; may be repeated."""


@dataclass(frozen=True)
class MachineFlags(Machine):
    """Where it computes, how exactly, and what is written."""

    probe_every: Annotated[int, tyro.conf.arg(aliases=["--every"])] = 0
    """Steps between cheap measurements of the memory (engram probe): lines "probe" of metrics.jsonl; 0 for none."""

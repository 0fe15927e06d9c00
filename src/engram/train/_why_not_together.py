"""Which runs can be trained as one, and why others cannot, in a sentence."""

from collections.abc import Sequence

import torch

from engram.files import one_line
from engram.loops import runs_in_c
from engram.models import EveryStep, Identity, LastStep, Network, OneHot
from engram.nn import BareCell, LinearCell, Recurrent
from engram.train._fabric import make_fabric
from engram.train._loop import Loop
from engram.train._members import Members, Now
from engram.train._settings import Settings

SAME = {
    "model": "the model",
    "budget.batch": "the batch",
    "budget.samples": "the number of training sequences",
    "machine.precision": "the precision",
    "optimiser.name": "the optimizer",
}
"""What must be equal in all of them, and what it is called."""


LOOPS = (BareCell.run, LinearCell.run)
"""How a cell goes through time step by step; a linear one has another way, which it takes only without C."""

_known: dict[tuple[str, type, type], str] = {}


def why_not_together(settings: Sequence[Settings]) -> str:
    """Why these runs cannot be trained as one batched model, in a sentence; "" if they can.

    They may differ in seed, in rates, decay, clipping and other numbers of the optimiser, in schedules, in the
    number of steps and of validations, and in what they log. Two members take a step on trial, which is thrown away.
    """
    if not settings:
        return "there is no run"
    settings = [each.resolved() for each in settings]
    return _differ(settings) or _unfit(settings[0]) or _tried(settings[0].replace(seed=0))


def _differ(settings: Sequence[Settings]) -> str:
    first = settings[0]
    for other in settings[1:]:
        if other.task != first.task:
            return f"they must have the same task, got {first.task} and {other.task}"
        for name, what in SAME.items():
            mine, theirs = (_value(each, name) for each in (first, other))
            if mine != theirs:
                return f"they must have the same {what.removeprefix('the ')}, got {mine} and {theirs}"
        if bool(first.optimiser.momentum) != bool(other.optimiser.momentum):
            return "all of them must have a momentum, or none"
    return ""


def _value(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _unfit(settings: Settings) -> str:
    machine, task = settings.machine, settings.task
    if machine.device != "cpu":
        return f"they are computed on the CPU, got device {machine.device}"
    if machine.processes != 1:
        return f"each is a single process, got {machine.processes}"
    if machine.precision not in ("32-true", "64-true"):
        return f"they are computed in float32 or float64, got {machine.precision}"
    if task.is_data_set:
        return f"{task.name} is a data set, whose batches may differ in length or carry a state on"
    return ""


def _tried(settings: Settings) -> str:
    """What a trial gave; once per kind of run, for a sweep asks about many groups."""
    key = (settings.fingerprint(), settings.model.kind, type(settings.task))
    if key not in _known:
        _known[key] = _on_trial(settings)
    return _known[key]


def _on_trial(settings: Settings) -> str:
    """Two members of neighbouring seeds take a step."""
    short = settings.replace(tensorboard=False, log_every=1)
    with torch.random.fork_rng(devices=()):
        fabric = make_fabric(short)
        loops = [Loop(short.replace(seed=short.seed + k), fabric) for k in range(2)]
        optimizers, network = loops[0].optimizers, loops[0].network
        if len(optimizers.all) != 1 or len(optimizers.all[0].param_groups) == 0:
            return "a matrix that StiefelStep moves has an optimiser of its own: use map='projected'"
        kinds = {p.dtype.to_real() for p in network.parameters()}
        if len(kinds) > 1:
            return f"the parameters must be of one precision, got {', '.join(sorted(map(str, kinds)))}"
        before = torch.get_rng_state()
        try:
            inputs = loops[0].objective.batches[0].inputs  # type: ignore[attr-defined]
            network(inputs.to(network.dtype) if inputs.is_floating_point() else inputs)
            if not torch.equal(before, torch.get_rng_state()):
                return "the model uses random numbers in training (dropout), which cannot be each member's own"
            members = Members(list(loops), Now())
            members.train_step()
        except (Exception, SystemExit) as error:  # a module of other people may do anything
            return f"the model cannot be run by torch.func.vmap: {type(error).__name__}: {one_line(str(error), 300)}"
    return ""


def keeps_bits(network: Network, batch: int) -> bool:
    """Whether a member's bits are known not to depend on how many it is computed with: all that is more than adding and
    multiplying pairs of numbers is engram's own C, or is done member by member."""
    core = network.core
    if type(network.encoder) not in (Identity, OneHot) or type(network.head) not in (EveryStep, LastStep):
        return False
    return isinstance(core, Recurrent) and all(type(c).run in LOOPS and runs_in_c(c, batch) for c in core.cells)

"""The optimisers of a run: one of torch's, and a StiefelStep for matrices that only it may move."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from engram.errors import OptionError, check_number, check_size
from engram.maps import StiefelStep, attach
from engram.nn import param_groups
from engram.train._settings_optimiser import Group, Optimiser

KINDS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
MOMENTS: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.Adam: ("exp_avg", "exp_avg_sq"),
    torch.optim.AdamW: ("exp_avg", "exp_avg_sq"),
    torch.optim.RMSprop: ("square_avg",),
    torch.optim.SGD: ("momentum_buffer",),
    StiefelStep: ("square",),
}
"""What an optimiser keeps of a parameter, each of the parameter's shape; and some count their steps."""


class Optimizers:
    """One optimiser for the groups of :func:`engram.nn.param_groups`, and a StiefelStep if the model needs one.

    ``clipped`` are the parameters whose gradient is clipped. Orthogonal ones (``orthogonal``) need no clipping, and
    their long gradients would drown the others.
    """

    def __init__(self, model: nn.Module, optimiser: Optimiser) -> None:
        groups = _groups(model, optimiser)
        orthogonal = ("orthogonal", "stiefel")
        self.clipped: list[Tensor] = [p for group in groups if group["name"] not in orthogonal for p in group["params"]]
        self.orthogonal: list[Tensor] = [p for group in groups if group["name"] in orthogonal for p in group["params"]]
        others = [group for group in groups if group["name"] != "stiefel"]
        stiefel = [{"params": g["params"], "lr": g["lr"]} for g in groups if g["name"] == "stiefel"]
        self.all: list[torch.optim.Optimizer] = []
        if others:
            self.all.append(KINDS[optimiser.name](others, lr=optimiser.lr, **optimiser.own()))
        if stiefel:
            self.all.append(StiefelStep(stiefel, alpha=0.99))
        for optimizer in self.all:
            attach(optimizer, model)
        self.rates = [[float(group["lr"]) for group in optimizer.param_groups] for optimizer in self.all]

    def restore(self, states: list[Any]) -> None:
        """Load the states of :attr:`all`; a ValueError (or LookupError, ...) if they do not fit."""
        for optimizer, state, rates in zip(self.all, states, self.rates, strict=True):
            _check_state(optimizer, state, rates)
            optimizer.load_state_dict(state)

    def scale(self, factor: float) -> None:
        """Set every learning rate to ``factor`` times its initial value."""
        for optimizer, rates in zip(self.all, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = factor * rate

    def set_rates(self, model: nn.Module, optimiser: Optimiser) -> None:
        """Go on at the rates of other settings, which have the same groups."""
        groups = _groups(model, optimiser)
        others = [float(group["lr"]) for group in groups if group["name"] != "stiefel"]
        stiefel = [float(group["lr"]) for group in groups if group["name"] == "stiefel"]
        self.rates = [rates for rates in (others, stiefel) if rates]

    @property
    def lr(self) -> float:
        """The rate of the first group as it is now: that of the clipped parameters, if no pattern took all of them."""
        return float(self.all[0].param_groups[0]["lr"])


def _groups(model: nn.Module, optimiser: Optimiser) -> list[dict[str, Any]]:
    groups = param_groups(model, optimiser.lr, optimiser.weight_decay, optimiser.lr_orthogonal)
    return _by_pattern(groups, optimiser.groups, dict(model.named_parameters()))


def _by_pattern(groups: list[dict[str, Any]], patterns: tuple[Group, ...], names: dict[str, Tensor]) -> list[Any]:
    """The groups, and after them those that patterns take out of them; the first pattern that matches counts."""
    taken: dict[int, int] = {}
    for name, p in names.items():
        matching = (k for k, each in enumerate(patterns) if fnmatchcase(name, each.pattern))
        taken |= {id(p): k for k in [next(matching, None)] if k is not None}
    for each in patterns:
        if not any(fnmatchcase(name, each.pattern) for name in names):
            raise OptionError(f"the group {each.pattern!r} matches no parameter; they are {', '.join(names)}")
    found = [{**group, "params": [p for p in group["params"] if id(p) not in taken]} for group in groups]
    for k, each in enumerate(patterns):
        for group in groups:
            if each.weight_decay and group["name"] == "stiefel" and any(taken.get(id(p)) == k for p in group["params"]):
                raise OptionError(f"the group {each.pattern!r} has a matrix that StiefelStep moves, which has no decay")
            own = {"lr": each.lr, "weight_decay": each.weight_decay}
            own = {name: value for name, value in own.items() if value is not None}
            found.append({**group, **own, "params": [p for p in group["params"] if taken.get(id(p)) == k]})
    return [group for group in found if group["params"]]


def _check_state(optimizer: torch.optim.Optimizer, state: Any, rates: list[float]) -> None:
    """Of the options only the rate may have changed, downwards; the moments are of the parameters' shapes."""
    for own, its, rate in zip(optimizer.state_dict()["param_groups"], state["param_groups"], rates, strict=True):
        check_number("lr", its["lr"])
        for name, value in (own | {"lr": rate}).items():
            if not (0 <= its[name] <= value if name == "lr" else its[name] == value):
                raise ValueError(f"{name} of the optimiser is {its[name]!r:.60}, and was {value!r:.60} at the start")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = MOMENTS[type(optimizer)]
    for place, kept in state["state"].items():
        if not {*moments} <= kept.keys() <= {*moments, "step", "momentum_buffer"}:
            raise ValueError(f"the optimiser keeps {', '.join(moments)}, not {', '.join(map(str, kept))}")
        shapes = [tuple(value.shape) for name, value in kept.items() if name != "step"]
        if any(shape != tuple(parameters[place].shape) for shape in shapes):
            raise ValueError(f"the optimiser keeps tensors of shapes {shapes} of a parameter of another shape")
        step = kept.get("step", 0)
        count = float(step) if isinstance(step, Tensor) else step
        check_size("step of the optimiser", int(count) if isinstance(step, Tensor) and count % 1 == 0 else count, 0)

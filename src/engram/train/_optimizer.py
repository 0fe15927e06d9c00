"""Optimisers, with a rate of its own for what turns an orthogonal matrix."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engram.errors import check_number, check_size
from engram.maps import Stiefel, StiefelStep, attach, mapped_weights
from engram.train._settings import Settings

KINDS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.99}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
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
    """One optimiser with two groups, plain and orthogonal, and a StiefelStep if the model has such a matrix.

    ``plain`` are the parameters whose gradient is clipped: orthogonal ones need none, and their long gradients would
    drown the others.
    """

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        slow = settings.lr / 10 if settings.lr_orthogonal is None else settings.lr_orthogonal
        weights = mapped_weights(model)
        group = [free for map, free in weights if isinstance(map, Stiefel)]
        on_group = {id(p) for free in group for p in free}
        turning = {id(p) for map, free in weights for p in free[map.turning]} - on_group
        trained = [p for p in model.parameters() if p.requires_grad]
        self.plain: list[Tensor] = [p for p in trained if id(p) not in turning | on_group]
        self.turning: list[Tensor] = [p for p in trained if id(p) in turning | on_group]
        kind, options = KINDS[settings.optimizer]
        groups: list[dict[str, Any]] = [
            {"params": self.plain, "lr": settings.lr, "weight_decay": settings.weight_decay},
            {"params": [p for p in trained if id(p) in turning], "lr": slow, "weight_decay": 0.0},
        ]
        self.all: list[torch.optim.Optimizer] = [kind([g for g in groups if g["params"]], lr=settings.lr, **options)]
        if on_group:
            self.all.append(StiefelStep([p for p in trained if id(p) in on_group], lr=slow, alpha=0.99))
        for optimizer in self.all:
            attach(optimizer, model)

    def restore(self, states: list[Any]) -> None:
        """Go on from the states of :attr:`all`; a ValueError (or LookupError, ...) if they cannot be those."""
        for optimizer, state in zip(self.all, states, strict=True):
            _check_state(optimizer, state)
            optimizer.load_state_dict(state)

    def slow_down(self, factor: float) -> None:
        """Multiply every rate."""
        for optimizer in self.all:
            for group in optimizer.param_groups:
                group["lr"] *= factor

    @property
    def lr(self) -> float:
        """The plain rate as it is now."""
        return float(self.all[0].param_groups[0]["lr"])


def _check_state(optimizer: torch.optim.Optimizer, state: Any) -> None:
    """Of the options only the rate may have changed, downwards; the moments are of the parameters' shapes."""
    for own, its in zip(optimizer.state_dict()["param_groups"], state["param_groups"], strict=True):
        check_number("lr", its["lr"])
        for name, value in own.items():
            if not (0 <= its[name] <= value if name == "lr" else its[name] == value):
                raise ValueError(f"{name} of the optimiser is {its[name]!r:.60}, and was {value!r:.60} at the start")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = MOMENTS[type(optimizer)]
    for place, kept in state["state"].items():
        if not {*moments} <= kept.keys() <= {*moments, "step"}:
            raise ValueError(f"the optimiser keeps {', '.join(moments)}, not {', '.join(map(str, kept))}")
        shapes = [tuple(kept[name].shape) for name in moments]
        if any(shape != tuple(parameters[place].shape) for shape in shapes):
            raise ValueError(f"the optimiser keeps tensors of shapes {shapes} of a parameter of another shape")
        step = kept.get("step", 0)
        count = float(step) if isinstance(step, Tensor) else step
        check_size("step of the optimiser", int(count) if isinstance(step, Tensor) and count % 1 == 0 else count, 0)

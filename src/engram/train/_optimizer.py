"""Optimisers, with a rate of its own for what turns an orthogonal matrix."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engram.maps import Stiefel, StiefelStep, attach, mapped_weights
from engram.train._settings import Settings

KINDS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.99}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
}


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

    def slow_down(self, factor: float) -> None:
        """Multiply every rate."""
        for optimizer in self.all:
            for group in optimizer.param_groups:
                group["lr"] *= factor

    @property
    def lr(self) -> float:
        """The plain rate as it is now."""
        return float(self.all[0].param_groups[0]["lr"])

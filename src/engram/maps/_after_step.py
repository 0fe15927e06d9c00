"""What maps do between optimiser steps."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.hooks import RemovableHandle

from engram.errors import ManifoldError, OptionError, ShapeError
from engram.maps._cayley import cayley_transform
from engram.maps._map import Map, rounding
from engram.maps._polar import orthogonality_error, polar
from engram.maps._stored import Stiefel


def free_parameters(parametrization: nn.Module) -> tuple[Tensor, ...]:
    """The free tensors of one parametrized weight (an entry of ``module.parametrizations``)."""
    names = dict(parametrization.named_parameters(recurse=False)) | dict(parametrization.named_buffers(recurse=False))
    return tuple(names[name] for name in sorted(names) if name.startswith("original"))


def mapped_weights(model: nn.Module) -> list[tuple[Map, tuple[Tensor, ...]]]:
    """Every map in a model with its free parameters."""
    found = []
    for module in model.modules():
        if parametrize.is_parametrized(module):
            for entry in module.parametrizations.children():  # type: ignore[union-attr]
                if isinstance(map := next(entry.children(), None), Map):
                    found.append((map, free_parameters(entry)))
    return found


def attach(optimizer: torch.optim.Optimizer, model: nn.Module) -> RemovableHandle:
    """After every step of this optimiser, let the maps whose parameters it moves do what they do then.

    Moves the base of :class:`Exponential` every K steps and projects :class:`Projected`. With several optimisers, call
    it for each: a map follows the one that moves it.

    Args:
        optimizer: any ``torch.optim.Optimizer``.
        model: the module whose weights it moves.

    Returns:
        a handle whose ``remove()`` ends it.
    """
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not held & {id(p) for p in model.parameters()}:
        raise OptionError("attach(optimizer, model): this optimiser moves no parameter of this model")
    maps = [(map, free) for map, free in mapped_weights(model) if any(id(f) in held for f in free)]
    if not isinstance(optimizer, StiefelStep) and any(isinstance(map, Stiefel) for map, _ in maps):
        raise OptionError(
            f"a matrix under Stiefel must be moved by engram.maps.StiefelStep; {type(optimizer).__name__} holds it: "
            "give it to a StiefelStep of its own, or use map='projected' with any optimiser"
        )

    @torch.no_grad()
    def after(*_: Any) -> None:
        for map, free in maps:
            map.after_step(*free)

    return optimizer.register_step_post_hook(after)


class StiefelStep(torch.optim.Optimizer):
    """Multiplicative steps on the orthogonal or unitary group, for the matrices under :class:`Stiefel`.

    W <- Cay(lr/2 A) W with A = G W^* - W G^*, G the gradient: a descent direction, which the generator printed in the
    source (Wisdom et al. 2016) is not. With ``alpha`` the gradient is first scaled elementwise as in RMSprop.

    Args:
        params (iterable): square orthogonal or unitary matrices, or parameter groups of such.
        lr (float): the learning rate, above 0. Default: 0.001.
        alpha (float or None): smoothing of the squared gradients, in [0, 1). Default: None, they are not scaled.
        eps (float): added to the root of the mean square. Default: 1e-8.
        reproject_every (int or None): remove rounding errors by a projection after this many steps. Default: 10.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        alpha: float | None = None,
        eps: float = 1e-8,
        reproject_every: int | None = 10,
    ) -> None:
        if not lr > 0:
            raise OptionError(f"lr must be positive, got {lr}")
        if alpha is not None and not 0 <= alpha < 1:
            raise OptionError(f"alpha must be in [0, 1) or None, got {alpha}")
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "reproject_every": reproject_every})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        for w in self.param_groups[-1]["params"]:
            if w.dim() != 2 or w.shape[0] != w.shape[1]:
                raise ShapeError(f"StiefelStep moves square matrices, got a parameter of shape {tuple(w.shape)}")
            error = orthogonality_error(w.detach())
            if not error <= max(rounding(w.dtype), rounding(torch.float32)):
                raise ManifoldError(f"StiefelStep moves orthogonal or unitary matrices; this one is {error:.3g} away")
            if error > rounding(w.dtype):  # rounded to float32 before: a run samples its weights so
                w.data.copy_(polar(w.detach()))

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    self._move(w, w.grad, group)
        return loss

    def _move(self, w: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[w]
        state["step"] = state.get("step", 0) + 1
        if group["alpha"] is not None:
            mean = state.setdefault("square", torch.zeros_like(w.real))
            mean.mul_(group["alpha"]).add_(gradient.abs().square(), alpha=1 - group["alpha"])
            gradient = gradient / (mean.sqrt() + group["eps"])
        generator = gradient @ w.mH
        w.copy_(cayley_transform(group["lr"] / 2 * (generator - generator.mH)) @ w)
        if group["reproject_every"] and state["step"] % group["reproject_every"] == 0:
            w.copy_(polar(w))

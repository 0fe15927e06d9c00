"""The optimisers of several runs as one: torch's formulas on rows, each member with rates and constants of its own."""

from typing import Any

import torch
from torch import Tensor

from engram.train._loop import Loop
from engram.train._stacked import Stacked


class StackedOptimizer:
    """Adam, AdamW, RMSprop or SGD of all members at once; rates are per member and parameter group."""

    def __init__(self, stacked: Stacked) -> None:
        self.stacked = stacked
        first = next(loop for loop in stacked.loops if loop is not None)
        loops = [loop or first for loop in stacked.loops]
        self.kind = type(first.optimizers.all[0])
        self.rates, self.decays = (torch.zeros_like(stacked.weights) for _ in range(2))
        for e, loop in enumerate(loops):
            self._spread(e, loop)
        self.decayed = bool(self.decays.any())
        own: list[dict[str, Any]] = [loop.optimizers.all[0].param_groups[0] for loop in loops]
        names = [name for name in ("eps", "alpha", "momentum") if name in own[0]]
        self.constants: dict[str, Tensor] = {name: self._column([group[name] for group in own]) for name in names}
        if "betas" in own[0]:
            self.betas = [group["betas"] for group in own]
            for k in range(2):
                betas = [group["betas"][k] for group in own]
                self.constants[f"beta{k}"] = self._column(betas)
                self.constants[f"rest{k}"] = self._column([1 - beta for beta in betas])
        if "alpha" in own[0]:
            self.constants["rest"] = self._column([1 - group["alpha"] for group in own])

    def _column(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=self.stacked.weights.dtype)[:, None]

    def _spread(self, e: int, loop: Loop) -> None:
        """The rate and decay of every number of a row, as at the start of the run."""
        names = {id(p): name for name, p in loop.network.named_parameters()}
        columns = {column.name: column for column in self.stacked.columns.all}
        (optimizer, *_), (rates, *_) = loop.optimizers.all, loop.optimizers.rates
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            for p in group["params"]:
                for rows, value in ((self.rates, rate), (self.decays, group["weight_decay"])):
                    place = columns[names[id(p)]].of(rows[e])
                    place.copy_(torch.full_like(place, complex(value, value) if place.is_complex() else value))

    def step(self, factors: list[float]) -> None:
        """One step, at these shares of the rates."""
        stacked, constants = self.stacked, self.constants
        weights, grads, moments = stacked.weights, stacked.grads, stacked.moments
        stacked.counts += 1
        if self.kind is torch.optim.AdamW and self.decayed:
            weights.mul_(1 - self.rates * self._column(factors) * self.decays)
        elif self.decayed:
            grads.add_(self.decays * weights)
        if self.kind in (torch.optim.Adam, torch.optim.AdamW):
            counts = stacked.counts.tolist()
            first = [f / (1 - b[0] ** n) for f, b, n in zip(factors, self.betas, counts, strict=True)]
            second = [(1 - b[1] ** n) ** 0.5 for b, n in zip(self.betas, counts, strict=True)]
            mean, square = moments["exp_avg"], moments["exp_avg_sq"]
            mean.add_((grads - mean).mul_(constants["rest0"]))
            square.mul_(constants["beta1"]).add_(grads.square().mul_(constants["rest1"]))
            root = square.sqrt().div_(self._column(second)).add_(constants["eps"])
            weights.sub_(torch.div(mean, root, out=root).mul_(self.rates * self._column(first)))
            return
        rates = self.rates * self._column(factors)
        if self.kind is torch.optim.RMSprop:
            square = moments["square_avg"]
            square.mul_(constants["alpha"]).add_(grads.square().mul_(constants["rest"]))
            grads = grads / square.sqrt().add_(constants["eps"])
        if "momentum_buffer" in moments:
            grads = moments["momentum_buffer"].mul_(constants["momentum"]).add_(grads)
        weights.sub_(rates.mul_(grads))

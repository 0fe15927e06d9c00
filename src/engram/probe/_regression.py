"""Reading inputs back from states by ridge regression, and what is read: the inputs of each lag, and their products."""

import math

import numpy as np
import torch
from torch import Tensor

from engram.probe._subject import Subject

UNSEEN = 512
"""Inputs that the model never saw; their score shows what chance alone gives."""
SURE = 4.0
"""Scores above this many standard deviations of chance count."""


def sample_inputs(subject: Subject, steps: int, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs ``(T, B, D)`` and the independent numbers of variance 1 in them ``(T, B, d)``; d = D, or V - 1 of symbols.

    Numbers are uniform; of symbols, uniform one-hot vectors, the numbers are V - 1 orthogonal contrasts (Helmert).
    """
    if not subject.symbols:
        values = math.sqrt(3) * (2 * torch.rand(steps, rows, subject.input_size, generator=generator).double() - 1)
        return values.to(subject.device, subject.dtype), values
    inputs = subject.sample(steps, rows, generator)
    size = subject.input_size
    contrasts = torch.from_numpy(np.linalg.qr(np.vstack([np.ones(size), np.eye(size)[1:]]).T)[0][:, 1:])
    return inputs, inputs.double().cpu() @ contrasts * math.sqrt(size)


def observe(subject: Subject, inputs: Tensor, start: int) -> Tensor:
    """The states at the steps from ``start`` on, ``(steps, B, N)``; the outputs of a model without a state."""
    if not subject.can_step:
        return subject.outputs(inputs)[start if subject.every_step else 0 :]
    state = subject.advance(None, inputs[:start])[1]
    seen = []
    for x in inputs[start:]:
        state = subject.step(state, x)
        seen.append(state)
    return torch.stack(seen)


def products(past: list[Tensor], squares: bool) -> Tensor:
    """Products of every two inputs, and the Legendre polynomial (3 u^2 - 1) / 2 of each, u = value / sqrt(3).

    Symbols have no squares and no products within a step: the contrasts of one symbol are not independent.
    """
    near, channels = torch.cat(past, -1), past[0].shape[-1]
    one, two = torch.triu_indices(near.shape[-1], near.shape[-1], 1)
    if not squares:
        apart = one // channels != two // channels
        one, two = one[apart], two[apart]
    pairs = near[..., one] * near[..., two]
    return torch.cat([pairs, near.square() / 2 - 0.5], -1) if squares else pairs


class Reader:
    """Ridge regression from states ``(steps, 2 rows, N)``: fitted on the first half of the rows, tested on the second.

    The penalty is the rounding of the states. Each score is 1 - error / (error of inputs never seen): a fit to n
    samples errs by about N / n too much, which this takes out.
    """

    def __init__(self, seen: Tensor, rows: int, rounding: float, generator: torch.Generator) -> None:
        self.rows, self.steps = rows, len(seen)
        x, fresh = (part.flatten(0, 1) for part in (seen[:, :rows], seen[:, rows:]))
        spread = x.std(0)
        alive = spread > 0
        middle, spread = x.mean(0)[alive], spread[alive]  # each state on its own scale
        self.x, self.fresh = ((part[:, alive] - middle) / spread for part in (x, fresh))
        values, self.vectors = torch.linalg.eigh(self.x.mT @ self.x / len(x))
        self.inverse = 1 / (values.clamp_min(0) + rounding)
        chance = self._errors(torch.rand(len(seen), 2 * rows, UNSEEN, generator=generator, dtype=torch.float64))
        self.scale, self.spread = float(chance.mean()), float(chance.std() / chance.mean())

    @property
    def floor(self) -> float:
        """Below it a single score is no more than chance."""
        return SURE * self.spread

    def scores(self, targets: list[Tensor]) -> Tensor:
        """r^2 of targets ``(steps, 2 rows, n)``, stacked ``(targets, n)``; what chance alone gives is 0.

        Scores below the floor are kept only if together they are more than chance makes of so many: a memory spread
        thinly over many inputs. Chance: the scale is itself an average, and up to ``steps`` targets, shifted against
        each other, share their noise.
        """
        found = 1 - torch.stack([self._errors(each) for each in targets]) / self.scale
        strong = found > self.floor
        rest = found[~strong]
        by_chance = self.spread * math.sqrt(self.steps * len(rest) * (1 + len(rest) / UNSEEN))
        return found if float(rest.sum()) > SURE * by_chance else torch.where(strong, found, 0.0)

    def _errors(self, targets: Tensor) -> Tensor:
        """1 - r^2 on the second half of each of the targets ``(steps, 2 rows, n)``."""
        y, fresh = (part.flatten(0, 1) for part in (targets[:, : self.rows], targets[:, self.rows :]))
        cross = self.vectors.mT @ (self.x.mT @ (y - y.mean(0)) / len(y))
        missed = self.fresh @ (self.vectors @ (self.inverse[:, None] * cross)) + y.mean(0) - fresh
        return missed.square().sum(0) / (fresh - fresh.mean(0)).square().sum(0)

"""Memory capacity: how well the inputs of the past can be read back from the state by a linear map."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.errors import NonFiniteError, check_size
from engram.probe._plain import plain
from engram.probe._subject import Subject

SURROGATES = 512
"""Inputs that the model never saw; what they score is no memory."""
SURE = 4.0
"""Standard deviations of that score above which there is some."""
PAIRS = 600
"""The most products of degree 2 that are tried."""
WIDEST = 500
"""The most numbers of a state that are read; of more, so many random combinations."""
LEAST, MOST = 2000, 10000
"""Samples of each half."""


@dataclass(frozen=True)
class MemoryCapacity:
    """What :func:`memory_capacity` found.

    lags: r^2 at lag 0, 1, ... (summed over the D inputs of a step, so at most D). total: their sum. products: the same
    for products of two inputs of the last ``product_lags`` steps. states: N, the numbers read, which total and products
    together cannot pass. observed: ``state`` or ``output``, whichever was read. samples: of each half. floor: r^2 of
    one input below it counts as zero.
    """

    lags: list[float]
    total: float
    products: float
    product_lags: int
    states: int
    observed: str
    samples: int
    floor: float

    @property
    def reach(self) -> int:
        """The last lag that is read back at least half as well as the best one."""
        kept = [k for k, r2 in enumerate(self.lags) if r2 >= 0.5 * max(*self.lags, self.floor)]
        return max(kept, default=0)

    def words(self) -> str:
        more = f"products of two inputs within {self.product_lags} steps add {self.products:.3g}"
        if not self.total:
            return f"Memory capacity: no past input can be read back from the {self.observed} by a linear map; {more}."
        return (
            f"Memory capacity: a linear map of the {self.states} numbers of the {self.observed} gives back "
            f"{self.total:.3g} past inputs (at most {self.states}), lag {self.reach} still half as well as the best "
            f"one; {more}."
        )

    def to_dict(self) -> dict[str, Any]:
        return plain(asdict(self) | {"reach": self.reach})

    def draw(self, axes: Any) -> None:
        last = max((lag for lag, r2 in enumerate(self.lags) if r2), default=0)
        shown = self.lags[: max(10, 2 * last)]  # what is zero from there on is not worth the room
        axes.fill_between(range(len(shown)), shown, step="mid", color="#0b5fa5", alpha=0.25)
        axes.step(range(len(shown)), shown, where="mid", color="#0b5fa5", linewidth=1)
        axes.set(xlabel="lag", ylabel="$r^2$, summed over inputs", ylim=(0, 1.05 * max(*shown, self.floor)))
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"Memory capacity: {self.total:.3g} of at most {self.states}", loc="left", fontsize=10)


def memory_capacity(
    model: nn.Module | Subject,
    *,
    lags: int = 100,
    steps: int | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> MemoryCapacity:
    r"""How much of :math:`u_{t-k}`, inputs drawn independently, a linear map of the state :math:`h_t` gives back.

    .. math:: r^2_k = 1 - \frac{\min_w E(w \cdot h_t - u_{t-k})^2}{\mathrm{Var}\,u}, \qquad \sum_k r^2_k \le N

    (Jaeger 2001), and for products of two inputs, Legendre polynomials of degree 2 (Dambre et al. 2012), which share
    the same bound. Inputs are uniform with variance 1; of symbols, contrasts of uniform one-hot vectors.

    w is fitted by ridge regression (lambda: the rounding of the states) on one half of the sequences and judged on the
    other. Inputs that the model never saw are judged beside them: their mean error is the scale on which r^2 is zero
    (a fit to n samples errs by about N/n too much). Below four of their standard deviations r^2 counts as zero, unless
    all that lie below are together more than chance: a memory spread thinly over many inputs. Where chance lifts the
    sum above N, all are scaled down to it.

    The output is read in place of the state where a model does not hand out its state. Of more than 500 numbers, 500
    random combinations are read: a lower bound.

    A closed-form case: a delay line of N units has r^2 = 1 at the lags 0 .. N-1, and N in total.

    Args:
        lags: the longest lag.
        steps: at which the state is read, after ``lags`` steps of start; a tenth of those, up to 20, unless given (a
            memory without end also holds inputs from before the longest lag: they are not counted).
        samples: of each half; 20 N, between 2,000 and 10,000, unless given.
    """
    subject = Subject.of(model)
    generator = torch.Generator().manual_seed(seed)
    check_size("lags", lags)
    steps = reading_steps(lags) if steps is None else check_size("steps", steps)
    steps = steps if subject.fixed_length is None and (subject.can_step or subject.every_step) else 1
    start = lags if subject.fixed_length is None else subject.fixed_length - 1
    lags = min(lags, start)
    width = subject.state_size or subject.output_size
    read = min(width, WIDEST)
    count = min(max(LEAST, 20 * read), MOST) if samples is None else check_size("samples", samples)
    rows = math.ceil(count / steps)
    inputs, values = _stimulus(subject, start + steps, 2 * rows, generator)
    with subject, torch.no_grad():
        seen = _observe(subject, inputs, start).double().cpu()  # (steps, 2 rows, N)
    if not bool(torch.isfinite(seen).all()):
        raise NonFiniteError(f"after {start} steps what the model holds is not finite: choose a shorter length")
    if read < width:
        seen = seen @ torch.randn(width, read, generator=generator, dtype=seen.dtype)
    reader = _Reader(seen, rows, torch.finfo(subject.dtype).eps)
    past = [values[start - k : start - k + steps] for k in range(lags + 1)]  # by lag: (steps, 2 rows, d)

    unseen = reader.errors(torch.rand(steps, 2 * rows, SURROGATES, generator=generator, dtype=torch.float64))
    scale, spread = float(unseen.mean()), float(unseen.std() / unseen.mean())

    first = _kept(1 - torch.stack([reader.errors(part) for part in past]) / scale, spread, steps)  # (lags + 1, d)
    recent = _recent(lags + 1, values.shape[-1])
    second = _kept(1 - reader.errors(_products(past[:recent], squares=not subject.symbols)) / scale, spread, steps)
    room = min(1.0, read / max(float(first.sum() + second.sum()), 1e-300))  # no more than N, by theory: chance is cut
    by_lag, second = room * first.sum(1), room * second
    kind = "state" if subject.can_step else "output"
    kind = kind if read == width else f"{kind} (random combinations of its {width:,})"
    return MemoryCapacity(
        by_lag.tolist(), float(by_lag.sum()), float(second.sum()), recent, read, kind, rows * steps, SURE * spread
    )


def reading_steps(lags: int) -> int:
    """At how many steps of a sequence the state is read."""
    return max(1, min(20, lags // 10))


def _products(past: list[Tensor], squares: bool) -> Tensor:
    """All products of two inputs, and the Legendre polynomials (3 u^2 - 1) / 2 of each, u = value / sqrt(3).

    Of symbols there are no squares, nor products within a step: the contrasts of one symbol are not independent.
    """
    near, channels = torch.cat(past, -1), past[0].shape[-1]
    one, two = torch.triu_indices(near.shape[-1], near.shape[-1], 1)
    if not squares:
        apart = one // channels != two // channels
        one, two = one[apart], two[apart]
    products = near[..., one] * near[..., two]
    return torch.cat([products, near.square() / 2 - 0.5], -1) if squares else products


def _kept(shares: Tensor, spread: float, steps: int) -> Tensor:
    """Shares above the floor; the others too if together they are more than chance makes of so many, else zero.

    Chance: the scale is itself an average, and up to ``steps`` targets, shifted against each other, share their noise.
    """
    strong = shares > SURE * spread
    rest = shares[~strong]
    by_chance = spread * math.sqrt(steps * len(rest) * (1 + len(rest) / SURROGATES))
    return shares if float(rest.sum()) > SURE * by_chance else torch.where(strong, shares, 0.0)


def _recent(lags: int, channels: int) -> int:
    """Of how many lags all products of two inputs are tried."""
    return max(1, min(lags, int(math.sqrt(2 * PAIRS)) // channels))


def _stimulus(subject: Subject, steps: int, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs ``(T, B, D)`` and the independent numbers of variance 1 in them ``(T, B, d)``; d = D, or V - 1."""
    if not subject.symbols:
        values = math.sqrt(3) * (2 * torch.rand(steps, rows, subject.input_size, generator=generator).double() - 1)
        return values.to(subject.device, subject.dtype), values
    inputs = subject.draw(steps, rows, generator)
    size = subject.input_size
    helmert = torch.from_numpy(np.linalg.qr(np.vstack([np.ones(size), np.eye(size)[1:]]).T)[0][:, 1:])
    return inputs, inputs.double().cpu() @ helmert * math.sqrt(size)


def _observe(subject: Subject, inputs: Tensor, start: int) -> Tensor:
    """What the model holds at the steps from ``start`` on, ``(steps, B, N)``."""
    if not subject.can_step:
        return subject.outputs(inputs)[start if subject.every_step else 0 :]
    state = subject.advance(None, inputs[:start])[1]
    seen = []
    for x in inputs[start:]:
        state = subject.step(state, x)
        seen.append(state)
    return torch.stack(seen)


class _Reader:
    """Ridge regression from states ``(steps, 2 rows, N)``: fitted on the first half of the rows, judged on the rest."""

    def __init__(self, seen: Tensor, rows: int, rounding: float) -> None:
        self.rows = rows
        x, fresh = (part.flatten(0, 1) for part in (seen[:, :rows], seen[:, rows:]))
        spread = x.std(0)
        alive = spread > 0
        middle, spread = x.mean(0)[alive], spread[alive]  # each state on its own scale
        self.x, self.fresh = ((part[:, alive] - middle) / spread for part in (x, fresh))
        values, self.vectors = torch.linalg.eigh(self.x.mT @ self.x / len(x))
        self.inverse = 1 / (values.clamp_min(0) + rounding)

    def errors(self, targets: Tensor) -> Tensor:
        """1 - r^2 of each of the targets ``(steps, 2 rows, n)``."""
        y, fresh = (part.flatten(0, 1) for part in (targets[:, : self.rows], targets[:, self.rows :]))
        cross = self.vectors.mT @ (self.x.mT @ (y - y.mean(0)) / len(y))
        missed = self.fresh @ (self.vectors @ (self.inverse[:, None] * cross)) + y.mean(0) - fresh
        return missed.square().sum(0) / (fresh - fresh.mean(0)).square().sum(0)

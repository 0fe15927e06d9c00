"""Memory capacity: how many past inputs a linear map can read back from the state."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from engram.errors import NonFiniteError, check_size
from engram.figures import BLUE
from engram.probe._cost import FLOPS, Cost
from engram.probe._json import as_json
from engram.probe._part import Part
from engram.probe._regression import Reader, observe, products, sample_inputs
from engram.probe._setup import Setup
from engram.probe._subject import Subject

PAIRS = 600
"""The most products of degree 2 that are tried."""
WIDEST = 500
"""The most numbers of a state that are read; of a larger state, this many random combinations of them."""
LEAST, MOST = 2000, 10000
"""Samples of each half."""


@dataclass(frozen=True)
class MemoryCapacity(Part):
    """What :func:`memory_capacity` found.

    lags: r^2 at lag 0, 1, ..., summed over the D inputs of a step, so at most D. total: their sum. products: the sum of
    r^2 over products of two inputs within the last ``product_lags`` steps. states: N, the numbers read; total and
    products together are at most N. observed: ``state`` or ``output``, whichever was read. samples: of each half.
    floor: r^2 of one input below it counts as zero.
    """

    name = "memory_capacity"
    title = "Memory capacity"
    question = "How many past inputs can a linear map read back?"

    lags: list[float]
    total: float
    products: float
    product_lags: int
    states: int
    observed: str
    samples: int
    floor: float

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        subject, reads = setup.subject, _reading_steps(setup.length)
        width = min(subject.state_size or subject.output_size, WIDEST)
        rows = 2 * _samples(width)
        regression = 2.0 * rows * width * (width + setup.length * subject.input_size + PAIRS) / FLOPS
        seconds = setup.timings.forward(rows / reads) + reads * setup.timings.step + regression
        return Cost(1, reads if subject.can_step else 0, seconds)

    @classmethod
    def measure(cls, setup: Setup) -> "MemoryCapacity":
        return memory_capacity(setup.subject, lags=setup.length, seed=setup.seed)

    @property
    def reach(self) -> int:
        """The last lag that is read back at least half as well as the best one."""
        kept = [k for k, r2 in enumerate(self.lags) if r2 >= 0.5 * max(*self.lags, self.floor)]
        return max(kept, default=0)

    def headline(self) -> str:
        if not self.total:
            return f"no past input can be read back from the {self.observed} by a linear map."
        return (
            f"{self.total:.3g} past inputs can be read back from the {self.observed} by a linear map; {self.states} "
            f"numbers can hold at most {self.states}."
        )

    def details(self) -> str:
        far = (
            f"Lag {self.reach} is the furthest that is read at least half as well as the best one. "
            if self.total
            else ""
        )
        return f"{far}Products of two inputs within {self.product_lags} steps add {self.products:.3g}."

    def brief(self) -> str:
        return f"{self.total:.3g} of {self.states}"

    def to_dict(self) -> dict[str, Any]:
        return {**as_json(self), "reach": self.reach}

    def plot(self, axes: Any) -> None:
        """r^2 over the lags, as far as it is not zero."""
        last = max((lag for lag, r2 in enumerate(self.lags) if r2), default=0)
        shown = self.lags[: max(10, 2 * last)]
        axes.fill_between(range(len(shown)), shown, step="mid", color=BLUE, alpha=0.25)
        axes.step(range(len(shown)), shown, where="mid", color=BLUE, linewidth=1)
        title = f"Memory capacity: {self.total:.3g} of at most {self.states}"
        top = 1.05 * max(*shown, self.floor)
        axes.set(title=title, xlabel="lag", ylabel="$r^2$, summed over inputs", ylim=(0, top))


def memory_capacity(
    model: nn.Module | Subject,
    *,
    lags: int = 100,
    steps: int | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> MemoryCapacity:
    r"""How well :math:`u_{t-k}`, inputs sampled independently, can be read from the state :math:`h_t` by a linear map.

    .. math:: r^2_k = 1 - \frac{\min_w E(w \cdot h_t - u_{t-k})^2}{\mathrm{Var}\,u}, \qquad \sum_k r^2_k \le N

    (Jaeger 2001), and the same for products of two inputs, Legendre polynomials of degree 2, which share the bound N
    (Dambre et al. 2012). Inputs are uniform with variance 1; of symbols, contrasts of uniform one-hot vectors.

    w is fitted by ridge regression on one half of the sequences and tested on the other. Inputs that the model never
    saw are fitted too: r^2 is measured from their mean, and counts as zero below four of their standard deviations,
    except where many small values together are more than chance. If chance lifts the sum above N, all are scaled down
    to N.

    The output is read in place of the state if the state cannot be passed in. Of more than 500 numbers, 500 random
    combinations are read: a lower bound.

    A case in closed form: a delay line of N units has r^2 = 1 at the lags 0 .. N-1, N in total.

    Args:
        model: a module, or a :class:`Subject`.
        lags: the longest lag.
        steps: at how many steps of a sequence the state is read, after ``lags`` steps. Default: a tenth of ``lags``, at
            most 20. (An unlimited memory also holds inputs from before the longest lag; they are not counted.)
        samples: of each half. Default: 20 N, between 2,000 and 10,000.
        seed: random seed of the inputs.
    """
    subject = Subject.of(model)
    generator = torch.Generator().manual_seed(seed)
    check_size("lags", lags)
    steps = _reading_steps(lags) if steps is None else check_size("steps", steps)
    steps = steps if subject.fixed_length is None and (subject.can_step or subject.every_step) else 1
    start = lags if subject.fixed_length is None else subject.fixed_length - 1
    lags = min(lags, start)
    width = subject.state_size or subject.output_size
    read = min(width, WIDEST)
    rows = math.ceil((_samples(read) if samples is None else check_size("samples", samples)) / steps)
    inputs, values = sample_inputs(subject, start + steps, 2 * rows, generator)
    with subject, torch.no_grad():
        seen = observe(subject, inputs, start).double().cpu()  # (steps, 2 rows, N)
    if not bool(torch.isfinite(seen).all()):
        raise NonFiniteError(f"after {start} steps what the model holds is not finite: choose a shorter length")
    if read < width:
        seen = seen @ torch.randn(width, read, generator=generator, dtype=seen.dtype)
    reader = Reader(seen, rows, torch.finfo(subject.dtype).eps, generator)
    past = [values[start - k : start - k + steps] for k in range(lags + 1)]  # by lag: (steps, 2 rows, d)
    recent = max(
        1, min(lags + 1, int(math.sqrt(2 * PAIRS)) // values.shape[-1])
    )  # lags of which all products are tried
    first = reader.scores(past).sum(1)  # (lags + 1,)
    second = reader.scores([products(past[:recent], squares=not subject.symbols)]).sum()
    room = min(1.0, read / max(float(first.sum() + second), 1e-300))  # in theory at most N: the rest is chance
    kind = "state" if subject.can_step else "output"
    kind = kind if read == width else f"{kind} (random combinations of its {width:,} numbers)"
    total, degree_2 = float((room * first).sum()), float(room * second)
    return MemoryCapacity((room * first).tolist(), total, degree_2, recent, read, kind, rows * steps, reader.floor)


def _reading_steps(lags: int) -> int:
    """At how many steps of a sequence the state is read."""
    return max(1, min(20, lags // 10))


def _samples(width: int) -> int:
    """Of each half, for this many numbers of the state."""
    return min(max(LEAST, 20 * width), MOST)

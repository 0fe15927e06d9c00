"""Fisher memory: how much the state tells about a past signal when every unit is noisy.

    h_t = W h_{t-1} + v s_t + z_t,   z_t ~ N(0, eps I)
    C = eps sum_k W^k W^k',   J_kl = (W^k v)' C^-1 W^l v,   J(k) = J_kk,
    J_tot = sum_k J(k) = v' J^(s) v,   J^(s) = sum_k W^k' C^-1 W^k.

J(k) is the Fisher information about the signal k steps ago: no unbiased estimate of it from h_t has a variance below
1 / J(k). J_tot = |v|^2 / eps for every normal W; J_tot <= N |v|^2 / eps for any W; and
J(k) <= 1 / (eps sum_{m<=k} |W^m v|^-2), with equality for the delay line that amplifies as W does.

Source: Ganguli, Huh and Sompolinsky 2008; Kerg (2022), Sections 2.6 and 3.4.2. Its Eq. 3.4.3 has the likelihood of all
states; meant, and computed here, is that of h_t alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from engram.errors import check_between, check_choice, check_size
from engram.figures import BLUE, MUTED, ORANGE, PAPER, RED
from engram.probe._arrays import double_array, square_matrix
from engram.probe._cost import Cost
from engram.probe._json import as_json
from engram.probe._linear import LARGEST_JACOBIAN
from engram.probe._part import Part
from engram.probe._reached import DIRECTIONS, Reached
from engram.probe._setup import Setup
from engram.probe.fisher._arithmetic import PRECISIONS, as_real, fisher_numbers
from engram.probe.fisher._float64 import responses
from engram.probe.fisher._lower_bound import lower_bound


@dataclass(frozen=True)
class FisherMemory(Part):
    """What :func:`fisher_memory` and :func:`sampled_fisher_memory` found."""

    name = "fisher_memory"
    title = "Fisher memory"
    question = "How much does the state tell about a signal, against noise in every unit?"

    matrix: np.ndarray
    """J_kl, (K, K): k and l are lags, 0 is now."""
    spatial: np.ndarray | None
    """J^(s), (N, N): v' J^(s) v is J_tot for any input weights v. None where it was sampled."""
    total: float
    """J_tot, over all lags, also those beyond K."""
    growth: np.ndarray
    """|W^k v|^2, (K,): the signal's power after k steps."""
    size: int
    """N, the number of real coordinates of the state."""
    noise: float
    """eps, the variance of the noise in each coordinate."""
    steps: int | None
    """How many steps ago noise and signal began; None: infinitely many."""
    method: str
    """The arithmetic: "float64", "extended (192 bits)", "sampled (2000 paths)" or "128 of 3,120 directions"."""
    error: float
    """Of J_tot: estimated for float64, proven for extended, one standard deviation when sampled."""
    whole: bool = True
    """Whether the whole state was read; if not, all numbers are lower bounds."""

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        """Two Jacobians; of a large state, products with it: from the right one by one, from the left all at once."""
        steps, timings = setup.length, setup.timings
        if not setup.subject.can_step:
            return Cost()
        if setup.subject.state_size <= LARGEST_JACOBIAN:
            return Cost(2, 2, 4 * timings.step + timings.forward(2 * setup.subject.state_size) / steps)
        seconds = 3 * (DIRECTIONS + steps) * timings.step + 3 * timings.forward(DIRECTIONS)
        return Cost(0, DIRECTIONS + 2 * steps, seconds)

    @classmethod
    def measure(cls, setup: Setup) -> "FisherMemory":
        """Of the model's step near the state that the inputs lead to; over T steps where noise grows without bound."""
        near, length = setup.jacobian, setup.length
        if isinstance(near, Reached):
            with setup.subject:
                matrix, growth = lower_bound(near, length)
            method = f"{near.basis.shape[1]} of {near.size:,} directions"
            total = float(matrix.trace())
            return cls(matrix, None, total, growth, near.size, 1.0, length, method, 0.0, whole=False)
        if not near.linear:
            setup.notes.append(
                "not a linear model: Fisher memory is that of the step linearised at the state which the inputs lead to"
            )
        stationary = near.radius < 1 - 1e-6
        return fisher_memory(near.matrix, near.signal, lags=length, steps=None if stationary else length)

    @property
    def curve(self) -> np.ndarray:
        """J(k), (K,): the memory curve."""
        return self.matrix.diagonal()

    @property
    def normal_bound(self) -> float:
        """|v|^2 / eps: J_tot of every normal W (orthogonal, symmetric, ...)."""
        return float(self.growth[0] / self.noise)

    @property
    def inputs(self) -> float:
        """J_tot in inputs: over the information |v|^2 / eps that one input brings when it enters."""
        return self.total / self.normal_bound

    @property
    def bound(self) -> float:
        """N |v|^2 / eps: no W has a larger J_tot."""
        return self.size * self.normal_bound

    @property
    def delay_bound(self) -> np.ndarray:
        """(K,): J(k) of the delay line that amplifies as W does; no W with this growth has more."""
        with np.errstate(divide="ignore"):
            return 1 / (self.noise * np.cumsum(1 / self.growth))

    @property
    def horizon(self) -> int | None:
        """The first lag from which on J(k) is below 1 % of its largest value; None if the curve ends before."""
        large = np.flatnonzero(self.curve >= 0.01 * self.curve.max())
        return int(large[-1]) + 1 if large[-1] + 1 < len(self.curve) else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: without J_kl and J^(s), which can be large."""
        numbers = ("total", "inputs", "size", "noise", "steps", "method", "error", "whole", "horizon")
        bounds = ("normal_bound", "bound", "curve", "delay_bound")
        best = None if self.spatial is None else float(np.linalg.eigvalsh(self.spatial)[-1])
        return as_json({name: getattr(self, name) for name in numbers + bounds} | {"total_of_best_unit_input": best})

    def headline(self) -> str:
        least = "" if self.whole else "at least "
        if not self.whole and self.inputs <= 1.01:
            against = f"read in {self.method}"
        elif self.inputs > 1.01:
            against = "more than any normal matrix holds (1)"
        elif self.inputs > 0.99:
            against = "what every normal matrix holds, an orthogonal one for instance"
        else:
            against = "less than a normal matrix holds (1)"
        return f"total memory is {least}{self.inputs:.3f} inputs against noise in every unit, {against}."

    def details(self) -> str:
        if self.horizon is None:
            reach = f"All {len(self.curve)} lags measured still hold at least 1 % of the best one."
        else:
            steps = "1 step" if self.horizon == 1 else f"{self.horizon} steps"
            reach = f"From {steps} back on, less than 1 % of the best lag is left."
        unsure = self.error > 0.01 * self.total
        doubt = f" The number is not certain: its error ({self.method}) may be {self.error:.2g}." if unsure else ""
        return f"{reach} The most that {self.size} units can hold is {self.size} inputs.{doubt}"

    def brief(self) -> str:
        return f"{'' if self.whole else '≥ '}{self.inputs:.3g} of {self.size}"

    def plot(self, axes: Any) -> None:
        """J(k), its sum so far, and the bounds: normal, any matrix, and the delay line."""
        lags = np.arange(len(self.curve))
        axes.plot(lags, self.delay_bound, color=ORANGE, linestyle="--", label="delay line of the same growth")
        axes.plot(lags, self.curve, color=BLUE, linewidth=2, label="J(k)")
        axes.plot(lags, np.cumsum(self.curve), color=BLUE, linewidth=0.9, label="sum up to lag k")
        axes.axhline(self.normal_bound, color=MUTED, linewidth=0.9, linestyle=":", label="normal: 1 / eps")
        axes.axhline(self.bound, color=RED, linewidth=0.9, linestyle=":", label="any: N / eps")
        lowest = max(self.curve[self.curve > 0].min(initial=1.0), 1e-6 * self.normal_bound)
        title = f"Fisher memory, J_tot = {self.total:.4g}"
        axes.set(
            title=title, xlabel="lag k", ylabel="Fisher information", yscale="log", ylim=(lowest / 2, 2 * self.bound)
        )
        axes.legend(frameon=True, facecolor=PAPER, edgecolor="none")  # it may stand upon a bound


def fisher_memory(
    W: Tensor | np.ndarray,
    v: Tensor | np.ndarray,
    *,
    noise: float = 1.0,
    lags: int | None = None,
    steps: int | None = None,
    precision: str = "auto",
) -> FisherMemory:
    """Fisher memory of h_t = W h_{t-1} + v s_t + z_t, z_t ~ N(0, eps I).

        C = eps sum_k W^k W^k',   J_kl = (W^k v)' C^-1 W^l v,   J_tot = sum_k J_kk.

    Args:
        W: (N, N), real or complex. A complex state is measured as its 2 N real coordinates.
        v: (N,), the weights of the signal; for several inputs one direction of them, ``U @ direction``.
        noise: eps, the variance of z_t in each coordinate.
        lags: K, the lags of J_kl; J_tot is over all. Default: 2 N.
        steps: noise and signal began this many steps ago. Default: infinitely many, which needs a spectral radius of W
            below 1. An orthogonal W has no stationary state; with ``steps=T`` it has J(k) = 1 / (eps T).
        precision: "float64", "extended" (balls of python-flint, with a proven error), or "auto": float64 while its
            estimated relative error is at most 1e-8, else extended up to N = 128. The estimate is N 2^-52 times the
            condition number of C scaled to a unit diagonal, or the error of Tr J^(s) = N / eps if that is larger.

    Source: Ganguli, Huh and Sompolinsky 2008; Kerg (2022), Sections 2.6 and 3.4.2.

    >>> line = np.diag(np.ones(2), -1)  # a delay line of three units: J(k) = 1 / (k + 1)
    >>> fisher_memory(line, np.eye(3)[0], lags=4).curve.round(4).tolist()
    [1.0, 0.5, 0.3333, 0.0]
    """
    recurrent, signal = as_real(square_matrix(W), double_array(v, "v"))
    size = len(recurrent)
    check_between("noise", noise, 0, float("inf"))
    check_choice("precision", precision, PRECISIONS)
    lags = check_size("lags", 2 * size if lags is None else lags)
    if steps is not None:
        lags = min(lags, check_size("steps", steps))  # nothing was there before
    found = fisher_numbers(recurrent, signal, lags, steps, precision)
    return FisherMemory(
        matrix=found.matrix / noise,
        spatial=found.spatial / noise,
        total=found.total / noise,
        growth=(responses(recurrent, signal, lags) ** 2).sum(0),
        size=size,
        noise=noise,
        steps=steps,
        method=found.method,
        error=found.error / noise,
    )

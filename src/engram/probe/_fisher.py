"""Fisher memory of a linear recurrence: how much the state of now tells of the signal of then (spec/spectral.md 5.1).

    h_t = W h_{t-1} + v s_t + z_t,   z_t ~ N(0, eps I)
    C = eps sum_k W^k W^k',   J_kl = (W^k v)' C^-1 W^l v,   J(k) = J_kk,
    J_tot = sum_k J(k) = v' J^(s) v,   J^(s) = sum_k W^k' C^-1 W^k.

J(k) is the Fisher information about the signal k steps ago: 1 / J(k) is the least variance with which anyone can
estimate it from h_t. Bounds: J_tot = |v|^2 / eps if W is normal, at most N |v|^2 / eps for any W, and
J(k) <= 1 / (eps sum_{m<=k} |W^m v|^-2), with equality for a delay line that grows as W does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from engram.errors import OptionError, ShapeError, check_between, check_choice, check_size
from engram.probe._extended import extended
from engram.probe._float64 import float64, responses
from engram.probe._plain import array64, plain, square

PRECISIONS = ("auto", "float64", "extended")
TOLERANCE = 1e-8
"""The relative error of J_tot above which "auto" leaves float64."""
LARGEST = 128
"""The size up to which "auto" turns to extended precision: some ten seconds; beyond, the error is only told."""


@dataclass(frozen=True)
class FisherMemory:
    """What :func:`fisher_memory` found, and the same of a non-linear step when linearised or sampled."""

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
    """How many steps ago noise and signal began; None: for ever."""
    method: str
    """The arithmetic: "float64", "extended (192 bits)" or "sampled (2000 paths)", or "128 of 3,120 directions"."""
    error: float
    """Of J_tot: estimated for float64, proven for extended, one standard deviation when sampled."""
    whole: bool = True
    """Whether all of the state was read; else all numbers are lower bounds."""

    @property
    def curve(self) -> np.ndarray:
        """J(k), (K,): the memory curve."""
        return self.matrix.diagonal()

    @property
    def normal_bound(self) -> float:
        """|v|^2 / eps: J_tot of every normal W (orthogonal, symmetric, ...)."""
        return float(self.growth[0] / self.noise)

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
        """The first lag with less than 1 % of the largest J(k) at it and after; None if the curve ends before."""
        large = np.flatnonzero(self.curve >= 0.01 * self.curve.max())
        return int(large[-1]) + 1 if large[-1] + 1 < len(self.curve) else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the memory matrix and the spatial matrix are told by their extremes, for they can be large."""
        kept = (
            "total",
            "size",
            "noise",
            "steps",
            "method",
            "error",
            "whole",
            "normal_bound",
            "bound",
            "horizon",
            "curve",
        )
        best = None if self.spatial is None else float(np.linalg.eigvalsh(self.spatial)[-1])
        told = {name: getattr(self, name) for name in (*kept, "delay_bound")}
        return {**plain(told), "total_of_best_unit_input": plain(best)}

    def words(self) -> str:
        """What it means, for a student."""
        normal, most = self.total / self.normal_bound, self.total / self.bound
        if not self.whole and normal <= 1.01:
            kind = f"read in {self.method}; a normal matrix holds 1 of these, {self.size} units could hold {self.size}"
        elif normal > 1.01:
            kind = f"more than any normal matrix can hold (1 of these), and {most:.1%} of what {self.size} units could"
        elif normal > 0.99:
            kind = f"what every normal (for instance orthogonal) matrix holds; {self.size} units could hold {self.size}"
        else:
            kind = f"less than a normal matrix holds (1 of these); {self.size} units could hold {self.size}"
        if self.horizon is None:
            reach = f"All {len(self.curve)} lags looked at still hold at least 1 % of the best one."
        else:
            reach = f"From {self.horizon} steps back on, less than 1 % of the best lag is left."
        unsure = self.error > 0.01 * self.total
        doubt = f" The number is not certain: the error ({self.method}) may be {self.error:.2g}." if unsure else ""
        least = "" if self.whole else "at least "
        return (
            f"Fisher memory: against noise in every unit at every step, the state holds {least}{normal:.3g} times the "
            f"information of one input at the moment it enters, {kind}. {reach}{doubt}"
        )

    def draw(self, axes: Any) -> None:
        """J(k), its sum so far, and the bounds: normal, any matrix, and the delay line."""
        lags = np.arange(len(self.curve))
        axes.plot(lags, self.delay_bound, color="#d98c3f", linestyle="--", label="delay line of the same growth")
        axes.plot(lags, self.curve, color="#0b5fa5", linewidth=2, label="J(k)")
        axes.plot(lags, np.cumsum(self.curve), color="#0b5fa5", linewidth=0.9, label="sum up to lag k")
        axes.axhline(self.normal_bound, color="#888888", linewidth=0.9, linestyle=":", label="normal: 1 / eps")
        axes.axhline(self.bound, color="#b04a3a", linewidth=0.9, linestyle=":", label="any: N / eps")
        axes.set(xlabel="lag k", ylabel="Fisher information", yscale="log")
        axes.set_ylim(max(self.curve[self.curve > 0].min(initial=1.0), 1e-6 * self.normal_bound) / 2, 2 * self.bound)
        axes.set_title(f"Fisher memory, J_tot = {self.total:.4g}", loc="left", fontsize=10)
        axes.legend(fontsize=7, edgecolor="none", framealpha=0.85)  # it may stand upon a bound
        axes.spines[["top", "right"]].set_visible(False)


def fisher_memory(
    W: Tensor | np.ndarray,
    v: Tensor | np.ndarray,
    *,
    noise: float = 1.0,
    lags: int | None = None,
    steps: int | None = None,
    precision: str = "auto",
) -> FisherMemory:
    """Fisher memory of h_t = W h_{t-1} + v s_t + z_t, exact; the equations stand above.

    Args:
        W: (N, N), real or complex. A complex state is measured as its 2 N real coordinates.
        v: (N,), the weights of the signal; for several inputs one direction of them, ``U @ direction``.
        noise: eps, the variance of z_t in each coordinate.
        lags: K, how many lags of J_kl to give; J_tot is over all. 2 N if not given.
        steps: noise and signal began so many steps ago. None: for ever, which needs a spectral radius below 1.
            An orthogonal W has no stationary state; with ``steps=T`` it has J(k) = 1 / (eps T).
        precision: "float64", "extended" (python-flint) or "auto".

    The rule of "auto": C is scaled to a unit diagonal (so units of different size do no harm), and the error of float64
    is taken as N 2^-52 times its condition number, or as that of the identity Tr J^(s) = N / eps if it is larger.
    Above 1e-8 the extended precision takes over, up to N = 128; beyond that only the error is told.

    >>> line = np.diag(np.ones(2), -1)  # a delay line of three units: J(k) = 1 / (k + 1)
    >>> fisher_memory(line, np.eye(3)[0], lags=4).curve.round(4).tolist()
    [1.0, 0.5, 0.3333, 0.0]
    """
    recurrent, signal = _as_real(square(W), array64(v, "v"))
    size = len(recurrent)
    check_between("noise", noise, 0, float("inf"))
    check_choice("precision", precision, PRECISIONS)
    lags = check_size("lags", 2 * size if lags is None else lags)
    if steps is not None:
        lags = min(lags, check_size("steps", steps))  # nothing was there before
    radius = float(np.abs(np.linalg.eigvals(recurrent)).max())
    if steps is None and radius >= 1 and precision != "extended":
        raise OptionError(
            f"Fisher memory for ever needs a spectral radius of W below 1, got {radius:.6g}: the noise would grow "
            "without bound; give steps=T for a process that began T steps ago (or precision='extended' for a W so far "
            "from normal that float64 misses its eigenvalues)"
        )
    found = None if precision == "extended" else float64(recurrent, signal, lags, steps)
    if precision == "extended" or (
        precision == "auto" and size <= LARGEST and (found is None or found.error > TOLERANCE * found.total)
    ):
        found = extended(recurrent, signal, lags, steps, TOLERANCE)
    if found is None:
        raise OptionError(f"float64 fails for this W (N = {size}): the covariance is singular; precision='extended'")
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


def _as_real(recurrent: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and v over the real numbers; z -> W z is [[Re, -Im], [Im, Re]] on (Re z, Im z)."""
    if signal.shape != (len(recurrent),):
        raise ShapeError(
            f"v must have the shape ({len(recurrent)},), one weight for each row of W, got {signal.shape}; "
            "for several inputs give one direction of them, U @ direction"
        )
    if not signal.any():
        raise OptionError("v is 0: the signal never enters the state, so there is no memory of it to measure")
    if not (np.iscomplexobj(recurrent) or np.iscomplexobj(signal)):
        return recurrent, signal
    re, im = recurrent.real, recurrent.imag
    return np.block([[re, -im], [im, re]]), np.concatenate([signal.real, signal.imag])

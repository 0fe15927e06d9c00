"""The claim ``delay``: the longest lag with which a deep linear RNN copies its input."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from flint import nmod, nmod_mat
from torch import nn

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.errors import OptionError, check_size
from engram.exact import Residues, degree_of, integers, random_linear_weights
from engram.nn import RNN
from engram.theory import check_lag, largest_lag, shift_register


@dataclass(frozen=True)
class DelayClaim(Claim):
    """L linear layers of n units copy d numbers p steps later, exactly, if and only if p d <= L (n - d).

    If: shift registers (:func:`engram.theory.shift_register`) are run on random integers; their weights are 0 and 1 and
    no two numbers are added, so float64 is exact. Only if: with z for a delay of one step, the transfer function is
    G(z) = W (I - z V^L)^{-1} U^L ... (I - z V^1)^{-1} U^1. A copy with lag p has det G = z^{pd}. With
    D = det(I - z V^1) ... det(I - z V^L), D(0) = 1, N = D det G is a polynomial of degree at most L (n - d), since by
    Jacobi's identity a minor of size d of an inverse is one of size n - d over the determinant. So p d <= deg N. The
    degree found at random weights modulo a prime equals this bound.
    Source: Lizaire et al. (2026), Lemmas 2 and 3 (Appendix A.3), for d = 1; the proof of the bound is ours.
    """

    hidden: int
    """n, the units of a layer."""
    depth: int
    """L, the layers."""
    channels: int = 1
    """d, the inputs, all of them copied."""
    lag: int = 0
    """p, the lag to copy with; default: 0, the largest possible."""

    name: ClassVar[str] = "delay"
    words: ClassVar[str] = (
        "a linear RNN copies d numbers with lag p if and only if p d <= L (n - d) (Lizaire et al., Lemmas 2 and 3)"
    )
    example: ClassVar[dict[str, int]] = {"hidden": 5, "depth": 3}

    def __post_init__(self) -> None:
        most = largest_lag(self.hidden, self.depth, self.channels)
        check_lag(check_size("lag", self.lag, least=0), most, self.hidden, self.depth, self.channels)
        object.__setattr__(self, "lag", self.lag or most)

    def cost(self) -> Cost:
        """Values of the transfer function, solved layer by layer; their differences; the shift registers, run."""
        n, d, layers = self.hidden, self.channels, self.depth
        points, steps = n * layers + 2, 3 * self.lag + 5
        solved = points * layers * (8e-6 + 1e-7 * n**2 + 2e-9 * n**3 + 1e-8 * n * d)
        run = layers * (3e-4 + 2e-6 * n) + steps * layers * (1e-7 + 2e-9 * n**2) + 1e-6 * steps * d
        memory = 100 * layers * n**2 + 2e4 * layers + 8 * steps * (n + 10 * d) * layers + 50 * points
        return Cost(1 + solved + 1e-5 * points + 3e-9 * points**2 + run, 100 + MB * memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        degree = transfer_degree(self.hidden, self.depth, self.channels, prime, seed)
        copied = copies(*shift_register(self.hidden, self.lag, self.channels, depth=self.depth), self.lag, seed)
        return {"largest_lag": degree // self.channels, "degree": degree, "copied_lag": self.lag if copied else None}

    def holds(self, found: Found) -> bool:
        exact = self.depth * (self.hidden - self.channels)
        return bool(found["degree"] == exact and found["copied_lag"] == self.lag <= found["largest_lag"])

    def statement(self, found: Found) -> str:
        what = "its input" if self.channels == 1 else f"its {self.channels} inputs"
        return (
            f"A linear RNN of {many(self.depth, 'layer')} of {many(self.hidden, 'unit')} copies {what} with a lag of "
            f"{found['copied_lag']} exactly, and none copies with a lag above {found['largest_lag']}: the numerator of "
            f"its transfer function has degree {found['degree']}."
        )


@torch.no_grad()
def copies(layer: RNN, readout: nn.Linear, lag: int, seed: int) -> bool:
    """Whether the network, run on 3p + 5 steps of random integers, gives 0 for p steps, then each of them exactly."""
    inputs = integers(seed, 0, 3 * lag + 5, layer.input_size).astype(np.float64)
    x = torch.from_numpy(inputs)
    y = readout(layer(x)[0])
    wanted = torch.cat([torch.zeros_like(x[:lag]), x[: len(x) - lag]])[:, : readout.out_features]
    return bool(torch.equal(y, wanted))


def transfer_degree(hidden: int, depth: int, channels: int, prime: int, seed: int) -> int:
    """The degree of N = D det G at random weights modulo a prime, from its values at 0, 1, ..., n L + 1."""
    count = hidden * depth + 2
    if prime <= count:
        raise OptionError(f"prime must be above {count}, the number of points; got {prime}")

    def matrix(values: Residues) -> nmod_mat:
        return nmod_mat([[int(value) for value in row] for row in values], prime)

    weights, output = random_linear_weights(hidden, channels, depth, channels, prime, seed)
    layers, readout = [(matrix(into), matrix(back)) for into, back in weights], matrix(output)
    eye = matrix(np.eye(hidden, dtype=np.uint64))
    values = []
    for point in range(count):
        signal, scale = matrix(np.eye(channels, dtype=np.uint64)), nmod(1, prime)
        for into, back in layers:
            system = eye - back * nmod(point, prime)
            try:
                signal = system.solve(into * signal)
            except ZeroDivisionError:
                raise OptionError(
                    f"the transfer function at these weights has a pole at {point} modulo {prime}: use another seed "
                    "or a larger prime"
                ) from None
            scale = scale * system.det()
        values.append(int(scale * (readout * signal).det()))
    return degree_of(values, prime)

"""The longest delay of a deep linear RNN: a construction that reaches it, and why there is no longer one.

spec/depth.md 4.2 and 4.3: L layers of n units copy d channels with a lag of p steps if and only if p d <= L (n - d).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from flint import nmod, nmod_mat
from torch import nn

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost
from engram.certify._differences import degree_of
from engram.certify._field import Residues
from engram.certify._network import generic, integers
from engram.errors import OptionError, check_size
from engram.nn import RNN, LinearRNN


def largest_lag(hidden: int, depth: int, channels: int = 1) -> int:
    """The largest p with p d <= L (n - d).

    >>> largest_lag(5, 3)
    12
    """
    check_size("hidden", hidden, check_size("channels", channels))
    return check_size("depth", depth) * (hidden - channels) // channels


@torch.no_grad()
def delay_line(
    hidden: int, lag: int, channels: int = 1, *, depth: int | None = None, inputs: int | None = None
) -> tuple[LinearRNN, nn.Linear]:
    """A linear RNN and a readout that give y_t = x_{t-p}, exactly, and 0 for t <= p (Lemma 2).

    Every layer holds a shift register for each channel: the input enters at the last unit, each step moves all by one,
    and the layer above takes the first unit. A register of k + 1 units delays by k steps. The p d delays are dealt out
    to the layers, n - d each, so no lag is left over when n - 1 does not divide p.

    Args:
        hidden: n, the units of a layer.
        lag: p.
        channels: d, how many inputs are copied, the first ones.
        depth: L; the least that will do unless given.
        inputs: the size of the input; ``channels`` unless given.

    Returns: a float64 layer with input ``(T, B, inputs)`` and a readout to ``(T, B, d)``.
    """
    check_size("lag", lag, least=0)
    if depth is not None:
        check_size("depth", depth)
    room = hidden - channels
    least = max(1, -(-lag * channels // room)) if room > 0 else 1
    most = largest_lag(hidden, depth or least, channels)
    check_lag(lag, most, hidden, depth, channels)
    wide = check_size("inputs", channels if inputs is None else inputs, channels)
    layer = LinearRNN(wide, hidden, depth or least, bias=False, dtype=torch.float64)
    readout = nn.Linear(hidden, channels, bias=False, dtype=torch.float64)
    left = [lag] * channels
    sources = list(range(channels))  # where the layer below gives each channel
    for cell in layer.cells:
        cell.weight_ih.zero_()
        cell.weight_hh.zero_()
        free, first = room, 0
        for channel in range(channels):
            delay = min(free, left[channel])
            free, left[channel] = free - delay, left[channel] - delay
            cell.weight_ih[first + delay, sources[channel]] = 1
            for unit in range(first, first + delay):
                cell.weight_hh[unit, unit + 1] = 1
            sources[channel] = first
            first += delay + 1
    readout.weight.zero_()[range(channels), sources] = 1
    return layer, readout


def check_lag(lag: int, most: int, hidden: int, depth: int | None, channels: int) -> None:
    """Refuse a lag above the largest possible, and name that."""
    if lag > most:
        raise OptionError(
            f"{many(depth, 'layer') if depth else 'any number of layers'} of {many(hidden, 'unit')} can copy "
            f"{many(channels, 'channel')} with a lag of at most {most}, got lag {lag}: use more units"
            + (", or more layers" if hidden > channels else "")
        )


@dataclass(frozen=True)
class Delay(Claim):
    """The longest lag that a deep linear RNN copies exactly is the largest p with p d <= L (n - d).

    At least: the delay line is run on random integers; its weights are 0 and 1 and no two numbers are ever added, so
    double precision is exact. At most: with z for a delay, the transfer function is
    G(z) = W (I - z V^L)^{-1} U^L ... (I - z V^1)^{-1} U^1. A copy with lag p has det G = z^{pd}, and N = D det G with
    D = det(I - z V^1) ... det(I - z V^L), D(0) = 1, is a polynomial of degree at most L (n - d): by Jacobi, a minor of
    size d of an inverse is one of size n - d over the determinant. So p d <= deg N. The degree found, at random
    weights modulo p, is that bound: it is not too low.
    """

    hidden: int
    """n, the units of a layer."""
    depth: int
    """L, the layers."""
    channels: int = 1
    """d, the inputs, all of them copied."""
    lag: int = 0
    """p, the lag to copy with; the largest possible unless given."""

    name: ClassVar[str] = "delay"
    words: ClassVar[str] = "Lemmas 2 and 3: a linear RNN copies with lag p if and only if p d <= L (n - d)"
    example: ClassVar[dict[str, int]] = {"hidden": 5, "depth": 3}

    def __post_init__(self) -> None:
        most = largest_lag(self.hidden, self.depth, self.channels)
        check_lag(check_size("lag", self.lag, least=0), most, self.hidden, self.depth, self.channels)
        object.__setattr__(self, "lag", self.lag or most)

    def cost(self) -> Cost:
        """Values of the transfer function, solved layer by layer; their differences; the delay line, run."""
        n, d, layers = self.hidden, self.channels, self.depth
        points, steps = n * layers + 2, 3 * self.lag + 5
        solved = points * layers * (8e-6 + 1e-7 * n**2 + 2e-9 * n**3 + 1e-8 * n * d)
        run = layers * (3e-4 + 2e-6 * n) + steps * layers * (1e-7 + 2e-9 * n**2) + 1e-6 * steps * d
        memory = 100 * layers * n**2 + 2e4 * layers + 8 * steps * (n + 10 * d) * layers + 50 * points
        return Cost(1 + solved + 1e-5 * points + 3e-9 * points**2 + run, 100 + MB * memory)

    def find(self, witness: str, prime: int, seed: int) -> Found:
        degree = transfer_degree(self.hidden, self.depth, self.channels, prime, seed)
        copied = copies(*delay_line(self.hidden, self.lag, self.channels, depth=self.depth), self.lag, seed)
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
    """Whether the network, run on 3 p + 5 random integers a channel, gives each of them p steps later, to the digit."""
    inputs = integers(seed, 0, 3 * lag + 5, layer.input_size).astype(np.float64)
    x = torch.from_numpy(inputs)
    y = readout(layer(x)[0])
    wanted = torch.cat([torch.zeros_like(x[:lag]), x[: len(x) - lag]])[:, : readout.out_features]
    return bool(torch.equal(y, wanted))


def transfer_degree(hidden: int, depth: int, channels: int, prime: int, seed: int) -> int:
    """The degree of N = D det G at random weights modulo p, from its values at 0, 1, ..., n L + 1."""
    count = hidden * depth + 2
    if prime <= count:
        raise OptionError(f"prime must be larger than the number of points, {count}; got {prime}")

    def matrix(values: Residues) -> nmod_mat:
        return nmod_mat([[int(value) for value in row] for row in values], prime)

    drawn, output = generic(hidden, channels, depth, channels, prime, seed)
    layers, readout = [(matrix(into), matrix(back)) for into, back in drawn], matrix(output)
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
                    f"these weights have a pole at {point} modulo {prime}: use another seed, or a larger prime"
                ) from None
            scale = scale * system.det()
        values.append(int(scale * (readout * signal).det()))
    return degree_of(values, prime)

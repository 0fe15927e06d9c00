"""A deep recurrent arithmetic circuit as a tensor network: a tree that has copies of inputs and units.

Source: Ziv (2019), Appendices A.3 (the network; Claim 3) and A.4 (Claim 4).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from engram.errors import OptionError, check_size


@dataclass(frozen=True)
class Chain:
    """The units (l, 1), ..., (l, t) of one layer, joined by W_H^l: what h^{t,l} needs of its own layer.

    Unit (l, s) also needs h^{s,l-1}, which is a chain of the layer below, or the input x^s in layer 1. No tensor
    network can copy a vector (Claim 3), so every unit has its own copy of all that it needs.
    """

    layer: int
    """l, the layer, from 1."""
    length: int
    """t, the units."""
    below: tuple["Chain", ...]
    """One chain per unit; empty in layer 1, whose units read the inputs."""

    def __iter__(self) -> "Iterator[Chain]":
        """This chain, then all chains below, the shortest first: plotted in this order, no two lines cross."""
        yield self
        for chain in self.below:
            yield from chain

    def joins(self, half: int) -> bool:
        """Whether W_H^l joins a unit of the first half of the sequence to one of the second half."""
        return self.length > half


def unroll(depth: int, steps: int) -> Chain:
    """The tree of y^T = W_O h^{T,L}, for L layers (``depth``) and T steps.

    The chains of layer 1 that join the halves are those with t_2 > T/2. There are as many as there are
    t_2 <= ... <= t_L in the second half: ((T/2 over L-1)), Claim 4.

    >>> sum(chain.layer == 1 and chain.joins(3) for chain in unroll(3, 6))
    6
    """
    check_size("depth", depth)
    if check_size("steps", steps, 2) % 2:
        raise OptionError(f"steps must be even, since the sequence is cut into two halves; got {steps}")
    chains = [Chain(1, length, ()) for length in range(1, steps + 1)]
    for layer in range(2, depth + 1):  # equal chains are one object, so that a large tree needs little memory
        chains = [Chain(layer, length, tuple(chains[:length])) for length in range(1, steps + 1)]
    return chains[-1]

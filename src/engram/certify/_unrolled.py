"""A deep recurrent arithmetic circuit as a tensor network: a tree, in which inputs and units stand several times."""

from collections.abc import Iterator
from dataclasses import dataclass

from engram.errors import OptionError, check_size


@dataclass(frozen=True)
class Chain:
    """The units (l, 1), ..., (l, t) of one layer, joined by W_H^l: all that h^{t,l} needs of its own layer.

    Unit (l, s) also needs h^{s,l-1}, a chain of the layer below, or the input x^s below the first layer. No tensor
    network can clone a vector (spec/arithmetic-circuits.md 3.1, Claim 3), so each unit has a copy of its own of all
    that it needs: ``below`` holds one chain a unit, and is empty in layer 1, whose units read the inputs.
    """

    layer: int
    length: int
    below: tuple["Chain", ...]

    def __iter__(self) -> "Iterator[Chain]":
        """This chain, and then all those below, the shortest first: no line of a drawing in this order crosses."""
        yield self
        for chain in self.below:
            yield from chain

    def joins(self, half: int) -> bool:
        """Whether W_H^l joins a unit of the Start half to one of the End half."""
        return self.length > half


def unroll(depth: int, steps: int) -> Chain:
    """The tree of y^T = W_O h^{T,L}.

    The units of layer 1 that join Start and End are the chains of layer 1 with t_2 > T/2, so as many as there are
    t_2 <= ... <= t_L in the End half: ((T/2 over L-1)), Claim 4.

    >>> sum(chain.layer == 1 and chain.joins(3) for chain in unroll(3, 6))
    6
    """
    check_size("depth", depth)
    if check_size("steps", steps, 2) % 2:
        raise OptionError(f"steps must be even: Start and End are the two halves of the sequence; got {steps}")
    chains = [Chain(1, length, ()) for length in range(1, steps + 1)]
    for layer in range(2, depth + 1):  # equal chains are one object, so that a large tree costs nothing to make
        chains = [Chain(layer, length, tuple(chains[:length])) for length in range(1, steps + 1)]
    return chains[-1]

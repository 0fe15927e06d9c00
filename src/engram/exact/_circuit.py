"""Recurrent arithmetic circuits with weights in a prime field, and the matrix of their outputs on a grid of inputs.

Source: Ziv (2019), Sections 2.1 (the circuit) and 2.2.2 (grid tensor), Appendices A.4 and B.2 (weights of the proofs).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from engram.exact._field import Residues, product, sample, times


@dataclass(frozen=True)
class FieldCircuit:
    """The weights of a recurrent arithmetic circuit modulo p, and the K inputs of its grid.

    h^{t,l} = (W_H^l h^{t-1,l}) * (W_I^l h^{t,l-1}) elementwise, h^{t,0} = x^t, y = W_O h^{T,L}; R channels in each of
    L layers, inputs of M numbers.
    """

    AT_ONCE: ClassVar[int] = 1 << 14
    """Entries of a block of the matrix."""

    prime: int
    """p."""
    inputs: tuple[Residues, ...]
    """W_I^l of each layer: ``(R, M)`` in the first, ``(R, R)`` above."""
    hidden: tuple[Residues, ...]
    """W_H^l of each layer, ``(R, R)``."""
    start: tuple[Residues, ...]
    """W_H^l h^{0,l} of each layer, ``(R)``."""
    readout: Residues
    """One row of W_O, ``(R)``."""
    templates: Residues
    """The K inputs, ``(K, M)``."""

    @property
    def depth(self) -> int:
        return len(self.inputs)

    def grid(self, steps: int, at_once: int = AT_ONCE) -> Iterator[tuple[int, Residues]]:
        """The outputs for all K^T sequences of templates, as the matrix ``(K^{T/2}, K^{T/2})`` in blocks of rows.

        Row: first half of the sequence (Start); column: second half (End). Yields the number of the first row of each
        block, and the block.

        The states after all first halves are one array. Blocks of them, small enough for the cache, then run through
        the second half; each step multiplies their number by K. The last step is linear in its input: one product with
        W_I^1 F^T, F the templates. In memory the numbers of one unit are contiguous and the newest input is the slowest
        index, so that numpy's loops are long; the indices are put in order at the end.
        """
        count, half = len(self.templates), steps // 2
        side = count**half
        drive = product(self.inputs[0], self.templates.T, self.prime)  # W_I^1 x of all templates, (R, K)
        states = [a[:, None] for a in self.start]  # W_H^l h, (R, prefixes)
        for _ in range(half):
            states = self._advance(states, drive)
        states = [_in_order(s, count, half).reshape(-1, side) for s in states]
        block = max(1, at_once // side)
        for first in range(0, side, block):
            part = [s[:, first : first + block] for s in states]
            for _ in range(half - 1):
                part = self._advance(part, drive)
            yield first, _in_order(self._last(part, drive).reshape(1, -1), count, half).reshape(-1, side)

    def _advance(self, states: list[Residues], drive: Residues) -> list[Residues]:
        """One step: from W_H^l h of n sequences to that of the K n sequences that are one input longer."""
        below, result = drive[:, :, None], []
        for layer, state in enumerate(states):
            new = times(state[:, None], below, self.prime).reshape(len(state), -1)  # h^{t,l}, (R, K n)
            up = self.inputs[layer + 1 : layer + 2]  # none above the last layer
            both = product(np.vstack([self.hidden[layer], *up]), new, self.prime)
            result.append(both[: len(state)])
            below = both[len(state) :].reshape(-1, drive.shape[1], state.shape[1])
        return result

    def _last(self, states: list[Residues], drive: Residues) -> Residues:
        """y ``(K, n)`` after the last step, computed from the readout down to the inputs."""
        weight = times(self.readout[:, None], states[-1], self.prime)
        for layer in range(self.depth - 1, 0, -1):
            weight = times(product(self.inputs[layer].T, weight, self.prime), states[layer - 1], self.prime)
        return product(drive.T, weight, self.prime)


def _in_order(a: Residues, count: int, steps: int) -> Residues:
    """``(R, newest input, ..., oldest input, n)`` as ``(R, n, oldest input, ..., newest input)``, K = ``count``."""
    if count == 1:
        return a  # with one template there is one sequence; numpy has no more than 64 axes
    apart = a.reshape(len(a), *[count] * steps, -1)
    return np.ascontiguousarray(apart.transpose(0, *range(apart.ndim - 1, 0, -1)))


def random_circuit(modes: int, channels: int, depth: int, templates: int, prime: int, seed: int) -> FieldCircuit:
    """Weights sampled uniformly from 1 .. p - 1.

    Args:
        modes: M, the numbers of an input.
        channels: R, the units of a layer.
        depth: L, the layers.
        templates: K, the different inputs.
        prime: p.
        seed: random seed of the numbers.
    """
    purposes = itertools.count()

    def fresh(*shape: int) -> Residues:
        return sample(prime, seed, next(purposes), *shape)

    layers = range(depth)
    return FieldCircuit(
        prime,
        tuple(fresh(channels, modes if layer == 0 else channels) for layer in layers),
        tuple(fresh(channels, channels) for _ in layers),
        tuple(fresh(channels) for _ in layers),
        fresh(channels),
        fresh(templates, modes),
    )


def constructed_circuit(modes: int, channels: int, steps: int, prime: int) -> FieldCircuit:
    """The weights in the proof of Theorem 1.2 (depth 2; Appendix B.2), with z = 2 and Omega = (T/2)^2 + 1.

    Z_ij = z^(Omega^i) on the diagonal, 1 off the diagonal, 0 below row M; W_I^1 = Z; the templates are the
    identity; W_I^2 has a first row of ones and zeros below; W_H^l = I, h^0 = 1, W_O = e_1.

    Args:
        modes: M, the numbers of an input.
        channels: R, the units of a layer.
        steps: T, the length of a sequence.
        prime: p.
    """
    omega = (steps // 2) ** 2 + 1
    z = np.ones((channels, modes), dtype=np.uint64)
    z[modes:] = 0
    for i in range(min(channels, modes)):
        z[i, i] = pow(2, pow(omega, i + 1, prime - 1), prime)  # Fermat: exponents modulo p - 1
    eye = np.eye(channels, dtype=np.uint64)
    first = np.zeros((channels, channels), dtype=np.uint64)
    first[0] = 1
    ones = np.ones(channels, dtype=np.uint64)
    return FieldCircuit(prime, (z, first), (eye, eye), (ones, ones), eye[0], np.eye(modes, dtype=np.uint64))


def conjecture_circuit(modes: int, channels: int, depth: int, templates: int, prime: int, seed: int) -> FieldCircuit:
    """The weights that motivate Conjecture 1 (Appendix A.4): random in layer 1; above it only unit 1 is passed on.

    W_I^2 has one random row and zeros below, W_I^l the entry (1, 1) for l > 2; W_H^l = I and h^0 = 1 above layer 1. The
    thesis also allows W_H^1 = I, but the state of layer 1 would then depend only on how often each input came, and the
    conjectured rank is not reached (docs/sources.md).

    Args:
        modes: M, the numbers of an input.
        channels: R, the units of a layer.
        depth: L, the layers.
        templates: K, the different inputs.
        prime: p.
        seed: random seed of the numbers.
    """
    generic = random_circuit(modes, channels, depth, templates, prime, seed)
    eye, ones = np.eye(channels, dtype=np.uint64), np.ones(channels, dtype=np.uint64)
    passed = np.zeros((channels, channels), dtype=np.uint64)
    passed[0, 0] = 1
    second = np.zeros((channels, channels), dtype=np.uint64)
    second[0] = generic.inputs[1][0] if depth > 1 else 0
    inputs = (generic.inputs[0], second, *[passed] * (depth - 2))[:depth]
    hidden = (generic.hidden[0], *[eye] * (depth - 1))
    start = (generic.start[0], *[ones] * (depth - 1))
    return FieldCircuit(prime, inputs, hidden, start, eye[0] if depth > 1 else generic.readout, generic.templates)

"""The grid tensor of a recurrent arithmetic circuit, over a prime field (spec/arithmetic-circuits.md 3, 5)."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engram.certify._field import Residues, draw, product, times


@dataclass(frozen=True)
class RAC:
    """Weights of h^{t,l} = (W_H^l h^{t-1,l}) * (W_I^l h^{t,l-1}), y = W_O h^{T,L}, modulo p.

    inputs: W_I^l, ``(R, M)`` and then ``(R, R)``; hidden: W_H^l ``(R, R)``; start: a^l = W_H^l h^{0,l} ``(R)``;
    readout: one row of W_O ``(R)``; templates: F ``(K, M)``, the encodings of the K inputs of the grid.
    """

    prime: int
    inputs: tuple[Residues, ...]
    hidden: tuple[Residues, ...]
    start: tuple[Residues, ...]
    readout: Residues
    templates: Residues

    @property
    def depth(self) -> int:
        return len(self.inputs)

    def grid(self, steps: int, at_once: int = 1 << 14) -> Iterator[tuple[int, Residues]]:
        """The Start-End matricization ``(K^{T/2}, K^{T/2})`` by blocks of rows: the first row of each, and the block.

        The states after all prefixes of the Start half are one array. Each block of them, small enough for the cache,
        then runs through the End half, K times as many at each step. The last step is linear in its input: one product
        with W_I^1 F^T. Numbers of one unit stand side by side, the newest letter first, so that numpy's loops are long;
        the letters are put in order at the end.
        """
        count, half = len(self.templates), steps // 2
        side = count**half
        drive = product(self.inputs[0], self.templates.T, self.prime)  # W_I^1 f of all templates, (R, K)
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
        """From W_H^l h of n prefixes to that of K n prefixes."""
        below, result = drive[:, :, None], []
        for layer, state in enumerate(states):
            new = times(state[:, None], below, self.prime).reshape(len(state), -1)  # h^{t,l}, (R, K n)
            up = self.inputs[layer + 1 : layer + 2]  # none above the last layer
            both = product(np.vstack([self.hidden[layer], *up]), new, self.prime)
            result.append(both[: len(state)])
            below = both[len(state) :].reshape(-1, drive.shape[1], state.shape[1])
        return result

    def _last(self, states: list[Residues], drive: Residues) -> Residues:
        """y ``(K, n)`` of the last step: top down, the weight of each unit below, and then the inputs."""
        weight = times(self.readout[:, None], states[-1], self.prime)
        for layer in range(self.depth - 1, 0, -1):
            weight = times(product(self.inputs[layer].T, weight, self.prime), states[layer - 1], self.prime)
        return product(drive.T, weight, self.prime)


def _in_order(a: Residues, count: int, letters: int) -> Residues:
    """``(R, newest letter, ..., oldest letter, n)`` as ``(R, n, oldest letter, ..., newest letter)``."""
    if count == 1:
        return a  # one letter has one order, at any length
    apart = a.reshape(len(a), *[count] * letters, -1)
    return np.ascontiguousarray(apart.transpose(0, *range(apart.ndim - 1, 0, -1)))


def random_rac(modes: int, channels: int, depth: int, templates: int, prime: int, seed: int) -> RAC:
    """Weights drawn uniformly from 1 .. p-1: a generic point with overwhelming probability."""
    purposes = itertools.count()

    def fresh(*shape: int) -> Residues:
        return draw(prime, seed, next(purposes), *shape)

    layers = range(depth)
    return RAC(
        prime,
        tuple(fresh(channels, modes if layer == 0 else channels) for layer in layers),
        tuple(fresh(channels, channels) for _ in layers),
        tuple(fresh(channels) for _ in layers),
        fresh(channels),
        fresh(templates, modes),
    )


def constructed_rac(modes: int, channels: int, steps: int, prime: int) -> RAC:
    """The assignment of the proof of Theorem 1.2 (depth 2), with z = 2 and Omega = (T/2)^2 + 1.

    Z_ij = z^(Omega^i) on the diagonal, 1 beside it, 0 below row M; W_I^1 = Z with F the identity; W_I^2 has a first row
    of ones and zeros below; W_H^l = I, h^0 = 1, W_O = e_1.
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
    return RAC(prime, (z, first), (eye, eye), (ones, ones), eye[0], np.eye(modes, dtype=np.uint64))


def conjecture_rac(modes: int, channels: int, depth: int, templates: int, prime: int, seed: int) -> RAC:
    """The assignment that motivates Conjecture 1: a generic first layer, and above it only unit 1 is passed on.

    W_I^2 has one generic row and zeros below, W_I^l the entry (1, 1) for l > 2; W_H^l = I and h^0 = 1 above the first
    layer. The first layer must be generic: with W_H^1 = I its state depends on the symbol counts alone (spec 4.1).
    """
    generic = random_rac(modes, channels, depth, templates, prime, seed)
    eye, ones = np.eye(channels, dtype=np.uint64), np.ones(channels, dtype=np.uint64)
    passed = np.zeros((channels, channels), dtype=np.uint64)
    passed[0, 0] = 1
    second = np.zeros((channels, channels), dtype=np.uint64)
    second[0] = generic.inputs[1][0] if depth > 1 else 0
    inputs = (generic.inputs[0], second, *[passed] * (depth - 2))[:depth]
    hidden = (generic.hidden[0], *[eye] * (depth - 1))
    start = (generic.start[0], *[ones] * (depth - 1))
    return RAC(prime, inputs, hidden, start, eye[0] if depth > 1 else generic.readout, generic.templates)

"""What no layer with its activation in depth alone can follow: a product of matrices (spec/depth.md 6, Lemma 4)."""

from dataclasses import dataclass
from math import lcm
from typing import ClassVar

import numpy as np
from flint import fmpq_mat, fmpz, fmpz_mat

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, bits, integer_seconds, long_seconds
from engram.certify._network import Exact, Layer, Network, bilinear, integers, same
from engram.errors import OptionError, check_size


@dataclass(frozen=True)
class StateTracking(Claim):
    """One layer with its activation in depth alone, of any width and with any function, does not compute a BIRNN.

    Its state h_t = V h_{t-1} + U x_t + b is affine in x_1 ... x_t. With t = floor(m / d) + 1 steps the m units see
    d t > m numbers, so some change v of the inputs leaves h_t as it is: a vector of integers with
    [V^{t-1} U | ... | V U | U] v = 0. Whatever function and readout follow give the same for x and x + v; the target
    f_t = M(x_t) f_{t-1}, a product of n x n matrices, does not. Both are run in integers, at random
    weights; the change of the target is given modulo p.
    """

    hidden: int
    """m, the units of the layer with activation in depth."""
    inputs: int = 2
    """d, the size of the input."""
    units: int = 0
    """n, of the BIRNN, at least d; d unless given."""

    name: ClassVar[str] = "state-tracking"
    words: ClassVar[str] = "Lemma 4: no layer with any activation in depth alone computes a generic BIRNN for all T"
    example: ClassVar[dict[str, int]] = {"hidden": 5}

    def __post_init__(self) -> None:
        check_size("hidden", self.hidden)
        check_size("inputs", self.inputs)
        check_size("units", self.units, least=0)
        object.__setattr__(self, "units", self.units or self.inputs)
        if self.units < self.inputs:
            raise OptionError(f"Lemma 4 needs at least as many units as inputs, {self.inputs}; got {self.units}")

    def cost(self) -> Cost:
        """The elimination gives numbers as long as a determinant; the BIRNN multiplies one of them in at every step."""
        m, d, n = self.hidden, self.inputs, self.units
        steps = m // d + 1
        # Bits of the change, which for one input is the characteristic polynomial of V.
        length = m * bits(m) * (steps / 2 if d > 1 else 1)
        state = steps * length / 2  # bits of the BIRNN's state, on average
        once = integer_seconds(n**2 * d, state) + long_seconds(n * d, state, length)
        elimination = 2e-11 * m**3 * length + integer_seconds(m**2 * (m + d), steps * bits(m) / 2)
        numbers = (m + d) * m * (60 + steps * bits(m) / 8) + 2 * m * length + n * (60 + state)
        return Cost(elimination + 2 * steps * once + 3e-7 * (m + n) * n * d, MB * (numbers + 100 * (n**2 + m) * d))

    def find(self, witness: str, prime: int, seed: int) -> Found:
        steps = self.hidden // self.inputs + 1
        into, back = integers(seed, 1, self.hidden, self.inputs), integers(seed, 2, self.hidden, self.hidden)
        bias, start, _ = integers(seed, 3, 3, self.hidden)
        layer = Network((Layer(into, back, bias),), (start,))
        tensor = integers(seed, 4, self.units, self.inputs, self.units)
        target = bilinear([tensor], [integers(seed, 5, self.units)])
        x = integers(seed, 6, steps, self.inputs)
        change = kernel_vector(into, back, steps).reshape(steps, self.inputs)
        states, outputs = ([network.last(inputs) for inputs in (x, x + change)] for network in (layer, target))
        return {
            "steps": steps,
            "change": [[str(fmpz(number)) for number in row] for row in change],  # str of int stops at 4300 digits
            "state_differs": not same(*states),
            "target_change": [int(number % prime) for number in outputs[1] - outputs[0]],
        }

    def holds(self, found: Found) -> bool:
        moved = any(number != "0" for row in found["change"] for number in row)
        return bool(moved and not found["state_differs"] and any(found["target_change"]))

    def statement(self, found: Found) -> str:
        return (
            f"After {many(found['steps'], 'step')} of {many(self.inputs, 'number')} a layer of "
            f"{many(self.hidden, 'unit')} with its activation in depth alone has the same state for two sequences, and "
            f"a BIRNN of {many(self.units, 'unit')} does not: no function of that state is the BIRNN's."
        )


def kernel_vector(into: Exact, back: Exact, steps: int) -> Exact:
    """The vector v of integers without a common divisor with [V^{t-1} U | ... | V U | U] v = 0 that exact elimination
    gives: 1 (or the least multiple that leaves no fraction) at the first free column, 0 at the other free ones."""
    blocks = [into]
    for _ in range(steps - 1):
        blocks.insert(0, back @ blocks[0])
    matrix = np.hstack(blocks)
    reduced, rank = fmpq_mat(fmpz_mat([[int(entry) for entry in row] for row in matrix])).rref()
    rows, columns = reduced.tolist(), matrix.shape[1]
    pivots = [next(column for column in range(columns) if rows[row][column] != 0) for row in range(rank)]
    free = next(column for column in range(columns) if column not in pivots)
    whole = lcm(*(int(rows[row][free].q) for row in range(rank)))
    vector = np.zeros(columns, dtype=object)
    vector[free] = whole
    for row, pivot in enumerate(pivots):
        vector[pivot] = -int(rows[row][free] * whole)
    return vector

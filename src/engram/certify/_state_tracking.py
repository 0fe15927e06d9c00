"""The claim ``state-tracking``: a layer without activation in its recurrence cannot follow a product of matrices."""

from dataclasses import dataclass
from math import lcm
from typing import ClassVar

import numpy as np
from flint import fmpq_mat, fmpz, fmpz_mat

from engram.certify._claim import Claim, Found, many
from engram.certify._cost import MB, Cost, bits, integer_seconds, long_seconds
from engram.errors import OptionError, check_size
from engram.exact import Exact, ExactLayer, ExactNetwork, bilinear_network, integers, same


@dataclass(frozen=True)
class StateTrackingClaim(Claim):
    """One layer with a linear recurrence and any activation after it, of any width, does not compute a random BIRNN.

    Its state h_t = V h_{t-1} + U x_t + b is affine in x_1 ... x_t. After t = floor(m / d) + 1 steps its m units have
    received d t > m numbers, so some change v of the inputs does not change h_t: an integer vector with
    [V^{t-1} U | ... | V U | U] v = 0. Any activation and readout give the same for x and x + v; the BIRNN
    f_t = M(x_t) f_{t-1}, a product of n x n matrices, does not. Both are run in integers, at random weights; the change
    of the BIRNN's state is given modulo p.
    Source: Lizaire et al. (2026), Lemma 4 (Appendix A.10), there for homeomorphic activations only.
    """

    hidden: int
    """m, the units of the layer with a linear recurrence."""
    inputs: int = 2
    """d, the size of the input."""
    units: int = 0
    """n, the units of the BIRNN, at least d; default: d."""

    name: ClassVar[str] = "state-tracking"
    words: ClassVar[str] = (
        "no layer with a linear recurrence, of any activation, computes a random BIRNN for all T (Lizaire et al., "
        "Lemma 4)"
    )
    example: ClassVar[dict[str, int]] = {"hidden": 5}

    def __post_init__(self) -> None:
        check_size("hidden", self.hidden)
        check_size("inputs", self.inputs)
        check_size("units", self.units, least=0)
        object.__setattr__(self, "units", self.units or self.inputs)
        if self.units < self.inputs:
            raise OptionError(f"units must be at least as many as inputs, {self.inputs} (Lemma 4); got {self.units}")

    def cost(self) -> Cost:
        """Elimination, with numbers as long as a determinant; the BIRNN multiplies by one of them at every step."""
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
        layer = ExactNetwork((ExactLayer(into, back, bias),), (start,))
        tensor = integers(seed, 4, self.units, self.inputs, self.units)
        target = bilinear_network([tensor], [integers(seed, 5, self.units)])
        x = integers(seed, 6, steps, self.inputs)
        change = kernel_vector(into, back, steps).reshape(steps, self.inputs)
        states, outputs = ([network.last(inputs) for inputs in (x, x + change)] for network in (layer, target))
        return {
            "steps": steps,
            "change": [
                [str(fmpz(number)) for number in row] for row in change
            ],  # Python's str(int) stops at 4300 digits
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
    """An integer vector v without a common divisor with [V^{t-1} U | ... | V U | U] v = 0, by exact elimination.

    The reduced row echelon form has one solution that is 1 at the first column without pivot and 0 at the other columns
    without pivot; v is its least multiple without fractions. So v is the same on every machine.
    """
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

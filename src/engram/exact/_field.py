"""Arithmetic modulo a prime p below 2^31, in machine integers: samples, products, ranks.

The integers modulo p are a field: its elements, the residues, are the numbers 0 .. p - 1.
"""

import ctypes

import numpy as np
import numpy.typing as npt
from flint import fmpz, nmod_mat

from engram.errors import OptionError, check_size

PRIME = 2147483629
"""The default, the second largest prime below 2^31: a product of two residues fits into 64 bits."""

Residues = npt.NDArray[np.uint64]


def check_prime(prime: int) -> int:
    """Return ``prime`` if it is a prime below 2^31."""
    check_size("prime", prime, least=2)
    if prime >= 2**31 or not fmpz(prime).is_prime():
        raise OptionError(f"prime must be a prime below 2^31, such as {PRIME}; got {prime}")
    return prime


def check_seed(seed: int) -> int:
    """Return ``seed`` if it is a whole number from 0 to 2^64 - 1."""
    return check_size("seed", seed, least=0, most=2**64 - 1)


def sample(prime: int, seed: int, purpose: int, *shape: int) -> Residues:
    """Random residues from 1 to p - 1, the same on every machine and in every version of engram and numpy.

    Args:
        prime: p.
        seed: random seed of the certificate.
        purpose: a number for each array sampled from one seed, so that the arrays differ.
        shape: of the array.

    The raw 64-bit words of numpy's Philox generator are a published standard; numpy's distributions may change.
    """
    words = np.random.Philox(key=np.array([seed, purpose], dtype=np.uint64)).random_raw(int(np.prod(shape)))
    return (words % np.uint64(prime - 1) + np.uint64(1)).reshape(shape)


def reduce(a: Residues, prime: int) -> Residues:
    """a modulo p, in place. By division: numpy's ``//`` by one number is three times as fast as its ``%``."""
    quotient = a // np.uint64(prime)
    quotient *= np.uint64(prime)
    a -= quotient
    return a


def product(a: Residues, b: Residues, prime: int) -> Residues:
    """The matrix product of a small ``(m, n)`` and a long ``(n, N)``, modulo p.

    Four products of residues and one residue more fit into 64 bits, so small sums are taken in machine integers. For
    longer ones a is cut into 16 high and 15 low bits: then sums of up to 64 products are exact in double precision, and
    the work is done by the fast product of floating-point matrices.

    Args:
        a: residues ``(m, n)``.
        b: residues ``(n, N)``.
        prime: p.
    """
    m, n = a.shape
    if n <= 8:
        result = a[:, 0, None] * b[0]
        term = np.empty_like(result)
        for k in range(1, n):
            if k % 4 == 0:
                reduce(result, prime)
            result += np.multiply(a[:, k, None], b[k], out=term)
        return reduce(result, prime)
    result = np.zeros((m, b.shape[1]), dtype=np.uint64)
    for start in range(0, n, 64):
        left, right = a[:, start : start + 64], b[start : start + 64].astype(np.float64)
        high, low = (left >> np.uint64(15)).astype(np.float64), (left & np.uint64(0x7FFF)).astype(np.float64)
        top = reduce((high @ right).astype(np.uint64), prime)
        top <<= np.uint64(15)
        result += top
        result += (low @ right).astype(np.uint64)
        reduce(result, prime)
    return result


def times(a: Residues, b: Residues, prime: int) -> Residues:
    """The elementwise product of a and b modulo p, which is ``prime``."""
    return reduce(a * b, prime)


class FieldMatrix:
    """A matrix modulo p that is filled in blocks of rows; FLINT computes its rank.

    python-flint takes entries one Python integer at a time, which costs more time and memory than the rank itself. So
    rows are copied straight into FLINT's memory, after a check that it was found; if not, entries are set one by one.

    Args:
        rows: the number of rows.
        columns: the number of columns.
        prime: p.
    """

    def __init__(self, rows: int, columns: int, prime: int) -> None:
        self.shape = (rows, columns)
        self.matrix = nmod_mat(rows, columns, prime)
        self.memory = self._memory(prime)

    def _memory(self, prime: int) -> Residues | None:
        """FLINT's memory as an array, or None: its struct is entries, rows, columns, stride, modulus."""
        rows, columns = self.shape
        words = list((ctypes.c_uint64 * (nmod_mat.__basicsize__ // 8)).from_address(id(self.matrix)))
        places = [k for k in range(len(words) - 4) if words[k + 1 : k + 5] == [rows, columns, columns, prime]]
        if len(places) != 1:
            return None
        entries = (ctypes.c_uint64 * (rows * columns)).from_address(words[places[0]])
        memory = np.frombuffer(memoryview(entries), dtype=np.uint64).reshape(rows, columns)
        last = (rows - 1, columns - 1)
        self.matrix[last] = 1  # written by FLINT, to be seen in the array
        found = memory[last] == 1
        self.matrix[last] = 0
        return memory if found and memory[last] == 0 else None

    def fill(self, first: int, block: Residues) -> None:
        """Set the rows from number ``first`` on."""
        if self.memory is not None:
            self.memory[first : first + len(block)] = block
            return
        for i, row in enumerate(block.tolist()):
            for j, entry in enumerate(row):
                self.matrix[first + i, j] = entry

    def rank(self) -> int:
        return int(self.matrix.rank())


def rank(matrix: Residues, prime: int) -> int:
    """The rank modulo p of a small matrix, which is given to FLINT entry by entry.

    Args:
        matrix: residues, ``(m, n)``.
        prime: p.

    >>> rank(np.array([[1, 2], [2, 4]], dtype=np.uint64), 7)
    1
    """
    return int(nmod_mat([[int(entry) for entry in row] for row in matrix], prime).rank())

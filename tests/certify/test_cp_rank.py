"""Lizaire et al. (2026), Theorem 4, and the hypothesis that its printed argument needs."""

import numpy as np
import pytest

from engram.certify import PRIME, CPRankClaim, certify
from engram.certify._cp_rank import cyclic, running_product, span
from engram.errors import OptionError
from engram.exact import bilinear_network, integers, same


@pytest.mark.parametrize(
    ("sizes", "first"),
    [((5, 5, 3, 1), [3, 4]), ((5, 5, 3, 3), [3, 4]), ((5, 5, 4, 3), [4, 5]), ((5, 2, 3, 2), [2, 2]),
     ((5, 2, 4, 2), [2, 2]), ((5, 1, 4, 1), [1, 1]), ((5, 3, 3, 1), [3, 3])],
)  # fmt: skip
@pytest.mark.parametrize("witness", ["random", "construction"])
def test_span_and_first_step(sizes: tuple[int, ...], first: list[int], witness: str) -> None:
    """The first step is stopped by the inputs; the span of the states is not."""
    content = certify(CPRankClaim(*sizes), witness=witness).to_dict()
    assert content["holds"]
    assert content["span"] == [sizes[2], sizes[2] + 1]
    assert content["first_step"] == first
    assert content["printed_argument"] == (first[1] > first[0])
    assert ("the printed argument holds here" in content["statement"]) == (first[1] > first[0])


@pytest.mark.parametrize(
    ("hidden", "inputs", "rank", "depth"), [(5, 1, 3, 1), (5, 1, 4, 1), (5, 2, 4, 3), (5, 1, 5, 2)]
)
def test_the_construction(hidden: int, inputs: int, rank: int, depth: int) -> None:
    """A rank as large as the units is reached too."""
    widths = [inputs] + [hidden] * (depth - 1)
    layers = [running_product(hidden, width, rank) for width in widths[:-1]] + [cyclic(hidden, widths[-1], rank)]
    assert span(layers, 2 * hidden, PRIME, 0) == rank


def test_factors_and_tensor() -> None:
    """C ((A^T h) * (B^T x)) is the full tensor's product, in integers."""
    a, b, c = integers(0, 0, 4, 5), integers(0, 1, 3, 5), integers(0, 2, 4, 5)
    h, x = integers(0, 3, 4), integers(0, 4, 3)
    tensor = np.einsum("ir,jr,kr->ijk", a, b, c)
    assert same(c @ ((a.T @ h) * (b.T @ x)), bilinear_network([tensor], [h]).run([x])[0][0])


def test_the_hypothesis() -> None:
    with pytest.raises(OptionError, match=r"rank must be below hidden, 5 \(Theorem 4\); got rank 5"):
        CPRankClaim(5, 5, 5)
    with pytest.raises(OptionError, match="rank must be at least 1"):
        CPRankClaim(5, 5, 0)

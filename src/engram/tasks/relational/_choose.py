"""Random choices of distinct things, for many trials at once."""

import torch
from torch import Tensor


def pick(pool: Tensor, count: int, many: int, generator: torch.Generator) -> Tensor:
    """``many`` distinct members of a pool ``(N,)`` in random order, ``count`` times over: ``(count, many)``.

    The i-th is uniform among the N - i that are left: a number below N - i, which steps over the places taken before
    it (a Lehmer code, decoded for all rows at once).

    >>> pick(torch.arange(3), 2, 3, torch.Generator().manual_seed(0)).sort(1).values.tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    left = torch.arange(len(pool), len(pool) - many, -1)
    places = (torch.rand(count, many, dtype=torch.float64, generator=generator) * left).long()
    for i in reversed(range(many - 1)):
        later = places[:, i + 1 :]
        later += later >= places[:, i : i + 1]
    return pool[places]


def orders(count: int, many: int, generator: torch.Generator) -> Tensor:
    """Random permutations of 0..many-1, ``(count, many)``."""
    keys = torch.rand(count, many, dtype=torch.float64, generator=generator)
    return keys.argsort(dim=1, stable=True)


def one_of(count: int, many: int, generator: torch.Generator) -> Tensor:
    """Uniform whole numbers below ``many``, ``(count,)``."""
    return torch.randint(many, (count,), generator=generator)


def place_of(wanted: Tensor, among: Tensor) -> Tensor:
    """The column of each of ``wanted`` ``(count,)`` in its row of ``among`` ``(count, many)``, which has it once."""
    return (among == wanted[:, None]).long().argmax(1)


def ways(objects: int, many: int) -> int:
    """How many ways there are to take ``many`` of this many objects, in order: N (N-1) ... (N-k+1).

    >>> ways(5, 2)
    20
    """
    product = 1
    for i in range(many):
        product *= objects - i
    return product

"""Numbers against the law they are said to be drawn from, for tests of how networks start."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Normal(NamedTuple):
    deviation: float


class Uniform(NamedTuple):
    bound: float


Law = Normal | Uniform | float
"""A number: all of them are that number."""


def follows(numbers: Tensor, law: Law) -> None:
    """Of n numbers the mean, the mean square and the largest, each to four of its standard deviations.

    The mean square s^2 is known to sqrt(2/n) of normal numbers and to sqrt(0.8/n) of uniform ones. That n normal
    numbers are all below 2.5 s has a probability of e^(-n/80), and that n uniform ones are all below 1 - 14/n of the
    bound one of e^-14. Of a complex number E|w|^2 is s^2 (normal), or each part is uniform."""
    if isinstance(law, float):
        assert bool((numbers == law).all()), f"expected {law} everywhere"
        return
    if numbers.is_complex():
        law = Normal(law.deviation / math.sqrt(2)) if isinstance(law, Normal) else law
        numbers = torch.view_as_real(numbers)
    numbers = numbers.detach().double()
    n, largest = numbers.numel(), float(numbers.abs().max())
    if isinstance(law, Uniform):
        s, fourth = law.bound / math.sqrt(3), 0.8
        assert (1 - 14 / n) * law.bound <= largest <= law.bound, f"{largest} of {law}"
    else:
        s, fourth = law.deviation, 2.0
        assert n < 1000 or largest > 2.5 * s, f"{largest} of {law}"
    assert abs(float(numbers.mean())) <= 4 * s / math.sqrt(n), f"{float(numbers.mean())} of {law}"
    share = float(numbers.square().mean()) / s**2
    assert abs(share - 1) <= 4 * math.sqrt(fourth / n), f"the mean square is {share} times that of {law}"

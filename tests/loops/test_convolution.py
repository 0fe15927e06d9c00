"""Convolution by FFT against the sum, and powers by doubling against powers."""

import pytest
import torch

from engram.loops import convolve, powers
from engram.loops._convolution import fft_size


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 16, 33])
def test_convolution_is_the_sum(steps: int, two_sided: bool) -> None:
    """Also at T = 2 and 3, where a circle of 2T - 1 would be a quick size: the two kernels would meet on it."""
    input = torch.randn(steps, 2, 3, dtype=torch.float64)
    kernel, back = torch.randn(2, 3, steps, dtype=torch.float64)
    expected = torch.zeros_like(input)
    for t in range(steps):
        for s in range(steps if two_sided else t + 1):
            expected[t] += (kernel[:, t - s] if s <= t else back[:, s - t - 1]) * input[s]
    found = convolve(input, kernel, back if two_sided else None)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_gradients_of_both_sides() -> None:
    inputs = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 2, 3), (3, 5), (3, 5))]
    assert torch.autograd.gradcheck(convolve, inputs)
    assert torch.autograd.gradgradcheck(convolve, inputs)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 21])
def test_powers(count: int) -> None:
    bases = [0j, 1 + 0j, -0.9 + 0j, 0.3 + 0.8j]
    expected = torch.tensor([[base**k for k in range(count)] for base in bases], dtype=torch.complex128)
    found = powers(torch.tensor(bases, dtype=torch.complex128), count)
    torch.testing.assert_close(found, expected, atol=4 * count * 2.0**-52, rtol=0)  # as many products of |z| <= 1


def test_sizes_of_transforms() -> None:
    """At least what is asked for, and of no other prime than 2, 3 and 5."""
    for least in range(1, 300):
        size = fft_size(least)
        odd = size
        while odd % 2 == 0:
            odd //= 2
        assert size >= least
        assert odd in (1, 3, 5)
        assert size < 1.34 * least + 2


@pytest.mark.parametrize("two_sided", [False, True])
def test_an_empty_batch(two_sided: bool) -> None:
    """Nothing comes out, and every kernel that was given has a gradient, of zero."""
    kernels = [torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(1 + two_sided)]
    found = convolve(torch.randn(5, 0, 3, dtype=torch.float64), *kernels)
    assert found.shape == (5, 0, 3)
    for gradient in torch.autograd.grad(found.sum(), kernels):
        assert gradient.equal(torch.zeros(3, 5, dtype=torch.float64))

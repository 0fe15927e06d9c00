"""Long convolutions by FFT, and the powers of which the kernels of linear systems are made."""

import torch
from torch import Tensor


def fft_size(least: int) -> int:
    """The smallest of 2^k, 3 2^k and 5 2^k that is at least ``least``: sizes at which FFTs are quick.

    >>> [fft_size(n) for n in (1, 7, 17, 2000)]
    [1, 8, 20, 2048]
    """
    sizes = [1, 3, 5]
    while max(sizes) < least or min(sizes) < least:
        sizes = [2 * size if size < least else size for size in sizes]
    return min(size for size in sizes if size >= least)


def convolve(input: Tensor, kernel: Tensor, back: Tensor | None = None) -> Tensor:
    """y_t = sum_{s <= t} kernel_{t-s} u_s (+ sum_{s > t} back_{s-t-1} u_s), a kernel for each feature.

    Shape:
        input ``(T, B, H)``, kernel and back ``(H, T)``; the result ``(T, B, H)``.

    Zero-padded to at least 2T, so that the circular convolution of the FFT does not wrap around; ``back`` is put at the
    end of the padded kernel, which stands for negative lags (Gu et al. 2022, S4).
    """
    steps = input.shape[0]
    if input.numel() == 0:  # the FFT refuses an empty batch; the gradients of the kernels are then zero
        return input * (kernel if back is None else kernel + back).sum(-1)
    size = fft_size(2 * steps)
    circle = torch.nn.functional.pad(kernel, (0, size - steps))
    if back is not None:
        circle = circle + torch.nn.functional.pad(back.flip(-1), (size - steps, 0))
    spectrum = torch.fft.rfft(input.permute(1, 2, 0), n=size) * torch.fft.rfft(circle)
    return torch.fft.irfft(spectrum, n=size)[..., :steps].permute(2, 0, 1).contiguous()


def powers(base: Tensor, count: int) -> Tensor:
    """1, a, a^2, ..., a^(count-1) along a new last axis, by doubling: log2(count) products, and 0^0 = 1."""
    result, step = torch.ones_like(base)[..., None], base[..., None]
    while result.shape[-1] < count:
        result = torch.cat([result, step * result], -1)
        step = step * step
    return result[..., :count]

"""The unitary matrix of the uRNN: diagonals, reflections, a permutation and Fourier transforms."""

import math

import torch
from torch import Tensor

from engram.errors import DTypeError
from engram.maps._polar import orthogonality_error
from engram.maps._solved import Solved


class Fourier(Solved):
    """W = D3 R2 F^-1 D2 Pi R1 F D1, applied in O(N log N).

    D_k = diag(e^{i omega}), R_k = I - 2 v v^* / |v|^2, F the Fourier transform, Pi a fixed random permutation.
    Free parameters (real): three times N phases, then real and imaginary parts of the two v: 7N in all, of which
    7N - 7 are effective. So it misses part of U(N) from N = 6 on (the source says 8).

    Args:
        size (int): N, for matrices ``(N, N)``.

    Source: Arjovsky et al. 2016 (uRNN); also Kerg (2022), Appendix D.1.
    """

    promise = "unitary (W^* W = I), of the uRNN's form"
    equation = "W = D3 R2 F^-1 D2 Pi R1 F D1"
    count = "7N"
    apply_cost, build_cost = "N log N", "N^2 log N"
    source = "Arjovsky et al. 2016 (uRNN)"
    permutation: Tensor

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("permutation", torch.arange(size))  # sampled

    def operate(self, x: Tensor, free: Tensor) -> Tensor:  # type: ignore[override]
        """W x for every row of x ``(..., N)``, in O(N log N) per row."""
        n = self.size
        phases = torch.polar(torch.ones_like(free[: 3 * n]), free[: 3 * n])
        d1, d2, d3 = phases.split(n)
        real1, imag1, real2, imag2 = free[3 * n :].split(n)
        v1, v2 = torch.complex(real1, imag1), torch.complex(real2, imag2)
        x = _reflect(torch.fft.fft(d1 * x, norm="ortho"), v1)
        x = torch.fft.ifft(d2 * x[..., self.permutation], norm="ortho")
        return d3 * _reflect(x, v2)

    def forward(self, free: Tensor) -> Tensor:  # type: ignore[override]
        eye = torch.eye(self.size, dtype=free.dtype, device=free.device)
        return self.operate(eye, free).mT.contiguous()

    def distance(self, matrix: Tensor) -> float:
        if not matrix.is_complex():
            raise DTypeError(f"Fourier is a map to complex matrices, got {matrix.dtype}. Use dtype=torch.complex64")
        return orthogonality_error(matrix.detach())

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """Phases uniform in (-pi, pi), parts of v uniform in (-1, 1), a permutation at random."""
        self.permutation = torch.randperm(self.size, generator=generator)
        numbers = torch.rand(7 * self.size, generator=generator, dtype=torch.float64) * 2 - 1
        numbers[: 3 * self.size] *= math.pi
        return (numbers,)


def _reflect(x: Tensor, v: Tensor) -> Tensor:
    """(I - 2 v v^* / |v|^2) x for every row."""
    return x - 2 * (x @ v.conj())[..., None] * v / v.abs().square().sum()

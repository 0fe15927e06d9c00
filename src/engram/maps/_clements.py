"""Every unitary matrix as N layers of rotations of neighbouring coordinates (Clements et al. 2016).

The entries below the diagonal are made zero one anti-diagonal after the other, in turn by a rotation of two columns
and by one of two rows; the rotations of rows are then carried through the diagonal that is left. In the convention of
:class:`engram.maps.Givens`: R(theta, phi) = [[cos, -e^{i phi} sin], [sin, e^{i phi} cos]], the diagonal on the left.
"""

import cmath
import math

import torch
from torch import Tensor

Rotation = tuple[int, float, float]  # first coordinate of the pair, theta, phi


def decompose(matrix: Tensor) -> tuple[list[Rotation], list[complex]]:
    """W = D R_k ... R_2 R_1; returns [R_1, R_2, ...] and the diagonal of D. Double precision.

    Of a real W, whose determinant is 1, D is the identity: each rotation leaves a positive number on the diagonal in
    the row or column that it has done with, so all but one are 1, and that one is the determinant.
    """
    w = matrix.detach().cpu().to(torch.complex128 if matrix.is_complex() else torch.float64).clone()
    n = len(w)
    right: list[Rotation] = []
    left: list[Rotation] = []
    for diagonal in range(1, n):
        for k in range(diagonal):
            if diagonal % 2:  # turn columns a, a+1 until w[row, a] = 0
                row, a = n - 1 - k, diagonal - 1 - k
                x, y = complex(w[row, a]), complex(w[row, a + 1])
                theta, phi = _angles(x, y, matrix.is_complex())
                turn = _rotation(theta, phi, w.dtype).mH
                w[:, a : a + 2] = w[:, a : a + 2] @ turn
                right.append((a, theta, phi))
            else:  # turn rows a, a+1 until w[a+1, column] = 0
                row, column = n - diagonal + k, k
                a = row - 1
                x, y = complex(w[row, column]), complex(w[a, column])
                theta, phi = _angles(-x, y, matrix.is_complex())
                w[a : a + 2] = _rotation(theta, phi, w.dtype) @ w[a : a + 2]
                left.append((a, theta, phi))
    d = [complex(x) for x in w.diagonal()]
    for a, theta, phi in reversed(left):  # R^* diag(d1, d2) = diag(d1', d2') R'
        if matrix.is_complex():
            right.append((a, theta, cmath.phase(-d[a + 1] / d[a])))
            d[a + 1] = -cmath.exp(-1j * phi) * d[a]
        else:
            right.append((a, -theta, 0.0))
    return right, d


def _angles(x: complex, y: complex, phases: bool) -> tuple[float, float]:
    """theta and phi with cos(theta) x = e^{-i phi} sin(theta) y."""
    if not phases:
        return math.atan2(x.real, y.real), 0.0
    return math.atan2(abs(x), abs(y)), cmath.phase(y) - cmath.phase(x)


def _rotation(theta: float, phi: float, dtype: torch.dtype) -> Tensor:
    c, s = math.cos(theta), math.sin(theta)
    e = cmath.exp(1j * phi) if dtype.is_complex else 1.0
    return torch.tensor([[c, -e * s], [s, e * c]], dtype=dtype)


def brick_wall(rotations: list[Rotation], size: int, layers: int) -> tuple[Tensor, Tensor] | None:
    """theta and phi ``(layers, size)`` by the first coordinate of their pair: each rotation in the first layer it fits.

    Pairs (0,1),(2,3),.. stand in even layers, (1,2),(3,4),.. in odd ones. None if they do not fit.
    """
    theta, phi = torch.zeros(2, layers, size, dtype=torch.float64)
    busy = [0] * size  # the first layer in which a coordinate is free
    for a, angle, phase in rotations:
        layer = max(busy[a], busy[a + 1])
        layer += (layer - a) % 2
        if layer >= layers:
            return None
        theta[layer, a], phi[layer, a] = angle, phase
        busy[a] = busy[a + 1] = layer + 1
    return theta, phi

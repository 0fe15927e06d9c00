"""With a sigmoid no orthogonal network is memoryless: Theorem 3, checked (spec/unitary-equivalence.md 4)."""

from dataclasses import dataclass

import numpy as np
import torch

from engram.convert._memoryless import Candidate
from engram.errors import OptionError

ROUNDS = 200  # of the fixed point: the map contracts by 4 a round
TOLERANCE = 1e-8  # how far the norm of W may be above 1


@dataclass(frozen=True)
class Forgetting:
    """Why a network with a sigmoid cannot forget, in numbers, at the fixed point of a constant input.

    J = D W with D = diag(sigmoid') there. By Cayley and Hamilton J^N + a_1 J^(N-1) + ... + a_N I = 0, so
    a_N C D F = -sum_{i>=1} a_(N-i) C J^i D F, and |a_N| = |det J| is the product of the slopes, positive. What an
    input does to the output i steps later, C J^i D F, cannot be zero for all i from 1 to N unless
    the input does nothing at once, C D F = 0.
    """

    states: int
    """N."""
    residual: float
    """The largest entry of J^N + a_1 J^(N-1) + ... + a_N I: rounding."""
    last: float
    """|a_N|."""
    slopes: float
    """The product of the slopes, which equals it where W is orthogonal."""
    radius: float
    """The spectral radius of J, at most 1/4."""
    response: float
    """The largest |C D F|: what an input does at once."""
    echo: float
    """The largest |C J^i D F|, 1 <= i <= N: what it does later."""
    least_echo: float
    """response |a_N| / (1 + sum_{j<N} |a_j|), which no echo is below."""


@torch.no_grad()
def forgetting(candidate: Candidate, constant: float = 0.0) -> Forgetting:
    """Evaluate the identity for a sigmoid network with |W| <= 1 under the constant input ``constant``."""
    W, F, b, C = candidate
    states, inputs = F.shape
    norm = float(torch.linalg.matrix_norm(W, 2))
    if norm > 1 + TOLERANCE:
        raise OptionError(f"the fixed point is unique for networks whose W has norm 1 at most; this one has {norm:.6g}")
    drive = F @ torch.full((inputs,), constant, dtype=F.dtype) + b
    h = torch.zeros(states, dtype=F.dtype)
    for _ in range(ROUNDS):
        h = torch.sigmoid(W @ h + drive)
    slopes = h * (1 - h)
    J, enter = slopes[:, None] * W, slopes[:, None] * F
    eigenvalues = np.linalg.eigvals(J.numpy())
    coefficients = np.poly(eigenvalues).real  # 1, a_1, ..., a_N
    total, power, responses = torch.zeros_like(J), torch.eye(states, dtype=F.dtype), []
    for coefficient in coefficients[::-1]:
        total += float(coefficient) * power
        responses.append(float((C @ power @ enter).abs().max()))
        power = power @ J
    last = abs(float(coefficients[-1]))
    return Forgetting(
        states=states,
        residual=float(total.abs().max()),
        last=last,
        slopes=float(slopes.prod()),
        radius=float(np.abs(eigenvalues).max()),
        response=responses[0],
        echo=max(responses[1:]),
        least_echo=responses[0] * last / float(np.abs(coefficients[:-1]).sum()),
    )

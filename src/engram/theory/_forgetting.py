"""With a sigmoid no orthogonal network is memoryless: the proof, followed in numbers.

Statement: Emami et al. (2019), Theorem 4.1 (Theorem 3 of the poster). The proof for the logistic sigmoid is in
docs/convert.md.
"""

from dataclasses import dataclass

import numpy as np
import torch

from engram.errors import OptionError
from engram.theory._memoryless import Candidate

ROUNDS = 200  # iterations towards the fixed point, each of which divides the distance by at least 4
TOLERANCE = 1e-8  # how far the norm of W may be above 1


@dataclass(frozen=True)
class Forgetting:
    """The numbers of the proof, at the fixed point of the network under a constant input.

    J = D W with D = diag(sigmoid') there. By Cayley-Hamilton J^N + a_1 J^(N-1) + ... + a_N I = 0, so
    a_N C D F = -sum_{i>=1} a_(N-i) C J^i D F, and |a_N| = |det J| is the product of the slopes, positive. So the effect
    of an input on the output i steps later, C J^i D F, is not zero for all i from 1 to N, unless its effect on the
    output of the same step, C D F, is zero.
    """

    states: int
    """N, of the network."""
    residual: float
    """The largest entry of J^N + a_1 J^(N-1) + ... + a_N I: zero but for rounding."""
    last: float
    """|a_N|."""
    slopes: float
    """The product of the slopes; equals |a_N| if W is orthogonal."""
    radius: float
    """The spectral radius of J, at most 1/4."""
    response: float
    """The largest |C D F|, the effect of an input on the output of the same step."""
    echo: float
    """The largest |C J^i D F|, 1 <= i <= N, the effect on later outputs."""
    least_echo: float
    """response |a_N| / (1 + sum_{j<N} |a_j|), a lower bound of ``echo``."""


@torch.no_grad()
def forgetting(candidate: Candidate, constant: float = 0.0) -> Forgetting:
    """Evaluate the proof for one network with a sigmoid.

    Args:
        candidate: its weights; the spectral norm of W is at most 1.
        constant: the value of every input at every step.
    """
    W, F, b, C = candidate
    states, inputs = F.shape
    norm = float(torch.linalg.matrix_norm(W, 2))
    if norm > 1 + TOLERANCE:
        raise OptionError(
            f"W must have a spectral norm of at most 1, for which the fixed point is unique; this one has {norm:.6g}"
        )
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

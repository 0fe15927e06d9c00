"""Fisher memory of a state too large for its Jacobian W: a lower bound, from the directions that a signal reaches.

Whoever reads only Q' h knows no more than whoever reads h. So with C = sum_{j<T} W^j W^j', for noise of variance 1,

    J_kl >= (Q' W^k v)' (Q' C Q)^-1 (Q' W^l v),    Q' C Q = sum_{j<T} (W^j' Q)' (W^j' Q)

in the sense of positive semidefinite matrices. It takes products with W and W' only. It can be loose: 99 % of the whole
in an LSTM of 600 numbers, a fifth of it in S4D layers of 272 and 432.
"""

import numpy as np
import torch
from torch import Tensor

from engram.probe._reached import Reached

GONE = 1e-12
"""Terms of the covariance with a smaller share change nothing."""


def lower_bound(near: Reached, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The bound of J_kl (T, T) for a process that began T = ``length`` steps ago, and |W^k v|^2 (T,)."""
    now, seen, growth = near.signal, [], []
    for _ in range(length):
        seen.append(near.basis.mT @ now.double())
        growth.append(float(now.double().square().sum()))
        now = near.times(now)
    factor = torch.linalg.cholesky(_covariance(near, length))
    white = torch.linalg.solve_triangular(factor, torch.stack(seen, 1), upper=False)
    return (white.mT @ white).numpy(), np.array(growth)


def _covariance(near: Reached, length: int) -> Tensor:
    """Q' C Q, ``(m, m)``."""
    total, rows = torch.zeros_like(near.matrix), near.basis.mT.to(near.state)
    for _ in range(length):
        new = rows.double() @ rows.double().mT
        total += new
        if float(new.trace()) < GONE * float(total.trace()):
            break
        rows = near.times_transposed(rows)
    return total

"""The real Schur form of a matrix, in the order in which its 2 x 2 blocks obey a rule."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ENOUGH = 1e-12
"""A form this close to the rule is not improved upon."""


@dataclass(frozen=True)
class BlockRule:
    """What the diagonal blocks [[a, b], [c, a]] of a Schur form must be.

    rotations: c = -b. gamma: a^2 + b^2 = gamma^2, and the single block of an odd N is gamma. None: any.
    """

    rotations: bool
    gamma: float | None

    def misfit(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """How far blocks are from the rule."""
        found = (b + c).abs() if self.rotations else torch.zeros_like(a)
        return found if self.gamma is None else torch.maximum(found, (torch.hypot(a, b) - self.gamma).abs())

    def form_misfit(self, form: Tensor) -> float:
        """Of a whole form: of its blocks, and of what stands above them and should be zero."""
        first = torch.arange(0, len(form) - 1, 2)
        above = form.triu(1)
        above[first, first + 1] = 0
        blocks = self.misfit(form[first, first], form[first, first + 1], form[first + 1, first])
        single = form[-1, -1:] - self.gamma if len(form) % 2 and self.gamma is not None else form.new_zeros(1)
        return float(torch.cat([above.abs().flatten(), blocks, single.abs()]).max())


def lower_schur(matrix: Tensor, rule: BlockRule) -> tuple[Tensor, Tensor]:
    """V = P F P^T, F lower triangular but for 2 x 2 blocks [[a, b], [c, a]] on the diagonal, in double precision.

    Any order of the eigenvalues gives such a form, with other b and c. If that of LAPACK does not obey the rule, the
    order is sought in which the form does.
    """
    from scipy.linalg import schur  # torch has none; to import it takes longer than all of engram.nn

    v = matrix.detach().cpu().double()
    p = torch.from_numpy(schur(v.mT.numpy(), output="real", sort=lambda re, im: im != 0)[1]).clone()
    p = _equal_diagonals(v, p, rule)
    if rule.form_misfit(p.mT @ v @ p) > ENOUGH:
        deflated = _equal_diagonals(v, _deflate(v, rule), rule)
        p = min((p, deflated), key=lambda basis: rule.form_misfit(basis.mT @ v @ basis))
    return p, p.mT @ v @ p


def _invariants(block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a, d, r of blocks ``(..., 2, 2)``: turned to equal diagonals a block is [[a, d + r], [-d + r, a]] or, a quarter
    turn further, the same with -r."""
    a = (block[..., 0, 0] + block[..., 1, 1]) / 2
    d = (block[..., 0, 1] - block[..., 1, 0]) / 2
    r = torch.hypot((block[..., 0, 1] + block[..., 1, 0]) / 2, (block[..., 0, 0] - block[..., 1, 1]) / 2)
    return a, d, r


def _equal_diagonals(v: Tensor, p: Tensor, rule: BlockRule) -> Tensor:
    """Turn the two columns of each block until its diagonal entries agree, the way that fits the rule better."""
    p = p.clone()
    for i in range(0, len(v) - 1, 2):
        block = p[:, i : i + 2].mT @ v @ p[:, i : i + 2]
        angle = 0.5 * math.atan2(-float(block[0, 0] - block[1, 1]), float(block[0, 1] + block[1, 0]))
        a, d, r = _invariants(block)
        if rule.misfit(a, d - r, -d - r) < rule.misfit(a, d + r, -d + r):
            angle += math.pi / 2
        c, s = math.cos(angle), math.sin(angle)
        p[:, i : i + 2] = p[:, i : i + 2] @ torch.tensor([[c, -s], [s, c]], dtype=p.dtype)
    return p


def _deflate(v: Tensor, rule: BlockRule) -> Tensor:
    """P from its last columns on: they span an invariant plane on which V acts as the rule says.

    Of the invariant planes at hand the one nearest to that is split off, and the rest compressed to its complement.
    """
    rest, done = torch.eye(len(v), dtype=v.dtype), v.new_zeros(len(v), 0)
    while rest.shape[1] > 1:
        small = rest.mT @ v @ rest
        if rest.shape[1] % 2:  # the single block of an odd N stands last
            values, vectors = torch.linalg.eig(small)
            wanted = values.real if rule.gamma is None else torch.full_like(values.real, rule.gamma)
            columns = vectors[:, (values - wanted).abs().argmin()].real[:, None]
        else:
            planes = _planes(small)
            a, d, r = _invariants(planes.mT @ small @ planes)
            columns = planes[torch.minimum(rule.misfit(a, d + r, -d + r), rule.misfit(a, d - r, -d - r)).argmin()]
        q = torch.linalg.qr(columns, mode="complete").Q
        width = columns.shape[1]
        done = torch.cat([rest @ q[:, :width], done], 1)
        rest = rest @ q[:, width:]
    return torch.cat([rest, done], 1)


def _planes(matrix: Tensor) -> Tensor:
    """Orthonormal bases ``(K, N, 2)`` of the invariant planes: of each complex pair, and of any two real vectors."""
    values, vectors = torch.linalg.eig(matrix)
    rotating = vectors.mT[values.imag > 0]
    real = vectors.real.mT[values.imag == 0]
    one, two = torch.combinations(torch.arange(len(real)), 2).unbind(1)
    pairs = torch.cat([torch.stack([rotating.real, rotating.imag], -1), torch.stack([real[one], real[two]], -1)])
    return torch.linalg.qr(pairs).Q

"""The non-normal map: a matrix by its Schur form, spectrum and feed-forward part apart."""

import math

import torch
from torch import Tensor

from engram.errors import OptionError, check_choice
from engram.maps._block_schur import BlockRule, lower_schur
from engram.maps._map import Map, require_real, rounding
from engram.maps._orthogonal import Exponential
from engram.maps._polar import orthogonality_error


class Schur(Map):
    """V = P (Lambda + T) P^T: P orthogonal, Lambda rotations scaled by gamma, T strictly lower triangular.

    Lambda is the direct sum of gamma_i [[cos theta_i, -sin theta_i], [sin theta_i, cos theta_i]], and for odd N of
    one more gamma. Free parameters: A of P = Q exp(A); the entries of T below the diagonal, row by row; theta; gamma:
    ``N^2`` in all. It starts orthogonal: T = 0, gamma = 1, theta uniform.

    Args:
        size (int): N, even or odd.
        mask (str): ``full`` (the paper): T may reach into the 2 x 2 blocks. Then every real matrix is of this form, and
            gamma is only a soft handle on the spectrum. ``block``: those floor(N/2) entries of T stay zero, and the
            eigenvalues are exactly gamma_i e^{+-i theta_i}. With ``block`` or a clamped gamma, an assigned matrix comes
            back to within k eps, k the condition of its eigenvectors: assign one far from normal in float64. Default:
            ``full``.
        init (str): distribution of the first P: ``henaff``, ``cayley``, ``haar`` or ``identity``. Default: ``henaff``.
        rebase_every (int or None): move the base point of P at every n-th optimiser step (see
            :func:`engram.maps.attach`). Default: None, never.
        gamma (float or None): a number fixes all gamma_i to it. Default: None, they are trained.
        gamma_penalty (float): delta of the penalty delta sum (1 - gamma_i)^2, at least 0. Default: 0.0.
        decay (float): tau of the penalty tau/2 |T|^2, a weight decay on T alone, at least 0. Default: 0.0.

    Source: Kerg (2022), Section 3.5, Eq. 3.5.1 (nnRNN); odd N and ``mask="block"`` are additions.
    """

    promise = "V = P (Lambda + T) P^T, P orthogonal"
    equation = "V = P (Lambda + T) P^T, P = Q exp(A), T strictly lower"
    count = "N^2"
    apply_cost, build_cost = "N^2", "N^3"
    angles = slice(1)  # A of P
    source = "Kerg et al. 2019 (nnRNN)"
    rows: Tensor
    columns: Tensor

    def __init__(
        self,
        size: int,
        mask: str = "full",
        *,
        init: str = "henaff",
        rebase_every: int | None = None,
        gamma: float | None = None,
        gamma_penalty: float = 0.0,
        decay: float = 0.0,
    ) -> None:
        super().__init__(size)
        self.mask = check_choice("mask", mask, ("full", "block"))
        if gamma is not None and not 0 < gamma < math.inf:
            raise OptionError(f"gamma must be positive, the modulus of every eigenvalue; got {gamma}")
        for name, value in (("gamma_penalty", gamma_penalty), ("decay", decay)):
            if not value >= 0:
                raise OptionError(f"{name} must not be negative, got {value}")
        self.gamma, self.gamma_penalty, self.decay = gamma, gamma_penalty, decay
        self.basis = Exponential(size, init=init, rebase_every=rebase_every)
        rows, columns = torch.tril_indices(size, size, -1)
        if mask == "block":
            outside = rows // 2 != columns // 2
            rows, columns = rows[outside], columns[outside]
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("columns", columns, persistent=False)

    def theta_matrix(self, lower: Tensor, theta: Tensor, gamma: Tensor | None = None) -> Tensor:
        """Lambda + T."""
        n, half = self.size, self.size // 2
        if gamma is None:
            gamma = theta.new_full((n - half,), float(self.gamma or 0.0))
        real, imaginary = gamma[:half] * theta.cos(), gamma[:half] * theta.sin()
        diagonal = torch.stack([real, real], 1).flatten()
        result = torch.diag(torch.cat([diagonal, gamma[half:]]))
        first = torch.arange(0, n - 1, 2, device=theta.device)
        result = result.index_put((first, first + 1), -imaginary).index_put((first + 1, first), imaginary)
        return result.index_put((self.rows, self.columns), lower, accumulate=True)

    def forward(self, entries: Tensor, lower: Tensor, theta: Tensor, gamma: Tensor | None = None) -> Tensor:  # type: ignore[override]
        p = self.basis(entries)
        return p @ self.theta_matrix(lower, theta, gamma) @ p.mT

    def penalty(self, entries: Tensor, lower: Tensor, theta: Tensor, gamma: Tensor | None = None) -> Tensor:  # type: ignore[override]
        if not self.decay and (gamma is None or not self.gamma_penalty):
            return super().penalty(lower)  # none
        total = 0.5 * self.decay * lower.square().sum()
        return total if gamma is None else total + self.gamma_penalty * (1 - gamma).square().sum()

    def after_step(self, entries: Tensor, *others: Tensor) -> None:  # type: ignore[override]
        self.basis.after_step(entries)

    def free(self, matrix: Tensor) -> tuple[Tensor, ...]:
        p, form = lower_schur(matrix, self.rule)
        n, half = self.size, self.size // 2
        first = torch.arange(0, n - 1, 2)
        a, b = form[first, first], form[first, first + 1]
        gamma, theta = torch.hypot(a, b), torch.atan2(-b, a)
        lower = form.clone()
        lower[first + 1, first] += b  # the rotation puts -b there
        gamma = torch.cat([gamma, form[n - 1, n - 1 :][: n - 2 * half]])
        entries = self._basis_entries(p.to(matrix))
        found = entries, lower[self.rows.cpu(), self.columns.cpu()].to(matrix), theta.to(matrix), gamma.to(matrix)
        return found if self.gamma is None else found[:3]

    def _basis_entries(self, p: Tensor) -> Tensor:
        """A of P, after moving the base of the exponential."""
        found = self.basis.free(p)
        return found if isinstance(found, Tensor) else found[0]

    @property
    def rule(self) -> BlockRule:
        """What the 2 x 2 blocks of the Schur form of V must be."""
        return BlockRule(self.mask == "block", self.gamma)

    def distance(self, matrix: Tensor) -> float:
        """Zero for mask ``full`` with gamma trained; else how far the blocks of the Schur form are from their rule.

        What the rounding of V explains is not counted: up to k eps, k the condition of its eigenvectors (at most 100
        times the tolerance of every map).
        """
        require_real(self, matrix)
        if not bool(torch.isfinite(matrix).all()):
            return math.inf
        if self.mask == "full" and self.gamma is None:
            return 0.0
        misfit = self.rule.form_misfit(lower_schur(matrix, self.rule)[1])
        if misfit <= rounding(matrix.dtype):
            return misfit
        condition = float(torch.linalg.cond(torch.linalg.eig(matrix.detach().cpu().double()).eigenvectors))
        explained = min(condition * torch.finfo(matrix.dtype).eps, 100 * rounding(matrix.dtype))
        return max(0.0, misfit - explained)

    def error(self, *free: Tensor) -> float:
        """Of the basis; and for mask ``block`` of the moduli of the eigenvalues of V, which should be gamma.

        Eigenvalues of a matrix far from normal magnify rounding by the condition k of their eigenvectors (Bauer and
        Fike: at most k times the error of the matrix), so what they are off is told divided by k.
        """
        worst = orthogonality_error(self.basis(free[0]).detach())
        if self.mask == "block":
            gamma = (
                free[3].detach() if self.gamma is None else free[2].new_full((self.size - self.size // 2,), self.gamma)
            )
            expected = gamma.double().abs().repeat_interleave(2)[: self.size].sort().values
            values, vectors = torch.linalg.eig(self.double_forward(*(f.detach().double() for f in free)))
            off = float((values.abs().sort().values - expected).abs().max())
            worst = max(worst, off / float(torch.linalg.cond(vectors)))
        return worst

    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        n = self.size
        entries = self._basis_entries(self.basis.sample(generator, dtype=torch.float64))
        theta = torch.rand(n // 2, generator=generator, dtype=torch.float64) * 2 * math.pi
        free = entries, theta.new_zeros(len(self.rows)), theta, theta.new_ones(n - n // 2)
        return free if self.gamma is None else free[:3]

    def extra_repr(self) -> str:
        clamped = "" if self.gamma is None else f", gamma={self.gamma}"
        return f"{self.size}, mask={self.mask!r}, gamma_penalty={self.gamma_penalty}, decay={self.decay}{clamped}"

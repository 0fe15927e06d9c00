"""Maps that have no formula for their inverse: it is solved for."""

from collections.abc import Callable

import torch
from torch import Tensor

from engram.errors import ManifoldError
from engram.maps._map import FreeParameters, Map

TRIES, ITERATIONS = 8, 200
LARGEST = 16


class Solved(Map):
    """A map whose matrices determine their free parameters only through equations without a formula.

    The inverse is solved for numerically (Levenberg-Marquardt) from several random starts; a matrix for which nothing
    is found is refused with the distance that was left. (Assigning ``map.sample()`` is exact: a map remembers what it
    sampled.) So a matrix that it ``contains`` may still be refused. One real tensor of free parameters.
    """

    @property
    def has_inverse(self) -> bool:
        return False

    def free(self, matrix: Tensor) -> FreeParameters:
        if self.size > LARGEST:
            raise self.no_inverse(f", and a search is only tried up to N = {LARGEST}")
        target = matrix.detach().cpu().to(torch.complex128 if matrix.is_complex() else torch.float64)
        enough = 50 * self.size * torch.finfo(matrix.dtype).eps
        generator = torch.Generator().manual_seed(0)
        left = float("inf")
        for _ in range(TRIES):
            (start,) = self.sample_free(generator)
            found, error = _solve(self.double_forward, start, target, enough)
            left = min(left, error)
            if left <= enough:
                return (found.detach(),)
        raise ManifoldError(
            f"no parameters of {type(self).__name__}({self.size}) give this matrix: {left:.3g} away after {TRIES} "
            "searches. Assign a matrix of this form, such as map.sample()"
        )


def _solve(forward: Callable[[Tensor], Tensor], start: Tensor, target: Tensor, enough: float) -> tuple[Tensor, float]:
    """Levenberg-Marquardt for forward(free) = target; returns the best point and its largest error."""

    def residual(free: Tensor) -> Tensor:
        difference = (forward(free) - target).flatten()
        return torch.view_as_real(difference).flatten() if difference.is_complex() else difference

    free, damping = start.detach().clone(), 1e-2
    error = residual(free)
    for _ in range(ITERATIONS):
        if float(error.abs().max()) <= enough / 10:
            break
        jacobian = torch.autograd.functional.jacobian(residual, free, vectorize=True)
        normal, slope = jacobian.mT @ jacobian, jacobian.mT @ error
        while damping < 1e8:
            trial = free - torch.linalg.solve(normal + damping * torch.eye(len(free), dtype=free.dtype), slope)
            new = residual(trial)
            if float(new.norm()) < float(error.norm()):
                free, error, damping = trial, new, damping / 5
                break
            damping *= 4
        else:
            break
    return free, float(error.abs().max())

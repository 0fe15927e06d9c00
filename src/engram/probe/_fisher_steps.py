"""Fisher memory of a step that is not linear: by its tangent at one state, or from noisy paths."""

import math

import torch
from torch import Tensor

from engram.errors import OptionError, ShapeError, check_between, check_size
from engram.probe._fisher import FisherMemory
from engram.probe._tangents import Step, push


def linearise(step: Step, state: Tensor, input: Tensor, direction: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """W = d step / d state (N, N) and v = d step / d input . direction (N,) at one state (N,) and one input (D,).

    Near that state the step is h -> W h + v s, which is what :func:`engram.probe.fisher_memory` takes:

    >>> from engram.probe._fisher import fisher_memory
    >>> line, into = torch.diag(torch.ones(2, dtype=torch.float64), -1), torch.eye(3, dtype=torch.float64)[:1]
    >>> step = lambda h, x: torch.tanh(h @ line.T + x @ into)
    >>> tangent = linearise(step, torch.zeros(3).double(), torch.zeros(1).double())
    >>> fisher_memory(*tangent, lags=3).curve.round(4).tolist()
    [1.0, 0.5, 0.3333]

    ``direction`` (D,): how the signal moves the input; all inputs alike, of length 1, if not given.
    """
    if state.ndim != 1 or input.ndim != 1:
        raise ShapeError(f"one state (N,) and one input (D,) are needed, got {state.shape} and {input.shape}")
    size, along = len(state), direction_of(direction, input)
    frame = torch.eye(size, size + 1, dtype=state.dtype)
    input_frame = torch.cat([along.new_zeros(len(along), size), along[:, None]], 1)
    moved = push(step, state[None], input[None], frame[None], input_frame[None])[1][0]
    return moved[:, :size], moved[:, size]


def sampled_fisher_memory(
    step: Step,
    state: Tensor,
    inputs: Tensor,
    *,
    direction: Tensor | None = None,
    noise: float = 1.0,
    paths: int = 2000,
    generator: torch.Generator | None = None,
) -> FisherMemory:
    """Fisher memory of h_t = step(h_{t-1}, x_t + direction s_t) + z_t at the end of one input (T, D), from noisy paths.

    All paths begin at ``state`` (N,) and see the same inputs; each has its own noise z_t ~ N(0, eps I). With the mean
    m and the covariance C of h_T over the paths,

        J_kl = (dm / ds_{T-k})' C^-1 (dm / ds_{T-l}),

    the linear Fisher information: what a linear reading of h_T can tell, never more than the whole, and all of it where
    h_T is Gaussian (a linear step: equal to ``fisher_memory(W, v, steps=T)``). The derivatives follow each path exactly
    and are averaged; C^-1 is corrected for the finite number of paths. Lags 0 .. T - 1.
    """
    size, length = state.shape[-1], check_size("the length of inputs", len(inputs))
    check_between("noise", noise, 0, math.inf)
    if paths < 2 * size + 10:
        raise OptionError(f"paths must be at least 2 N + 10 = {2 * size + 10} for {size} units, got {paths}")
    along = direction_of(direction, inputs[0])
    now = state.detach().expand(paths, size)
    moved = now.new_zeros(paths, size, 0)  # (paths, N, t): how each path moves with each past signal, newest first
    for x in inputs:
        new = along[:, None].expand(paths, -1, -1)
        frame = torch.cat([now.new_zeros(paths, size, 1), moved], -1)
        input_frame = torch.cat([new, new.new_zeros(*new.shape[:2], moved.shape[-1])], -1)
        now, moved = push(step, now, x.expand(paths, -1), frame, input_frame)
        now = now + math.sqrt(noise) * torch.randn(now.shape, generator=generator, dtype=now.dtype)
    mean = moved.double().mean(0)
    centred = (now - now.mean(0)).double()
    unbiased = (paths - size - 2) / (paths - 1)  # E[S^-1] of a sample covariance S is C^-1 over this
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(centred.mT @ centred / (paths - 1)), mean, upper=False)
    matrix = (unbiased * white.mT @ white).numpy()
    total = float(matrix.trace())
    return FisherMemory(
        matrix=matrix,
        spatial=None,
        total=total,
        growth=mean.square().sum(0).numpy(),
        size=size,
        noise=noise,
        steps=length,
        method=f"sampled ({paths} paths)",
        error=total * math.sqrt(2 / (paths - size - 4)),
    )


def direction_of(direction: Tensor | None, input: Tensor) -> Tensor:
    """The direction of the signal in the inputs ``(D,)``: as given, else all alike, of length 1."""
    if direction is None:
        return torch.full_like(input, len(input) ** -0.5)
    if direction.shape != input.shape:
        raise ShapeError(f"direction must have the shape of one input, {tuple(input.shape)}, got {direction.shape}")
    return direction.to(input)

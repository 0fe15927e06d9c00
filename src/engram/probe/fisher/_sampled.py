"""Fisher memory of a step that is not linear, from noisy paths."""

import math

import torch
from torch import Tensor

from engram.errors import OptionError, check_between, check_size
from engram.probe._linear import signal_direction
from engram.probe._tangents import Step, step_with_tangents
from engram.probe.fisher._memory import FisherMemory


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
    """Fisher memory of h_t = step(h_{t-1}, x_t + direction s_t) + z_t, z_t ~ N(0, eps I), at the end of one sequence.

    All paths begin at the same state and see the same inputs; each has its own noise. With the mean m and the
    covariance C of h_T over the paths,

        J_kl = (dm / ds_{T-k})' C^-1 (dm / ds_{T-l}),    k, l = 0 .. T-1.

    This is the linear Fisher information: what a linear function of h_T can tell about the signal. It is at most the
    Fisher information, and equal to it where h_T is Gaussian; of a linear step it is ``fisher_memory(W, v, steps=T)``.
    The derivatives are exact along each path and averaged; C^-1 is corrected for the finite number of paths.

    Args:
        step: from states (B, N) and inputs (B, D) to the next states (B, N).
        state: (N,), where all paths begin.
        inputs: (T, D), the sequence.
        direction: (D,), how the signal changes the input. Default: all inputs alike, length 1.
        noise: eps, the variance of z_t in each coordinate.
        paths: how many; at least 2 N + 10.
        generator: of the noise. Default: torch's own.
    """
    size, length = state.shape[-1], check_size("the length of inputs", len(inputs))
    check_between("noise", noise, 0, math.inf)
    if paths < 2 * size + 10:
        raise OptionError(f"paths must be at least 2 N + 10 = {2 * size + 10} for {size} units, got {paths}")
    along = signal_direction(direction, inputs[0])
    now = state.detach().expand(paths, size)
    moved = now.new_zeros(paths, size, 0)  # (paths, N, t): how each path changes with each past signal, newest first
    for x in inputs:
        new = along[:, None].expand(paths, -1, -1)
        frame = torch.cat([now.new_zeros(paths, size, 1), moved], -1)
        input_frame = torch.cat([new, new.new_zeros(*new.shape[:2], moved.shape[-1])], -1)
        now, moved = step_with_tangents(step, now, x.expand(paths, -1), frame, input_frame)
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

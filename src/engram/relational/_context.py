"""Temporal context normalisation: each feature of a code, relative to the other steps of its sequence."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from engram.errors import OptionError, ShapeError, check_size

EPSILON = 1e-8


class ContextNorm(nn.Module):
    r"""Codes with mean 0 and variance 1 over the steps of a context, per sequence and feature.

    .. math::
        \mu = \frac{1}{|G|} \sum_{t \in G} z_t, \quad
        \sigma^2 = \frac{1}{|G| - 1} \sum_{t \in G} (z_t - \mu)^2 + 10^{-8}, \quad
        z_t \leftarrow \gamma \odot \frac{z_t - \mu}{\sigma} + \beta

    where the context G is the whole sequence, or one of the ``segments`` that it is cut into; gamma and beta ``(F)``
    are learned and start at 1 and 0. Source: Webb et al. 2020 (temporal context normalisation); the unbiased variance
    is that of the program of Webb et al. 2021 (ESBN).

    Of two steps the outcome is 0 where they agree and :math:`\pm 1/\sqrt 2` where they differ, whatever the encoder:
    it says same or different by itself. A constant feature is divided by 1e-4 and stays 0.

    Args:
        size: F, the features of a code.
        segments: the lengths of the contexts, in order, at least 2 each. Default: (), the whole sequence.

    Inputs: ``(T, B, F)``. Outputs: ``(T, B, F)``.
    """

    def __init__(self, size: int, segments: Sequence[int] = ()) -> None:
        super().__init__()
        self.segments = tuple(segments)
        for length in self.segments:
            if check_size("a segment of the context", length) < 2:
                raise OptionError(
                    f"a context needs at least 2 steps, for 1 has no variance; got segments {_words(self.segments)}"
                )
        self.gamma = nn.Parameter(torch.ones(check_size("size", size)))
        self.beta = nn.Parameter(torch.zeros(size))

    def forward(self, codes: Tensor) -> Tensor:
        if codes.dim() != 3 or codes.shape[-1] != len(self.gamma):
            raise ShapeError(
                f"context normalisation takes codes (steps, batch, {len(self.gamma)}), got {tuple(codes.shape)}"
            )
        steps = len(codes)
        segments = self.segments or (steps,)
        if sum(segments) != steps:
            raise ShapeError(
                f"the segments of the context must add up to the steps of a sequence: {_words(segments)} = "
                f"{sum(segments)}, and there are {steps} steps. Give segments that do, or context='whole'"
            )
        if steps < 2:
            raise ShapeError(
                "context normalisation compares the steps of a sequence and needs at least 2, got 1: use context='off'"
            )
        ends = list(accumulate(segments))
        parts = [_normalised(codes[end - length : end]) for end, length in zip(ends, segments, strict=True)]
        return torch.cat(parts) * self.gamma + self.beta if len(parts) > 1 else parts[0] * self.gamma + self.beta

    def extra_repr(self) -> str:
        return f"{len(self.gamma)}, segments={_words(self.segments) if self.segments else 'whole'}"


def _normalised(codes: Tensor) -> Tensor:
    centred = codes - codes.mean(0)
    return centred / (centred.square().sum(0) / (len(codes) - 1) + EPSILON).sqrt()


def _words(segments: Sequence[int]) -> str:
    return " + ".join(map(str, segments))

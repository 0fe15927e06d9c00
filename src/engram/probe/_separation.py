"""Separation rank: how many products of a function of the start and one of the end it takes to write the output."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engram.errors import NonFiniteError, OptionError, check_size
from engram.figures import BLUE, MUTED, ORANGE
from engram.probe._cost import Cost
from engram.probe._part import Part, Plot
from engram.probe._setup import Setup
from engram.probe._start_end import TEMPLATES, in_double, start_end_matrices, template_inputs
from engram.probe._subject import Subject

LENGTH = 6
"""Steps by default."""


@dataclass(frozen=True)
class SeparationRank(Part):
    """What :func:`separation_rank` found.

    rank: of the matrix of outputs, starts against ends, split in the middle. side: its rows and columns; the rank is at
    most the smaller one. singular: its singular values over the largest, with rows and columns scaled to one length
    (which does not change the rank). by_split: the rank by the number of steps in the start. effective: the effective
    rank, exp of the entropy of the singular values before scaling. length: T. templates: K. whole: whether all
    sequences of the templates are in it, or only some (a lower bound). tolerance: singular values below it count as
    zero.
    """

    name = "separation_rank"
    title = "Separation rank"
    question = "How many products of (start) and (end) make up the output?"

    rank: int
    side: tuple[int, int]
    singular: list[float]
    by_split: dict[int, int]
    effective: float
    length: int
    templates: int
    whole: bool
    tolerance: float

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        """One call with all sequences of the templates."""
        return Cost(1, 0, setup.timings.forward(TEMPLATES**LENGTH) * LENGTH / setup.length)

    @classmethod
    def measure(cls, setup: Setup) -> "SeparationRank":
        return separation_rank(setup.subject, seed=setup.seed)

    def headline(self) -> str:
        return f"{self.rank} of at most {min(self.side)} between start and end, effective rank {self.effective:.3g}."

    def details(self) -> str:
        sequences = f"sequences of {self.length} steps made of {self.templates} template inputs"
        if self.whole:
            return f"Measured on all {sequences}."
        return f"Sampled at {self.side[0]} starts and {self.side[1]} ends of {sequences}: a lower bound."

    def brief(self) -> str:
        return f"{self.rank} of {min(self.side)}"

    def plots(self) -> list[Plot]:
        return [self.plot, self.plot_splits]

    def plot(self, axes: Any) -> None:
        """The singular values, and the tolerance."""
        shown = [value if value > 0 else math.nan for value in self.singular]
        axes.semilogy(range(1, len(shown) + 1), shown, ".-", color=BLUE, linewidth=1)
        axes.axhline(self.tolerance, color=MUTED, linewidth=0.8, linestyle=":")
        title = f"Separation rank: {self.rank} of at most {min(self.side)}"
        axes.set(title=title, xlabel="index, largest first", ylabel="singular value")

    def plot_splits(self, axes: Any) -> None:
        """The rank over the number of steps in the start, beside the most it can be."""
        splits = list(self.by_split)
        most = [self.templates ** min(split, self.length - split) for split in splits]
        most = most if self.whole else [min(bound, *self.side) for bound in most]
        axes.plot(splits, most, color=MUTED, linewidth=0.9, linestyle=":", label="at most")
        axes.plot(splits, list(self.by_split.values()), "o-", color=ORANGE, linewidth=1, markersize=4, label="rank")
        axes.set(title="Separation rank by split", xlabel="steps in the start", ylabel="rank", ylim=(0, None))
        axes.legend()


def separation_rank(
    model: nn.Module | Subject,
    *,
    length: int = LENGTH,
    templates: Tensor | int | None = None,
    unit: int | None = None,
    seed: int = 0,
) -> SeparationRank:
    r"""The numerical rank of the matrix of outputs over all starts and all ends made of K template inputs.

    .. math:: A_{(d_1..d_s),(d_{s+1}..d_T)} = y(x^{(d_1)}, .., x^{(d_T)}), \qquad \mathrm{sep}(y) \ge \mathrm{rank}\,A

    for any templates (Ziv 2019, Section 2.2.2, Claim 2). y is a number: one output of the last step, or
    a random combination of all outputs. A copy of the model in float64 is measured where one can be made. Of more than
    16,384 sequences 64 starts and 64 ends are sampled: a lower bound.

    For a recurrent arithmetic circuit it is the rank that :mod:`engram.certify` proves for almost all weights; of a
    circuit with one layer, min(R, M^{T/2}) (Theorem 1 there). Weights that are almost special (2 of 60 samples at M = R
    = 2, L = 2, T = 6) hide a part of it below the rounding of float64.

    Args:
        model: a module, or a :class:`Subject`.
        length: T, at least 2.
        templates: ``(K, D)``, or K, to be sampled (of symbols: the first K of them). Default: 3, or 2 of two symbols.
        unit: the index of the output that is y. Default: a random combination of all.
        seed: random seed of templates, combination and sampled sequences.
    """
    subject = in_double(Subject.of(model))
    length = subject.fixed_length or check_size("length", length, least=2)
    generator = torch.Generator().manual_seed(seed)
    inputs = template_inputs(subject, templates, generator)
    if unit is not None and not 0 <= unit < subject.output_size:
        raise OptionError(f"unit must be one of the outputs 0 .. {subject.output_size - 1}, got {unit}")
    readout = torch.randn(subject.output_size, generator=generator, dtype=torch.float64).to(inputs)
    if unit is not None:
        readout = torch.eye(subject.output_size).to(inputs)[unit]
    count, half = len(inputs), length // 2
    matrices, whole = start_end_matrices(subject, inputs, length, readout, generator)
    rounding = 8 * torch.finfo(subject.dtype).eps
    ranks, middle = {}, torch.zeros(0)
    for split, matrix in matrices.items():
        if not bool(torch.isfinite(matrix).all()):
            raise NonFiniteError(
                f"outputs over {length} steps are not finite: choose a shorter length for separation_rank"
            )
        singular = torch.linalg.svdvals(_balanced(matrix))
        ranks[split] = int((singular > singular[0] * rounding * max(matrix.shape)).sum())
        middle = singular if split == half else middle
    side = matrices[half].shape
    weights = torch.linalg.svdvals(matrices[half])
    share = weights / weights.sum().clamp_min(1e-300)
    effective = float(torch.exp(torch.special.entr(share).sum())) if ranks[half] else 0.0
    relative = (middle / middle[0].clamp_min(1e-300)).tolist()
    return SeparationRank(
        ranks[half], (side[0], side[1]), relative, ranks, effective, length, count, whole, rounding * max(side)
    )


def _balanced(matrix: Tensor) -> Tensor:
    """Rows and columns scaled to the same length: the rank stays, and small rows are not lost in rounding."""
    for _ in range(4):
        for dim in (0, 1):
            size = matrix.norm(dim=dim, keepdim=True)
            matrix = matrix / torch.where(size > 0, size, 1.0)
    return matrix

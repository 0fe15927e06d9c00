"""Separation rank: how many products of a function of the start and one of the end it takes to write the output."""

import copy
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engram.errors import EngramError, OptionError, ShapeError, check_size
from engram.probe._plain import plain
from engram.probe._subject import Subject

GRID = 1 << 14
"""The most sequences of a whole grid; above, some are sampled."""
SIDE = 64
"""Starts, and ends, of a sampled grid."""
AT_ONCE = 4096
"""Sequences of one call."""


@dataclass(frozen=True)
class SeparationRank:
    """What :func:`separation_rank` found.

    rank: of the Start-End matrix split in the middle. side: its rows and columns, the most it can be. singular: its
    singular values over the largest, rows and columns brought to one length (which leaves the rank as it is). by_split:
    rank by the number of steps in the start. effective: exp of the entropy of the singular values of the matrix as it
    is, the rank that carries weight. whole: whether all sequences of the templates are in it, or only some (a lower
    bound). tolerance: a singular value below it, relative to the largest, counts as zero.
    """

    rank: int
    side: tuple[int, int]
    singular: list[float]
    by_split: dict[int, int]
    effective: float
    length: int
    templates: int
    whole: bool
    tolerance: float

    def words(self) -> str:
        how = "" if self.whole else f", sampled at {self.side[0]} starts and {self.side[1]} ends: a lower bound"
        return (
            f"Separation rank: of {self.length} steps on {self.templates} templates, start against end, it is "
            f"{self.rank} of at most {min(self.side)}{how}; {self.effective:.3g} of it carry weight."
        )

    def to_dict(self) -> dict[str, Any]:
        return plain(asdict(self) | {"by_split": {str(k): rank for k, rank in self.by_split.items()}})

    def draw(self, axes: Any) -> None:
        shown = [value if value > 0 else math.nan for value in self.singular]
        axes.semilogy(range(1, len(shown) + 1), shown, ".-", color="#0b5fa5", linewidth=1)
        axes.axhline(self.tolerance, color="#bbbbbb", linewidth=0.8, linestyle=":")
        axes.set(xlabel="number", ylabel="singular value")
        axes.set_title(f"Separation rank: {self.rank} of at most {min(self.side)}", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)

    def draw_splits(self, axes: Any) -> None:
        """Rank against the number of steps in the start, beside the most it can be."""
        splits = list(self.by_split)
        most = [self.templates ** min(split, self.length - split) for split in splits]
        most = most if self.whole else [min(bound, *self.side) for bound in most]
        axes.plot(splits, most, color="#888888", linewidth=0.9, linestyle=":", label="at most")
        axes.plot(splits, list(self.by_split.values()), "o-", color="#d98c3f", linewidth=1, markersize=4, label="rank")
        axes.set(xlabel="steps in the start", ylabel="rank", ylim=(0, None))
        axes.set_title("Separation rank by split", loc="left", fontsize=10)
        axes.legend(frameon=False, fontsize=7)
        axes.spines[["top", "right"]].set_visible(False)


def separation_rank(
    model: nn.Module | Subject,
    *,
    length: int = 6,
    templates: Tensor | int | None = None,
    unit: int | None = None,
    seed: int = 0,
) -> SeparationRank:
    r"""The numerical rank of the matrix of outputs over all starts and all ends made of K templates.

    .. math:: A_{(d_1..d_s),(d_{s+1}..d_T)} = y(x^{(d_1)}, .., x^{(d_T)}), \qquad \mathrm{sep}(y) \ge \mathrm{rank}\,A

    for any templates (spec/arithmetic-circuits.md 3.1, claim 2); y is a number, one output of the last step or, unless
    ``unit`` is given, a random combination of all of them. A copy of the model in float64 is measured if there can be
    one. More than 16,384 sequences are sampled: 64 starts and 64 ends.

    For a recurrent arithmetic circuit it is the rank that :mod:`engram.certify` proves for almost all weights: of a
    shallow one, min(R, M^{T/2}). Weights that are almost special (2 of 60 draws at M = R = 2, L = 2, T = 6) hide a part
    of it below the rounding of float64.

    Args:
        length: T, at least 2.
        templates: ``(K, D)``, or K, to be drawn (of symbols: the first K of them); up to 3 unless given.
        unit: the number of one output.
        seed: of templates, combination and sample.
    """
    subject = _in_double(Subject.of(model))
    length = subject.fixed_length or check_size("length", length, least=2)
    generator = torch.Generator().manual_seed(seed)
    letters = _templates(subject, templates, generator)
    if unit is not None and not 0 <= unit < subject.output_size:
        raise OptionError(f"unit must be one of the outputs 0 .. {subject.output_size - 1}, got {unit}")
    readout = torch.randn(subject.output_size, generator=generator, dtype=torch.float64).to(letters)
    if unit is not None:
        readout = torch.eye(subject.output_size).to(letters)[unit]
    count, half = len(letters), length // 2
    whole = length * math.log(count) <= math.log(GRID) + 1e-9
    if whole:
        words = torch.cartesian_prod(*[torch.arange(count)] * length).view(-1, length)
        values = _values(subject, letters, words, readout)
        matrices = {split: values.view(count**split, -1) for split in range(1, length)}
    else:
        matrices = {
            split: _sampled(subject, letters, split, length, readout, generator)
            for split in sorted({max(1, length // 4), half, 3 * length // 4})
        }
    rounding = 8 * torch.finfo(subject.dtype).eps
    ranks, profile = {}, torch.zeros(0)
    for split, matrix in matrices.items():
        if not bool(torch.isfinite(matrix).all()):
            raise ShapeError(f"outputs over {length} steps are not finite: choose a shorter length for separation_rank")
        singular = torch.linalg.svdvals(_balanced(matrix))
        ranks[split] = int((singular > singular[0] * rounding * max(matrix.shape)).sum())
        profile = singular if split == half else profile
    side = matrices[half].shape
    weights = torch.linalg.svdvals(matrices[half])
    share = weights / weights.sum().clamp_min(1e-300)
    effective = float(torch.exp(torch.special.entr(share).sum())) if ranks[half] else 0.0
    relative = (profile / profile[0].clamp_min(1e-300)).tolist()
    return SeparationRank(
        ranks[half], (side[0], side[1]), relative, ranks, effective, length, count, whole, rounding * max(side)
    )


def _in_double(subject: Subject) -> Subject:
    """A copy in float64, which tells small singular values from rounding; the subject itself if that fails."""
    if subject.dtype == torch.float64:
        return subject
    try:
        module = copy.deepcopy(subject.module).double()
        return Subject(module, subject.input_size, batch_first=subject.batch_first, length=subject.fixed_length)
    except (EngramError, RuntimeError, TypeError, ValueError):
        return subject


def _templates(subject: Subject, templates: Tensor | int | None, generator: torch.Generator) -> Tensor:
    if isinstance(templates, Tensor):
        if templates.dim() != 2 or templates.shape[1] != subject.input_size or len(templates) < 2:
            raise ShapeError(
                f"templates must be (K, {subject.input_size}) with K >= 2, got the shape {tuple(templates.shape)}"
            )
        return templates.to(subject.device, subject.dtype)
    most = subject.input_size if subject.symbols else 3
    count = min(3, most) if templates is None else check_size("templates", templates, least=2)
    if subject.symbols:
        return torch.eye(subject.input_size).to(subject.device, subject.dtype)[:count]
    return subject.draw(count, 1, generator)[:, 0]


def _values(subject: Subject, letters: Tensor, words: Tensor, readout: Tensor) -> Tensor:
    """y of the last step of every word ``(n, T)`` of letters."""
    with subject, torch.no_grad():
        parts = words.split(max(1, AT_ONCE))
        return torch.cat([subject.outputs(letters[part.mT])[-1].to(readout) @ readout for part in parts]).double().cpu()


def _balanced(matrix: Tensor) -> Tensor:
    """Rows and columns brought to the same length: the rank stays, and small rows are not lost in rounding."""
    for _ in range(4):
        for dim in (0, 1):
            size = matrix.norm(dim=dim, keepdim=True)
            matrix = matrix / torch.where(size > 0, size, 1.0)
    return matrix


def _sampled(
    subject: Subject, letters: Tensor, split: int, length: int, readout: Tensor, generator: torch.Generator
) -> Tensor:
    """The matrix of some starts and some ends, drawn without repetition where there are few."""
    starts, ends = (_words(len(letters), steps, generator) for steps in (split, length - split))
    pairs = torch.cat([starts.repeat_interleave(len(ends), 0), ends.repeat(len(starts), 1)], 1)
    return _values(subject, letters, pairs, readout).view(len(starts), len(ends))


def _words(count: int, steps: int, generator: torch.Generator) -> Tensor:
    return torch.unique(torch.randint(count, (2 * SIDE, steps), generator=generator), dim=0)[:SIDE]

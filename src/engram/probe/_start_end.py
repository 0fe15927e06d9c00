"""The matrix of outputs over all starts and all ends of sequences that are made of a few template inputs."""

import copy
import math

import torch
from torch import Tensor

from engram.errors import EngramError, ShapeError, check_size
from engram.probe._subject import Subject

TEMPLATES = 3
"""Template inputs by default."""
GRID = 1 << 14
"""The most sequences of a whole grid; of more, some are sampled."""
SIDE = 64
"""Starts, and ends, of a sampled grid."""
AT_ONCE = 4096
"""Sequences of one call."""


def start_end_matrices(
    subject: Subject, inputs: Tensor, length: int, readout: Tensor, generator: torch.Generator
) -> tuple[dict[int, Tensor], bool]:
    """y(start, end) by the number of steps in the start, and whether all sequences of the templates are in it.

    inputs: the templates ``(K, D)``. readout: ``(C,)``; y is its product with the output of the last step.
    """
    count = len(inputs)
    if length * math.log(count) <= math.log(GRID) + 1e-9:
        sequences = torch.cartesian_prod(*[torch.arange(count)] * length).view(-1, length)
        values = _values(subject, inputs, sequences, readout)
        return {split: values.view(count**split, -1) for split in range(1, length)}, True
    splits = sorted({max(1, length // 4), length // 2, 3 * length // 4})
    return {split: _sampled(subject, inputs, split, length, readout, generator) for split in splits}, False


def in_double(subject: Subject) -> Subject:
    """A copy in float64, which tells small singular values from rounding; the subject itself if that fails."""
    if subject.dtype == torch.float64:
        return subject
    try:
        module = copy.deepcopy(subject.module).double()
        return Subject(module, subject.input_size, batch_first=subject.batch_first, length=subject.fixed_length)
    except (EngramError, RuntimeError, TypeError, ValueError):
        return subject


def template_inputs(subject: Subject, templates: Tensor | int | None, generator: torch.Generator) -> Tensor:
    """``(K, D)``: as given, or K sampled ones; of symbols the first K."""
    if isinstance(templates, Tensor):
        if templates.dim() != 2 or templates.shape[1] != subject.input_size or len(templates) < 2:
            raise ShapeError(
                f"templates must be (K, {subject.input_size}) with K >= 2, got the shape {tuple(templates.shape)}"
            )
        return templates.to(subject.device, subject.dtype)
    most = subject.input_size if subject.symbols else TEMPLATES
    count = min(TEMPLATES, most) if templates is None else check_size("templates", templates, least=2)
    if subject.symbols:
        return torch.eye(subject.input_size).to(subject.device, subject.dtype)[:count]
    return subject.sample(count, 1, generator)[:, 0]


def _values(subject: Subject, inputs: Tensor, sequences: Tensor, readout: Tensor) -> Tensor:
    """y of the last step of every sequence ``(n, T)`` of template numbers."""
    with subject, torch.no_grad():
        parts = sequences.split(AT_ONCE)
        return torch.cat([subject.outputs(inputs[part.mT])[-1].to(readout) @ readout for part in parts]).double().cpu()


def _sampled(
    subject: Subject, inputs: Tensor, split: int, length: int, readout: Tensor, generator: torch.Generator
) -> Tensor:
    """The matrix of some starts and some ends, sampled without repetition."""
    starts, ends = (_random_sequences(len(inputs), steps, generator) for steps in (split, length - split))
    pairs = torch.cat([starts.repeat_interleave(len(ends), 0), ends.repeat(len(starts), 1)], 1)
    return _values(subject, inputs, pairs, readout).view(len(starts), len(ends))


def _random_sequences(count: int, steps: int, generator: torch.Generator) -> Tensor:
    """Without repetition, in random order: the first ones of the sorted rows would all begin alike."""
    rows = torch.unique(torch.randint(count, (2 * SIDE, steps), generator=generator), dim=0)
    return rows[torch.randperm(len(rows), generator=generator)[:SIDE]]

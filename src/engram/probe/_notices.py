"""What a reader of the numbers should know about a model: randomness, broken weights, few digits."""

from contextlib import suppress
from typing import TYPE_CHECKING

import torch
from torch import nn

from engram.errors import EngramError

if TYPE_CHECKING:
    from engram.probe._subject import Subject


@torch.no_grad()
def randomness(subject: "Subject", steps: int) -> list[str]:
    """A note if two equal calls differ: in evaluation mode, or only in the mode that the model came in (dropout)."""
    inputs = subject.sample(subject.fixed_length or steps, 2, torch.Generator().manual_seed(2))
    modes, random = [(part, part.training) for part in subject.module.modules()], False

    def agrees() -> bool:
        return torch.equal(subject.outputs(inputs).nan_to_num(), subject.outputs(inputs).nan_to_num())

    with subject:  # in evaluation mode
        calm = agrees()
        for part, training in modes:
            part.training = training
        with suppress(EngramError):  # what it refuses in training mode does not matter here
            random = any(training for _, training in modes) and not agrees()
    if not calm:
        return [
            "two equal calls give different outputs even in evaluation mode (random numbers, or a state kept between "
            "calls): the numbers are those of one call"
        ]
    return (
        ["two equal calls gave different outputs (dropout): measured in evaluation mode, without it"] if random else []
    )


def broken_numbers(module: nn.Module, dtype: torch.dtype) -> list[str]:
    """Notes on weights that are not finite, and on dtypes of few digits."""
    named = [*module.named_parameters(), *module.named_buffers()]
    broken = [name for name, tensor in named if not bool(torch.isfinite(tensor.detach()).all())]
    notes = [f"{broken[0]} holds NaN or infinity ({len(broken)} of {len(named)} tensors do)"] if broken else []
    if dtype in (torch.bfloat16, torch.float16):
        notes.append(f"the model computes in {dtype}: numbers are good to two or three digits")
    return notes

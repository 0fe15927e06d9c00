"""Which runs of a sweep train as one batched model: small ones that differ in seed and rates only.

A member's bits do not depend on its companions, so that which runs of a kind are put together, and how many, is left to
whoever starts them: serial, parallel and resumed sweeps give the same results. They are not those of a run alone in the
last bits, so that training together is part of a run's hash.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import torch

from engram.files import seal
from engram.sweep._alike import Alike
from engram.train import Settings, keeps_bits, make_network, why_not_together

SMALL = 2**18
"""Multiplications of a layer in a time step, B H^2, up to which runs gain by training together: above, arithmetic and
not the overhead of a layer's call takes the time (engram bench ensemble)."""
MOST = 8
"""Runs that train together at most."""
WITHOUT_EFFECT = ("save_every", "log_every", "probe_every", "tensorboard")
"""Settings of the machine that change no score."""
MAY_DIFFER = {"optimiser": ("lr", "lr_orthogonal", "weight_decay", "clip"), "machine": WITHOUT_EFFECT}
"""In what runs that train together may differ, besides the seed."""
SIZES = {"model": ("hidden",)}
"""What does not decide whether runs can train together at all. The number of layers does: dropout is between them."""


def kind_of(settings: Settings) -> str:
    """Equal for runs that may train together; "" for one that trains alone."""
    model = settings.model
    if settings.budget.batch * model.hidden**2 > SMALL:
        return ""
    values = settings.resolved().to_dict() | {"seed": 0}
    kind = _without(values, MAY_DIFFER)
    shape = _without(kind, SIZES) | {"task": type(settings.task).__name__, "budget": ""}
    return seal(kind) if _fits(Alike(seal(shape), settings)) else ""


def _without(values: dict[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    left = {group: {n: v for n, v in values[group].items() if n not in names[group]} for group in names}
    return values | left


@lru_cache(maxsize=1024)
def _fits(shape: Alike) -> bool:
    """Whether such runs can train together, and in the same bits whoever their companions are; sizes do not matter."""
    settings = shape.settings
    with torch.random.fork_rng(devices=()):
        return why_not_together([settings]) == "" and keeps_bits(make_network(settings), settings.budget.batch)


def in_parts(count: int, workers: int) -> Iterable[slice]:
    """Runs of one kind cut into parts: one for each worker that this kind has, and none larger than ``MOST``."""
    size = max(1, min(MOST, -(-count // workers)))
    return (slice(start, start + size) for start in range(0, count, size))

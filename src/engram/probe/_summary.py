"""A profile in a few words a part, to stand beside others in a table."""

from collections.abc import Callable
from typing import Any

from engram.probe._page import heading


def _gradient(part: Any) -> str:
    return (
        f"{part.verdict}, past {len(part.norms) - 1}" if part.horizon is None else f"{part.verdict} at {part.horizon}"
    )


SHORT: dict[str, Callable[[Any], str]] = {
    "gradient_reach": _gradient,
    "fisher_memory": lambda part: f"{'' if part.whole else '≥ '}{part.total / part.normal_bound:.3g} of {part.size}",
    "memory_capacity": lambda part: f"{part.total:.3g} of {part.states}",
    "spectrum": lambda part: f"radius {part.radius:.3g}",
    "lyapunov": lambda part: f"{part.exponents[0]:.2g} a step",
    "separation_rank": lambda part: f"{part.rank} of {min(part.side)}",
    "structure": lambda part: f"drift {part.matrices[0].drift:.2g}",
}


def summary(parts: dict[str, Any]) -> dict[str, str]:
    """The number of each part that people quote; a dash where there is none."""
    return {heading(name): "-" if isinstance(part, str) else SHORT[name](part) for name, part in parts.items()}

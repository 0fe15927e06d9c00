"""The parts of a profile that need no state handed in, of networks that attend to earlier states."""

from typing import Any

import pytest
import torch

from engram.nn import MemLSTM, MemRNN, RelLSTM, RelRNN
from engram.probe import Cost, GradientReach, MemoryCapacity, profile

OPTIONS: dict[Any, dict[str, Any]] = {
    RelRNN: {"nu": 3, "rho": 2},
    RelLSTM: {"nu": 3, "rho": 2},
    MemRNN: {},
    MemLSTM: {},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_reach_capacity_and_cost(kind: Any) -> None:
    torch.manual_seed(0)
    layer = kind(1, 6, **OPTIONS[kind])
    whole = profile(layer, length=40, parts=["gradient_reach", "memory_capacity"])
    found = whole.parts
    assert isinstance(found["gradient_reach"], GradientReach)
    assert min(found["gradient_reach"].norms) > 0  # attention reaches every step
    assert isinstance(found["memory_capacity"], MemoryCapacity)
    assert isinstance(whole.cost, Cost)

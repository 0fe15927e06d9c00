"""A network that does not fit into memory is refused before it is made: how many numbers a call asks for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engram.errors import OptionError
from engram.models import Model, _memory, make_network
from engram.tasks import Adding

CALLS: dict[str, tuple[Callable[[], Tensor], int]] = {
    "empty": (lambda: torch.empty(3, 4), 12),
    "zeros": (lambda: torch.zeros(5), 5),
    "full": (lambda: torch.full((2, 3), 7.0), 6),
    "normal": (lambda: torch.randn(2, 3, 4), 24),
    "whole numbers": (lambda: torch.randint(9, (3, 3)), 9),
    "more of a kind": (lambda: torch.ones(()).new_empty(4, 5), 21),
    "eye": (lambda: torch.eye(5), 25),
    "eye, not square": (lambda: torch.eye(5, 3), 15),
    "arange": (lambda: torch.arange(7), 7),
    "permutation": (lambda: torch.randperm(6), 6),
    "another view": (lambda: torch.empty(6).expand(50, 6).view(300 // 6, 6), 6),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_a_call_asks_for(call: str) -> None:
    make, expected = CALLS[call]
    with _memory.WithinMemory() as asked:
        made = make()
    assert asked.asked == expected
    assert made.numel() <= max(expected, 300)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MB are 16 million numbers; from there on it is asked whether they fit, one tensor or many together."""
    monkeypatch.setattr(_memory, "free_memory", lambda: 80.0)
    with _memory.WithinMemory():
        for _ in range(3):
            torch.empty(16_500_000)  # 66 MB, which are gone again
        with pytest.raises(OptionError, match=r"a weight of the network needs 84 MB or more \(21,000,000 numbers\)"):
            torch.empty(3, 7_000_000)
    with _memory.WithinMemory():
        torch.empty(15_000_000)
        with pytest.raises(OptionError, match=r"needs 88 MB or more .*choose fewer hidden units"):
            torch.empty(7_000_000)
    with pytest.raises(OptionError, match=r"needs 1,600 MB or more \(400,\d{3},000 numbers\), and 80 MB"):
        make_network(Adding(5), Model("rnn", hidden=20_000))

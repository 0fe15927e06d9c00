"""The figure of a network's attention."""

from pathlib import Path

import torch

from engram.nn import RelRNN
from engram.report import plot_attention_weights


def test_states_from_before_the_sequence_are_not_in_it(tmp_path: Path) -> None:
    """The second piece of a stream still attends to two states of the first, which have no place in its figure."""
    torch.manual_seed(0)
    layer, x = RelRNN(3, 4, nu=3, rho=2), torch.randn(13, 1, 3)
    with torch.no_grad():
        for piece, before in ((x, None), (x[10:], layer(x[:10])[1])):
            attention = layer(piece, before, return_attention=True)[2]
            assert attention.ages[0, 0, -1].ge(0).all()
            plot_attention_weights(attention, tmp_path / f"{len(piece)}.svg")
    assert "Received in all: 5 states left at the end" in (tmp_path / "13.svg").read_text()
    assert "Received in all: 3 states left at the end" in (tmp_path / "3.svg").read_text()

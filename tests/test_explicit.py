"""Henaff's solutions, written down rather than trained (Henaff et al. 2016)."""

import pytest
import torch

from engram.explicit import explicit_adding, explicit_copy
from engram.tasks import Copy


def share_right(pairs: int, delay: int, layout: str, activation: str, sequences: int = 40) -> float:
    """The share of sequences recalled without a single mistake."""
    generator = torch.Generator().manual_seed(0)
    task = Copy(delay, layout=layout)
    layer, readout = explicit_copy(pairs, delay, layout=layout, activation=activation, generator=generator)
    batch = task.sample(sequences, generator)
    with torch.no_grad():
        answer = readout(layer(batch.inputs.double())[0]).argmax(-1)
    return float((answer == batch.targets).all(0).double().mean())


@pytest.mark.parametrize("activation", ["identity", "relu"])
@pytest.mark.parametrize("delay", [200, 1000])
def test_copy_at_the_cue(delay: int, activation: str) -> None:
    assert share_right(256, delay, "at", activation) >= 0.97  # one of 40 may fail: it is a matter of chance


@pytest.mark.slow
def test_copy_after_the_cue() -> None:
    assert share_right(512, 200, "after", "identity", 200) > 0.95
    assert share_right(768, 200, "after", "identity", 200) == 1.0


@pytest.mark.parametrize("layout", ["at", "after"])
@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_the_weights_of_copy(activation: str, layout: str) -> None:
    """Symbols 1 to 8 enter as unit vectors, positive ones under ReLU (which would cut off the rest), and are read by
    them too; the blank enters as nothing; V comes back after delay + length steps; the last unit remembers the cue.
    """
    layer, readout = explicit_copy(10, 7, 4, layout=layout, activation=activation)
    cell, width, eye = layer.cells[0], 20, torch.eye(20, dtype=torch.float64)
    into, hidden = cell.weight_ih.detach(), cell.weight_hh.detach()
    assert layer.cells[0].activation == activation
    vectors = into[:width, 1:9]
    torch.testing.assert_close(vectors.norm(dim=0), torch.ones(8, dtype=torch.float64))
    assert bool((vectors < 0).any()) == (activation == "identity")
    assert torch.linalg.matrix_rank(vectors) == 8
    assert not into[:, 0].any()
    assert into[width].tolist() == [0] * 9 + [1]
    assert float((torch.linalg.matrix_power(hidden[:width, :width], 11) - eye).abs().max()) < 1e-12
    assert hidden[width].tolist() == hidden[:, width].tolist() == [0] * width + [1]
    assert readout.bias.tolist() == [2] + [0] * 8
    assert torch.equal(readout.weight[1:, :width], vectors.mT)
    assert not readout.weight[1:, width].any()
    # Of a blank the score is 2 before the cue and -2 from then on; "after": one step later, by a vector that turns.
    assert readout.weight[0, width].item() == -4
    cue = into[:width, 9]
    assert torch.equal(readout.weight[0, :width], 4 * cue)
    assert cue.norm().item() == pytest.approx(1.0 if layout == "after" else 0.0)


def test_too_few_pairs_disturb_each_other() -> None:
    """63 pairs: about 0.7 of the sequences; ReLU's positive vectors are closer to each other and do worse."""
    linear, relu = (share_right(63, 200, "at", activation, 200) for activation in ("identity", "relu"))
    assert relu < linear - 0.1 < 0.9


def test_adding_is_exact() -> None:
    layer, readout = explicit_adding()
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(50, 20, generator=generator, dtype=torch.float64)
    marks = torch.zeros(50, 20, dtype=torch.float64)
    for i in range(20):
        marks[torch.randperm(50, generator=generator)[:2], i] = 1
    with torch.no_grad():
        output, _ = layer(torch.stack([values, marks], -1))
    answer = output[-1] @ readout
    # value + 1 - 1 rounds twice, for each of two values: 1e-15
    assert float((answer[:, 0] - (values * marks).sum(0)).abs().max()) < 1e-14

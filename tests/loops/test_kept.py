"""What the backward pass finds in memory and what it computes again: the gradients do not show it."""

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from engram.loops import FEW_INPUTS, compiled_cell, use
from engram.nn import CPRNN, MIRNN, RAC, Cell, Recurrent

LAYERS = (RAC, MIRNN, CPRNN)
"""Layers whose gradient reads the product of weight and input by itself."""


def gradients(layer: Recurrent, packed: bool, executor: str) -> list[Tensor]:
    torch.manual_seed(1)
    given = torch.randn(5, 7, layer.input_size, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([5, 5, 4, 4, 3, 1, 1])
    with use(executor):
        output = layer(pack_padded_sequence(given, lengths) if packed else given)[0]
    numbers = output.data if packed else output
    weight = torch.randn_like(numbers)
    return list(torch.autograd.grad((numbers * weight).sum(), [given, *layer.parameters()]))


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("inputs", [1, FEW_INPUTS, FEW_INPUTS + 1])
@pytest.mark.parametrize("kind", LAYERS)
def test_both_ways_equal_the_plain_loop(kind: type[Recurrent], inputs: int, packed: bool) -> None:
    layer = kind(inputs, 5, dtype=torch.float64)
    for found, truth in zip(gradients(layer, packed, "auto"), gradients(layer, packed, "plain"), strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_product_of_few_inputs_is_not_kept(kind: type[Recurrent]) -> None:
    def kept(inputs: int) -> int:
        return len(compiled_cell(kind(inputs, 5).cells[0]).variant(hoist=False, rebuild=True).plan.kept)

    assert kept(FEW_INPUTS) == kept(FEW_INPUTS + 1) - 1


class TwoMasksCell(Cell):
    """Its gradient reads two masks of one product: a byte per unit each, where the product has four."""

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        sums = state @ self.weight_hh.mT
        return torch.where(sums > 0, drive, 0.5 * drive) + torch.where(sums > 1, 0.5 * state, state)


def test_few_bytes_are_kept_not_few_numbers() -> None:
    layer = type("TwoMasks", (Recurrent,), {"cell": TwoMasksCell})(3, 5)
    plan = compiled_cell(layer.cells[0]).variant(hoist=False, rebuild=True).plan
    assert [plan.graph.values[value].dtype for value in plan.kept.values()] == [torch.bool, torch.bool]

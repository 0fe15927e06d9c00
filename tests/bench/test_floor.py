"""The floor of a cell: the products of its plan, as many as its equations have."""

import pytest
import torch
from torch import nn

from engram.bench._floor import Products, floor, products_of
from engram.bench._size import Size
from engram.nn import GORU, GRU, LSTM, MIRNN, MinGRU, Recurrent

SIZE = Size(T=5, B=3, H=4, D=2)


def known(layer: Recurrent) -> Products:
    found = products_of(layer)
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "gates"), [(LSTM, 4), (GRU, 3), (GORU, 3)])
def test_gates(kind: type[Recurrent], gates: int) -> None:
    """T B H gates: W h, its transpose, and its gradient; W x and its gradient."""
    rows = SIZE.T * SIZE.B * SIZE.H * gates
    assert known(kind(SIZE.D, SIZE.H)).flops(SIZE) == 2 * rows * (3 * SIZE.H + 2 * SIZE.D)


def test_two_products_of_the_input() -> None:
    """MIRNN's second-order term and its drive read the input through matrices of their own in the plan."""
    found = known(MIRNN(SIZE.D, SIZE.H))
    assert found.forward == found.backward == [(1, SIZE.H, SIZE.H)]
    assert set(found.rows) == {(1, SIZE.D, SIZE.H)}
    assert len(found.sums) == len(found.rows) + 1


def test_no_product_with_the_state() -> None:
    assert products_of(MinGRU(SIZE.D, SIZE.H)) is None


def test_chunks_do_all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in chunks, the last one smaller: the same number of multiplications."""
    monkeypatch.setattr("engram.bench._floor.CHUNK_BYTES", 4 * 100)
    products = known(LSTM(SIZE.D, SIZE.H))
    call = floor(products, SIZE)
    counted: list[int] = []
    multiply = torch.mm

    def count(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        counted.append(a.shape[0] * a.shape[1] * b.shape[1])
        return multiply(a, b, out=out)

    monkeypatch.setattr(torch, "mm", count)
    call()
    assert 2 * sum(counted) == products.flops(SIZE)
    assert len(counted) > 2 * SIZE.T + len(products.rows) + len(products.sums)


def test_a_cell_that_cannot_be_compiled() -> None:
    """No plan, no floor: said by None, as the bench leaves that row out."""

    class Grows(LSTM):
        pass

    layer = Grows(2, 4)
    layer.cells[0].step = lambda drive, state: type(state)(drive[:, :4] + state.h.mean(0), state.c)  # rows meet
    assert products_of(layer) is None
    assert isinstance(layer, nn.Module)

"""Memory capacity against what is known in closed form."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.errors import NonFiniteError
from engram.probe import MemoryCapacity, Subject, memory_capacity
from engram.probe._regression import products


@pytest.mark.parametrize("size", [1, 5, 12])
def test_a_delay_line_holds_its_length(delay_line: Any, size: int) -> None:
    """r^2 = 1 at the lags 0 .. N-1, 0 after, N in all; nothing is left for products."""
    found = memory_capacity(delay_line(size), lags=20)
    assert found.lags[:size] == pytest.approx([1.0] * size, abs=1e-6)
    assert found.lags[size:] == [0.0] * (21 - size)
    assert found.total == pytest.approx(size, abs=1e-5)
    assert found.products == 0
    assert (found.states, found.observed, found.reach) == (size, "state", size - 1)


def test_two_inputs_share_the_bound(linear: Any) -> None:
    """Two delay lines side by side: 2 at the lags 0 .. 3, and 8 in all."""
    line = torch.diag(torch.ones(3), -1)
    inputs = torch.zeros(8, 2)
    inputs[0, 0] = inputs[4, 1] = 1
    found = memory_capacity(linear(torch.block_diag(line, line), inputs), lags=10)
    assert found.lags[:5] == pytest.approx([2.0, 2.0, 2.0, 2.0, 0.0], abs=1e-6)
    assert found.total == pytest.approx(8, abs=1e-5)


def test_an_orthogonal_network_is_full(linear: Any) -> None:
    """h_T = sum_k Q^k u x_{T-k} over all lags: sum r^2 = Tr C^-1 sum (Q^k u)(Q^k u)^T = N, however long."""
    rotation = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0]
    found = memory_capacity(linear(rotation, torch.randn(6, 1)), lags=60, steps=1, samples=6000)
    assert found.total == pytest.approx(6, rel=0.05)
    assert max(found.lags) < 0.6


def test_a_thin_memory_is_found(linear: Any) -> None:
    """6 numbers of 8 inputs over 100 lags: r^2 of about 0.0075 each, all below the floor, 6 in all."""
    rotation = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0]
    found = memory_capacity(linear(rotation, torch.randn(6, 8)), lags=100, steps=2)
    assert max(found.lags) / 8 < found.floor
    assert found.total == pytest.approx(6, rel=0.15)


def test_a_single_leak(linear: Any) -> None:
    """h_t = a h_{t-1} + x_t: r^2_k = a^{2k} (1 - a^2), 1 in all."""
    a = 0.8
    found = memory_capacity(linear(torch.tensor([[a]]), torch.ones(1, 1)), lags=20, samples=20_000)
    expected = [a ** (2 * k) * (1 - a * a) for k in range(6)]
    assert found.lags[:6] == pytest.approx(expected, abs=0.02)
    assert found.total == pytest.approx(1, abs=0.03)


class Products(nn.Module):
    """x_t x_{t-1} and x_{t-2}^2: capacity of degree 2 alone."""

    def forward(self, x: Tensor) -> Tensor:
        shifted = torch.cat([torch.zeros_like(x[:, :2]), x], 1)
        return torch.cat([x * shifted[:, 1:-1], shifted[:, :-2].square()], -1)


def test_products() -> None:
    found = memory_capacity(Subject(Products(), 1), lags=8)
    assert found.total == 0
    assert found.products == pytest.approx(2, abs=1e-5)
    assert found.observed == "output"
    assert "no past input can be read back" in found.words()


def test_symbols() -> None:
    """A state that is the one-hot vector of the last symbol holds V - 1 independent numbers."""

    class OneHot(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(4, 4)
            self.embed.weight.data = torch.eye(4)

        def forward(self, ids: Tensor) -> Tensor:
            return self.embed(ids)

    found = memory_capacity(OneHot(), lags=3)
    assert found.lags == pytest.approx([3.0, 0.0, 0.0, 0.0], abs=1e-4)


@pytest.mark.parametrize("model", [nn.LSTM(2, 8), nn.GRU(2, 8, batch_first=True), nn.RNN(2, 16, nonlinearity="relu")])
def test_never_more_than_the_states(model: nn.Module) -> None:
    found = memory_capacity(model, lags=20)
    assert 0 < found.total + found.products <= found.states


def test_chance_is_no_memory(linear: Any) -> None:
    """A linear network that holds all it can is full; chance lifts its estimate neither above N nor far below."""
    matrix = 0.9 * torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1)))[0]
    for seed in range(4):
        found = memory_capacity(linear(matrix, torch.ones(6, 1)), lags=60, seed=seed)
        assert 6 * 0.97 < found.total + found.products <= 6 + 1e-9


def test_an_exploding_state_is_refused(linear: Any) -> None:
    with pytest.raises(NonFiniteError, match="not finite: choose a shorter length"):
        memory_capacity(linear(1e20 * torch.eye(2), torch.ones(2, 1)), lags=40)


def test_no_memory_is_none() -> None:
    """A model that answers with noise of its own remembers nothing: no score by chance, of 2 x 61 lags."""

    class Deaf(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.randn(*x.shape[:2], 30)

    found = memory_capacity(Subject(Deaf(), 2, batch_first=True), lags=60)
    assert (found.total, found.products) == (0, 0)


def test_a_wide_state_is_sampled(linear: Any) -> None:
    size = 600
    line = linear(torch.diag(torch.ones(size - 1), -1), torch.eye(size)[:, :1])
    found = memory_capacity(line, lags=5, samples=2000)
    assert found.states == 500
    assert "random combinations of its 600 numbers" in found.words()


@pytest.mark.parametrize(("lags", "channels", "expected"), [(8, 1, 9), (60, 1, 34), (60, 2, 17)])
def test_how_far_products_go(linear: Any, lags: int, channels: int, expected: int) -> None:
    """The lags of which all products, n (n + 1) / 2 of them, are at most 600: n = 34 numbers."""
    found = memory_capacity(linear(0.5 * torch.eye(2), torch.ones(2, channels)), lags=lags)
    assert found.product_lags == expected


@pytest.mark.parametrize(("lags", "size", "samples"), [(30, 2, 2001), (30, 150, 3000), (9, 2, 2000)])
def test_how_many_samples(linear: Any, lags: int, size: int, samples: int) -> None:
    """20 N, at least 2,000, in whole sequences that are read at a tenth of the lags."""
    found = memory_capacity(linear(0.5 * torch.eye(size), torch.ones(size, 1)), lags=lags)
    assert found.samples == samples


def test_reach_and_floor() -> None:
    """The last lag at half of the best one; with nothing above the floor, lag 0."""
    assert MemoryCapacity([1.0, 0.4, 0.5, 0.49], 2.39, 0.0, 2, 5, "state", 2000, 0.1).reach == 2
    assert MemoryCapacity([0.0, 0.0, 0.0], 0.0, 0.0, 2, 5, "state", 2000, 0.1).reach == 0


def test_a_model_of_one_length_is_read_at_its_end() -> None:
    """Its answer is the 12 inputs themselves: r^2 = 1 at the lags 0 .. 11, and there are no others."""

    class Whole(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(len(x), 12)

    found = memory_capacity(Subject(Whole(), 1, length=12, batch_first=True), lags=20)
    assert found.lags == pytest.approx([1.0] * 12, abs=1e-6)
    assert found.observed == "output"


def test_which_products_there_are() -> None:
    """Two steps a and b of two numbers: all products and squares; of symbols only those of different steps."""
    a, b = torch.tensor([[2.0, 3.0]]), torch.tensor([[5.0, 7.0]])
    assert products([a, b], squares=False).tolist() == [[10.0, 14.0, 15.0, 21.0]]
    pairs = [6.0, 10.0, 14.0, 15.0, 21.0, 35.0]
    assert products([a, b], squares=True).tolist() == [[*pairs, *((x * x - 1) / 2 for x in (2, 3, 5, 7))]]

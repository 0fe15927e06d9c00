"""The numerical separation rank; of recurrent arithmetic circuits it is the one that is certified exactly."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import engram
from engram.certify import certify, rac_claim
from engram.errors import NonFiniteError, OptionError, ShapeError
from engram.probe import SeparationRank, Subject, separation_rank

# (M, R, T, L) -> rank
CIRCUITS = {
    (2, 2, 6, 1): 2,
    (3, 2, 6, 1): 2,
    (4, 3, 4, 1): 3,
    (2, 2, 6, 2): 8,
    (3, 3, 4, 2): 9,
    (2, 2, 8, 2): 10,
    (2, 3, 6, 2): 8,
}


@pytest.mark.parametrize("seed", [0, 3, 4])
@pytest.mark.parametrize("sizes", CIRCUITS)
def test_circuits_have_their_certified_rank(sizes: tuple[int, int, int, int], seed: int) -> None:
    modes, channels, steps, depth = sizes
    torch.manual_seed(seed)
    circuit = engram.nn.RAC(modes, channels, depth, dtype=torch.float64)
    found = separation_rank(circuit, length=steps, templates=torch.eye(modes), seed=seed)
    assert found.rank == CIRCUITS[sizes]
    assert found.rank == certify(rac_claim(modes, channels, steps, depth)).found["rank"]
    assert found.whole
    assert found.side == (modes ** (steps // 2),) * 2


def test_float32_is_measured_in_float64() -> None:
    found = separation_rank(engram.nn.RAC(2, 2, 2), length=8, templates=torch.eye(2))
    assert found.rank == 10
    assert found.tolerance < 1e-12


class Sums(nn.Module):
    """A function of the sum of all inputs so far."""

    def __init__(self, power: int) -> None:
        super().__init__()
        self.power = power

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1) ** self.power


@pytest.mark.parametrize("power", [1, 2, 3])
def test_powers_of_a_sum(power: int) -> None:
    """(a + b)^p = sum of binom(p, k) a^k b^(p-k): rank p + 1 at every split with enough values on both sides."""
    found = separation_rank(Subject(Sums(power), 1, batch_first=True), templates=torch.tensor([[0.1], [1.0], [-0.7]]))
    assert found.rank == power + 1
    assert {found.by_split[split] for split in (2, 3, 4)} == {power + 1}
    assert found.by_split[1] == min(3, power + 1)


def test_no_memory_is_rank_one() -> None:
    found = separation_rank(nn.Linear(2, 3))
    assert found.rank == 1
    assert found.effective == pytest.approx(1)


def test_a_long_one_is_sampled() -> None:
    """A shallow circuit has R at any length; 2^20 sequences are not made."""
    circuit = engram.nn.RAC(2, 3, dtype=torch.float64)
    found = separation_rank(circuit, length=20, templates=torch.eye(2))
    assert found.rank == 3
    assert not found.whole
    assert found.side == (64, 64)
    assert found.by_split == {5: 3, 10: 3, 15: 3}
    assert "Sampled at 64 starts and 64 ends of sequences of 20 steps" in found.words()


def test_a_model_of_its_own_dtype() -> None:
    """It answers in float32 whatever its weights are."""

    class Short(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.cumsum(0).float()

    assert separation_rank(Subject(Short().double(), 2, batch_first=False), length=4).rank == 2


def test_one_unit() -> None:
    """Unit 0 of two units that never meet: a product of both halves, rank 1; both together: 2."""
    circuit = engram.nn.RAC(2, 2, dtype=torch.float64)
    with torch.no_grad():
        circuit.cells[0].weight_hh.copy_(torch.eye(2))
    assert separation_rank(circuit, length=4, templates=torch.eye(2), unit=0).rank == 1
    assert separation_rank(circuit, length=4, templates=torch.eye(2)).rank == 2


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"templates": torch.eye(3)}, ShapeError, r"templates must be \(K, 2\) with K >= 2"),
        ({"templates": torch.ones(1, 2)}, ShapeError, "K >= 2"),
        ({"templates": 1}, OptionError, "templates must be at least 2"),
        ({"length": 1}, OptionError, "length must be at least 2"),
        ({"unit": 3}, OptionError, "unit must be one of the outputs 0 .. 2, got 3"),
        ({"unit": -1}, OptionError, "unit must be one of the outputs 0 .. 2, got -1"),
    ],
)
def test_what_is_refused(options: dict[str, object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        separation_rank(nn.Linear(2, 3), **options)  # type: ignore[arg-type]


def test_effective_rank_and_tolerance() -> None:
    """Of t_i + t_j over three templates, from numpy's singular values of that matrix."""
    numbers = torch.tensor([[0.1], [1.0], [-0.7]], dtype=torch.float64)
    found = separation_rank(Subject(Sums(1).double(), 1, batch_first=True), length=2, templates=numbers)
    values = np.linalg.svd(numbers.numpy() + numbers.numpy().T, compute_uv=False)
    share = values[:2] / values.sum()
    assert found.effective == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    assert found.tolerance == pytest.approx(8 * 3 * 2.0**-52 if found.tolerance < 1e-10 else 8 * 3 * 2.0**-23)
    assert (found.rank, found.side, found.by_split) == (2, (3, 3), {1: 2})


def test_an_overflow_is_refused() -> None:
    with pytest.raises(NonFiniteError, match="not finite: choose a shorter length"):
        separation_rank(Subject(Sums(400), 1, batch_first=True), templates=torch.tensor([[1e3], [2e3]]))


class Returns(nn.Module):
    """What a function makes of its input."""

    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


class Made(nn.Module):
    """A function of a whole sequence ``(B, T)``, in double precision."""

    def __init__(self, of: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> Tensor:
        return self.of(x[..., 0].double())[:, None]


def rank_of(of: Callable[[Tensor], Tensor], templates: list[float], **options: Any) -> SeparationRank:
    numbers = torch.tensor(templates, dtype=torch.float64)[:, None]
    return separation_rank(Subject(Made(of).double(), 1, batch_first=True), templates=numbers, **options)


def test_sampled_sequences_begin_with_every_template() -> None:
    """1 + x_1 x_{T/2+1} at +-1 has rank 2; starts that all begin alike would show one of it."""
    for seed in range(4):
        found = rank_of(lambda x: 1 + x[:, 0] * x[:, x.shape[1] // 2], [-1.0, 1.0], length=20, seed=seed)
        assert (found.rank, found.whole, found.side) == (2, False, (64, 64))


def test_the_largest_whole_grid() -> None:
    """2^14 sequences are all made; 2^15 are not."""
    for length, whole in ((14, True), (15, False)):
        assert rank_of(lambda x: x.sum(-1), [0.0, 1.0], length=length).whole is whole


def test_small_rows_are_not_lost() -> None:
    """p + p^3 of the product p of two numbers, 1e-10 and 1: the determinant is 1e-20, and the rank is 2."""
    assert rank_of(lambda x: x.prod(-1) + x.prod(-1) ** 3, [1e-10, 1.0], length=2).rank == 2


@pytest.mark.parametrize("unit", [0, 1, 2])
def test_each_unit_has_its_own_rank(unit: int) -> None:
    """The powers 1, 2 and 3 of a sum, side by side: ranks 2, 3 and 4."""
    model = Returns(lambda x: torch.cat([x.cumsum(1) ** power for power in (1, 2, 3)], -1))
    numbers = torch.tensor([[0.1], [1.0], [-0.7]], dtype=torch.float64)
    assert separation_rank(Subject(model.double(), 1, batch_first=True), templates=numbers, unit=unit).rank == unit + 2


def test_the_singular_values_are_those_of_the_middle() -> None:
    """The sign of a weighted sum at +-1: all rows and columns have one length already, at every split."""
    weights = np.array([1.0, 2.0, 2.0, 1.5, 0.25])
    many = torch.from_numpy(weights).repeat(4)
    found = rank_of(lambda x: (x @ many[: x.shape[1]]).sign(), [-1.0, 1.0], length=5)
    signs = np.sign(np.array([*product([-1.0, 1.0], repeat=5)]) @ weights)
    assert found.by_split == {s: np.linalg.matrix_rank(signs.reshape(2**s, -1)) for s in (1, 2, 3, 4)}
    values = np.linalg.svd(signs.reshape(4, 8), compute_uv=False)
    np.testing.assert_allclose(found.singular, values / values[0], atol=1e-12)
    assert (found.rank, found.side) == (found.by_split[2], (4, 8))


def test_lines_of_the_figures() -> None:
    """At most K^min(s, T - s), of a sample at most its side; singular values from 1 on, without zeros."""
    found = SeparationRank(2, (8, 64), [1.0, 0.5, 0.0], {1: 2, 3: 2, 5: 1}, 1.5, 8, 2, True, 1e-9)
    for whole, most in ((True, [2, 8, 8]), (False, [2, 6, 6])):
        axes = Figure().subplots(1, 2)
        shown = replace(found, whole=whole, side=(8, 64) if whole else (6, 64))
        shown.plot(axes[0])
        shown.plot_splits(axes[1])
        lines = {line.get_label(): [*zip(*line.get_data(), strict=True)] for line in axes[1].lines}
        assert lines == {"at most": [*zip([1, 3, 5], most, strict=True)], "rank": [(1, 2), (3, 2), (5, 1)]}
        np.testing.assert_array_equal(axes[0].lines[0].get_xydata(), [(1, 1), (2, 0.5), (3, np.nan)])
        assert [*axes[0].lines[1].get_ydata()] == [1e-9, 1e-9]

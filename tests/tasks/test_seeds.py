"""Seeds by purpose, and normal numbers that do not depend on the machine."""

import math

import pytest
import torch

from engram.tasks import seed_of, seeded
from engram.tasks._seeds import normal

PINNED = [1.8815730810165405, 0.5470268726348877, -0.10198839753866196, 1.4101186990737915]


def test_seeds_are_pinned_and_distinct() -> None:
    assert seed_of(0, "train", 17) == 34798202999192701
    purposes = [(seed, split, k) for seed in range(5) for split in ("train", "valid", "test") for k in range(20)]
    seeds = {seed_of(*purpose) for purpose in purposes}
    assert len(seeds) == len(purposes)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(1, "2") != seed_of("1", 2) != seed_of(12)
    assert torch.rand(3, generator=seeded(0, "a")).equal(torch.rand(3, generator=seeded(0, "a")))
    assert not torch.rand(3, generator=seeded(0, "a")).equal(torch.rand(3, generator=seeded(0, "b")))


def test_normal_is_pinned() -> None:
    """The first numbers of seed 0, however many are drawn."""
    first = normal(4, generator=torch.Generator().manual_seed(0))
    assert first.tolist() == PINNED
    assert normal(100, generator=torch.Generator().manual_seed(0))[:4].tolist() == PINNED


def test_normal_is_the_inverse_of_the_distribution() -> None:
    """Phi(normal) gives back the uniform number it came from."""
    numbers = normal(1000, generator=torch.Generator().manual_seed(0)).double()
    uniform = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.special.ndtr(numbers), uniform, atol=1e-7, rtol=0)


def test_normal_is_standard() -> None:
    """100 000 numbers: four moments and the Kolmogorov distance (its 0.9999 quantile is 2.23 / sqrt(n))."""
    n = 100_000
    x = normal(n, generator=torch.Generator().manual_seed(0)).double()
    assert x.mean() == pytest.approx(0, abs=4 * (1 / n) ** 0.5)
    assert x.square().mean() == pytest.approx(1, abs=4 * (2 / n) ** 0.5)
    assert (x**3).mean() == pytest.approx(0, abs=4 * (15 / n) ** 0.5)
    assert (x**4).mean() == pytest.approx(3, abs=4 * (96 / n) ** 0.5)
    grid = torch.arange(1, n + 1, dtype=torch.float64) / n
    assert (torch.special.ndtr(x.sort().values) - grid).abs().max() < 2.23 / n**0.5
    assert (x[1:] * x[:-1]).mean() == pytest.approx(0, abs=4 * (1 / n) ** 0.5)  # neighbours do not go together


def test_normal_is_finite_and_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even of a uniform number that is 0."""
    monkeypatch.setattr(torch, "rand", lambda shape, **options: torch.zeros(shape, dtype=options["dtype"]))
    x = normal(2, 3, generator=torch.Generator())
    assert (x.shape, x.dtype) == ((2, 3), torch.float32)
    assert math.isfinite(float(x.sum()))
    assert -9 < float(x[0, 0]) < -8  # Phi^-1(2^-54) = -8.29

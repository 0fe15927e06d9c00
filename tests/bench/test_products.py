"""The race of the products: every pair that is told was run, on the same problem."""

import pytest
import torch

from engram.bench import products
from engram.bench._size import Size


@pytest.mark.slow
def test_a_small_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "QUICK", (Size(5, 3, 4, 2), Size(6, 2, 4, 1)))
    monkeypatch.setattr(products, "WIDTHS", (2, 4, 8))
    lines: list[str] = []
    threads = torch.get_num_threads()
    found = products.bench_products(quick=True, repeats=2, tell=lines.append)
    assert torch.get_num_threads() == threads
    assert set(products.TARGETS) <= set(found["summary"])
    assert set(found["summary"]["exponents"]) == set(found["widths_ms"]) == {"2RNN", "CPRNN"}
    assert len(lines) == 4
    assert len(found["rows"]) == 2 * 10
    assert all(row["median_ms"] > 0 for row in found["rows"])

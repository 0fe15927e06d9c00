"""MinGRU and MinLSTM: the source's equations, and that blocks of time give the numbers of the loop."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from engram.checks import check_contract
from engram.errors import DTypeError, ShapeError
from engram.nn import MinGRU, MinLSTM, Recurrent, _minimal
from engram.nn._decay_scan import decay_scan
from tiers import slow, slow_but

KINDS: list[type[Recurrent]] = [MinGRU, MinLSTM]
TOLERANCE = 1e-10  # float64: products of up to 1000 numbers below 1, in another order

Measure = Callable[..., dict[str, Tensor]]
Agree = Callable[[dict[str, Tensor], dict[str, Tensor], float], None]


def by_hand(layer: Any, x: Tensor, h: Tensor) -> Tensor:
    """The equations of the source, with their division."""
    blocks = (x @ layer.weight_ih_l0.T + layer.bias_l0).chunk(layer.cells[0].gates, -1)
    candidate = blocks[-1]
    if layer.cells[0].positive:
        candidate = torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
    outputs = []
    for t in range(len(x)):
        if isinstance(layer, MinGRU):
            z = blocks[0][t].sigmoid()
            h = (1 - z) * h + z * candidate[t]
        else:
            f, i = blocks[0][t].sigmoid(), blocks[1][t].sigmoid()
            h = f / (f + i) * h + i / (f + i) * candidate[t]
        outputs.append(h)
    return torch.stack(outputs)


@pytest.mark.parametrize("parallel", [False, True, None])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_equations(kind: Any, positive: bool, parallel: bool | None) -> None:
    layer = kind(3, 5, positive=positive, parallel=parallel, dtype=torch.float64)
    x, h = torch.randn(40, 4, 3, dtype=torch.float64), torch.randn(1, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(layer(x, h)[0], by_hand(layer, x, h[0]), atol=1e-12, rtol=0)


@pytest.mark.parametrize("form", ["dense", "packed"])
@pytest.mark.parametrize("steps", [1, 2, 3, slow(5), slow(16), 17, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_equal_the_loop(kind: Any, steps: int, form: str, measure: Measure, agree: Agree) -> None:
    """Outputs, last state and every gradient, both directions, from a random state."""
    loop = kind(3, 4, 2, bidirectional=True, parallel=False, dtype=torch.float64)
    blocks = loop.replace(parallel=True)
    x = torch.randn(steps, 3, 3, dtype=torch.float64) * 5  # also gates near 0 and 1
    given: Any = x
    if form == "packed":
        given = pack_padded_sequence(x, torch.tensor([1 + steps // 3, steps, 1]), enforce_sorted=False)
    state = torch.randn(4, 3, 4, dtype=torch.float64) * 3
    assert blocks.cells[0].parallel is True
    agree(measure(blocks, given, state), measure(loop, given, state), TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_gates_at_their_ends(kind: Any, measure: Measure, agree: Agree) -> None:
    """Gates that are exactly 0 or 1: no division, no logarithm, so nothing becomes NaN."""
    loop = kind(1, 4, parallel=False, dtype=torch.float64)
    blocks = loop.replace(parallel=True)
    x = 1e4 * torch.randn(50, 2, 1, dtype=torch.float64)
    found = measure(blocks, x, torch.ones(1, 2, 4, dtype=torch.float64))
    assert all(value.isfinite().all() for value in found.values())
    scale = max(float(value.abs().max()) for value in found.values())
    agree(found, measure(loop, x, torch.ones(1, 2, 4, dtype=torch.float64)), TOLERANCE * scale)


CONTRACTS = [*product(KINDS, [False, True], [False, True])]
QUICK = [(MinGRU, False, True), (MinLSTM, True, False)]


@pytest.mark.parametrize(("kind", "parallel", "positive"), slow_but(CONTRACTS, QUICK))
def test_contract(kind: Any, parallel: bool, positive: bool) -> None:
    make = partial(kind, parallel=parallel, positive=positive, initial_state="trained", bias=not positive)
    assert len(check_contract(make)) == 11


def test_which_form_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks where they were measured to be faster, or where they are asked for."""
    used = []

    def noted(*arguments: Any) -> Any:
        used.append(True)
        return decay_scan(*arguments)

    monkeypatch.setattr(_minimal, "decay_scan", noted)
    for parallel, steps, batch, expected in [
        (None, 32, 8, True), (None, 31, 8, False), (None, 32, 1000, False), (True, 2, 8, True), (False, 99, 8, False),
    ]:  # fmt: skip
        used.clear()
        MinGRU(3, 4, parallel=parallel)(torch.randn(steps, batch, 3))
        assert bool(used) == expected, (parallel, steps, batch)


def test_bad_input() -> None:
    with pytest.raises(DTypeError, match="parallel must be True or False, got 'auto'"):
        MinGRU(3, 4, parallel="auto")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="MinLSTMCell is a recurrence of real numbers and needs a real dtype"):
        MinLSTM(3, 4, dtype=torch.complex64)
    rows = torch.rand(5, 2)
    with pytest.raises(ShapeError, match="a row for each of the 3 sequences, got 2"):
        decay_scan(rows, rows, torch.zeros(2, 2), torch.tensor([3, 2]))

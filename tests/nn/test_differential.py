"""AntisymmetricRNN, CoRNN, LEM: recurrences that follow a differential equation, against loops written out again."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.checks import check_contract
from engram.errors import DTypeError, ManifoldError, OptionError
from engram.maps import Antisymmetric
from engram.nn import LEM, AntisymmetricRNN, CoRNN, CoRNNState, LEMState, Recurrent
from tiers import slow

TOLERANCE = 1e-12  # float64, sums in another order


def numbers(layer: Recurrent) -> dict[str, Tensor]:
    """The weights of the one cell, by name."""
    cell = layer.cells[0]
    return {name: getattr(cell, name).detach() for name in cell.declared}


def antisymmetric(layer: Any, x: Tensor, h: Tensor, *, epsilon: float, gamma: float) -> list[Tensor]:
    """The source's equation with an upper triangular W taken from the layer's entries."""
    w, size = numbers(layer), layer.hidden_size
    upper = torch.zeros(size, size, dtype=x.dtype)
    row, column = torch.triu_indices(size, size, 1)
    upper[row, column] = layer.cells[0].parametrizations.weight_hh.original.detach()
    matrix, found = upper - upper.T - gamma * torch.eye(size, dtype=x.dtype), []
    for inputs in x:
        total = h @ matrix.T + inputs @ w["weight_ih"][:size].T + w["bias"][:size]
        change = total.tanh()
        if layer.cells[0].gated:
            gate = h @ matrix.T + inputs @ w["weight_ih"][size:].T + w["bias"][size:]
            change = gate.sigmoid() * change
        h = h + epsilon * change
        found.append(h)
    return found


@pytest.mark.parametrize("gated", [False, True])
def test_antisymmetric(gated: bool) -> None:
    layer = AntisymmetricRNN(3, 5, epsilon=0.3, gamma=0.2, gated=gated, dtype=torch.float64)
    torch.nn.init.normal_(layer.bias_l0)
    x, h = torch.randn(7, 4, 3, dtype=torch.float64), torch.randn(1, 4, 5, dtype=torch.float64)
    right = antisymmetric(layer, x, h[0], epsilon=0.3, gamma=0.2)
    torch.testing.assert_close(layer(x, h)[0], torch.stack(right), atol=TOLERANCE, rtol=0)


def test_the_matrix_of_the_antisymmetric_rnn() -> None:
    layer = AntisymmetricRNN(3, 8, gamma=0.25, deviation=2.0, dtype=torch.float64)
    real = torch.linalg.eigvals(layer.weight_hh_l0.detach()).real
    torch.testing.assert_close(real, torch.full((8,), -0.25, dtype=torch.float64), atol=TOLERANCE, rtol=0)
    assert sum(p.numel() for n, p in layer.named_parameters() if "weight_hh" in n) == 8 * 7 // 2
    layer(torch.randn(6, 2, 3, dtype=torch.float64))[0].square().sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    matrix = layer.weight_hh_l0.detach()
    assert layer.cells[0].parametrizations.weight_hh[0].contains(matrix)
    with pytest.raises(ManifoldError, match="antisymmetric but for -gamma on the diagonal"):
        layer.weight_hh_l0 = torch.eye(8, dtype=torch.float64)
    layer.weight_hh_l0 = 2 * matrix + 0.25 * torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(layer.weight_hh_l0.triu(1), 2 * matrix.triu(1), atol=TOLERANCE, rtol=0)


def test_initial_laws() -> None:
    """N(0, sigma_w^2/H) and N(0, 1/D); U(-s, s) with s = 1/sqrt(D + 2H); U(-s, s) with s = 1/sqrt(H)."""
    anti = AntisymmetricRNN(16, 200, deviation=4.0)
    entries = anti.cells[0].parametrizations.weight_hh.original.detach()
    # the deviation of n normal numbers is known to 1/sqrt(2n), 0.5 % of 19,900 and 1.3 % of 3,200
    assert float(entries.std()) == pytest.approx(4 / math.sqrt(200), rel=0.03)
    assert float(anti.weight_ih_l0.detach().std()) == pytest.approx(0.25, rel=0.06)
    assert not anti.bias_l0.any()
    oscillators, s = CoRNN(7, 100), 1 / math.sqrt(207)
    for name in ("weight_ih_l0", "weight_hh_l0", "weight_zh_l0", "bias_l0"):
        assert 0.9 * s < float(getattr(oscillators, name).detach().abs().max()) <= s
    memory, s = LEM(7, 100), 0.1
    for name in ("weight_ih_l0", "weight_hh_l0", "weight_zh_l0", "bias_l0"):
        assert 0.9 * s < float(getattr(memory, name).detach().abs().max()) <= s


def test_cornn() -> None:
    layer = CoRNN(3, 5, dt=0.2, gamma=1.3, epsilon=0.7, dtype=torch.float64)
    w, x = numbers(layer), torch.randn(7, 4, 3, dtype=torch.float64)
    y, z = torch.randn(2, 4, 5, dtype=torch.float64)
    output, state = layer(x, (y[None], z[None]))
    right = []
    for inputs in x:
        force = torch.tanh(y @ w["weight_hh"].T + z @ w["weight_zh"].T + inputs @ w["weight_ih"].T + w["bias"])
        y, z = y + 0.2 * (z + 0.2 * (force - 1.3 * y - 0.7 * z)), z + 0.2 * (force - 1.3 * y - 0.7 * z)
        right.append(y)
    torch.testing.assert_close(output, torch.stack(right), atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(state, CoRNNState(y[None], z[None]), atol=TOLERANCE, rtol=0)


def test_cornn_without_force_is_an_oscillator() -> None:
    """y'' = -gamma y: after a quarter of its period a unit at rest in 1 has come to 0, and after a half to -1."""
    layer = CoRNN(1, 1, dt=1e-3, gamma=4.0, epsilon=0.0, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    start = CoRNNState(torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 1, dtype=torch.float64))
    half = round(math.pi / 2 / 1e-3)  # the angular frequency is 2
    y = layer(torch.zeros(half, 1, 1, dtype=torch.float64), start)[0].detach().flatten()
    assert float(y[half // 2]) == pytest.approx(0, abs=5e-3)  # the method is of first order in dt
    assert float(y[-1]) == pytest.approx(-1, abs=5e-3)


def test_lem() -> None:
    layer = LEM(3, 5, dt=0.6, dtype=torch.float64)
    w, x = numbers(layer), torch.randn(7, 4, 3, dtype=torch.float64)
    y, z = torch.randn(2, 4, 5, dtype=torch.float64)
    output, state = layer(x, (y[None], z[None]))
    v1, v2, vz, vy = w["weight_ih"].chunk(4)
    b1, b2, bz, by = w["bias"].chunk(4)
    w1, w2, wz = w["weight_hh"].chunk(3)
    right = []
    for inputs in x:
        first = 0.6 * torch.sigmoid(y @ w1.T + inputs @ v1.T + b1)
        second = 0.6 * torch.sigmoid(y @ w2.T + inputs @ v2.T + b2)
        z = (1 - first) * z + first * torch.tanh(y @ wz.T + inputs @ vz.T + bz)
        y = (1 - second) * y + second * torch.tanh(z @ w["weight_zh"].T + inputs @ vy.T + by)
        right.append(y)
    torch.testing.assert_close(output, torch.stack(right), atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(state, LEMState(y[None], z[None]), atol=TOLERANCE, rtol=0)


MAKES = [
    partial(AntisymmetricRNN, gated=True),
    slow(partial(AntisymmetricRNN, bias=False, initial_state="trained")),
    partial(CoRNN, map="cayley"),
    slow(partial(CoRNN, bias=False, initial_state="trained")),
    slow(partial(LEM, bias=False, initial_state="trained")),
]


@pytest.mark.parametrize("make", MAKES, ids=lambda m: f"{m.func.__name__} {m.keywords}")
def test_the_contract_holds_with_every_option(make: Callable[..., Recurrent]) -> None:
    assert len(check_contract(make)) == 11


BAD: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no step": (lambda: AntisymmetricRNN(3, 5, epsilon=0), OptionError, "epsilon must be above 0 and finite, got 0"),
    "growth": (lambda: AntisymmetricRNN(3, 5, gamma=-1.0), OptionError, "gamma must be at least 0 and finite"),
    "complex": (lambda: AntisymmetricRNN(3, 5, dtype=torch.complex64), DTypeError, "needs a real dtype"),
    "a map": (lambda: AntisymmetricRNN(3, 5, map="cayley"), OptionError, "unknown option .*'map'"),  # type: ignore[call-arg]
    "not a number": (lambda: CoRNN(3, 5, dt=math.nan), OptionError, "dt must be above 0 and finite, got nan"),
    "a word": (lambda: CoRNN(3, 5, gamma="much"), DTypeError, "gamma must be a number"),  # type: ignore[arg-type]
    "negative damping": (lambda: CoRNN(3, 5, epsilon=-1), OptionError, "epsilon must be at least 0"),
    "infinite damping": (
        lambda: CoRNN(3, 5, gamma=math.inf),
        OptionError,
        "at least 0 and finite, got inf",
    ),
    "infinite step": (lambda: LEM(3, 5, dt=math.inf), OptionError, "dt must be above 0 and finite, got inf"),
    "complex matrix": (lambda: Antisymmetric(2).distance(torch.eye(2) * 1j), DTypeError, "a map to real matrices"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    make, error, message = BAD[case]
    with pytest.raises(error, match=message):
        make()

"""Second-order networks: the tensor, its factors, and the exact solutions that the specification writes down."""

from typing import Any

import pytest
import torch
from torch import Tensor

from engram.errors import OptionError
from engram.loops import use
from engram.nn import CPBIRNN, CPRNN, RAC, BilinearRNN, SecondOrderRNN
from tiers import slow_but

F64 = torch.float64
KINDS = [SecondOrderRNN, BilinearRNN, CPRNN, CPBIRNN]


def make(kind: Any, *sizes: int, **options: Any) -> Any:
    torch.manual_seed(0)
    return kind(*sizes, dtype=F64, **options)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("activation", slow_but(["identity", "tanh", "relu", "sigmoid"], {"tanh"}))
@pytest.mark.parametrize("kind", KINDS)
def test_the_recurrence(kind: Any, activation: str, residual: bool) -> None:
    """h = act(A x_1 h x_2 x + V h + U x + b), the tensor whole; of a BIRNN only the first term; the input is added to
    either if ``residual``."""
    size = 4 if residual else 3
    layer = make(kind, size, 4, activation=activation, residual=residual)
    x = torch.randn(5, 2, size, dtype=F64)
    cell = layer.cells[0]
    act = {"identity": lambda z: z, "tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}[activation]
    h = torch.full((2, 4), 0.0 if cell.linear else 1.0, dtype=F64)
    for t in range(5):
        z = torch.einsum("ijk,bi,bj->bk", cell.full_tensor(), h, x[t])
        z = z + h @ cell.weight_hh.mT + x[t] @ cell.weight_ih.mT + cell.bias if cell.linear else z
        h = act(z + x[t] if residual else z)
    torch.testing.assert_close(layer(x)[0][-1], h, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_the_plain_step(kind: Any, residual: bool) -> None:
    layer = make(kind, 4, 4, 2, residual=residual, initial_state="trained")
    x = torch.randn(5, 2, 4, dtype=F64)
    names = [name for name, _ in layer.named_parameters()]
    found = {}
    for kernel in ("auto", "plain"):
        with use(kernel):
            found[kernel] = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    for name, a, b in zip(names, *found.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=name)


def test_the_factored_form_is_the_full_tensor() -> None:
    """n = 4, d = 3, R = 5 (Lizaire et al. 2026)."""
    factored, whole = make(CPRNN, 3, 4, rank=5), make(SecondOrderRNN, 3, 4)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias"):
            getattr(whole.cells[0], name).copy_(getattr(factored.cells[0], name))
        whole.cells[0].tensor.copy_(factored.cells[0].full_tensor())
    x = torch.randn(6, 2, 3, dtype=F64)
    torch.testing.assert_close(factored(x)[0], whole(x)[0], rtol=1e-12, atol=1e-12)


def test_parameter_counts() -> None:
    """The trunk, h_0 not counted."""
    d, n, depth, rank = 3, 5, 3, 2
    plain = (2 * depth - 1) * n**2 + (depth + d) * n
    counts = {
        SecondOrderRNN: plain + n**2 * d + (depth - 1) * n**3,
        CPRNN: plain + (2 * n + d) * rank + (depth - 1) * 3 * n * rank,
        BilinearRNN: n**2 * d + (depth - 1) * n**3,
        CPBIRNN: (2 * n + d) * rank + (depth - 1) * 3 * n * rank,
    }
    for kind, count in counts.items():
        options = {"rank": rank} if "CP" in kind.__name__ else {}
        assert sum(p.numel() for p in kind(d, n, depth, **options).parameters()) == count


def delta(n: int) -> Tensor:
    tensor = torch.zeros(n, n, n, dtype=F64)
    tensor[range(n), range(n), range(n)] = 1
    return tensor


def signs(steps: int) -> Tensor:
    return torch.randint(0, 2, (steps, 3, 5), generator=torch.Generator().manual_seed(0)).to(F64) * 2 - 1


def test_parity_by_a_bilinear_network() -> None:
    """n = d = 5, A = delta, h_0 = 1: the running product of the inputs, at any length."""
    layer = make(BilinearRNN, 5, 5)
    with torch.no_grad():
        layer.cells[0].tensor.copy_(delta(5))
    x = signs(200)
    assert torch.equal(layer(x)[0], x.cumprod(0))


def test_parity_from_a_zero_state() -> None:
    """A = delta, U = I, V = 0, b = -1 and the read-out h + 1."""
    layer = make(SecondOrderRNN, 5, 5, activation="identity")
    cell = layer.cells[0]
    with torch.no_grad():
        cell.tensor.copy_(delta(5))
        cell.weight_ih.copy_(torch.eye(5))
        cell.weight_hh.zero_()
        cell.bias.fill_(-1)
    x = signs(200)
    assert torch.equal(layer(x)[0] + 1, x.cumprod(0))


def test_parity_by_factors() -> None:
    """CP rank d."""
    layer = make(CPBIRNN, 5, 5, rank=5)
    with torch.no_grad():
        for name in ("factor_h", "factor_x", "factor_out"):
            getattr(layer.cells[0], name).copy_(torch.eye(5))
    x = signs(200)
    assert torch.equal(layer(x)[0], x.cumprod(0))


def test_an_arithmetic_circuit_is_a_factored_bilinear_network() -> None:
    """A = W_H^T, B = W_I^T, C = I, from a state with W_H h_0 = 1."""
    circuit, layer = make(RAC, 3, 4), make(CPBIRNN, 3, 4, initial_state="trained")
    cell, weights = layer.cells[0], circuit.cells[0]
    with torch.no_grad():
        cell.factor_h.copy_(weights.weight_hh.mT)
        cell.factor_x.copy_(weights.weight_ih.mT)
        cell.factor_out.copy_(torch.eye(4))
        cell.start.copy_(torch.linalg.solve(weights.weight_hh, torch.ones(4, dtype=F64)))
    x = torch.randn(6, 2, 3, dtype=F64)
    torch.testing.assert_close(layer(x)[0], circuit(x)[0], rtol=1e-11, atol=1e-11)


def test_wrong_options() -> None:
    with pytest.raises(OptionError, match="rank"):
        CPRNN(3, 4, rank=0)
    with pytest.raises(OptionError, match="residual"):
        SecondOrderRNN(3, 4, residual=True)
    with pytest.raises(OptionError, match="product alone"):
        BilinearRNN(3, 4, bias=True)
    with pytest.raises(OptionError, match="product alone"):
        BilinearRNN(3, 4, map="cayley")
    with pytest.raises(OptionError, match="activation"):
        SecondOrderRNN(3, 4, activation="modrelu")


@pytest.mark.parametrize(
    ("made", "terms"),
    [
        (lambda: make(BilinearRNN, 40, 60), {"tensor": 40 * 60}),
        (lambda: make(CPBIRNN, 40, 60, rank=50), {"factor_h": 60, "factor_x": 40, "factor_out": 50}),
    ],
    ids=["whole", "factored"],
)
def test_products_alone_keep_the_size_of_a_state(made: Any, terms: dict[str, int]) -> None:
    """Of each weight the variance is one over the terms of its sum. Of n normal numbers the deviation is known to
    1/sqrt(2n): 1.6 % of 2,000, times five."""
    cell = made().cells[0]
    for name, count in terms.items():
        assert float(getattr(cell, name).detach().std()) == pytest.approx(count**-0.5, rel=0.08)

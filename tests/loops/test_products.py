"""Recurrences that are more than a sum: for each cell every fast loop equals the plain one."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from recurrences import in_c
from torch import Tensor
from torch.library import opcheck

import engram.loops._operator  # noqa: F401  (registers the operators)
from engram.errors import OptionError, ShapeError
from engram.loops import WITHOUT_BIAS, _run, compiled_cell, use
from engram.nn import (
    BareCell,
    BilinearCell,
    CPBilinearCell,
    CPCell,
    GORUCell,
    HenaffCell,
    MIRNNCell,
    RACCell,
    SecondOrderCell,
)
from engram.state import each, parts
from tiers import slow_but

STEPS, BATCH, FEATURES, HIDDEN, RANK = 6, 14, 3, 19, 5  # H is no multiple of any vector, B makes two blocks of rows
ACTIVATED: dict[str, Callable[..., BareCell]] = {
    "mirnn": MIRNNCell,
    "bilinear": BilinearCell,
    "second order": SecondOrderCell,
    "factored alone": partial(CPBilinearCell, rank=RANK),
    "factored": partial(CPCell, rank=RANK),
    "henaff": HenaffCell,
}
CELLS = {**ACTIVATED, "rac": partial(RACCell, bias=False), "rac with a bias": RACCell, "goru": GORUCell}
SIZES = torch.tensor([BATCH, BATCH, 9, 9, 2, 1])


def cell_of(name: str, hidden: int = HIDDEN, dtype: torch.dtype = torch.float64, **options: Any) -> BareCell:
    """With random weights of about the size that keeps a state as it is."""
    cell = CELLS[name](FEATURES, hidden, dtype=dtype, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in cell.parameters():
            terms = 4 * weight.shape[-1] if weight.dim() > 1 else 4
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=weight.dtype) / terms**0.5)
    return cell


def outcome(
    cell: BareCell, name: str, packed: bool = False, reverse: bool = False, graded: tuple[bool, bool] = (True, True)
) -> dict[str, Tensor]:
    """Outputs, last state, and the gradient of everything from a random loss on those that are ``graded``."""
    generator, dtype = torch.Generator().manual_seed(1), cell.reference_weight.dtype

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    x = random(*((int(SIZES.sum()),) if packed else (STEPS, BATCH)), FEATURES).requires_grad_()
    state = each(lambda field: random(BATCH, *field.shape).requires_grad_(), cell.fields())
    with use(name):
        output, final = in_c(cell).run(x, state, SIZES if packed else None, reverse)
        shown = [output] * graded[0] + list(parts(final)) * graded[1]
        loss = torch.stack([(value * random(*value.shape)).sum().real for value in shown]).sum()
        leaves = {"input": x, **{f"state {k}": s for k, s in enumerate(parts(state))}, **dict(cell.named_parameters())}
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    values = {"output": output.detach(), **{f"final {k}": f.detach() for k, f in enumerate(parts(final))}}
    return {**values, **{f"grad {key}": g for key, g in zip(leaves, found, strict=True)}}


def assert_same(found: dict[str, Tensor], truth: dict[str, Tensor]) -> None:
    assert found.keys() == truth.keys()
    for name, right in truth.items():
        error = float((found[name] - right).abs().max()) / max(1.0, float(right.abs().max()))
        assert found[name].shape == right.shape
        assert error <= 1e-10, f"{name} is off by {error:.1e}"  # float64: a few hundred roundings


GRADED = [(True, True), (True, False), (False, True)]


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", CELLS)
def test_equals_the_plain_loop(executor: str, name: str, reverse: bool, packed: bool) -> None:
    cell = cell_of(name)
    for graded in GRADED:
        assert_same(outcome(cell, executor, packed, reverse, graded), outcome(cell, "plain", packed, reverse, graded))


# Every pair is a loop of its own to compile: in the fast tier one cell with all of them, and one more with one.
PAIRS = [(name, activation) for name in ACTIVATED for activation in WITHOUT_BIAS]
QUICK = [pair for pair in PAIRS if pair[0] == "mirnn" or pair == ("factored", "relu")]


@pytest.mark.parametrize(("name", "activation"), slow_but(PAIRS, QUICK))
def test_every_activation(executor: str, name: str, activation: str) -> None:
    cell = cell_of(name, activation=activation)
    assert_same(outcome(cell, executor, packed=True), outcome(cell, "plain", packed=True))


@pytest.mark.parametrize("chunk_bytes", [1, 1500, 5000])
@pytest.mark.parametrize(("packed", "reverse"), [(False, False), (True, True)])
@pytest.mark.parametrize("name", CELLS)
def test_any_chunk_gives_the_same_gradients(
    executor: str, name: str, reverse: bool, packed: bool, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(name)
    truth = outcome(cell, "plain", packed, reverse)
    for name in ("CHUNK_BYTES", "TORCH_CHUNK_BYTES"):
        monkeypatch.setattr(_run, name, chunk_bytes)
    assert_same(outcome(cell, executor, packed, reverse), truth)


COMPLEX = [name for name in CELLS if name not in ("goru", "henaff")]  # with real gates, and relu by default


@pytest.mark.parametrize(("packed", "reverse"), [*product([False, True], repeat=2)])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name: str, packed: bool, reverse: bool) -> None:
    options = {"activation": "identity"} if name in ACTIVATED else {}
    cell = cell_of(name, 4, torch.complex128, **options)
    assert compiled_cell(cell).reason == ""
    assert_same(outcome(cell, "auto", packed, reverse), outcome(cell, "plain", packed, reverse))


@pytest.mark.parametrize(
    ("name", "packed"), slow_but(product(CELLS, [False, True]), [("factored", False), ("goru", True)])
)
def test_operators(name: str, packed: bool) -> None:
    """Schema, fake tensors, autograd registration and tracing, as torch checks them; strided arguments too."""
    cell = cell_of(name, 4)
    view = cell.with_built_weights()
    found, sizes = compiled_cell(cell), SIZES if packed else None
    x = torch.randn(*((int(SIZES.sum()),) if packed else (STEPS, BATCH)), FEATURES, dtype=torch.float64)
    given = x if found.traced.with_drive else view.drive(x)
    weights = [getattr(view, key) for key in found.traced.names]
    start = parts(each(lambda field: torch.randn(BATCH, *field.shape, dtype=torch.float64), cell.fields()))
    tensors = [*(given if isinstance(given, tuple) else (given,)), *start, *weights]
    for change in (torch.clone, lambda t: t.mT.contiguous().mT if t.dim() > 1 else t):
        leaves = [change(tensor.detach()).requires_grad_() for tensor in tensors]
        checked = opcheck(torch.ops.engram.loop.default, (leaves, sizes, found.key, False, True, True))
        assert set(checked.values()) == {"SUCCESS"}
        assert len(checked) == 4


@pytest.mark.parametrize("name", slow_but(CELLS, {"mirnn", "factored", "rac with a bias", "goru"}))
def test_second_derivatives(executor: str, name: str) -> None:
    cell = cell_of(name, 3, **({"activation": "tanh"} if name in ACTIVATED else {}))
    x = torch.randn(2, 2, FEATURES, dtype=torch.float64, requires_grad=True)
    start = [torch.randn(2, *field.shape, dtype=torch.float64, requires_grad=True) for field in parts(cell.fields())]

    def run(x: Tensor, *start: Tensor) -> Any:
        given = iter(start)
        output, final = cell.run(x, each(lambda _: next(given), cell.fields()), None, False)
        return output, *parts(final)

    with use(executor):
        assert torch.autograd.gradgradcheck(run, (x, *start))


def test_a_circuit_begins_with_the_product() -> None:
    """h_1 = p (W_ih x_1): W_hh has no part in the first step."""
    cell = cell_of("rac")
    x, p = torch.randn(2, 5, FEATURES, dtype=torch.float64), torch.randn(5, HIDDEN, dtype=torch.float64)
    states, _ = cell.run(x, type(cell.fields())(torch.zeros_like(p), p), None, False)
    gate = x @ cell.weight_ih.mT
    torch.testing.assert_close(states[0], gate[0] * p, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(states[1], gate[1] * (states[0] @ cell.weight_hh.mT), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ACTIVATED)
def test_wrong_calls(name: str) -> None:
    for wrong in ("gelu", "modrelu"):  # modReLU has a bias of its own
        with pytest.raises(OptionError, match="activation"):
            cell_of(name, activation=wrong)
    cell, x = cell_of(name), torch.randn(int(SIZES.sum()), FEATURES, dtype=torch.float64)
    with pytest.raises(ShapeError, match="never growing"):
        cell.run(x, cell.initial_state(BATCH), SIZES.flip(0), False)

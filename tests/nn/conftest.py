"""What the tests of layers share: a choice of time loop, and everything that can be compared about a call."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from engram import loops

Results = Mapping[str, Tensor]


@pytest.fixture(params=["compiled", "torch", "plain"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each time loop in turn; the compiled one only where there is a compiler."""
    status = loops.status()["float64"]
    if request.param == "compiled" and not status.startswith("compiled"):
        pytest.skip(f"no compiled loop on this machine: {status}")
    with loops.use(request.param):
        yield request.param


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, PackedSequence):
        return [value.data]
    return [value] if isinstance(value, Tensor) else [t for part in value for t in _tensors(part)]


def _loss(values: list[Tensor]) -> Tensor:
    """Every number counts, each with its own weight, so that no two mistakes cancel."""
    parts = [torch.view_as_real(v) if v.is_complex() else v for v in values if v.dtype != torch.bool]
    weights = [torch.linspace(-1, 2, p.numel(), dtype=p.dtype).view_as(p) for p in parts]
    return torch.stack([(p * w).sum() for p, w in zip(parts, weights, strict=True)]).sum()


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.preserve_format).requires_grad_()


@pytest.fixture
def measure() -> Callable[..., dict[str, Tensor]]:
    """``measure(layer, input, *state)``: outputs, final state and the gradient of everything, by name."""

    def run(
        layer: nn.Module, input: Tensor | PackedSequence, *state: Any, call: Callable[..., Any] | None = None
    ) -> dict[str, Tensor]:
        packed = isinstance(input, PackedSequence)
        x = _leaf(input.data if packed else input)
        given = [_leaf(s) if isinstance(s, Tensor) else type(s)(*map(_leaf, s)) for s in state]
        call = layer if call is None else call
        values = _tensors(call(PackedSequence(x, *input[1:]) if packed else x, *given))
        weights = dict(layer.named_parameters())
        leaves = {"input": x, **{f"state {i}": s for i, s in enumerate(_tensors(given))}, **weights}
        found = torch.autograd.grad(_loss(values), list(leaves.values()), allow_unused=True, materialize_grads=True)
        assert len(values) >= 2, "an output and a state"
        return {f"value {i}": v.detach() for i, v in enumerate(values)} | {
            f"gradient of {name}": g for name, g in zip(leaves, found, strict=True)
        }

    return run


@pytest.fixture
def agree() -> Callable[[Results, Results, float], None]:
    """``agree(found, expected, tolerance)``: the same names, shapes and dtypes, and numbers within the tolerance."""

    def check(found: Results, expected: Results, tolerance: float) -> None:
        assert found.keys() == expected.keys()
        assert found
        for name, value in expected.items():
            torch.testing.assert_close(
                found[name], value, atol=tolerance, rtol=0, msg=lambda m, name=name: f"{name}: {m}"
            )

    return check

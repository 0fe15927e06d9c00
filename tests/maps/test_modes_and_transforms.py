"""Whether somebody sees into a computation, and several models at once: what is known within, and undone afterwards."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from engram.maps import leave, members, observed, on_stacks, per_member, together, transformed, without_autocast


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


def seen() -> tuple[bool, bool, bool]:
    return transformed(), observed(), members()


def within(transform: Callable[..., object]) -> tuple[bool, bool, bool]:
    """What a function is told that runs under a transform."""
    found = []

    def function(x: Tensor) -> Tensor:
        found.append(seen())
        return (x * x).sum()

    transform(function)(torch.ones(3))
    return found[0]


NOTHING, OBSERVED, TRANSFORMED, SEVERAL = (False,) * 3, (False, True, False), (True, True, False), (True,) * 3


def test_who_sees_into_a_computation() -> None:
    """Transforms of torch.func and forward mode do; a mode follows, but takes operators as they are."""
    for transform in (torch.func.grad, torch.func.vmap, torch.func.jacrev):
        assert within(transform) == TRANSFORMED
    blocks: list[tuple[AbstractContextManager[object], tuple[bool, ...]]]
    blocks = [(nullcontext(), NOTHING), (forward_ad.dual_level(), TRANSFORMED), (Watching(), OBSERVED)]
    for block, expected in blocks:
        with block:
            assert seen() == expected
        assert seen() == NOTHING


def test_several_models_at_once() -> None:
    """Within the block, under its vmap and nothing else; afterwards no more, also after an error."""
    for _ in range(2):
        with together(3) as one_of_each:
            assert seen() == SEVERAL
            x = one_of_each(torch.arange(6.0).view(3, 2))
            assert x.shape == (2,)
            assert leave(2 * x).tolist() == [[0, 2], [4, 6], [8, 10]]
            assert within(torch.func.grad) == TRANSFORMED
        assert seen() == NOTHING
        assert within(torch.func.vmap) == TRANSFORMED
        with pytest.raises(KeyError), together(2):
            raise KeyError
        assert within(torch.func.vmap) == TRANSFORMED


def test_a_function_of_stacked_tensors() -> None:
    """Called once, outside of vmap: the member is the first axis of each, also of one that has it elsewhere, and of one
    that is the same for all. None stays None."""
    calls = []

    def function(a: Tensor, b: Tensor, none: None) -> tuple[Tensor, Tensor]:
        calls.append((tuple(a.shape), tuple(b.shape), none, transformed()))
        return a + b, 2 * b

    stacked, shared = torch.arange(6.0).view(3, 2), torch.tensor([10.0, 20.0])
    with together(3) as one_of_each:
        total, twice = on_stacks(function, one_of_each(stacked), shared, None)
        assert leave(total).equal(stacked + shared)
        assert leave(twice).equal((2 * shared).expand(3, 2))
        turned = torch._C._functorch._add_batch_dim(stacked.mT.contiguous(), 1, 1)  # the member is its second axis
        assert leave(on_stacks(lambda a: 3 * a, turned)).equal(3 * stacked)
    assert calls == [((3, 2), (3, 2), None, False)]


def test_one_member_after_the_other() -> None:
    calls = []

    def function(a: Tensor, b: Tensor) -> Tensor:
        calls.append((a.tolist(), b.tolist(), members()))
        return a * b.sum()

    stacked, shared = torch.arange(6.0).view(3, 2), torch.tensor([1.0, 2.0])
    with together(3) as one_of_each:
        assert leave(per_member(function, one_of_each(stacked), shared)).equal(3 * stacked)
    assert calls == [(row, [1, 2], False) for row in stacked.tolist()]


def test_what_autocast_must_not_touch() -> None:
    """Off within the block and on again behind it; where it was off it stays off."""
    a = torch.randn(3, 3)
    with torch.autocast("cpu"):
        assert (a @ a).dtype == torch.bfloat16
        with without_autocast(a):
            assert (a @ a).dtype == torch.float32
        assert (a @ a).dtype == torch.bfloat16
    with without_autocast(a):
        assert (a @ a).dtype == torch.float32

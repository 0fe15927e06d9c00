"""Temporal context normalisation: its equation, its segments, and what it makes of two objects."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.relational.references import context_norm

from engram.errors import OptionError, ShapeError
from engram.relational import ContextNorm, Sparse


@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 9))
def test_equals_its_equation(segments: list[int], batch: int, seed: int) -> None:
    torch.manual_seed(seed)
    codes = torch.randn(sum(segments), batch, 3, dtype=torch.float64, requires_grad=True)
    norm = ContextNorm(3, segments if len(segments) > 1 else ()).double()
    with torch.no_grad():
        norm.gamma.normal_()
        norm.beta.normal_()
    expected = torch.stack([context_norm(codes[:, b], norm.gamma, norm.beta, tuple(segments)) for b in range(batch)], 1)
    found = norm(codes)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    wanted = [codes, norm.gamma, norm.beta]
    ours = torch.autograd.grad(found.square().sum(), wanted)
    theirs = torch.autograd.grad(expected.square().sum(), wanted)
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-8)


def test_of_two_objects_it_says_same_or_different() -> None:
    """0 where they agree, +-1/sqrt(2) where they differ, whatever the encoder made."""
    codes = torch.tensor([[[1.0, 5.0, 0.3]], [[1.0, 2.0, 0.4]]], dtype=torch.float64)
    found = ContextNorm(3).double()(codes)
    half = 0.5**0.5
    expected = torch.tensor([[[0.0, half, -half]], [[0.0, -half, half]]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)  # the 1e-8 under the root, over variances of 0.005


def test_the_variance_is_unbiased() -> None:
    codes = torch.randn(7, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(
        ContextNorm(3).double()(codes).var(0), torch.ones(2, 3, dtype=torch.float64), rtol=1e-6, atol=0
    )


def test_it_has_two_numbers_per_feature() -> None:
    assert sum(p.numel() for p in ContextNorm(128).parameters()) == 256


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match=r"must add up to the steps of a sequence: 2 \+ 2 = 4, and there are 5 steps"):
        ContextNorm(3, (2, 2))(torch.randn(5, 1, 3))
    with pytest.raises(OptionError, match=r"at least 2 steps, for 1 has no variance; got segments 1 \+ 3"):
        ContextNorm(3, (1, 3))
    with pytest.raises(ShapeError, match="needs at least 2, got 1: use context='off'"):
        ContextNorm(3)(torch.randn(1, 4, 3))


def test_the_sizes_are_said() -> None:
    assert repr(ContextNorm(4, (3, 2))) == "ContextNorm(4, segments=3 + 2)"
    assert repr(ContextNorm(4)) == "ContextNorm(4, segments=whole)"
    assert repr(Sparse(4, 0.25)) == "Sparse(4, strength=0.25, on='codes')"
    assert repr(Sparse(4, 1e-4, "weights")) == "Sparse(4, strength=0.0001, on='weights')"

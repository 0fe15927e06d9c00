"""Which of the past states a RelRNN keeps."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engram.loops import use
from engram.nn import RelLSTM, RelRNN, Screen


def test_ties_leave_the_old_states() -> None:
    """Uniform attention gives every state after the first the same beta: once full, the set stays."""
    layer = RelRNN(3, 4, nu=2, rho=3, align="uniform")
    _, state = layer(torch.randn(40, 2, 3))
    assert state.made[0, :, 2:].tolist() == [[1, 2, 3]] * 2


def test_first_recency_and_no_set() -> None:
    x = torch.randn(30, 2, 3)
    first = RelRNN(3, 4, nu=4, rho=3, screen="first")(x)[1].made[0]
    assert first[:, 4:].tolist() == [[1, 2, 3]] * 2
    recent = RelRNN(3, 4, nu=4, rho=3, screen="recency")
    assert recent(x)[1].made[0].sort().values.tolist() == [[*range(24, 31)]] * 2
    longer = RelRNN(3, 4, nu=7, rho=0)
    longer.load_state_dict(recent.state_dict())
    torch.testing.assert_close(recent(x)[0], longer(x)[0])  # the same states, in other slots


def test_a_reservoir_is_a_uniform_sample() -> None:
    """Every state that left is in the set with the same chance, rho over their number: 3 of 20 in 2000 rows."""
    torch.manual_seed(0)
    layer = RelRNN(1, 1, nu=1, rho=3, screen="reservoir")
    made = layer(torch.zeros(21, 2000, 1))[1].made[0, :, 1:]
    counts = torch.bincount(made.flatten(), minlength=21)[1:].double()
    expected = 2000 * 3 / 20
    deviation = (2000 * (3 / 20) * (17 / 20)) ** 0.5
    assert counts.sub(expected).abs().max() < 4.5 * deviation  # 20 counts beyond 4.5 sigma: a chance of 1.4e-4
    assert all(len(set(row)) == 3 for row in made.tolist())


def test_what_a_reservoir_samples_comes_from_the_generator() -> None:
    layer, x = RelRNN(3, 4, nu=2, rho=2, screen="reservoir"), torch.randn(30, 2, 3)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(layer(x)[1].made)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_a_learned_score_is_trained() -> None:
    layer = RelRNN(3, 4, nu=2, rho=2, screen="learned")
    layer(torch.randn(12, 2, 3))[0].square().sum().backward()
    assert layer.weight_screen_l0.grad.abs().max() > 0


def test_a_screen_as_an_object() -> None:
    x = torch.randn(30, 2, 3)
    layer = RelRNN(3, 4, nu=3, rho=2, screen=Screen("relevance", beta_norm=True))
    named = RelRNN(3, 4, nu=3, rho=2, screen="beta_norm")
    named.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x)[0], named(x)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_enough_for_no_score(dtype: torch.dtype) -> None:
    """Scores have 32: else numbers of steps would be equal, and random numbers, which then keep the first states."""
    steps, rows, x = 1500, 60, torch.zeros(1500, 60, 1, dtype=dtype)
    recent = RelRNN(1, 1, nu=2, rho=3, screen="recency", dtype=dtype)
    with torch.no_grad():
        made = recent(x)[1].made[0]
    assert made.sort().values.tolist() == [[*range(1496, 1501)]] * rows
    torch.manual_seed(0)
    sampled = RelRNN(1, 1, nu=2, rho=3, screen="reservoir").to(dtype)  # asked for its state in float32 before
    with torch.no_grad():
        state = sampled(x)[1]
    mean, sigma = float(state.made[0, :, 2:].double().mean()), steps / (12 * 3 * rows) ** 0.5
    assert abs(mean - (steps - 1) / 2) < 5 * sigma
    assert state.score.dtype == torch.float32
    assert sampled.double()(x.double())[1].score.dtype == torch.float64


@pytest.mark.parametrize("rule", ["learned", "relevance", "beta_norm"])
def test_sixteen_bits_train(rule: str) -> None:
    layer = RelLSTM(3, 4, nu=2, rho=2, screen=rule, dtype=torch.bfloat16)
    layer(torch.randn(12, 2, 3).bfloat16())[0].float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.bfloat16 for p in layer.parameters())


@pytest.mark.parametrize("executor", ["compiled", "torch", "plain"])
@pytest.mark.parametrize("score", [lambda beta: 0 * beta / 0, lambda beta: beta - torch.inf])
def test_scores_that_are_no_numbers_fill_the_set(score: Callable[[Tensor], Tensor], executor: str) -> None:
    """The first rho states find an empty place whatever their score, and on a tie the old ones stay."""
    layer = RelRNN(2, 4, nu=2, rho=3, screen=lambda beta, h: score(beta))
    with use(executor):
        output, state = layer(torch.randn(30, 2, 2))
    assert state.made[0, :, 2:].tolist() == [[1, 2, 3]] * 2
    assert bool(torch.isfinite(output).all())


def test_a_score_that_is_a_number_wins_against_those_that_are_none() -> None:
    layer = RelRNN(1, 2, nu=1, rho=2, screen=lambda beta, h: torch.where(h[:, 0] > 0, h[:, 0], torch.nan))
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
        layer.weight_hh_l0.zero_()
        layer.bias_l0.zero_()
    inputs = torch.tensor([-1.0, -2.0, 3.0, -4.0, 1.0, -5.0]).view(-1, 1, 1)
    assert sorted(layer(inputs)[1].made[0, 0, 1:].tolist()) == [3, 5]


def keep_all(beta: Tensor, h: Tensor) -> Tensor:
    return beta


def test_what_a_layer_says_of_itself() -> None:
    assert "nu=2, rho=3)" in repr(RelRNN(2, 4, nu=2, rho=3))
    assert "combine='mean', nu=10, rho=10, screen='learned')" in repr(RelRNN(2, 4, combine="mean", screen="learned"))
    assert "screen='beta_norm')" in repr(RelLSTM(2, 4, screen="beta_norm"))
    assert "screen=keep_all)" in repr(RelRNN(2, 4, screen=keep_all))
    assert "screen=Screen(keep_all, beta_norm=True))" in repr(RelRNN(2, 4, screen=Screen(keep_all, beta_norm=True)))

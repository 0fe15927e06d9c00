"""Which of the past states a RelRNN keeps."""

import torch

from engram.nn import RelRNN, Screen


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

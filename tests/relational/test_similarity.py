"""Similarities: which entries are left, how a rule wins, what is refused."""

import pytest
import torch
from torch import nn

from engram.errors import OptionError, ShapeError
from engram.relational import (
    ENTRIES,
    ESBN,
    MNM,
    SIMILARITIES,
    CoRelNet,
    CoRelNetT,
    EncoderLayer,
    PrediNet,
    Similarity,
)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("entries", ENTRIES)
def test_flat_are_the_entries_of_the_matrix(similarity: str, entries: str) -> None:
    torch.manual_seed(0)
    part = Similarity(3, 5, similarity, entries=entries).eval()  # type: ignore[arg-type]
    codes = torch.randn(5, 4, 3)
    matrix, flat = part(codes), part.flat(codes)
    count = 25 if entries == "full" else 15
    assert part.entry_count == flat.shape[1] == count
    kept = torch.ones(5, 5, dtype=torch.bool) if entries == "full" else torch.ones(5, 5).tril().bool()
    assert torch.equal(flat, matrix[:, kept])
    assert not matrix[:, ~kept].any()


def test_rows_of_a_causal_matrix_add_up_to_one() -> None:
    matrix = Similarity(3, 4, entries="causal")(torch.randn(4, 2, 3))
    torch.testing.assert_close(matrix.sum(-1), torch.ones(2, 4))
    assert float(Similarity(3, 4, entries="tril")(torch.randn(4, 2, 3))[:, 0].sum(-1).max()) < 1


def test_the_scores_are_symmetric_and_their_softmax_is_not() -> None:
    codes = torch.randn(4, 2, 3, dtype=torch.float64)
    part = Similarity(3, 4, entries="full").double()
    assert torch.equal(part.scores(codes), part.scores(codes).mT)
    assert float((part(codes) - part(codes).mT).abs().max()) > 0.01


class TestMix:
    def test_one_rule_wins(self) -> None:
        torch.manual_seed(0)
        part = Similarity(3, 4, "mix")
        codes = torch.randn(4, 64, 3)
        for training in (True, False):
            chosen = part.train(training).choice(codes)
            assert torch.equal(chosen.detach().sort(-1).values, torch.tensor([0.0, 1.0]).expand(64, 2))
        part.eval()
        matrix = part(codes)
        for b, rule in enumerate(part.choice(codes).argmax(-1)):
            expected = part.normalised(part.scores(codes)) if rule == 0 else part.differences(codes)
            torch.testing.assert_close(matrix[b], expected[b])

    def test_the_losing_rule_is_trained_too(self) -> None:
        """Straight through: the gradient is that of the soft weights."""
        torch.manual_seed(0)
        part = Similarity(3, 4, "mix")
        part(torch.randn(4, 8, 3)).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in part.parameters())

    def test_the_larger_wins_in_evaluation(self) -> None:
        """Of the products of k_r with the query of all codes, one after the other."""
        part, codes = Similarity(3, 4, "mix").eval(), torch.randn(4, 8, 3)
        for b, chosen in enumerate(part.choice(codes).tolist()):
            query = part.query.weight @ torch.cat([codes[t, b] for t in range(4)])
            first, second = (float((key @ query).detach()) for key in part.signatures)
            assert chosen == ([1, 0] if first > second else [0, 1])

    def test_training_is_random(self) -> None:
        """At temperature 1 rule r wins with the probability of the softmax: near 1/2 for equal rules."""
        part = Similarity(3, 4, "mix").train()
        with torch.no_grad():
            part.signatures.zero_()
        won = part.choice(torch.randn(4, 4000, 3))[:, 0].mean().item()
        assert abs(won - 0.5) < 5 * 0.5 / 4000**0.5

    def test_evaluation_is_not_random(self) -> None:
        part, codes = Similarity(3, 4, "mix").eval(), torch.randn(4, 8, 3)
        assert torch.equal(part(codes), part(codes))


def test_asymmetric_contains_symmetric() -> None:
    """With W_1 = W_2 = I the answers are the same, to the last bit."""
    torch.manual_seed(0)
    for kind in (CoRelNet, CoRelNetT, ESBN):
        plain, other = kind(6, 3, 4), kind(6, 3, 4, similarity="asymmetric")
        weights = other.state_dict() | plain.state_dict()
        weights |= {
            name: torch.eye(6)
            for name in weights
            if name.endswith(("first.weight", "second.weight")) and weights[name].shape == (6, 6)
        }
        other.load_state_dict(weights)
        codes = torch.randn(4, 5, 6)
        assert torch.equal(plain(codes), other(codes)), kind.__name__


def test_which_entries_unless_said() -> None:
    """S is symmetric: below the diagonal is all. What is not symmetric, and the rows of CoRelNet-T, are whole."""
    found = {kind: Similarity(3, 4, kind).entries for kind in SIMILARITIES}
    assert found == {"symmetric": "tril", "asymmetric": "tril", "diff": "full", "mix": "full"}
    assert CoRelNetT(3, 2, 4).similarity.entries == "full"
    assert CoRelNet(3, 2, 4).similarity.entries == "tril"


@pytest.mark.parametrize("kind", [CoRelNet, CoRelNetT, ESBN, PrediNet, MNM])
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_a_sequence_of_another_length(kind: type[nn.Module], steps: int) -> None:
    with pytest.raises(ShapeError, match=rf"sequences of 4 steps, got {steps}: .*make one with steps={steps}"):
        kind(3, 2, 4)(torch.randn(steps, 1, 3))


def test_bad_input() -> None:
    with pytest.raises(OptionError, match=r"unknown similarity 'simetric'.*Did you mean 'symmetric'"):
        CoRelNet(3, 2, 4, similarity="simetric")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="unknown entries 'lower': expected one of causal, full, tril"):
        CoRelNet(3, 2, 4, entries="lower")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="unknown similarity 'diff': expected one of asymmetric, symmetric"):
        ESBN(3, 2, 4, similarity="diff")
    with pytest.raises(OptionError, match="10 is no multiple of heads=8"):
        EncoderLayer(10, 8, 4)
    with pytest.raises(ShapeError, match="CoRelNet was made for sequences of 4 steps, got 5"):
        CoRelNet(3, 2, 4)(torch.randn(5, 1, 3))
    with pytest.raises(ShapeError, match=r"PrediNet takes codes \(steps, batch, 3\), got \(4, 1, 2\)"):
        PrediNet(3, 2, 4)(torch.randn(4, 1, 2))

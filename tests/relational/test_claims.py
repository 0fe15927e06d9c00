"""What symmetry buys and what it costs, in float64 and for any size; the claims invariance and pair-order are exact."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engram.maps import haar
from engram.relational import ESBN, ContextNorm, CoRelNet, CoRelNetT, Similarity

EPS = torch.finfo(torch.float64).eps
FEW = settings(max_examples=25, deadline=None)
FORMS = st.sampled_from(["tril", "causal", "full"])


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def doubles(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@FEW
@given(st.integers(1, 6), st.integers(1, 9), st.booleans(), FORMS, st.integers(0, 99))
def test_no_orthogonal_transform_changes_an_answer(
    steps: int, size: int, softmax: bool, entries: str, seed: int
) -> None:
    """S = Z Z^T = (Z Q)(Z Q)^T: CoRelNet, CoRelNet-T and ESBN see no code, only how codes relate.

    A score of codes of norm r has an error of about (size + 2) eps r^2 on each side, which the network passes on with
    the factor of its slope; 1e3 is more than any of these."""
    torch.manual_seed(seed)
    codes, turn = doubles(steps, 3, size), haar(size)
    networks = [
        CoRelNet(size, 3, steps, 6, softmax=softmax, entries=entries),  # type: ignore[arg-type]
        CoRelNetT(size, 3, steps, 6, softmax=softmax, entries=entries),  # type: ignore[arg-type]
        ESBN(size, 3, steps, 4, key_size=3),
    ]
    largest = float(codes.square().sum(-1).max())
    for network in networks:
        network = network.double()
        assert float((network(codes @ turn) - network(codes)).abs().max()) <= 1e3 * (size + 2) * EPS * (1 + largest)


@pytest.mark.parametrize("options", [{"similarity": "asymmetric"}, {"similarity": "diff"}, {"sensory": True}])
def test_other_similarities_do_not_have_that_symmetry(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    network, codes = CoRelNet(6, 3, 4, **options).double(), doubles(4, 2, 6)  # type: ignore[arg-type]
    assert float((network(codes @ haar(6)) - network(codes)).abs().max()) > 1e-3


def test_normalisation_breaks_the_symmetry_of_what_comes_before_it() -> None:
    """It scales feature by feature: the answer is invariant to transforms after it, not before it."""
    torch.manual_seed(0)
    norm, network, codes = ContextNorm(6).double(), CoRelNet(6, 3, 4).double(), doubles(4, 2, 6)
    turn = haar(6)
    assert float((network(norm(codes) @ turn) - network(norm(codes))).abs().max()) < 1e-12
    assert float((network(norm(codes @ turn)) - network(norm(codes))).abs().max()) > 1e-3


def test_a_permutation_of_features_is_such_a_transform_even_before_normalisation() -> None:
    torch.manual_seed(0)
    norm, network, codes = ContextNorm(6).double(), CoRelNet(6, 3, 4).double(), doubles(4, 2, 6)
    shuffled = codes[..., torch.randperm(6)]
    torch.testing.assert_close(network(norm(shuffled)), network(norm(codes)), rtol=1e-10, atol=1e-12)


@FEW
@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 99))
def test_identical_objects_have_the_highest_score_if_norms_are_equal(steps: int, size: int, seed: int) -> None:
    """Cauchy and Schwarz: z_i . z_j <= |z_i| |z_j|, with equality for equal codes."""
    torch.manual_seed(seed)
    codes = torch.nn.functional.normalize(doubles(steps, 3, size), dim=-1)
    scores = Similarity(size, steps).scores(codes)
    assert bool((scores.diagonal(dim1=-2, dim2=-1)[..., None] >= scores - 4 * size * EPS).all())


def test_of_unequal_norms_another_object_may_score_higher() -> None:
    codes = torch.tensor([[[1.0, 0.0]], [[3.0, 0.0]]])
    scores = Similarity(2, 2).scores(codes)[0]
    assert scores[0, 1] > scores[0, 0]


class TestOrderOfAPair:
    """Swapping two objects swaps the diagonal of S and leaves the rest: only norms tell the order."""

    def test_equal_norms_tell_nothing(self) -> None:
        torch.manual_seed(0)
        network = CoRelNet(5, 2, 2).double()
        codes = torch.nn.functional.normalize(doubles(2, 8, 5), dim=-1)
        torch.testing.assert_close(network(codes), network(codes.flip(0)), rtol=1e-12, atol=1e-13)

    def test_unequal_norms_tell_it(self) -> None:
        torch.manual_seed(0)
        network, codes = CoRelNet(5, 2, 2).double(), doubles(2, 8, 5)
        assert float((network(codes) - network(codes.flip(0))).abs().amax(-1).min()) > 1e-6

    def test_after_normalisation_only_beta_tells_it(self) -> None:
        torch.manual_seed(0)
        network, norm, codes = CoRelNet(5, 2, 2, softmax=False).double(), ContextNorm(5).double(), doubles(2, 8, 5)
        torch.testing.assert_close(network(norm(codes)), network(norm(codes.flip(0))), rtol=1e-10, atol=1e-12)
        norm.beta.normal_()
        assert float((network(norm(codes)) - network(norm(codes.flip(0)))).abs().max()) > 1e-3

    def test_an_asymmetric_similarity_tells_it_without_norms(self) -> None:
        torch.manual_seed(0)
        network = CoRelNet(5, 2, 2, similarity="asymmetric").double()
        codes = torch.nn.functional.normalize(doubles(2, 8, 5), dim=-1)
        assert float((network(codes) - network(codes.flip(0))).abs().amax(-1).min()) > 1e-6

    def test_but_not_after_normalisation_without_beta(self) -> None:
        """z_2 = -z_1, and every product of two codes is even in z_1: (W_1 z) . (W_2 z) is the same for z and -z."""
        torch.manual_seed(0)
        network, norm = CoRelNet(5, 2, 2, similarity="asymmetric").double(), ContextNorm(5).double()
        codes = doubles(2, 8, 5)
        torch.testing.assert_close(network(norm(codes)), network(norm(codes.flip(0))), rtol=1e-9, atol=1e-11)
        norm.beta.normal_()
        assert float((network(norm(codes)) - network(norm(codes.flip(0)))).abs().amax(-1).min()) > 1e-6

    def test_differences_tell_it_always(self) -> None:
        torch.manual_seed(0)
        network, norm, codes = CoRelNet(5, 2, 2, similarity="diff").double(), ContextNorm(5).double(), doubles(2, 8, 5)
        assert float((network(norm(codes)) - network(norm(codes.flip(0)))).abs().amax(-1).min()) > 1e-6

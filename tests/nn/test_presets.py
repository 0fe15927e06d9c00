"""The named networks of the spectral family: contract, counts, starts, outputs."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.checks import check_contract
from engram.errors import OptionError
from engram.maps import (
    Antisymmetric,
    Exponential,
    Givens,
    Householder,
    Map,
    ScaledCayley,
    Schur,
    SoftOrthogonal,
    SpectralMargin,
    SpectralReflections,
    StiefelStep,
    orthogonality_error,
)
from engram.models import MODELS, make_core
from engram.nn import (
    EURNN,
    IRNN,
    RNN,
    URNN,
    Cell,
    ExpRNN,
    FullCapacityURNN,
    HDetachLSTM,
    HouseholderRNN,
    HylandRaetschRNN,
    NonNormalRNN,
    OrthInitRNN,
    Recurrent,
    ScoRNN,
    ScuRNN,
    SoftOrthogonalRNN,
    SpectralRNN,
    param_groups,
)
from tiers import slow_but


def awake(*arguments: Any, **options: Any) -> IRNN:
    """An IRNN away from the kink of ReLU at zero, where its tiny weights put it and finite differences fail."""
    layer = IRNN(*arguments, **options)
    with torch.no_grad():
        for cell in layer.cells:
            cell.weight_ih.mul_(1000)
            cell.bias.fill_(0.1)
    return layer


OURS = [name for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)]


def evaluated(*args: Any, **options: Any) -> HDetachLSTM:
    """In training some gradients are cut off, at random steps."""
    return HDetachLSTM(*args, **options).eval()


# One of each kind: no map, complex, gates, products. The cells with loops or options of their own keep the same
# contract in test_differential.py, test_fields.py, test_linear.py, test_lstm_gru.py, test_minimal.py and test_s4.py.
QUICK = {"rnn", "urnn", "goru", "2rnn"}


@pytest.mark.parametrize("name", slow_but(OURS, QUICK))
def test_contract(name: str) -> None:
    made = {"irnn": awake, "h-detach": evaluated}
    assert len(check_contract(made.get(name, MODELS[name].kind))) == 11


@pytest.mark.parametrize("name", OURS)
def test_said_in_words(name: str) -> None:
    layer = MODELS[name].kind
    assert layer.cell.equation
    assert layer.matrix is None or layer.matrix.count
    assert layer.source
    assert isinstance(make_core(name, 2, 4), layer)


def test_unknown_model() -> None:
    with pytest.raises(OptionError, match=r"unknown model 'exprn': expected one of .*Did you mean 'exprnn'"):
        make_core("exprn", 2, 4)


def count(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


COUNTS = [  # the counts of Kerg et al. 2019: layer, its decoder, and an embedding where there is one
    (NonNormalRNN, 10, 128, 9, 0, 18_953),
    (ExpRNN, 10, 176, 9, 0, 18_929),
    (ExpRNN, 10, 128, 9, 0, 10_697),
    (NonNormalRNN, 1, 512, 10, 0, 268_298),
    (ExpRNN, 1, 722, 10, 0, 268_955),
    (ExpRNN, 1, 512, 10, 0, 136_970),
    (NonNormalRNN, 200, 1024, 50, 50 * 200, 1_315_650),
    (partial(RNN, activation="modrelu"), 200, 1024, 50, 50 * 200, 1_316_674),
]


@pytest.mark.parametrize(("make", "inputs", "hidden", "outputs", "embedding", "expected"), COUNTS)
def test_counts_of_the_papers(
    make: type[Recurrent], inputs: int, hidden: int, outputs: int, embedding: int, expected: int
) -> None:
    layer = make(inputs, hidden, device="meta")  # nothing but the sizes
    assert count(layer, nn.Linear(hidden, outputs)) + embedding == expected


def recurrent_count(layer: Recurrent) -> int:
    return count(layer.cells[0].parametrizations.weight_hh)


def test_counts_of_the_recurrent_matrix() -> None:
    n, m = 12, 5
    expected = {
        ExpRNN(1, n): n * (n - 1) // 2,
        ScoRNN(1, n): n * (n - 1) // 2,
        ScuRNN(1, n): n * n + n,
        URNN(1, n): 7 * n,
        FullCapacityURNN(1, n): n * n,
        HylandRaetschRNN(1, n): n * n,
        SoftOrthogonalRNN(1, n): n * n,
        HouseholderRNN(1, n, reflections=m): m * (2 * n - m + 1) // 2,
        NonNormalRNN(1, n): n * n,
        NonNormalRNN(1, 13): 169,
        SpectralRNN(1, n, reflections=(m, 2)): m * (2 * n - m + 1) // 2 + (2 * n - 1) + n,
        EURNN(1, n, layers=n): n * n,
        EURNN(1, n, layers=n, complex=False): n * (n - 1) // 2,
    }
    assert [recurrent_count(layer) for layer in expected] == list(expected.values())


def test_starts() -> None:
    assert torch.equal(IRNN(3, 4).weight_hh_l0, torch.eye(4))
    assert orthogonality_error(OrthInitRNN(3, 20).weight_hh_l0.detach()) < 1e-5
    assert type(OrthInitRNN(3, 4).weight_hh_l0) is nn.Parameter  # free from the first step on
    unitary = ("urnn", "full-capacity", "hyland-raetsch", "eurnn", "scurnn")
    for name in (*unitary, "exprnn", "scornn", "nnrnn", "householder", "soft-orthogonal"):
        layer: Any = make_core(name, 3, 16)
        assert orthogonality_error(layer.weight_hh_l0.detach()) < 1e-5
        assert layer.weight_hh_l0.is_complex() == (name in unitary)
    urnn = URNN(3, 1000)
    assert float(urnn.start_l0.detach().abs().square().sum()) == pytest.approx(1.0, rel=0.1)  # E |h_0|^2 = 1 +- 0.02
    assert not urnn.mod_bias_l0.any()
    assert torch.equal(EURNN(3, 4).mod_bias_l0, torch.full((4,), -0.01))


def test_variance_of_the_first_input_weights() -> None:
    """uRNN: Glorot uniform, real and imaginary parts each of variance 1/(D + H); the others Glorot normal, 2/(D + H).

    Of n numbers of a bounded or normal distribution the variance is known to sqrt(2/n): 1.4 % of 10,000, times four.
    """
    for kind, share in ((URNN, 1.0), (ScuRNN, 1.0), (ExpRNN, 2.0), (SoftOrthogonalRNN, 2.0)):
        weight = kind(100, 100).weight_ih_l0.detach()
        for part in (weight.real, weight.imag) if weight.is_complex() else (weight,):
            assert float(part.var()) == pytest.approx(share / 200, rel=0.057), kind
    bound = (3 / 200) ** 0.5
    largest = torch.view_as_real(URNN(100, 100).weight_ih_l0.detach()).abs().max()
    assert 0.99 * bound < float(largest) <= bound


def test_the_exponential_of_hyland_and_raetsch() -> None:
    """W = exp(sum nu_j T_j) with the basis of u(N) written out: i E_aa, E_ab - E_ba, i (E_ab + E_ba)."""
    n, layer = 4, HylandRaetschRNN(2, 4, init="identity", dtype=torch.float64)
    nu = layer.cells[0].parametrizations.weight_hh.original0
    with torch.no_grad():
        nu.normal_()
    above = [(a, b) for a in range(n) for b in range(a + 1, n)]
    total = torch.zeros(n, n, dtype=torch.complex128)
    for value, (a, b) in zip(nu.detach(), above, strict=False):
        total[a, b] += value
        total[b, a] -= value
    for value, (a, b) in zip(nu.detach()[len(above) :], above, strict=False):
        total[a, b] += 1j * value
        total[b, a] += 1j * value
    for value, a in zip(nu.detach()[2 * len(above) :], range(n), strict=True):
        total[a, a] += 1j * value
    torch.testing.assert_close(layer.weight_hh_l0.detach(), torch.linalg.matrix_exp(total), atol=1e-12, rtol=0)


def test_the_penalty_of_two_layers_is_a_sum() -> None:
    """lambda |W^T W - I|^2 of each of the four cells, added up."""
    layer = SoftOrthogonalRNN(3, 4, 2, bidirectional=True, strength=0.3, dtype=torch.float64)
    with torch.no_grad():
        for cell in layer.cells:
            cell.parametrizations.weight_hh.original.normal_()
    eye = torch.eye(4, dtype=torch.float64)
    matrices = [cell.weight_hh.detach() for cell in layer.cells]
    expected = sum(0.3 * float((w.T @ w - eye).square().sum()) for w in matrices)
    assert float(layer.penalty().detach()) == pytest.approx(expected, rel=1e-12)
    assert len(matrices) == 4
    spectral = SoftOrthogonalRNN(3, 4, strength=2.0, norm="spectral", dtype=torch.float64)
    with torch.no_grad():
        (w := spectral.cells[0].parametrizations.weight_hh.original).normal_()
    largest = float(torch.linalg.svdvals(w.detach().T @ w.detach() - eye).max())
    assert float(spectral.penalty().detach()) == pytest.approx(2 * largest**2, rel=1e-12)


def test_the_penalty_of_two_matrices_of_a_cell_is_a_sum() -> None:
    """lambda |W^T W - I|^2 with W = 2I of size 4 is 0.5 x 36, with W = 3I it is 0.1 x 256."""

    class TwoCell(Cell):
        def __init__(self, input_size: int, hidden_size: int, **options: Any) -> None:
            super().__init__(input_size, hidden_size, map=SoftOrthogonal(4, strength=0.5), **options)
            self.declare("second", 4, 4, map=SoftOrthogonal(4, strength=0.1))

        def step(self, drive: Tensor, state: Tensor) -> Tensor:
            return torch.tanh(drive + state @ self.weight_hh.mT @ self.second.mT)

    cell = TwoCell(3, 4, dtype=torch.float64)
    for name, factor in (("weight_hh", 2.0), ("second", 3.0)):
        cell.parametrizations[name].original.data = factor * torch.eye(4, dtype=torch.float64)
    assert float(cell.penalty().detach()) == pytest.approx(0.5 * 36 + 0.1 * 256, rel=1e-12)


HANDED_ON: dict[str, tuple[Map, dict[str, Any]]] = {  # the map that a preset of 8 units has, and what says so
    "exprnn": (Exponential(8, init="cayley", rebase_every=5), {"init": "cayley", "rebase_every": 5}),
    "hyland-raetsch": (
        Exponential(8, init="identity", rebase_every=5, complex=True), {"init": "identity", "rebase_every": 5},
    ),
    "scornn": (ScaledCayley(8, rho=3), {"rho": 3}),
    "scurnn": (ScaledCayley(8, complex=True), {}),
    "householder": (Householder(8, reflections=3), {"reflections": 3}),
    "eurnn": (Givens(8, layers=4, complex=True), {"layers": 4}),
    "soft-orthogonal": (SoftOrthogonal(8, strength=0.5, norm="spectral"), {"strength": 0.5, "norm": "spectral"}),
    "spectral-margin": (SpectralMargin(8, margin=0.3), {"margin": 0.3}),
    "spectral": (SpectralReflections(8, margin=0.3, reflections=(2, 5)), {"margin": 0.3, "reflections": (2, 5)}),
    "nnrnn": (
        Schur(8, mask="block", init="cayley", rebase_every=5, gamma=0.9, gamma_penalty=0.2, decay=0.1),
        {"mask": "block", "init": "cayley", "rebase_every": 5, "gamma": 0.9, "gamma_penalty": 0.2, "decay": 0.1},
    ),
    "antisymmetric": (Antisymmetric(8, 0.3, 2.0), {"gamma": 0.3, "deviation": 2.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", HANDED_ON)
def test_options_reach_the_map(name: str) -> None:
    """With other values than the defaults the map is the one made by hand, in all that it holds beside numbers."""
    right, options = HANDED_ON[name]
    found: Any = MODELS[name].kind(3, 8, **options).cells[0].parametrizations.weight_hh[0]  # type: ignore[operator]
    default: Any = MODELS[name].kind(3, 8).cells[0].parametrizations.weight_hh[0]  # type: ignore[operator]

    def settings(map: Map) -> dict[str, Any]:
        plain = (bool, int, float, str, tuple, type(None))
        return {key: value for key, value in vars(map).items() if isinstance(value, plain) and key != "training"}

    assert type(found) is type(right)
    assert settings(found) == settings(right)
    assert not options or settings(default) != settings(right)
    assert len(settings(right)) > len(options)


@pytest.mark.parametrize("name", OURS)
def test_every_parameter_is_in_one_group(name: str) -> None:
    """Of two layers; what a map trains is in a group of its own, without decay, and a Stiefel matrix in another."""
    layer: Any = MODELS[name].kind(3, 4, 2)
    groups = param_groups(layer, lr=0.1, weight_decay=0.5)
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(map(id, layer.parameters()))
    assert {group["weight_decay"] for group in groups if group["name"] != "plain"} <= {0.0}
    mapped = {"full-capacity": "stiefel", "s4": "state-space", "s4d": "state-space"}.get(name, "orthogonal")
    assert {group["name"] for group in groups} <= {"plain", mapped}


def test_determinants() -> None:
    """+1 for expRNN started by a law of A, (-1)^m for m reflections, (-1)^rho for scoRNN."""
    assert float(torch.det(ExpRNN(1, 6, dtype=torch.float64).weight_hh_l0.detach())) == pytest.approx(1)
    for m in (1, 2, 3):
        layer = HouseholderRNN(1, 6, reflections=m, dtype=torch.float64)
        assert float(torch.det(layer.weight_hh_l0.detach())) == pytest.approx((-1) ** m)
        layer = ScoRNN(1, 6, rho=m, dtype=torch.float64)
        assert float(torch.det(layer.weight_hh_l0.detach())) == pytest.approx((-1) ** m)


@pytest.mark.parametrize(("output", "features"), [("real", 5), ("complex", 5), ("concat", 10)])
def test_what_a_complex_layer_shows(output: str, features: int) -> None:
    layer = ScuRNN(3, 5, 2, output=output)
    shown, state = layer(torch.randn(7, 2, 3))
    assert shown.shape == (7, 2, features)
    assert shown.is_complex() == (output == "complex")
    assert state.is_complex()
    last = state[-1]
    expected = {"real": last.real, "complex": last, "concat": torch.cat([last.real, last.imag], -1)}[output]
    assert torch.equal(shown[-1], expected)


@pytest.mark.parametrize("name", ["urnn", "full-capacity", "hyland-raetsch", "eurnn", "scurnn"])
def test_a_complex_layer_shows_both_parts_unless_asked(name: str) -> None:
    x, kind = torch.randn(7, 2, 3), MODELS[name].kind
    for options in ({}, {"dtype": torch.float32}, {"output": None} if name == "eurnn" else {}):
        layer: Any = kind(3, 5, **options)
        shown, state = layer(x)
        assert torch.equal(shown[-1], torch.cat([state[0].real, state[0].imag], -1))
    if name == "eurnn":
        real = EURNN(3, 5, complex=False)
        assert torch.equal(real(x)[0][-1], real(x)[1][0])


WRONG = [
    (lambda: HouseholderRNN(3, 4, reflections=5), "reflections must be at most N = 4, got 5"),
    (lambda: HouseholderRNN(3, 4, reflections=0), "reflections must be at least 1, got 0"),
    (lambda: EURNN(3, 4, layers=0), "layers must be at least 1, got 0"),
    (lambda: EURNN(3, 4, layers="fff"), "or 'fft'; got 'fff'"),
    (lambda: ScoRNN(3, 4, rho=5), "rho must be at most N = 4"),
    (lambda: ScoRNN(3, 4, rho=-1), "rho must be at least 0, got -1"),
    (lambda: NonNormalRNN(3, 4, mask="blok"), "unknown mask 'blok'.*Did you mean 'block'"),
    (lambda: NonNormalRNN(3, 4, decay=-1.0), "decay must not be negative"),
    (lambda: ExpRNN(3, 4, init="henaf"), "Did you mean 'henaff'"),
    (lambda: ExpRNN(3, 4, rebase_every=0), "rebase_every must be at least 1"),
    (lambda: make_core("spectral-margin", 3, 4, margin=1.5), r"margin must be in \[0, 1\]"),
    (lambda: RNN(3, 4, output="concat"), "output='concat' needs complex weights"),
    (lambda: URNN(3, 4, output="imag"), "unknown output 'imag'"),
    (lambda: StiefelStep([torch.zeros(2, 2)], lr=0.0), "lr must be positive"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_calls(call: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        call()

"""Contractive ReLU networks become orthogonal ones that compute the same (Emami et al. 2019, Theorem 3.1)."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engram.convert import dilation, to_orthogonal
from engram.convert._dilation import clipped, state_bound
from engram.convert._unitary_cell import MARGIN
from engram.convert._unitary_check import bias_used, compare, corners
from engram.errors import DTypeError, ManifoldError, OptionError, ShapeError
from engram.maps import attach, haar, orthogonality_error
from engram.nn import GORU, RNN
from engram.tasks import ContractiveSystem

EPS = torch.finfo(torch.float64).eps


def apart(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).detach().abs().max())


def relative(a: Tensor, b: Tensor) -> float:
    """Their largest difference, as a share of the largest entry if that is above 1."""
    return apart(a, b) / max(1.0, apart(b, torch.zeros_like(b)))


def contractive(inputs: int = 3, states: int = 4, depth: int = 1, norm: float = 0.9, **options: Any) -> RNN:
    """Gaussian weights; W_hh of this norm."""
    torch.manual_seed(0)
    layer = RNN(inputs, states, depth, **{"activation": "relu", "dtype": torch.float64, **options})
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_()
        for cell in layer.cells:
            cell.weight_hh.mul_(norm / torch.linalg.matrix_norm(cell.weight_hh, 2))
    return layer


def ball(steps: int, rows: int, inputs: int, bound: float = 3.0, dtype: torch.dtype = torch.float64) -> Tensor:
    torch.manual_seed(1)
    x = torch.randn(steps, rows, inputs, dtype=torch.float64)
    return (bound * x / x.norm(dim=-1, keepdim=True).clamp(min=bound)).to(dtype)


TABLE = [  # n, p, rho and the states of the orthogonal network
    (1, 1, 0.5, 2),
    (2, 1, 0.9, 4),
    (4, 2, 0.99, 8),
    (8, 3, 0.999, 16),
    (16, 4, 0.9, 32),
    (32, 8, 0.5, 64),
    (4, 2, 0.0, 8),
]


@pytest.mark.parametrize(("n", "p", "norm", "states"), TABLE)
def test_equal_over_2000_steps(n: int, p: int, norm: float, states: int) -> None:
    """To the rounding of a step, 4 N eps |h|, times 1 + rho + rho^2 + ... of the steps before it."""
    rounding = 4 * states * EPS / (1 - norm)
    old, x = contractive(p, n, norm=norm), ball(2000, 2, p)
    twin = to_orthogonal(old, input_bound=3.0)
    facts = twin.report["cells"][0]
    assert twin.layer.hidden_size == twin.report["states_used"] == states
    assert orthogonality_error(twin.layer.weight_hh_l0.detach()) == twin.report["orthogonality_error"]
    assert twin.report["orthogonality_error"] < 10 * states * EPS  # an SVD and two products of matrices of length 1
    states_of_both = twin.layer(x)[0].detach()
    assert apart(twin(x)[0], old(x)[0]) < rounding * float(states_of_both.norm(dim=-1).max())
    assert not states_of_both[..., n:].any()
    drive = np.linalg.norm(old.weight_ih_l0.detach(), 2) * 3 + np.linalg.norm(old.bias_l0.detach())
    assert facts["state_bound"] == pytest.approx(drive / (1 - norm))
    assert float(states_of_both.norm(dim=-1).max()) <= facts["state_bound"]
    assert twin.bias_bound == facts["bias_bound"] == pytest.approx(twin.layer.bias_l0[n:].min().item())
    assert max(twin.report["difference"].values()) < rounding * facts["state_bound"]
    assert 0 < max(twin.report["bias_used"].values()) < 1


OPTIONS: dict[str, dict[str, Any]] = {
    "three layers": {"depth": 3},
    "both directions": {"depth": 2, "bidirectional": True},
    "batch first": {"depth": 2, "batch_first": True},
    "no bias": {"bias": False},
    "start, some of it negative": {"initial_state": "trained"},
    "last step": {"return_sequence": False, "bidirectional": True},
    "all layers": {"depth": 2, "output_all_layers": True},
    "a map": {},
    "float32": {"depth": 2, "dtype": torch.float32},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_every_kind_of_layer(case: str) -> None:
    old = contractive(**OPTIONS[case])
    if case == "a map":
        old = RNN(3, 4, activation="relu", dtype=torch.float64, map="spectral-margin")
        old.weight_hh_l0 = 0.95 * haar(4)
    x = ball(50, 6, 3, dtype=old.cells[0].reference_weight.dtype)
    twin = to_orthogonal(old, data=x)
    ours, theirs = old(x)[0], twin(x)[0]
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    exact = 1e-5 if case == "float32" else 1e-12
    assert all(relative(a, b) < exact for a, b in pairs)
    assert twin.report["difference"].keys() == {"data", "random", "corners", "adversary"}
    assert max(twin.report["difference"].values()) < exact * (1 + twin.report["largest_output"])
    assert twin.report["orthogonality_error"] < exact
    assert all(orthogonality_error(c.weight_hh.detach()) < exact for c in twin.layer.cells)


def test_torch_rnn() -> None:
    torch.manual_seed(0)
    old = nn.RNN(3, 5, 2, nonlinearity="relu", dtype=torch.float64)
    with torch.no_grad():
        old.weight_hh_l0 /= 2 * torch.linalg.matrix_norm(old.weight_hh_l0, 2)
        old.weight_hh_l1 /= 2 * torch.linalg.matrix_norm(old.weight_hh_l1, 2)
    x = ball(40, 3, 3)
    twin = to_orthogonal(old, input_bound=3.0, data=x)
    assert apart(twin(x)[0], old(x)[0]) < 1e-12  # two layers, each 4 N eps |h| / (1 - 1/2), N = 10, |h| < 10
    assert twin.layer.to_torch().hidden_size == 10  # and it is a torch.nn.RNN again
    assert apart(twin.layer.to_torch()(x)[0][..., twin.selection], old(x)[0]) < 1e-12


def test_only_singular_values_below_one_take_a_state() -> None:
    """n = 4 with three unit singular values: 5 states; two layers of unlike rank: the wider, one unit idle."""
    old = contractive(depth=2)
    u, v = haar(4), haar(4)
    with torch.no_grad():
        old.weight_hh_l0.copy_(u @ torch.tensor([1, 1, 1, 0.5]).double().diag() @ v)
        old.weight_hh_l1.copy_(u @ torch.tensor([1, 1, 0.3, 0.5]).double().diag() @ v)
    assert len(dilation(old.weight_hh_l0)) == 5
    x = ball(60, 3, 3)
    twin = to_orthogonal(old, data=x)
    assert [cell["states_used"] for cell in twin.report["cells"]] == [5, 6]
    assert twin.layer.hidden_size == twin.report["states_used"] == 6
    assert twin.report["steps"] == 60  # the states may grow without end, so the promise has one
    assert relative(twin(x)[0], old(x)[0]) < 1e-12


def test_an_orthogonal_network_is_its_own_twin() -> None:
    old = contractive()
    with torch.no_grad():
        old.weight_hh_l0.copy_(haar(4))
    twin = to_orthogonal(old, input_bound=3.0)  # no unit is added, so no bound on the states is needed
    assert torch.equal(twin.layer.weight_hh_l0, old.weight_hh_l0)
    assert (twin.layer.hidden_size, twin.bias_bound) == (4, 0.0)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_dilation(size: int) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(size, size, dtype=torch.float64)
    matrix *= 0.99 / torch.linalg.matrix_norm(matrix, 2)
    whole = dilation(matrix)
    assert whole.shape == (2 * size, 2 * size)
    assert torch.equal(whole[:size, :size], matrix)
    rounding = 10 * len(whole) * EPS  # as above
    assert orthogonality_error(whole) < rounding
    assert orthogonality_error(whole.mT) < rounding
    root = whole[size:, :size]
    assert apart(root.mT @ root, torch.eye(size) - matrix.mT @ matrix) < rounding


def test_clipped_is_the_nearest_contraction() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(5, 5, dtype=torch.float64)
    near = clipped(matrix)
    assert float(torch.linalg.matrix_norm(near, 2)) == pytest.approx(1)
    distance = torch.linalg.matrix_norm(matrix - near)
    for _ in range(50):
        other = near + 0.1 * torch.randn(5, 5, dtype=torch.float64)
        other = other / max(1.0, float(torch.linalg.matrix_norm(other, 2)))
        assert torch.linalg.matrix_norm(matrix - other) > distance


def test_state_bound_grows_to_its_limit() -> None:
    assert state_bound(0.9, 1.0, 0.0) == pytest.approx(10)
    finite = [state_bound(0.9, 1.0, 2.0, steps) for steps in (1, 10, 1000)]
    assert finite[0] == pytest.approx(2.8)
    assert finite == sorted(finite)
    assert finite[-1] == pytest.approx(10)
    assert state_bound(0.5, 1.0, 9.0) == 9.0  # the start is the largest
    assert state_bound(1.0, 0.0, 9.0) == 9.0
    assert state_bound(1.0, 2.0, 0.0, 7) == 14.0
    assert state_bound(1 + 1e-4, 1.0, 0.0, 1000) == pytest.approx(sum((1 + 1e-4) ** k for k in range(1000)))


def scalar(weight_hh: float, *weight_ih: float, bias: float = 0.0) -> dict[str, Tensor]:
    """The weights of a cell of one unit."""
    values = {"weight_hh": [[weight_hh]], "weight_ih": [weight_ih], "bias": [bias]}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def test_bounds_of_a_deep_network_in_both_directions_by_value() -> None:
    """The norm of what both directions give is the bound of the input of the layer above.

    Layer 1, |x| <= 2: (3 * 2 + 1) / (1 - 0.5) = 14 and 4 * 2 / (1 - 0.6) = 20, together sqrt(14^2 + 20^2).
    """
    old = RNN(1, 1, 2, activation="relu", bidirectional=True, dtype=torch.float64)
    weights = [scalar(0.5, 3.0, bias=1.0), scalar(0.6, 4.0), scalar(0.8, 1.0, 2.0), scalar(0.0, 2.0, 0.0, bias=-0.5)]
    with torch.no_grad():
        for cell, values in zip(old.cells, weights, strict=True):
            for name, value in values.items():
                getattr(cell, name).copy_(value)
    twin = to_orthogonal(old, input_bound=2.0)
    both = (14**2 + 20**2) ** 0.5
    bounds = [14, 20, 5**0.5 * both / (1 - 0.8), 2 * both + 0.5]
    assert [cell["state_bound"] for cell in twin.report["cells"]] == pytest.approx(bounds, rel=1e-12)
    for cell, bound, weight in zip(twin.layer.cells, bounds, (0.5, 0.6, 0.8, 0.0), strict=True):
        row = float(cell.weight_hh[1, 0].detach())  # +-sqrt(1 - weight^2): a singular vector has either sign
        assert abs(row) == pytest.approx((1 - weight**2) ** 0.5, rel=1e-12)
        assert float(cell.bias[1].detach()) == pytest.approx(-MARGIN * max(row, 0.0) * bound, rel=1e-12)
    x = ball(30, 2, 1, bound=2.0)
    assert relative(twin(x)[0], old(x)[0]) < 1e-12


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bounds_from_a_negative_start_by_value(sign: float) -> None:
    """States are not negative, so that positive entries of a row are enough; but the initial state may be."""
    old = RNN(1, 3, activation="relu", initial_state="trained", dtype=torch.float64)
    torch.manual_seed(3)
    turn = haar(3)
    start = sign * torch.tensor([7.0, 14.0, 14.0]).double()  # of norm 21, above 5 / (1 - 0.5)
    with torch.no_grad():
        for name, value in {"weight_hh": 0.5 * turn, "weight_ih": torch.eye(3, 1), "bias": torch.zeros(3)}.items():
            getattr(old.cells[0], name).copy_(value)
        old.cells[0].start.copy_(start)
    twin = to_orthogonal(old, input_bound=5.0)
    assert twin.report["cells"][0]["state_bound"] == pytest.approx(21, rel=1e-12)
    rows = twin.layer.cells[0].weight_hh.detach()[3:, :3]
    assert torch.allclose(rows.norm(dim=1), torch.tensor(0.75).double().sqrt())
    reach = rows.clamp(min=0) if sign > 0 else rows
    assert torch.allclose(twin.layer.cells[0].bias.detach()[3:], -MARGIN * 21 * reach.norm(dim=1), rtol=1e-12)
    if sign > 0:
        assert not torch.allclose(reach.norm(dim=1), rows.norm(dim=1))  # the two rules differ here
    x = ball(30, 2, 1, bound=5.0)
    assert relative(twin(x)[0], old(x)[0]) < 1e-12


def test_bounds_with_a_length_by_value() -> None:
    """|h_T| <= rho^T |h_0| + drive (1 - rho^T) / (1 - rho), with T for the quotient at rho = 1; or |h_0| if larger."""
    old = RNN(1, 1, activation="relu", dtype=torch.float64)
    with torch.no_grad():
        for name, value in scalar(0.5, 3.0, bias=1.0).items():
            getattr(old.cells[0], name).copy_(value)
    found = to_orthogonal(old, input_bound=2.0, steps=3).report
    assert found["cells"][0]["state_bound"] == pytest.approx(7 * (1 + 0.5 + 0.25), rel=1e-12)
    assert state_bound(0.5, 7.0, 8.0, 3) == pytest.approx(8 / 8 + 7 * 1.75)
    assert state_bound(0.5, 7.0, 100.0, 3) == 100
    assert state_bound(1.0, 7.0, 8.0, 3) == 8 + 21


def test_the_bound_covers_the_data() -> None:
    """A thousandth is forgiven as rounding, a hundredth is not; data of one sequence may come without a batch."""
    old, x = contractive(), ball(30, 1, 3, bound=1.0)
    x = x / x.norm(dim=-1).max()
    assert to_orthogonal(old, input_bound=0.9995, data=x).report["input_bound"] == 0.9995
    with pytest.raises(OptionError, match=r"must cover the data, whose largest norm is 1; got 0\.99"):
        to_orthogonal(old, input_bound=0.99, data=x)
    assert to_orthogonal(old, data=x[:, 0]).report == to_orthogonal(old, data=x).report


def test_the_worst_of_many_sequences_is_told() -> None:
    """20 of them, compared 8 at a time; only the first one differs."""
    old = contractive()
    twin = to_orthogonal(old, input_bound=3.0)
    with torch.no_grad():
        twin.layer.bias_l0[4:] = 0
    x = torch.cat([ball(50, 1, 3), torch.zeros(50, 19, 3, dtype=torch.float64)], 1)
    right = apart(twin(x)[0], old(x)[0])
    assert right > apart(twin(x)[0][:, 1:], old(x)[0][:, 1:])
    assert compare(old, twin.layer, twin.selection, 3.0, 50, x)["difference"]["data"] == pytest.approx(right)


def test_without_the_bias_they_differ() -> None:
    """The negative control: added units that are not silenced change the outputs."""
    old, x = contractive(), ball(2000, 2, 3)
    twin = to_orthogonal(old, input_bound=3.0)
    with torch.no_grad():
        twin.layer.bias_l0[4:] = 0
    assert apart(twin(x)[0], old(x)[0]) > 1


def test_the_adversary_finds_what_data_does_not_show() -> None:
    """A bias that is enough for the data is not enough for all inputs within the bound."""
    old, x = contractive(), ball(30, 1, 3, bound=0.5)
    twin = to_orthogonal(old, input_bound=3.0)
    with torch.no_grad():
        twin.layer.bias_l0[4:] *= 1.01 * float(bias_used(_all_layers(twin.layer), x, 4).max())
    found = compare(old, twin.layer, twin.selection, 3.0, None, x)
    assert found["difference"]["data"] == 0
    assert found["bias_used"]["data"] <= 1 / 1.01 + 1e-9
    assert found["difference"]["adversary"] > 0.01
    assert found["bias_used"]["adversary"] > 1
    assert found["bias_used"]["adversary"] > found["bias_used"]["corners"]


def test_the_adversary_climbs_in_float32_too() -> None:
    double, single = contractive(), contractive().float()
    found = [to_orthogonal(layer, input_bound=3.0).report["bias_used"] for layer in (double, single)]
    assert found[1]["adversary"] == pytest.approx(found[0]["adversary"], rel=0.02)
    assert all(each["adversary"] > each["random"] for each in found)


def _all_layers(layer: RNN) -> RNN:
    layer.output_all_layers = True
    shown = layer.fold()
    layer.output_all_layers = False
    return shown


@pytest.mark.parametrize("size", [1, 3, 9])
def test_corners_lie_on_the_bound(size: int) -> None:
    norms = corners(size, 5.0).norm(dim=-1)
    assert norms[-1] == 0
    assert torch.allclose(norms[:-1], torch.tensor(5.0).double())


def test_the_network_given_is_left_alone() -> None:
    old = contractive(norm=1.5).train()
    x, weights = ball(20, 2, 3), {k: v.clone() for k, v in old.state_dict().items()}
    rng = torch.random.get_rng_state()
    twin = to_orthogonal(old, data=x, contract=True)
    assert torch.equal(rng, torch.random.get_rng_state())
    assert all(torch.equal(v, old.state_dict()[k]) for k, v in weights.items())
    assert old.training
    assert twin.layer.training
    assert old.weight_hh_l0.requires_grad


def test_the_nearest_contractive_network() -> None:
    old, x = contractive(norm=1.5), ball(40, 2, 3)
    with pytest.raises(ManifoldError, match=r"this one has 1\.5: give contract to convert the nearest"):
        to_orthogonal(old, data=x)
    twin = to_orthogonal(old, data=x, contract=True)
    assert twin.report["contracted"]
    assert twin.report["steps"] == 40
    assert twin.report["states_used"] < 8  # clipped singular values are 1 and take no state
    assert twin.report["moved_by_contraction"] == pytest.approx(apart(twin(x)[0], old(x)[0]))
    with torch.no_grad():
        old.weight_hh_l0.copy_(clipped(old.weight_hh_l0))
    assert apart(twin(x)[0], old(x)[0]) < 1e-10


def test_training_keeps_it_orthogonal() -> None:
    twin = to_orthogonal(contractive(), input_bound=3.0)
    optimizer = torch.optim.SGD(twin.layer.parameters(), 1e-3)
    attach(optimizer, twin.layer)
    before = twin.layer.weight_hh_l0.detach().clone()
    twin(ball(10, 2, 3))[0].square().mean().backward()
    optimizer.step()
    assert orthogonality_error(twin.layer.weight_hh_l0.detach()) < 10 * 8 * EPS  # 8 states, as above
    assert not torch.equal(before, twin.layer.weight_hh_l0)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "tanh": (lambda: to_orthogonal(contractive(activation="tanh"), input_bound=1), OptionError, "activation='tanh'"),
    "relu in depth": (
        lambda: to_orthogonal(contractive(activation_in="depth"), input_bound=1), OptionError, "activation_in='depth'"
    ),
    "another layer": (lambda: to_orthogonal(GORU(3, 4), input_bound=1), DTypeError, "got GORU"),  # type: ignore[arg-type]
    "torch's tanh": (lambda: to_orthogonal(nn.RNN(3, 4), input_bound=1), OptionError, "activation='tanh'"),
    "auto of nothing": (lambda: to_orthogonal(contractive()), OptionError, "give data or a number"),
    "a word": (lambda: to_orthogonal(contractive(), input_bound="large"), OptionError, "must be 'auto' or a finite"),
    "infinite": (lambda: to_orthogonal(contractive(), input_bound=float("inf")), OptionError, "must be 'auto' or a"),
    "too small": (
        lambda: to_orthogonal(contractive(), input_bound=0.1, data=ball(9, 2, 3)), OptionError, "must cover the data"
    ),
    "no end": (
        lambda: to_orthogonal(contractive(norm=2.0), input_bound=1.0, contract=True), OptionError, "give steps"
    ),
    "shape": (lambda: to_orthogonal(contractive(), data=torch.zeros(5, 2, 7)), ShapeError, "with D = 3, got"),
    "not finite": (lambda: to_orthogonal(contractive(norm=float("nan")), input_bound=1), OptionError, "must be finite"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str) -> None:
    call, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_true_system_has_an_exact_twin_of_8_states(dtype: torch.dtype) -> None:
    """The control of the identification experiment: the silent units change nothing, not even in float32."""
    task = ContractiveSystem(length=200)
    weights, x = task.truth.weights, task.sample(4, torch.Generator().manual_seed(0)).inputs.to(dtype)
    old = RNN(2, 4, activation="relu", dtype=dtype)
    with torch.no_grad():
        for name, value in (("weight_hh", weights.W), ("weight_ih", weights.F), ("bias", weights.b)):
            getattr(old.cells[0], name).copy_(torch.from_numpy(value))
    twin = to_orthogonal(old, data=x)
    assert twin.layer.hidden_size == 8
    assert apart(twin(x)[0], old(x)[0]) < torch.finfo(dtype).eps * 100
    assert twin.report["cells"][0]["state_bound"] > 1e3  # 1 - rho is small

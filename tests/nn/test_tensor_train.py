"""Networks that are one tensor: every way to evaluate them gives the same scores."""

import copy
from itertools import product

import pytest
import torch

from engram.errors import DTypeError, OptionError, ShapeError
from engram.exact import constructed_train
from engram.models import MODELS
from engram.nn import RAC, CPNet, TensorTrainNet

F64 = torch.float64
TRAINS = list(product([False, True], [False, True], [False, True]))


def train(steps: int = 5, **options: object) -> TensorTrainNet:
    torch.manual_seed(0)
    return TensorTrainNet(3, 4, 2, steps, **{"features": 2, "dtype": F64, **options})


@pytest.mark.parametrize("steps", [2, 3, 6])
@pytest.mark.parametrize(("equal", "own", "rescale"), TRAINS)
def test_a_train_is_its_whole_tensor(equal: bool, own: bool, rescale: bool, steps: int) -> None:
    """The recurrence equals <W_y, f(x_1) o ... o f(x_d)> with W_y built whole."""
    net, x = train(steps, equal_cores=equal, own_cores=own, rescale=rescale), torch.randn(steps, 6, 3, dtype=F64)
    scores, log_scale = net.scores(x)
    assert scores.shape == (6, 2)
    assert net.coefficients().shape == (2, *[2] * steps)
    torch.testing.assert_close(scores * log_scale.exp()[:, None], net.contract(x), rtol=1e-11, atol=1e-11)
    assert rescale or not log_scale.any()


@pytest.mark.parametrize("equal", [False, True])
def test_the_step_of_the_specification(equal: bool) -> None:
    """s = einsum('ba,bi,aic->bc', s, f, G), from G_1 to G_d."""
    net, x = train(5, equal_cores=equal), torch.randn(5, 6, 3, dtype=F64)
    f = net.encode(x)
    s = f[0] @ net.first[0]
    for k in range(1, 4):
        s = torch.einsum("ba,bi,aic->bc", s, f[k], net.inner[0, 0 if equal else k - 1])
    torch.testing.assert_close(net(x), torch.einsum("ba,bi,aiy->by", s, f[4], net.last[0]), rtol=1e-12, atol=1e-12)


def test_one_hot_inputs_read_the_tensor() -> None:
    net = train(4, features=0, equal_cores=True)
    words = torch.tensor(list(product(range(3), repeat=4))).T
    scores = net(torch.eye(3, dtype=F64)[words])
    torch.testing.assert_close(scores.mT.reshape(2, 3, 3, 3, 3), net.coefficients(), rtol=1e-12, atol=1e-12)


def test_the_cores_of_the_proof_accept_pairs_of_equal_letters() -> None:
    """On [q]^d the tensor of the construction is [i_1 = i_2][i_3 = i_4] ... (Khrulkov et al. 2018)."""
    cores = constructed_train(3, 3, 4, 10007)
    net = TensorTrainNet(3, 3, 1, 4, features=0, equal_cores=True, dtype=F64)
    with torch.no_grad():
        net.first[0] = torch.from_numpy(cores.first.astype(float))
        net.inner[0, 0] = torch.from_numpy(cores.inner[0].astype(float))
        net.last[0, :, :, 0] = torch.from_numpy(cores.last.astype(float))
    found = net.coefficients()[0, :2, :2, :2, :2]
    pairs = torch.eye(2, dtype=F64)
    assert torch.equal(found, torch.einsum("ab,cd->abcd", pairs, pairs))


@pytest.mark.parametrize("rescale", [False, True])
def test_a_cp_network_is_its_whole_tensor(rescale: bool) -> None:
    torch.manual_seed(0)
    net, x = CPNet(3, 4, 2, 5, features=2, rescale=rescale, dtype=F64), torch.randn(5, 6, 3, dtype=F64)
    scores, log_scale = net.scores(x)
    torch.testing.assert_close(scores * log_scale.exp()[:, None], net.contract(x), rtol=1e-12, atol=1e-12)
    v, f = net.vectors, net.encode(x)
    direct = sum(torch.stack([f[k] @ v[k, :, :, a] for k in range(5)]).prod(0) for a in range(4))
    torch.testing.assert_close(net.contract(x), direct, rtol=1e-12, atol=1e-12)


def test_parameter_counts() -> None:
    """Counts of the thesis (Alkin 2024): the example, and both readings."""
    n, m, r, d, y = 49, 4, 16, 16, 10
    counts = {
        (False, False): m * r + (d - 2) * m * r**2 + m * r * y,
        (True, False): m * r + m * r**2 + m * r * y,
        (False, True): y * (2 * m * r + (d - 2) * m * r**2),
        (True, True): y * (2 * m * r + m * r**2),
    }
    assert (counts[False, False], counts[True, False]) == (15040, 1728)
    for (equal, own), cores in counts.items():
        net = TensorTrainNet(n, r, y, d, features=m, equal_cores=equal, own_cores=own)
        assert sum(p.numel() for p in net.parameters()) == m * (n + 1) + cores
    assert sum(p.numel() for p in CPNet(n, r, y, d, features=m).parameters()) == m * (n + 1) + y * d * m * r


@pytest.mark.parametrize("kind", [TensorTrainNet, CPNet])
def test_rescaling_saves_a_long_product(kind: type) -> None:
    torch.manual_seed(0)
    plain = kind(3, 4, 2, 900)
    with torch.no_grad():
        for p in plain.parameters():
            p *= 8
    safe = kind(3, 4, 2, 900, rescale=True)
    safe.load_state_dict(plain.state_dict())
    x = torch.rand(900, 5, 3)
    assert not plain(x).isfinite().all()
    scores = safe(x)
    assert scores.isfinite().all()
    assert scores.any()
    scores.square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in safe.parameters())


@pytest.mark.parametrize("kind", [TensorTrainNet, CPNet])
def test_gradients_and_the_batch_first(kind: type) -> None:
    torch.manual_seed(0)
    net, x = kind(2, 3, 2, 4, features=2, activation="tanh", dtype=F64), torch.randn(4, 3, 2, dtype=F64)
    names, values = zip(*net.named_parameters(), strict=True)

    def call(*weights: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(net, dict(zip(names, weights, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, [v.detach().clone().requires_grad_() for v in values])
    other = copy.deepcopy(net)
    other.batch_first = True
    torch.testing.assert_close(other(x.transpose(0, 1)), net(x), rtol=0, atol=0)
    torch.testing.assert_close(other.contract(x.transpose(0, 1)), net.contract(x), rtol=0, atol=0)


def test_at_the_start_the_scores_are_of_ordinary_size() -> None:
    torch.manual_seed(0)
    for equal in (False, True):
        scores = TensorTrainNet(49, 32, 10, 16, equal_cores=equal)(torch.rand(16, 100, 49))
        assert 0.003 < float(scores.detach().std()) < 30


@pytest.mark.parametrize("shape", [(5, 3), (4, 6, 3), (5, 6, 2), (1, 5, 6, 3)])
def test_wrong_inputs(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="5 steps of 3 numbers"):
        train()(torch.zeros(shape, dtype=F64))


def test_wrong_sizes() -> None:
    with pytest.raises(OptionError, match="steps"):
        train(1)
    with pytest.raises(OptionError, match="rank"):
        TensorTrainNet(3, 0, 2, 4)
    with pytest.raises(OptionError, match="activation"):
        train(activation="gelu")


def test_what_a_command_line_may_ask_for() -> None:
    assert {*MODELS["tensor-train"].options} >= {"equal_cores", "own_cores", "features", "rescale", "activation"}
    assert "equal_cores" not in MODELS["cp-net"].options
    assert {*MODELS["rac"].options} >= {"log_scale", "initial_state", "map", "bidirectional", "dropout"}
    assert {*MODELS["lstm"].options} >= {"bias", "dropout", "proj_size"}


@pytest.mark.parametrize("kind", [TensorTrainNet, CPNet])
def test_wrong_calls_are_told_in_our_words(kind: type) -> None:
    with pytest.raises(OptionError, match=f"unknown option 'rescal' of {kind.__name__}.*Did you mean 'rescale'"):
        kind(3, 4, 2, 5, rescal=True)
    with pytest.raises(DTypeError, match="rescale must be True or False, got 'maybe'"):
        kind(3, 4, 2, 5, rescale="maybe")
    with pytest.raises(DTypeError, match="and the network torch"):
        kind(3, 4, 2, 5)(torch.randn(5, 6, 3, dtype=F64))
    with pytest.raises(ShapeError, match="Leave empty batches out"):
        kind(3, 4, 2, 5)(torch.randn(5, 0, 3))


def test_a_readout_of_another_width_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"readout must be \(classes, 4\)"):
        TensorTrainNet.from_circuit(RAC(3, 4), torch.randn(2, 5), 3)


def test_rescaling_holds_where_squares_do_not() -> None:
    """In single precision the square of 1e-25 is zero, and that of 1e25 infinite."""
    net, x = TensorTrainNet(3, 4, 2, 8, features=0, rescale=True), torch.randn(8, 6, 3)
    scores, one = net.scores(x)
    for size in (1e-25, 1e25):
        factors = torch.tensor([1.0, *[size] * 6, 1.0])[:, None, None]
        again, log_scale = net.scores(factors * x)
        torch.testing.assert_close(again, scores, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(log_scale, one + 6 * torch.tensor(size).log(), rtol=1e-4, atol=0.1)

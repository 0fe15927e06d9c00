"""The network as a whole: penalties, what goes on into the next window, precision, copies."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.maps import Schur
from engram.models import Model, make_core, make_network
from engram.nn import NonNormalRNN, RACState
from engram.tasks import Adding, Copy, PennTreebank

HERE = f"{__file__}:"
GAMMA = {"gamma_penalty": 0.5}


class Penalized(nn.Module):
    """A penalty of its own, that of a layer that it contains, and a linear map under a Schur map."""

    def __init__(self, input_size: int, own: float = 0.0, linear: bool = False) -> None:
        super().__init__()
        self.inner = nn.Sequential(NonNormalRNN(input_size, 6, **GAMMA))
        if linear:
            self.linear = nn.Linear(6, 6, bias=False)
            Schur(6, **GAMMA).install(self.linear, "weight")
        self.first = _Own(own) if own else None

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.inner(inputs)[0]
        return output


class _Own(nn.Module):
    """Always 2, whatever it contains."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value
        self.within = NonNormalRNN(2, 4, **GAMMA)

    def penalty(self) -> Tensor:
        return torch.tensor(self.value)


class Shared(nn.Module):
    """One module with a penalty, in two places."""

    def __init__(self, input_size: int) -> None:
        super().__init__()
        own = _Own(2.0)
        self.linear = nn.Linear(input_size, 3)
        self.left, self.right = nn.Sequential(own), nn.Sequential(own)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs)


class Measured(nn.Module):
    """A penalty of what was computed: before a call with a gradient it depends on nothing."""

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, 3)
        self.codes = torch.zeros(())

    def forward(self, inputs: Tensor) -> Tensor:
        self.codes = self.linear(inputs)
        return self.codes

    def penalty(self) -> Tensor:
        return self.codes.abs().mean()


class Carrying(nn.Module):
    """Hands on half of its state, and says so itself."""

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, 3)

    def forward(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Tensor]:
        output = self.linear(inputs)
        return output, output[-1:]

    def carry(self, state: Tensor) -> Tensor:
        return state.detach() / 2


def move_gamma(network: nn.Module) -> None:
    for name, p in network.named_parameters():
        if name.endswith(("weight_hh.original3", "linear.parametrizations.weight.original3")):
            p.data.fill_(0.8)


THREE = 3 * 0.5 * 0.2**2  # of three moduli


def test_a_layer_counts_once() -> None:
    """The layer's penalty is the sum of its cells', which have one too."""
    network = make_network(Copy(5), Model("nnrnn", hidden=6, layers=2, options=GAMMA))
    move_gamma(network)
    assert network.penalty().item() == pytest.approx(2 * THREE)
    network.penalty().backward()
    assert sum(bool(p.grad is not None and p.grad.any()) for p in network.parameters()) == 2


def test_what_depends_on_no_weight_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("exprnn", "lstm", "nnrnn"):
        network = make_network(Copy(5), Model(name, hidden=6))
        monkeypatch.setattr(type(network.core), "penalty", None, raising=False)
        assert network.penalty() is None
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("options", "expected"), [({}, THREE), ({"linear": True}, 2 * THREE), ({"own": 2.0}, THREE + 2)]
)
def test_every_module_counts(options: dict[str, Any], expected: float) -> None:
    """Layers within modules and weights under a map; a module's own stands for all within it."""
    network = make_network(Copy(5), Model(HERE + "Penalized", options=options))
    move_gamma(network)
    assert network.penalty().item() == pytest.approx(expected)


def test_what_is_shared_counts_once() -> None:
    assert make_network(Copy(5), Model(HERE + "Shared")).penalty().item() == 2.0


def test_a_penalty_of_what_was_computed() -> None:
    task = Copy(5)
    network = make_network(task, Model(HERE + "Measured"))
    network(task.sample(2, torch.Generator().manual_seed(0)).inputs)
    penalty = network.penalty()
    assert penalty is not None
    assert penalty.item() > 0
    assert penalty.requires_grad


def test_the_penalties_of_a_call_and_of_weights() -> None:
    """Each is in one of the two, and their sum is the penalty: half the mean of |codes|, and that of the matrix."""
    network = make_network(Copy(5), Model("soft-orthogonal", hidden=6, l1=0.5, options={"strength": 3.0}))
    with torch.no_grad():
        network.core.cells[0].parametrizations.weight_hh.original.copy_(2 * torch.eye(6))
    inputs = Copy(5).sample(2, torch.Generator().manual_seed(0)).inputs
    network(inputs)
    of_weights, of_call = (float(part.detach()) for part in (network.penalty_of_weights(), network.penalty_of_call()))
    assert of_weights == pytest.approx(3 * 6 * 9)  # |4 I - I|^2
    codes = inputs @ network.sparse.weight.detach().mT
    assert of_call == pytest.approx(0.5 * float(codes.abs().mean()))
    network(inputs)
    assert float(network.penalty().detach()) == pytest.approx(of_weights + of_call)


@pytest.mark.parametrize("name", ["gru", "lstm", "rac", "exprnn", "torch-gru", "torch-lstm"])
def test_carry_takes_the_history_away(name: str) -> None:
    task = PennTreebank(bptt=5)
    network = make_network(task, Model(name, hidden=4, embedding=3))
    _, state = network(torch.randint(50, (5, 2)))
    carried = network.carry(state)
    assert type(carried) is type(state)
    if name == "rac":
        assert type(carried) is RACState
    for before, after in zip(*(s if isinstance(s, tuple) else (s,) for s in (state, carried)), strict=True):
        assert before.requires_grad
        assert not after.requires_grad
        assert after.equal(before)
    assert network.carry(None) is None


def test_carry_of_the_core_goes_first() -> None:
    network = make_network(Copy(5), Model(HERE + "Carrying"))
    assert network.carry(torch.ones(1, 2, 3)).equal(torch.full((1, 2, 3), 0.5))


@pytest.mark.parametrize("name", ["exprnn", "urnn", "lstm"])
def test_precision_and_copies(name: str) -> None:
    """The numbers of the inputs are real, whatever the weights are."""
    task = Adding(6)
    network = make_network(task, Model(name, hidden=4))
    assert network.dtype == torch.float32
    double = copy.deepcopy(network).double()
    assert double.dtype == torch.float64
    inputs = task.sample(3, torch.Generator().manual_seed(0)).inputs
    torch.testing.assert_close(double(inputs.double())[0].float(), network(inputs)[0], rtol=1e-4, atol=1e-5)
    assert network.dtype == torch.float32


def test_a_copy_has_a_penalty_of_its_own() -> None:
    network = make_network(Copy(5), Model("nnrnn", hidden=6, options=GAMMA))
    twin = copy.deepcopy(network)
    move_gamma(twin)
    assert twin.penalty().item() == pytest.approx(THREE)
    assert network.penalty().item() != pytest.approx(THREE)


def test_the_core_is_sampled_first() -> None:
    """The same seed gives the same core, whatever stands before and after it."""
    task, cores = PennTreebank(bptt=5), []
    for make in (
        lambda: make_network(task, Model("gru", hidden=4, embedding=3)).core,
        lambda: make_network(task, Model("gru", hidden=4, embedding=3, readout_bias=False, l1=0.1)).core,
        lambda: make_core("gru", 3, 4),
    ):
        torch.default_generator.manual_seed(0)
        cores.append([*make().parameters()])
    for same in zip(*cores, strict=True):
        assert same[0].equal(same[1])
        assert same[0].equal(same[2])


def test_the_default_dtype_does_not_matter() -> None:
    weights = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            torch.manual_seed(0)
            weights.append(make_network(Copy(5), Model("gru", hidden=4)).head.weight)
            assert torch.get_default_dtype() == dtype
        finally:
            torch.set_default_dtype(torch.float32)
    assert weights[0].equal(weights[1])

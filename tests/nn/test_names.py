"""Weights by torch's names: parameters, files, ties, and programs that prune, normalise or drop them."""

import copy
import inspect
import io
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import prune

from engram.errors import ManifoldError, OptionError
from engram.maps import Cayley
from engram.nn import EURNN, GORU, GRU, LSTM, MIRNN, RNN, S4D, Cell, ExpRNN, LinearRNN, OrthInitRNN, Recurrent, laws

F64 = torch.float64
NAMES = ["weight_ih_l0", "weight_hh_l0", "bias_l0", "weight_ih_l1", "weight_hh_l1", "bias_l1"]


def x(steps: int = 5, features: int = 3) -> Tensor:
    return torch.randn(steps, 2, features, dtype=F64)


def test_parameters_have_the_names_of_torch() -> None:
    model = nn.ModuleDict({"memory": RNN(3, 4, 2)})
    assert [name for name, _ in model.named_parameters()] == [f"memory.{name}" for name in NAMES]
    assert list(model.state_dict()) == [f"memory.{name}" for name in NAMES]
    layer = model["memory"]
    assert layer.weight_hh_l1 is layer.cells[1].weight_hh
    assert [list(map(id, weights)) for weights in layer.all_weights] == [
        [id(getattr(layer, name)) for name in NAMES[:3]],
        [id(getattr(layer, name)) for name in NAMES[3:]],
    ]
    assert (layer.bias, layer.nonlinearity, layer.proj_size) == (True, "tanh", 0)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_file_of_torch(nonlinearity: str, bidirectional: bool) -> None:
    """Positional arguments, and load_state_dict of torch.nn.RNN: the two biases become one."""
    arguments: Any = (3, 4, 2, nonlinearity, True, False, 0.0, bidirectional)
    theirs, ours = nn.RNN(*arguments, dtype=F64), RNN(*arguments, dtype=F64)
    assert str(ours.load_state_dict(theirs.state_dict())) == "<All keys matched successfully>"
    sequence = x()
    torch.testing.assert_close(ours(sequence), theirs(sequence), atol=1e-12, rtol=0)
    back = ours.to_torch()
    torch.testing.assert_close(back(sequence), theirs(sequence), atol=1e-12, rtol=0)
    assert not back.bias_hh_l0.any()


def test_what_is_missing_is_told_by_torchs_name() -> None:
    weights = RNN(3, 4).state_dict()
    del weights["weight_hh_l0"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "weight_hh_l0"\. $'):
        RNN(3, 4).load_state_dict(weights)
    with pytest.raises(RuntimeError, match=r"weight_hh_l0 is a matrix under .*Exponential.* Assign a matrix"):
        ExpRNN(3, 4, activation="tanh", bias=True).load_state_dict(nn.RNN(3, 4).state_dict())
    with pytest.raises(RuntimeError, match="size mismatch for weight_hh_l0"):
        RNN(3, 4).load_state_dict(RNN(3, 5).state_dict())


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("kind", [RNN, ExpRNN, GORU, S4D])
def test_loading_keeps_one_parameter_with_two_names(kind: Any, assign: bool) -> None:
    source, layer = kind(3, 4, 2, dtype=F64), kind(3, 4, 2, dtype=F64)
    layer.load_state_dict(copy.deepcopy(source.state_dict()), assign=assign)
    sequence = x()
    torch.testing.assert_close(layer(sequence)[0], source(sequence)[0], atol=0, rtol=0)
    for suffix, cell in layer.named_cells():
        for name, weight in cell._parameters.items():
            assert weight is None or weight is getattr(layer, name + suffix)
    assert len(list(layer.parameters())) == len(list(source.parameters()))


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_moving_keeps_them_one(dtype: torch.dtype) -> None:
    layer = RNN(3, 4, 2, activation="modrelu").to(dtype)
    layer = copy.deepcopy(pickle.loads(pickle.dumps(layer)))
    assert layer.weight_hh_l0 is layer.cells[0].weight_hh
    assert layer.weight_hh_l0.dtype == dtype
    assert not layer.mod_bias_l0.is_complex()
    meta = layer.to("meta").to_empty(device="cpu")
    assert meta.weight_ih_l1 is meta.cells[1].weight_ih
    complex_layer = RNN(3, 4, dtype=torch.complex64).to(torch.float64)
    assert complex_layer.weight_hh_l0.dtype == torch.complex128
    assert complex_layer.weight_hh_l0 is complex_layer.cells[0].weight_hh


def test_assignment_ties_where_torch_ties() -> None:
    a, b = RNN(3, 4, dtype=F64), RNN(3, 4, dtype=F64)
    a.weight_hh_l0 = b.weight_hh_l0
    assert a.cells[0].weight_hh is b.cells[0].weight_hh
    (a(x())[0].sum() + b(x())[0].sum()).backward()
    assert len(list(nn.ModuleList([a, b]).parameters())) == 5
    with pytest.raises(TypeError, match=r"cannot assign 'torch.DoubleTensor' as parameter 'weight_hh_l0'"):
        a.weight_hh_l0 = torch.eye(4, dtype=F64)
    mapped = RNN(3, 4, map="cayley", dtype=F64)
    rotation = Cayley(4).sample(dtype=F64)
    mapped.weight_hh_l0 = nn.Parameter(rotation)  # a copy: the map has parameters of its own
    torch.testing.assert_close(mapped.weight_hh_l0, rotation)
    assert "weight_hh_l0" not in dict(mapped.named_parameters())
    with pytest.raises(ManifoldError):
        mapped.weight_hh_l0 = torch.ones(4, 4, dtype=F64)


def test_pruning() -> None:
    layer = RNN(3, 4, 2, dtype=F64)
    prune.random_unstructured(layer, "weight_hh_l0", amount=0.5)
    assert {"weight_hh_l0_orig", "weight_hh_l1"} <= set(dict(layer.named_parameters()))
    assert "cells.0.weight_hh" not in dict(layer.named_parameters())
    sequence = x()
    layer(sequence)[0].sum().backward()
    plain = RNN(3, 4, 2, dtype=F64)
    with torch.no_grad():
        for name in NAMES:
            getattr(plain, name).copy_(getattr(layer, name))
    torch.testing.assert_close(plain(sequence)[0], layer(sequence)[0], atol=0, rtol=0)
    mask = layer.weight_hh_l0_mask
    assert mask.sum() == 8
    assert layer.weight_hh_l0_orig.grad[mask == 0].eq(0).all()
    prune.remove(layer, "weight_hh_l0")
    assert layer.weight_hh_l0 is layer.cells[0].weight_hh
    torch.testing.assert_close(plain(sequence)[0], layer(sequence)[0], atol=0, rtol=0)


@pytest.mark.parametrize("old", [False, True])
def test_weight_norm(old: bool) -> None:
    layer = RNN(3, 4, dtype=F64)
    sequence, expected = x(), None
    expected = layer(sequence)[0]
    if old:
        with pytest.warns(FutureWarning):
            nn.utils.weight_norm(layer, "weight_hh_l0")
        names = {"weight_hh_l0_g", "weight_hh_l0_v"}
    else:
        nn.utils.parametrizations.weight_norm(layer, "weight_hh_l0")
        names = {f"parametrizations.weight_hh_l0.original{k}" for k in (0, 1)}
    found = dict(layer.named_parameters())
    assert set(found) == {"weight_ih_l0", "bias_l0", *names}
    torch.testing.assert_close(layer(sequence)[0], expected)
    layer(sequence)[0].sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    with torch.no_grad():
        for name in names:
            found[name].mul_(0)
            break
    assert not torch.allclose(layer(sequence)[0], expected)


def test_weight_drop() -> None:
    """DropConnect on the recurrent matrix, as the program of AWD-LSTM does it (Merity et al. 2018)."""

    class WeightDrop(nn.Module):
        def __init__(self, module: nn.Module, name: str) -> None:
            super().__init__()
            self.module, self.name = module, name
            raw = getattr(module, name)
            del module._parameters[name]
            module.register_parameter(f"{name}_raw", nn.Parameter(raw.data))

        def forward(self, *args: Any) -> Any:
            raw = getattr(self.module, f"{self.name}_raw")
            setattr(self.module, self.name, F.dropout(raw, 0.5, self.training))
            return self.module(*args)

    layer = RNN(3, 4, dtype=F64)
    expected = layer(sequence := x())[0]
    model = WeightDrop(layer, "weight_hh_l0")
    assert not torch.allclose(model(sequence)[0], expected)
    torch.testing.assert_close(model.eval()(sequence)[0], expected)
    model(sequence)[0].sum().backward()
    assert layer.weight_hh_l0_raw.grad is not None
    assert "module.cells.0.weight_hh" not in dict(model.named_parameters())


def test_a_matrix_under_a_map_says_so() -> None:
    layer = ExpRNN(3, 4)
    with pytest.raises(OptionError, match=r"weight_hh_l0 is a matrix under Exponential.* layer.fold\(\)"):
        prune.random_unstructured(layer, "weight_hh_l0", amount=0.5)
    folded = layer.fold()
    prune.random_unstructured(folded, "weight_hh_l0", amount=0.5)
    assert folded(torch.randn(5, 2, 3))[0].shape == (5, 2, 4)


def test_old_names_within_a_function_call() -> None:
    """torch.func.functional_call puts a weight in by torch's name, and both names see it."""
    layer, sequence = RNN(3, 4, dtype=F64), x()
    weights = {name: torch.zeros_like(p) for name, p in layer.named_parameters()}
    assert not torch.func.functional_call(layer, weights, (sequence,))[0].any()
    assert layer(sequence)[0].any()


# Copies with changes, and what help() shows.


@pytest.mark.parametrize("kind", [RNN, ExpRNN, GORU, S4D, OrthInitRNN])
def test_replace(kind: Any) -> None:
    layer, sequence = kind(3, 4, 2, dtype=F64), x()
    expected = layer(sequence)[0]
    torch.testing.assert_close(layer.replace()(sequence)[0], expected, atol=0, rtol=0)
    swapped = layer.replace(batch_first=True)
    torch.testing.assert_close(swapped(sequence.transpose(0, 1))[0].transpose(0, 1), expected, atol=0, rtol=0)
    assert type(swapped) is kind
    assert not layer.batch_first
    first = layer.replace(num_layers=1)
    assert len(first.cells) == 1
    layer.return_sequence = False
    torch.testing.assert_close(layer.replace()(sequence)[0], expected[-1], atol=0, rtol=0)


def test_replace_the_map_and_the_class() -> None:
    layer, sequence = ExpRNN(3, 4, 2, dtype=F64, rebase_every=5), x()
    plain = layer.replace(RNN, map="free")
    assert type(plain) is RNN
    assert not hasattr(plain.cells[0], "parametrizations")
    torch.testing.assert_close(plain(sequence)[0], layer(sequence)[0], atol=1e-12, rtol=0)
    assert layer.replace(RNN, map="soft-orthogonal", dtype=torch.float32).weight_hh_l1.dtype == torch.float32
    cayley = plain.replace(map="projected")
    torch.testing.assert_close(cayley(sequence)[0], layer(sequence)[0], atol=1e-10, rtol=0)
    with pytest.raises(ManifoldError):
        RNN(3, 4, dtype=F64).replace(map="cayley")
    with pytest.raises(OptionError, match="unknown option 'colour' of RNN"):
        plain.replace(colour=3)
    saved = io.BytesIO()
    torch.save(layer, saved)
    saved.seek(0)
    again = torch.load(saved, weights_only=False).replace(dropout=0.5)
    assert again.dropout == 0.5


@pytest.mark.parametrize("kind", [RNN, ExpRNN, GORU, S4D, OrthInitRNN])
def test_every_keyword_is_spelled_out(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters.values())
    assert {"batch_first", "dropout", "checkpoint_every", "device", "dtype"} <= set(parameters)
    assert "init" in inspect.signature(ExpRNN).parameters
    assert inspect.signature(ExpRNN).parameters["activation"].default == "modrelu"
    assert inspect.signature(ExpRNN).parameters["bias"].default is False
    made = ExpRNN(3, 4)
    assert made.cells[0].activation == "modrelu"
    assert made.cells[0].bias is None


def test_what_can_be_given_by_place() -> None:
    """Sizes; of the layers of torch's names what torch takes so, in its order. All else is said by its name."""
    sizes, common = ["input_size", "hidden_size", "num_layers"], ["bias", "batch_first", "dropout", "bidirectional"]
    expected: dict[Any, list[str]] = {
        RNN: [*sizes, "nonlinearity", *common],
        LSTM: [*sizes, *common, "proj_size", "device", "dtype"],
        GRU: [*sizes, *common, "device", "dtype"],
        ExpRNN: sizes,
        GORU: sizes,
        S4D: sizes,
    }
    for kind, names in expected.items():
        parameters = inspect.signature(kind).parameters
        assert [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD] == names
        assert {p.kind for name, p in parameters.items() if name not in names} == {inspect.Parameter.KEYWORD_ONLY}


# What people do to cells and to layers, and what the names say then.


def test_a_parameter_of_a_cell_that_was_not_declared_is_saved() -> None:
    layer = RNN(3, 4, dtype=F64)
    layer.cells[0].lora = nn.Parameter(torch.ones(3, dtype=F64))
    assert "cells.0.lora" in dict(layer.named_parameters())
    assert "cells.0.lora" in layer.state_dict()


def test_what_is_assigned_to_a_cell_is_what_the_layer_says() -> None:
    layer, sequence = RNN(3, 4, dtype=F64), x()
    layer.cells[0].weight_hh = nn.Parameter(torch.zeros(4, 4, dtype=F64))
    assert not layer.weight_hh_l0.any()
    other = RNN(3, 4, dtype=F64)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(sequence)[0], layer(sequence)[0], atol=0, rtol=0)
    prune.random_unstructured(layer.cells[0], "weight_hh", amount=0.5)
    assert layer.weight_hh_l0 is layer.cells[0].weight_hh
    assert {"cells.0.weight_hh_orig", "cells.0.weight_hh_mask"} <= set(layer.state_dict())
    assert "weight_hh_l0" not in layer.state_dict()


def test_moving_keeps_the_order() -> None:
    layer = RNN(6, 6)
    prune.random_unstructured(layer, "weight_hh_l0", amount=0.5)
    before = [name for name, _ in layer.named_parameters()]
    assert [name for name, _ in layer.to(F64).named_parameters()] == before


def test_a_bias_taken_away() -> None:
    layer = RNN(3, 4, dtype=F64)
    layer.bias_l0 = None
    layer.float().double()
    with torch.no_grad():
        layer.weight_ih_l0.zero_()
    assert not layer(x())[0].any()
    assert layer.cells[0].bias is None


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0", "weight_ih_l1"])
def test_parametrizations_of_torch_come_and_go(name: str) -> None:
    layer, sequence = RNN(3, 4, 2, dtype=F64), x()
    expected = layer(sequence)[0]
    nn.utils.parametrizations.weight_norm(layer, name)
    torch.testing.assert_close(layer(sequence)[0], expected)
    torch.testing.assert_close(layer.replace()(sequence)[0], expected)
    torch.testing.assert_close(layer.fold()(sequence)[0], expected)
    assert [len(weights) for weights in layer.all_weights] == [3, 3]
    nn.utils.parametrize.remove_parametrizations(layer, name)
    torch.testing.assert_close(layer(sequence)[0], expected)
    assert name in dict(layer.named_parameters())


def test_biases_that_are_two() -> None:
    """A cell with two biases of torch's names loads its own file; one of three gates does not take a GRU's."""

    class TwoCell(Cell):
        def __init__(self, input_size: int, hidden_size: int, **options: Any) -> None:
            super().__init__(input_size, hidden_size, **options)
            self.declare("bias_ih", hidden_size)
            self.declare("bias_hh", hidden_size)

        def step(self, drive: Tensor, state: Tensor) -> Tensor:
            return torch.tanh(drive + state @ self.weight_hh.mT + self.bias_ih + self.bias_hh)

    class ThreeCell(Cell):
        gates = 3

        def step(self, drive: Tensor, state: Tensor) -> Tensor:
            return sum((drive + state @ self.weight_hh.mT).chunk(3, -1))  # type: ignore[return-value]

    layers = [type("L", (Recurrent,), {"cell": cell})(3, 4) for cell in (TwoCell, ThreeCell)]
    layers[0].load_state_dict(layers[0].state_dict())
    with pytest.raises(RuntimeError, match="bias_ih_l0"):
        layers[1].load_state_dict(nn.GRU(3, 4).state_dict())


def test_replace_starts_from_what_the_layer_is() -> None:
    complex_layer = EURNN(3, 4)
    sequence = torch.randn(5, 2, 3)
    torch.testing.assert_close(complex_layer.replace()(sequence)[0], complex_layer(sequence)[0], atol=0, rtol=0)
    relu = RNN(3, 4, nonlinearity="relu")
    assert relu.replace(activation="tanh").nonlinearity == "tanh"
    assert relu.replace(batch_first=True).nonlinearity == "relu"
    wide = RNN(3, 4, map="cayley").replace(hidden_size=8)
    assert wide.weight_hh_l0.shape == (8, 8)
    assert type(RNN(3, 4).replace(MIRNN)) is MIRNN
    layer = RNN(3, 4)
    layer.cells[0].register_buffer("scale", torch.ones(2))
    layer.weight_ih_l0.requires_grad_(False)
    assert not layer.replace().weight_ih_l0.requires_grad
    assert layer.replace().training
    assert not layer.eval().replace().training
    assert layer.replace(dtype=F64).weight_hh_l0.dtype == F64
    with pytest.raises(OptionError, match="a folded ExpRNN has no map any more"):
        ExpRNN(3, 4).fold().replace()
    assert ExpRNN.from_torch(ExpRNN(3, 4, activation="tanh", bias=True).to_torch()).nonlinearity == "tanh"


def test_one_activation() -> None:
    with pytest.raises(OptionError, match="activation and nonlinearity are one thing, got 'relu' and 'tanh'"):
        RNN(3, 4, activation="relu", nonlinearity="tanh")
    with pytest.raises(OptionError, match="LinearRNN has no activation, got activation='tanh'"):
        LinearRNN(3, 4, nonlinearity="tanh")
    assert ExpRNN(3, 4, nonlinearity="relu").nonlinearity == "relu"


def test_laws() -> None:
    layer = RNN(3, 4, laws={"weight_ih": laws.Constant(2.0)})
    assert layer.weight_ih_l0.eq(2).all()
    with pytest.raises(OptionError, match=r"unknown parameter 'weight_hi' of RNN in laws.*Did you mean 'weight_ih'"):
        RNN(3, 4, laws={"weight_hi": laws.Constant(2.0)})
    with pytest.raises(OptionError, match="laws has one for weight_hh, which is sampled by its map"):
        RNN(3, 4, map="cayley", laws={"weight_hh": laws.Constant(2.0)})


def test_the_signature_is_the_class_s() -> None:
    assert str(inspect.signature(RNN(3, 4))) == str(inspect.signature(nn.RNN(3, 4)))  # a layer is called
    assert "input_size" in inspect.signature(RNN).parameters

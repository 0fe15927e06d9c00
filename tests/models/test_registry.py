"""The registry: complete, documented, and every entry builds and runs."""

import inspect
import re
from dataclasses import fields

import pytest
import torch
from torch import nn

import engram.nn
import engram.relational
from engram.errors import OptionError
from engram.models import MODELS, Model, OneHot, make_core, make_network, options_of
from engram.nn import Attentive, Recurrent, TensorNet
from engram.tasks import Adding, Copy, Task

RELATIONAL = ("CoRelNet", "CoRelNetT", "ESBN", "MNM", "NTM", "PrediNet", "RelationNetwork", "Transformer")
SMALL: dict[str, Task] = {"every": Copy(3, 2), "last": Adding(6)}


def test_every_layer_is_there() -> None:
    """Each recurrent layer and tensor network that engram.nn exports has a name."""
    exported = [getattr(engram.nn, name) for name in engram.nn.__all__]
    kinds = {kind for kind in exported if inspect.isclass(kind) and issubclass(kind, Recurrent | TensorNet)}
    kinds |= {getattr(engram.relational, name) for name in RELATIONAL}
    assert {entry.kind for entry in MODELS.values()} == kinds - {Attentive, Recurrent, TensorNet} | {nn.LSTM, nn.GRU}


@pytest.mark.parametrize("name", MODELS)
def test_every_entry_is_documented(name: str) -> None:
    entry = MODELS[name]
    for field in fields(entry):
        assert getattr(entry, field.name), field.name
    assert "\n" not in entry.good_for
    assert len(entry.good_for) < 80
    for option, (kind, default) in entry.options.items():
        assert option.isidentifier()
        assert kind is not inspect.Parameter.empty
        assert default is not inspect.Parameter.empty


@pytest.mark.parametrize("answer", SMALL)
@pytest.mark.parametrize("name", MODELS)
def test_every_entry_builds_and_runs(name: str, answer: str) -> None:
    task, model = SMALL[answer], Model(name, hidden=6)
    if MODELS[name].answers_itself and answer == "every":
        with pytest.raises(OptionError, match=f"{name} answers once, after the last input; copy asks at every step"):
            make_network(task, model)
        return
    network = make_network(task, model)
    outputs, _ = network(task.sample(3, torch.Generator().manual_seed(0)).inputs)
    assert outputs.shape == (task.steps if answer == "every" else 1, 3, task.output_size)
    outputs.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_defaults_are_those_of_the_class(name: str) -> None:
    """Made with its defaults spelled out, a model is what it is without."""
    entry = MODELS[name]
    said = {key: option.default for key, option in entry.options.items()}
    made = []
    for options in ({}, said):
        torch.manual_seed(0)
        made.append(make_core(name, 3, 4, output_size=2, steps=5, **options))
    first, second = (dict(core.named_parameters()) for core in made)
    assert first.keys() == second.keys()
    assert all(first[key].equal(second[key]) for key in first)
    assert repr(made[0]) == repr(made[1])


def test_options_and_types() -> None:
    assert {*MODELS["rac"].options} >= {"log_scale", "initial_state", "map", "bidirectional", "dropout"}
    assert MODELS["exprnn"].options["activation"] == (str, "modrelu")  # the preset's, not the base class's
    assert MODELS["tensor-train"].options["equal_cores"] == (bool, False)
    assert MODELS["lstm"].options["dropout"] == (float, 0.0)
    assert options_of(nn.RNN)["nonlinearity"][1] == "tanh"  # which torch takes out of **kwargs
    for name, entry in MODELS.items():
        assert not {"batch_first", "dtype", "hidden_size", "num_layers"} & {*entry.options}
        assert ("rank" in entry.options) == (name in ("cprnn", "cpbirnn"))  # of a tensor network it is --hidden


def value_of(formula: str, **sizes: int) -> float:
    """A formula such as ``N(N-1)/2`` in numbers; what stands after a comma are sizes, ``K = 256``."""
    formula, *said = formula.split(", ")
    sizes |= {name: int(number) for name, number in re.findall(r"(\w) = (\d+)", " ".join(said))}
    parts = re.findall(r"\d+|m[12]|[A-Za-z]|[-+/()^]", formula)
    text = ""
    for before, part in zip(["+", *parts], parts, strict=False):
        text += "*" * (before not in "-+/(^" and part not in "-+/)^") + part.replace("^", "**")
    return float(eval(text, {}, sizes))


NOT_COUNTED = "weight_ih|bias|start|alpha|beta|score"  # of layers: what reads inputs, and vectors
COUNTED = sorted({*MODELS} - {"eurnn", "s4", "s4d"})  # said to be about so many; as blocks, not as one matrix


@pytest.mark.parametrize("name", COUNTED)
def test_the_number_of_parameters_that_is_said(name: str) -> None:
    """The formula against a network: of layers what is recurrent, of the others all but the map of features."""
    entry, sizes = MODELS[name], {"N": 12, "D": 8, "C": 3, "T": 5, "R": 12, "Y": 3, "d": 5, "m": 4, "H": 8}
    formula = entry.parameters
    if ", " in formula and "complex" in formula:
        real, is_complex = formula.removesuffix(" complex").split(" real, ")
        formula = is_complex if name in ("hyland-raetsch", "scurnn") else real
    if name.startswith("sp") or name == "householder":
        sizes |= {"m": 12, "m1": 12, "m2": 12}
    core = make_core(name, 8, 12, output_size=3, steps=5)
    others = re.compile(NOT_COUNTED if issubclass(entry.kind, Recurrent | nn.RNNBase) else r"^map\.")
    if name in ("min-gru", "min-lstm"):  # whose gates read the input alone
        others = re.compile("bias")
    counted = [p.numel() for key, p in core.named_parameters() if not others.search(key)]
    if name == "goru":
        assert formula == "2N^2 + those of Q"
        formula = "2N^2 + N - 1"  # of two layers of rotations
    assert sum(counted) == value_of(formula, **sizes)


def test_unknown_names() -> None:
    with pytest.raises(OptionError, match=r"unknown model 'exprn'.*Did you mean 'exprnn'"):
        make_core("exprn", 3, 4)
    with pytest.raises(OptionError, match="TensorTrainNet needs output_size, steps"):
        make_core("tensor-train", 3, 4)
    assert not hasattr(engram.nn, "MODELS")


def test_one_hot_where_the_paper_of_the_task_embeds() -> None:
    """A tensor network has a feature map of its own."""

    class Once(Copy):
        answer = "last"
        vocabulary = 10
        embedding = 5

    assert isinstance(make_network(Once(3, 2), Model("cp-net", hidden=2)).encoder, OneHot)

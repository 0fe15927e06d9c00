"""NAME=VALUE, and the options of a model as flags."""

from typing import Any

import pytest
import torch

from engram.cli._app import parse
from engram.cli._model_options import check_options, help_of, in_words
from engram.cli._options import read_options
from engram.cli._train_flags import flags_of
from engram.errors import OptionError
from engram.models import MODELS, model_class, options_of
from engram.tasks import Copy, StartEnd
from engram.train import Settings, make_network
from tiers import MODELS_OF_EACH_KIND, slow_but

READ: dict[str, Any] = {
    "a=3": 3,
    "a=-3": -3,
    "a=1e-3": 0.001,
    "a=True": True,
    "a=None": None,
    "a=(1, 2)": (1, 2),
    "a=tanh": "tanh",
    "a='3'": "3",
    "a=": "",
    "a=b=c": "b=c",
    "a=true": True,
    "a=FALSE": False,
    "a='true'": "true",
    "a=__import__('os')": "__import__('os')",
    "a=1+": "1+",
    "a={[]: 1}": "{[]: 1}",
    "a=" + "(" * 9999: "(" * 9999,
    "a=" + "-" * 99999 + "1": "-" * 99999 + "1",
}


@pytest.mark.parametrize("word", READ, ids=lambda word: word[:20])
def test_read_options(word: str) -> None:
    """Numbers and such are read as Python's, what is not Python's is text, and nothing is run."""
    value = read_options([word])["a"]
    assert (value, type(value)) == (READ[word], type(READ[word]))


def test_read_several_options() -> None:
    assert read_options(["a=1", "b=x"]) == {"a": 1, "b": "x"}
    assert read_options([]) == {}


@pytest.mark.parametrize("word", ["", "a", "=", "=a", "1=2", "a-b=2", " =3"])
def test_wrong_options(word: str) -> None:
    with pytest.raises(OptionError, match="an option is NAME=VALUE, such as delay=20; got"):
        read_options([word])


# Flags of a model


def test_flags_of_the_model() -> None:
    """What the class takes, of the types it takes."""
    line = "train mnist-patches --model tensor-train --equal-cores --features 8 --hidden 32 --lr 5e-4"
    settings = parse(line.split()).settings
    assert settings.model.options == {"equal_cores": True, "features": 8}
    assert (settings.model.hidden, settings.optimiser.lr) == (32, 5e-4)
    line = "train copy --model scornn --rho 3 --activation tanh --dropout 0.5"
    assert parse(line.split()).settings.model.options == {"rho": 3, "activation": "tanh", "dropout": 0.5}
    with pytest.raises(OptionError, match="equal-cores"):  # the model has none
        parse(["train", "copy", "--model", "scornn", "--equal-cores"])


@pytest.mark.parametrize("name", slow_but(MODELS, MODELS_OF_EACH_KIND | {"nnrnn", "tensor-train"}))
def test_defaults_are_those_of_the_class(name: str) -> None:
    """Giving any option its default changes no weight: else a flag left out would mean something else than it shows."""
    task = StartEnd(length=6, data=2, symbols=2) if MODELS[name].answers_itself else Copy(3)
    options = options_of(model_class(name))
    assert {"dropout", "bidirectional"} <= options.keys() or MODELS[name].answers_itself
    refused = ["map", "initial_state", "proj_size"]  # of base classes, and not of all models, whatever their value

    def weights(**given: Any) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        return make_network(Settings.of(task, name, hidden=4, options=given)).state_dict()

    plain = weights()
    for key, option in options.items():
        try:
            found = weights(**{key: option.default})
        except OptionError:
            assert key in refused
            continue
        assert found.keys() == plain.keys(), key
        assert all(found[name].equal(plain[name]) for name in plain), key


def test_types_are_those_of_the_signature() -> None:
    options = options_of(model_class("nnrnn"))
    assert in_words(options["gamma"]) == float | None
    assert in_words(options["mask"]) is str
    assert in_words(options["bidirectional"]) is bool
    assert options["activation"].default == "modrelu"  # not the RNN's, whose preset it is
    assert in_words(options_of(model_class("spectral"))["reflections"]) == tuple[int | None, int | None]
    assert in_words(options_of(model_class("rnn"))["map"]) is str  # a map itself is for Python
    assert not {"device", "dtype", "batch_first", "input_size"} & options.keys()


def test_help_is_that_of_the_docstring() -> None:
    """Of the class, its bases and its cell."""
    flags = help_of(model_class("exprnn"))
    assert flags["dropout"].startswith("probability with which a unit between two layers")
    assert flags["init"].startswith("distribution of the first W: henaff (angles uniform in (-pi, pi)), cayley")
    assert flags["rebase_every"].endswith("Default: never.")
    assert "Default" not in flags["init"]


def test_a_name_that_is_taken() -> None:
    flags = flags_of(Copy, "eurnn", {})
    assert flags.places["layers"] == ("model", "layers")
    assert flags.places["model_layers"] == ("options", "layers")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": "3"}, "rho of scornn must be of type int or None, got '3'"),
        ({"rho": True}, "rho of scornn must be of type"),
        ({"dropout": "x"}, "dropout of scornn must be of type float, got 'x'"),
        ({"bias": 1}, "bias of scornn must be of type bool"),
        ({"roh": 1}, "unknown option 'roh' of scornn.*Did you mean 'rho'"),
    ],
)
def test_wrong_options_of_a_file(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_options("scornn", options)


def test_right_options_of_a_file() -> None:
    check_options("scornn", {"rho": 3, "dropout": 0, "bias": False, "output": "real"})
    check_options("spectral", {"reflections": (1, None)})
    with pytest.raises(OptionError, match="reflections of spectral"):
        check_options("spectral", {"reflections": (1,)})

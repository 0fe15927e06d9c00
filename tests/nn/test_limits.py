"""The least and the largest number of every option of every layer: it is allowed, and what is beyond it is refused."""

import inspect
import math
from typing import Any

import pytest
import torch

from engram.errors import OptionError
from engram.loops import use
from engram.models import MODELS, Model
from engram.nn import CPNet, Recurrent, TensorTrainNet

ABOVE_ZERO: list[Any] = [[1e-9, 5.0], [0.0, -1.0, math.inf, math.nan]]
AT_LEAST_ZERO: list[Any] = [[0.0, 5.0], [-1e-9, math.inf, math.nan]]
ONE: list[Any] = [[1], [0, -1]]
LIMITS: dict[str, list[Any]] = {  # of D = H = 4: what is allowed, what is not
    "cornn dt": ABOVE_ZERO,
    "cornn gamma": AT_LEAST_ZERO,
    "cornn epsilon": AT_LEAST_ZERO,
    "lem dt": ABOVE_ZERO,
    "antisymmetric epsilon": ABOVE_ZERO,
    "antisymmetric gamma": AT_LEAST_ZERO,
    "antisymmetric deviation": AT_LEAST_ZERO,
    "h-detach p": [[0, 0.0, 1, 1.0], [-1e-9, 1 + 1e-9, math.nan]],
    "lstm proj_size": [[0, 1, 3], [-1, 4, 5]],
    "lstm chrono": [[2, 3, None], [1, 0]],
    "gru chrono": [[2, None], [1]],
    "cprnn rank": ONE,
    "cpbirnn rank": ONE,
    "sab k": ONE,
    "sab attn_every": ONE,
    "sab trunc": [[0, 1], [-1]],
    "relrnn nu": ONE,
    "relrnn rho": [[0, 1], [-1]],
    "relrnn heads": [[1, 2, 4], [0, 3, 5]],
    "memlstm heads": [[1, 4], [0, 3]],
    "s4 state_size": [[2, 6], [0, 1, 3]],
    "s4 n_ssm": [[1, 2, 4, None], [0, 3, 8]],
    "s4 dt_min": [[1e-9, 0.09], [0.0, -1.0, math.nan]],
    "s4 dt_max": [[0.0011, 5.0], [0.001, 0.0, math.inf, math.nan]],
    "s4d block_dropout": [[0.0, 0.99], [-1e-9, 1.0, math.nan]],
    "rnn dropout": [[0.0, 0.99], [-1e-9, 1.0, math.nan]],
    "rnn num_layers": ONE,
    "rnn hidden_size": ONE,
    "rnn input_size": ONE,
    "rnn checkpoint_every": [[1, None], [0]],
}
LAYERS = {name: entry.kind for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)}


@pytest.mark.parametrize("case", LIMITS)
def test_limits(case: str) -> None:
    name, option = case.split()
    kind: Any = LAYERS[name]
    allowed, refused = LIMITS[case]
    sizes = {"input_size": 4, "hidden_size": 4, "num_layers": 2}
    for value in allowed:
        layer = kind(**{**sizes, option: value})
        with use("plain"):
            output, _ = layer(torch.randn(3, 2, layer.input_size))
        assert output.shape[:2] == (3, 2)
        assert output.isfinite().all()
    for value in refused:
        with pytest.raises(OptionError, match=rf"\b{option}\b"):
            kind(**{**sizes, option: value})


NETS: dict[str, list[Any]] = {  # beside n = 4, r = 3, Y = 2, d = 5
    "input_size": ONE, "rank": ONE, "output_size": ONE, "steps": [[2, 3], [1, 0]], "features": [[0, 1], [-1]],
}  # fmt: skip


@pytest.mark.parametrize("option", NETS)
@pytest.mark.parametrize("kind", [CPNet, TensorTrainNet])
def test_limits_of_tensor_networks(kind: Any, option: str) -> None:
    sizes = {"input_size": 4, "rank": 3, "output_size": 2, "steps": 5}
    allowed, refused = NETS[option]
    for value in allowed:
        now = {**sizes, option: value}
        assert kind(**now)(torch.randn(now["steps"], 7, now["input_size"])).shape == (7, now["output_size"])
    for value in refused:
        with pytest.raises(OptionError, match=rf"\b{option}\b"):
            kind(**{**sizes, option: value})


MODEL: dict[str, list[Any]] = {
    "hidden": [[1, 10**6], [0, 10**6 + 1]],
    "layers": [[1, 1000], [0, 1001]],
    "embedding": [[None, 0, 10**6], [-1, 10**6 + 1]],
    "l1": [[0, 0.5], [-1e-9, math.inf, math.nan]],
    "l1_on": [["codes", "weights"], ["code"]],
    "encoder": [["", "learned", "random"], ["learnt"]],
    "context": [["", "off", "whole", "segmented", "3+2+4", "2"], ["wole", "3+", "3+-2", "²+3"]],
}


@pytest.mark.parametrize("option", MODEL)
def test_limits_of_a_model(option: str) -> None:
    allowed, refused = MODEL[option]
    for value in allowed:
        assert getattr(Model("rnn", **{option: value}), option) == value
    for value in refused:
        with pytest.raises(OptionError, match=rf"\b{option}\b"):
            Model("rnn", **{option: value})


WITH_BIAS = [name for name, kind in LAYERS.items() if "bias" in inspect.signature(kind).parameters]
WITHOUT_CHOICE = {"birnn", "cpbirnn", "rac"}
"""Which have no bias unless asked, or none at all."""
MODRELU = {"eurnn", "exprnn", "full-capacity", "hyland-raetsch", "nnrnn", "scornn", "scurnn", "urnn"}
"""Whose only bias is that of the activation, which stays."""


@pytest.mark.parametrize("name", sorted({*WITH_BIAS} - WITHOUT_CHOICE))
def test_without_a_bias(name: str) -> None:
    """As with a bias of zeros; there is no parameter for it."""
    torch.manual_seed(0)
    kind: Any = LAYERS[name]
    layer, bare = kind(4, 4, 2).eval(), kind(4, 4, 2, bias=False).eval()
    names = {key for key, _ in bare.named_parameters()}
    dropped = {key for key, _ in layer.named_parameters()} - names
    assert bool(dropped) != (name in MODRELU)
    assert all("bias" in key and "mod_bias" not in key for key in dropped)
    with torch.no_grad():
        for key, parameter in layer.named_parameters():
            if key in dropped:
                parameter.zero_()
    bare.load_state_dict({key: value for key, value in layer.state_dict().items() if key not in dropped})
    x = torch.randn(6, 2, 4)
    with use("plain"):
        torch.testing.assert_close(bare(x)[0], layer(x)[0], rtol=1e-5, atol=1e-5)

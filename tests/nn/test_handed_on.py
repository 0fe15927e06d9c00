"""Every option that a layer names is handed on: with another value than its default the layer does something else."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.loops import use
from engram.models import MODELS
from engram.nn import Recurrent
from engram.state import parts

SIZES = ("self", "input_size", "hidden_size", "num_layers", "device", "dtype", "options")
ELSEWHERE = {"batch_first", "nonlinearity", "rebase_every", "checkpoint_every"}
"""What changes no number, or has its own tests: test_against_torch.py, test_presets.py."""
FIXED = {("depth-rnn", "activation_in"), ("s4", "init"), ("s4", "discretization"), ("rnn", "output")}
"""Options with one value, or with one for real weights."""
OTHER: dict[str, Any] = {
    "activation_in": "depth", "align": "dot", "attn_every": 3, "bias": False, "bidirectional": True,
    "block_dropout": 0.5, "chrono": 20, "combine": "mean", "complex": False, "decay": 1.0, "deviation": 2.0,
    "discretization": "bilinear", "dropout": 0.5, "dt": 0.5, "dt_max": 1.0, "dt_min": 0.01, "dt_transform": "softplus",
    "epsilon": 0.9, "gamma": 0.5, "gamma_penalty": 1.0, "gated": True, "heads": 2, "initial_state": "trained", "k": 2,
    "layer_norm": True, "layers": 4, "log_scale": True, "map": "cayley", "margin": 0.5, "mask": "block",
    "mode": "recurrence", "n_ssm": 2, "nu": 3, "p": 1.0, "parallel": True, "positive": True, "prenorm": False,
    "proj_size": 2, "rank": 2, "readout": "s", "reflections": 2, "residual": True, "rho": 1, "screen": "recency",
    "state_size": 6, "strength": 1.0, "trunc": 3, "two_sided": True,
}  # fmt: skip
OF_LAYER: dict[tuple[str, str], Any] = {
    ("depth-rnn", "init"): "xavier",
    ("s4d", "init"): "lin",
    ("spectral", "reflections"): (2, 3),
    ("soft-orthogonal", "norm"): "spectral",
    ("birnn", "bias"): None,  # of the linear part, which it has not
    ("rac", "bias"): True,
}
NOT_SEEN = {"mode", "parallel"}
"""How something is computed: the cell says it."""


def other_value(name: str, option: str, default: Any) -> Any:
    if (name, option) in OF_LAYER:
        return OF_LAYER[name, option]
    if option == "activation":
        return "tanh" if default == "identity" else "identity"
    if option == "init":
        return "cayley"
    return "none" if option == "norm" else OTHER[option]


LAYERS = {name: entry.kind for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent)}
NAMED = [
    (name, option)
    for name, kind in LAYERS.items()
    for option, p in inspect.signature(kind.__init__).parameters.items()
    if option not in (*SIZES, *ELSEWHERE) and (name, option) not in FIXED and p.kind is not p.VAR_KEYWORD
    and option[0] != "_" and OF_LAYER.get((name, option), 0) is not None and "__init__" in vars(kind)
]  # fmt: skip


def what_it_does(layer: Recurrent, steps: int) -> list[Tensor]:
    """Outputs, states, the penalty and all gradients, away from the start of the weights."""
    torch.default_generator.manual_seed(1)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
    x = torch.randn(steps, 2, 4, requires_grad=True)
    with use("plain"):
        output, state = layer(x)
    penalty = layer.penalty()
    loss = sum((v.abs() ** 2).sum() for v in (output, penalty))
    gradients = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True, materialize_grads=True)
    return [output, *parts(state), penalty, *gradients]


@pytest.mark.parametrize(("name", "option"), NAMED)
def test_another_value_makes_a_difference(name: str, option: str) -> None:
    kind: Any = LAYERS[name]
    value = other_value(name, option, MODELS[name].options[option].default)
    steps = 26 if {"nu", "k"} & {*MODELS[name].options} else 6
    made = []
    for options in ({}, {option: value}):
        torch.default_generator.manual_seed(0)
        made.append(kind(4, 4, 2, **options))
    if option in NOT_SEEN:
        assert (
            [getattr(cell, option) for cell in made[1].cells] == [value] * 2 != [getattr(made[0].cells[0], option)] * 2
        )
        return
    plain, changed = (what_it_does(layer, steps) for layer in made)
    same = len(plain) == len(changed) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(plain, changed, strict=True)
    )
    assert not same

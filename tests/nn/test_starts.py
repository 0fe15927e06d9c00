"""How every layer and tensor network starts: each weight against the law of its paper, in numbers."""

from typing import Any

import pytest
import torch

from engram.models import MODELS
from engram.nn import CPNet, Recurrent, TensorTrainNet
from laws import Law, Normal, Uniform, follows

D, N, R = 40, 100, 25
GLOROT = {"weight_ih": Normal((2 / (D + N)) ** 0.5)}
SMALL = {"mod_bias": Uniform(0.01)}
LAWS: dict[str, dict[str, Law]] = {  # where it is not U(-1/sqrt(N), 1/sqrt(N)), as torch's; matrices under maps apart
    "irnn": {"weight_ih": Normal(0.001), "bias": 0.0},
    **dict.fromkeys(("soft-orthogonal", "spectral-margin", "spectral"), GLOROT),
    **dict.fromkeys(("orth-init", "full-capacity", "householder", "scornn", "exprnn", "nnrnn"), GLOROT | SMALL),
    **{name: GLOROT | SMALL | {"start": Uniform(0.01)} for name in ("hyland-raetsch", "scurnn")},
    "urnn": {"weight_ih": Uniform((3 / (D + N)) ** 0.5), "mod_bias": 0.0, "start": Uniform((3 / (2 * N)) ** 0.5)},
    "eurnn": {"weight_ih": Uniform(0.01), "mod_bias": -0.01},
    "goru": {"weight_ih": Uniform(0.01), "weight_hh": Uniform(0.01), "mod_bias": 0.01},
    "rac": {"weight_ih": Normal(D**-0.5)},
    "mirnn": {"alpha": 1.0, "beta_input": 0.5, "beta_state": 0.5, "bias": 0.0},
    "birnn": {"tensor": Normal((N * D) ** -0.5)},
    "cpbirnn": {"factor_h": Normal(N**-0.5), "factor_x": Normal(D**-0.5), "factor_out": Normal(R**-0.5)},
    "sab": {"weight_score": Normal(0.01)},
    "antisymmetric": {"weight_ih": Normal(D**-0.5), "bias": 0.0},
    "cornn": dict.fromkeys(("weight_ih", "weight_hh", "weight_zh", "bias"), Uniform((D + 2 * N) ** -0.5)),
    "min-gru": dict.fromkeys(("weight_ih", "bias"), Uniform(D**-0.5)),
    "min-lstm": dict.fromkeys(("weight_ih", "bias"), Uniform(D**-0.5)),
}
ELSEWHERE = {("irnn", "weight_hh"), ("orth-init", "weight_hh"), ("rac", "weight_hh"), ("goru", "bias")}
LAYERS = [name for name, entry in MODELS.items() if issubclass(entry.kind, Recurrent) and name not in ("s4", "s4d")]


@pytest.mark.parametrize("name", LAYERS)
def test_every_weight_of_a_layer(name: str) -> None:
    """As it is made, and again after reset_parameters."""
    more: dict[str, Any] = {"rank": R} if name.startswith("cp") else {}
    layer: Any = MODELS[name].kind(D, N, **more)
    cell = layer.cells[0]
    for _ in range(2):
        weights = {key: p for key, p in cell.named_parameters(recurse=False) if (name, key) not in ELSEWHERE}
        assert weights.keys() >= LAWS.get(name, {}).keys()
        for key, weight in weights.items():
            follows(weight, LAWS.get(name, {}).get(key, Uniform(N**-0.5)))
        with torch.no_grad():
            for p in cell.parameters(recurse=False):
                p.fill_(7)
        layer.reset_parameters()


def test_the_reset_gate_of_goru_starts_open() -> None:
    """b_r = 2, b_z = 0, b_h = 0."""
    assert MODELS["goru"].kind(3, 4).bias_l0.tolist() == [2.0] * 4 + [0.0] * 8


@pytest.mark.parametrize("name", ["exprnn", "goru", "urnn", "soft-orthogonal"])
def test_a_mapped_matrix_is_drawn_again(name: str) -> None:
    cell: Any = MODELS[name].kind(3, 20).cells[0]  # type: ignore[operator]
    key = next(iter(cell.parametrizations))
    before = getattr(cell, key).detach().clone()
    cell.reset_parameters()
    assert not torch.allclose(getattr(cell, key), before, atol=0.01)


def test_tensor_networks() -> None:
    """Cores near 1/m times the identity, ends of variance 1/m and 1/(m r); means of 1/m; features from 1."""
    m, r, d, y = 4, 30, 12, 50
    train, shallow = TensorTrainNet(9, r, y, d), CPNet(9, r, y, d)
    follows(train.first, Normal(m**-0.5))
    follows(train.last, Normal((m * r) ** -0.5))
    follows(train.inner - torch.eye(r)[:, None] / m, Normal(0.5 * (m * r) ** -0.5))
    follows(shallow.vectors[0], Normal((m * r) ** -0.5))
    follows(shallow.vectors[1:] - 1 / m, Normal(0.5 / m))
    for net in (train, shallow):
        follows(net.map.weight, Uniform(9**-0.5))
        follows(net.map.bias, 1.0)

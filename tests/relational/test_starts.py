"""How the relational networks start: each weight against the program of Webb et al. 2021, in numbers.

Xavier normal, of variance 2 g^2/(inputs + outputs), where nothing or a gate follows (g = 1) or a tanh (g = 5/3);
Kaiming normal, of 2/inputs, where a ReLU follows; biases 0.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.models import MODELS
from engram.relational import PixelCNN, Similarity, Sparse
from laws import Law, Normal, Uniform, follows

F, C, T, N = 24, 30, 5, 60
KEY, SLOTS, SLOT, M = 40, 20, 32, 36


def xavier(inputs: int, outputs: int, gain: float = 1.0) -> Normal:
    return Normal(gain * (2 / (inputs + outputs)) ** 0.5)


def kaiming(inputs: int) -> Normal:
    return Normal((2 / inputs) ** 0.5)


def decoder(inputs: int, hidden: int = N) -> dict[str, Law]:
    return {"decoder.hidden.weight": kaiming(inputs), "decoder.answer.weight": xavier(hidden, C)}


def attention(name: str, size: int, wide: int) -> dict[str, Law]:
    return {
        f"{name}.projections.weight": xavier(size, 3 * size),
        f"{name}.merge.weight": xavier(size, size),
        f"{name}.first.weight": 1.0,
        f"{name}.second.weight": 1.0,
        f"{name}.widen.weight": kaiming(size),
        f"{name}.narrow.weight": kaiming(wide),
    }


def lstm(inputs: int) -> dict[str, Law]:
    """The gates i and f together, the candidate before its tanh, the gate o."""
    found: dict[str, Law] = {}
    for name, size in (("ih", inputs), ("hh", N)):
        found[f"cell.weight_{name}[:{2 * N}]"] = xavier(size, 2 * N)
        found[f"cell.weight_{name}[{2 * N}:{3 * N}]"] = xavier(size, N, 5 / 3)
        found[f"cell.weight_{name}[{3 * N}:]"] = xavier(size, N)
    return found


TOKEN = 8 * 8
MEMORY, LSTM = Uniform(M**-0.5), Uniform(N**-0.5)
EXPECTED: dict[str, tuple[dict[str, Any], dict[str, Law]]] = {
    "corelnet": ({}, decoder(15)),
    "corelnet-t": (
        {"feedforward": 50},
        {"positions": Normal(1.0), "token.weight": xavier(T + 8, TOKEN)}
        | attention("layer", TOKEN, 50)
        | decoder(TOKEN),
    ),
    "esbn": (
        {"key_size": KEY},
        {"cell.weight_key": kaiming(N), "cell.weight_gate": xavier(N, 1), "answer.weight": xavier(N, C)}
        | {"confidence_gain": 1.0}
        | lstm(KEY + 1),
    ),
    "transformer": ({"feedforward": 50}, attention("layers.0", F, 50) | {"norm.weight": 1.0} | decoder(F)),
    "predinet": (
        {"heads": 4, "key_size": KEY, "relations": 20},
        {"key.weight": xavier(F + 1, KEY), "directions.weight": xavier(F + 1, 20)}
        | {f"queries.{k}.weight": xavier(T * (F + 1), 4 * KEY) for k in range(2)}
        | decoder(4 * 22),
    ),
    "rn": (
        {"pair_size": KEY},
        {"first.weight": kaiming(2 * (F + 1)), "second.weight": kaiming(N)} | decoder(KEY, KEY),
    ),
    "ntm": (
        {"slots": SLOTS, "slot_size": SLOT},
        {"memory": xavier(SLOT, SLOTS), "answer.weight": xavier(N, C)}
        | {f"cell.weight_heads[{k}:{k + SLOT}]": xavier(N, SLOT, 5 / 3) for k in (0, SLOT, 3 * SLOT)}
        | {f"cell.weight_heads[{2 * SLOT}:{3 * SLOT}]": xavier(N, SLOT)}  # what is erased, before a sigmoid
        | {f"cell.weight_shape[{k}:{k + 1}]": kaiming(N) for k in (0, 2, 6, 8)}
        | {f"cell.weight_shape[{k}:{k + 1}]": xavier(N, 1) for k in (1, 7)}
        | {f"cell.weight_shape[{k}:{k + 3}]": xavier(N, 3) for k in (3, 9)}
        | lstm(F + SLOT),
    ),
    "mnm": (  # the one network of the paper that starts as torch's layers do
        {"memory_size": M},
        dict.fromkeys((f"cell.{kind}_{name}" for kind in ("weight", "bias") for name in ("ih", "hh", "heads")), LSTM)
        | dict.fromkeys(("cell.weight_rate", "cell.weight_targets", "cell.bias_targets"), MEMORY)
        | dict.fromkeys(("merge.weight", "merge.bias"), Uniform((N + M) ** -0.5))
        | dict.fromkeys(("answer.weight", "answer.bias"), LSTM),
    ),
}  # fmt: skip


def starts(weights: Mapping[str, Tensor], laws: Mapping[str, Law]) -> None:
    """Each weight, or rows of it, has its law, and what has none is 0."""
    for key, law in laws.items():
        name, _, rows = key.removesuffix("]").partition("[")
        first, _, last = rows.partition(":")
        follows(weights[name][int(first or 0) : int(last) if last else None].detach(), law)
    rest = weights.keys() - {key.partition("[")[0] for key in laws}
    assert not [name for name in rest if weights[name].any()]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_weight_of_a_network(name: str) -> None:
    options, laws = EXPECTED[name]
    more = {"steps": T} if name in ("corelnet", "corelnet-t", "esbn", "predinet", "mnm") else {}
    network: Any = MODELS[name].kind(F, C, hidden_size=N, **more, **options)  # type: ignore[operator]
    weights = dict(network.named_parameters())
    if name == "mnm":
        assert abs(float(weights.pop("cell.bias_rate").detach())) <= M**-0.5
        follows(network.cell.initial, MEMORY)
    starts(weights, laws)


def test_similarities() -> None:
    """Scalars and both sides of a product Xavier normal; the signatures of two rules of norm near 1."""
    sides, mix = Similarity(F, T, "asymmetric"), Similarity(F, T, "mix")
    starts(dict(sides.named_parameters()), {f"{name}.weight": xavier(F, F) for name in ("first", "second")})
    laws = {"scalar.weight": xavier(F, 1), "query.weight": xavier(T * F, 32), "signatures": Normal(32**-0.5)}
    starts(dict(mix.named_parameters()), laws)


def test_what_stands_before_a_network() -> None:
    """A ReLU follows every layer of the encoder, of 3 x 4 x 4 and then 32 x 4 x 4 inputs."""
    encoder = PixelCNN((3, 32, 32), 50)
    inputs = {0: 3 * 16, 2: 32 * 16, 4: 32 * 16, 7: 32 * 4 * 4, 9: 256}
    starts(dict(encoder.named_parameters()), {f"layers.{k}.weight": kaiming(n) for k, n in inputs.items()})
    starts(dict(Sparse(40, 0.1).named_parameters()), {"weight": xavier(40, 40)})
    assert torch.equal(encoder(torch.zeros(2, 3, 32, 32)), torch.zeros(2, 50))

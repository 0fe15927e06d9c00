"""Models without numbers, of few digits, broken or frozen by torch: measured, or refused in one line; and restored."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import engram
from engram.errors import DTypeError, EngramError, OptionError
from engram.probe import PARTS, NotMeasured, profile, untouched


def net() -> nn.Sequential:
    """One weight frozen, dropout on."""
    made = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Linear(4, 2))
    made[2].bias.requires_grad_(False)
    return made


def traced() -> nn.Module:
    return torch.jit.trace(net().eval(), torch.randn(5, 2, 3)).train()


def with_weight(value: float, dtype: torch.dtype = torch.float32) -> nn.Module:
    module = nn.RNN(3, 4, dtype=dtype)
    nn.init.constant_(module.weight_hh_l0, value)
    return module


def from_inference() -> nn.Module:
    with torch.inference_mode():
        return nn.RNN(3, 4)


def facts(module: nn.Module) -> list[Any]:
    named = [*module.named_parameters(), *module.named_buffers()]
    return [
        [part.training for part in module.modules()],
        {name: tensor.requires_grad for name, tensor in named},
        {name: tensor.grad for name, tensor in named},
        {name: None if tensor.is_meta else tensor.tolist() for name, tensor in named},
    ]


# Model, and what the profile says: the refusal, or for some part its reason or None (measured).
MEASURED: dict[str, tuple[Callable[[], nn.Module], dict[str, str | None]]] = {
    "traced": (traced, {"gradient_reach": None, "structure": "no square recurrent matrix"}),
    "bfloat16": (
        lambda: nn.LSTM(3, 4, dtype=torch.bfloat16),
        dict.fromkeys(name for name in PARTS if name != "structure"),
    ),
    "bfloat16, ours": (lambda: engram.nn.ExpRNN(3, 4).bfloat16(), dict.fromkeys(PARTS)),
    "float16": (lambda: nn.RNN(3, 4, dtype=torch.float16), dict.fromkeys(PARTS)),
    "NaN": (
        lambda: with_weight(torch.nan),
        {"spectrum": "W holds NaN or infinity", "structure": "weight_hh_l0 holds NaN or infinity"},
    ),
    "infinity": (
        lambda: with_weight(torch.inf),
        {"spectrum": "W holds NaN or infinity", "structure": "weight_hh_l0 holds NaN or infinity"},
    ),
    "inference tensors": (from_inference, {"gradient_reach": "refused inputs", "spectrum": None}),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize("name", MEASURED)
def test_measured_and_restored(name: str) -> None:
    """Each part gives its result or one line."""
    make, expected = MEASURED[name]
    module = make()
    before = facts(module)
    found = profile(module, input_size=3, length=12).parts
    assert facts(module)[:3] == before[:3]
    assert str(facts(module)[3]) == str(before[3])  # NaN too
    for part, reason in expected.items():
        assert (reason is None) == (not isinstance(found[part], NotMeasured)), found[part]
        assert reason is None or reason in found[part].reason
    assert not [each for each in found.values() if isinstance(each, NotMeasured) and "\n" in each.reason]


REFUSED: dict[str, tuple[Callable[[], nn.Module], type[EngramError], str]] = {
    "meta": (lambda: nn.LSTM(3, 4, device="meta"), DTypeError, "LSTM is on the meta device and holds no numbers"),
    "meta, ours": (lambda: engram.nn.ExpRNN(3, 4).to("meta"), DTypeError, r'model.to_empty\(device="cpu"\)'),
    "lazy": (lambda: nn.LazyLinear(4), OptionError, "a lazy module.: call it once"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_restored(name: str) -> None:
    make, kind, words = REFUSED[name]
    module = make()
    modes, wanted = [part.training for part in module.modules()], [p.requires_grad for p in module.parameters()]
    with pytest.raises(kind, match=words) as refused:
        profile(module, input_size=3, length=12)
    assert "\n" not in str(refused.value)
    assert [part.training for part in module.modules()] == modes
    assert [p.requires_grad for p in module.parameters()] == wanted


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize("make", [lambda: nn.LSTM(3, 4, device="meta"), traced, net], ids=["meta", "traced", "plain"])
def test_untouched_restores_after_a_failure(make: Callable[[], nn.Module]) -> None:
    module = make()
    before = facts(module)
    with pytest.raises(KeyError), untouched(module):
        raise KeyError("within")
    assert facts(module) == before


def test_what_can_be_restored_is_restored() -> None:
    """One tensor that refuses does not keep the others from being restored."""
    module = net()
    with pytest.raises(RuntimeError), untouched(module):
        module[0].weight.data = torch.zeros(1, 7)  # cannot be copied to
    assert module.training
    assert [p.requires_grad for p in module.parameters()] == [True, True, True, False]


def test_the_reader_is_told() -> None:
    assert profile(with_weight(torch.nan), length=12, parts=("structure",)).notes == [
        "weight_hh_l0 holds NaN or infinity (1 of 4 tensors do)"
    ]
    notes = profile(with_weight(0.1, torch.bfloat16), length=12, parts=("structure",)).notes
    assert notes == ["the model computes in torch.bfloat16: numbers are good to two or three digits"]

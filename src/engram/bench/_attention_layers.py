"""The layers that ``engram bench attention`` races, by name, and what a training step of each of them takes."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engram.bench._memory import in_child, peak
from engram.bench._per_sample import PerSampleRelRNN
from engram.loops import use
from engram.nn import LSTM, RNN, SAB, MemRNN, RelLSTM, RelRNN

B, H, D = 16, 128, 10


class TapedMemRNN(MemRNN):
    """A MemRNN whose gradient is autograd's own: it keeps how every step was aligned with every earlier one."""

    def forward(self, *inputs: Any, **options: Any) -> Any:
        with use("plain"):
            return super().forward(*inputs, **options)


LAYERS: dict[str, Callable[..., nn.Module]] = {
    "torch.nn.LSTM": nn.LSTM,
    "RNN": RNN,
    "LSTM": LSTM,
    "RelRNN": RelRNN,
    "RelLSTM": RelLSTM,
    "SAB": SAB,
    "MemRNN": MemRNN,
    "MemRNN, plain loop": TapedMemRNN,
    "authors' loop restated": PerSampleRelRNN,
}
"""With H units; nu = rho = 10, and the defaults of the others."""
PEERS = {"minGRU-pytorch": "minGRU_pytorch", "LRU-pytorch": "LRU_pytorch", "mambapy": "mambapy"}
"""Of other people, with a memory that does not grow: the package of each."""
PIECE = 1000
"""Steps of a stream that are fed at a time."""


class Peer(nn.Module):
    """A batch-first layer of other people behind a linear map of the input; ``(T, B, D)`` to ``(T, B, width)``."""

    def __init__(self, name: str, input_size: int, width: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, width)
        package: Any = import_module(PEERS[name] + (".mamba" if name == "mambapy" else ""))
        if name == "minGRU-pytorch":
            self.layer = package.minGRU(width)
        elif name == "LRU-pytorch":
            self.layer = package.LRU(width, width, width)
        else:
            self.layer = package.Mamba(package.MambaConfig(d_model=width, n_layers=1))

    def forward(self, input: Tensor) -> tuple[Tensor]:
        return (self.layer(self.input(input).transpose(0, 1)).transpose(0, 1),)


def count(layer: nn.Module) -> int:
    """The parameters of a layer, real numbers; a complex one is two."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in layer.parameters())


def matched(name: str, budget: int) -> Peer:
    """The widest peer with at most this many parameters; an even width, which all of them take."""
    width, found = 2, Peer(name, D, 2)
    while count(wider := Peer(name, D, width + 2)) <= budget:
        width, found = width + 2, wider
    return found


def installed() -> list[str]:
    """The peers that can be imported."""
    return [name for name, package in PEERS.items() if find_spec(package)]


def make(name: str) -> nn.Module:
    """A contestant: one of engram's or torch's with H units, or a peer with at most the parameters of RelRNN."""
    torch.manual_seed(0)
    return LAYERS[name](D, H) if name in LAYERS else matched(name, count(RelRNN(D, H)))


def training_step(layer: nn.Module, steps: int, batch: int = 0) -> Callable[[], None]:
    """Forward and backward of all steps, weight gradients included, as a call."""
    input = torch.randn(steps, batch or B, D)

    def call() -> None:
        layer.zero_grad(set_to_none=True)
        layer(input)[0].sum().backward()

    return call


def step_memory(name: str, steps: int) -> float:
    """Megabytes by which a training step raises the peak of a fresh process."""
    return in_child(
        f"from engram.bench import _attention_layers as own; own.B, own.H, own.D = {B}, {H}, {D}; "
        f"print(own.memory_here({name!r}, {steps}))"
    )


def memory_here(name: str, steps: int) -> float:
    torch.set_num_threads(1)
    layer = make(name)
    training_step(layer, 30)()  # compiles, and loads what is loaded at first use
    call = training_step(layer, steps)
    before = peak()
    call()
    return peak() - before


def stream_growth(name: str, steps: int) -> float:
    """Resident memory of a fresh process at the end of a stream over that after its first twentieth."""
    return in_child(
        f"from engram.bench import _attention_layers as own; own.B, own.H, own.D = {B}, {H}, {D}; "
        f"print(own.stream_here({name!r}, {steps}))"
    )


def stream_here(name: str, steps: int) -> float:
    torch.set_num_threads(1)
    layer, state, resident = make(name).eval(), None, []
    with torch.no_grad():
        for _ in range(max(20, steps // PIECE)):
            _, state = layer(torch.randn(PIECE, 1, D), state)
            resident.append(resident_memory())
    return resident[-1] / resident[len(resident) // 20]


def resident_memory() -> float:
    """Of this process now, in megabytes; where the system does not tell, its peak so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1024**2
    except OSError:
        return peak()

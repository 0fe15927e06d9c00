"""Other ways to run a recurrence in torch: torch.compile of the step, of 16 steps, of the whole loop; torch's scan.

All compute the same LSTM at one size. A contestant whose gradients differ from those of ``torch.nn.LSTM``, or that
fails, is shown with the reason in place of a time.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.bench._contestants import training_step
from engram.bench._measure import interleaved, spread
from engram.bench._size import Size
from engram.nn import LSTM, MinGRU

SIZE = Size(T=64, B=128, H=128, D=128)
UNROLLED = 16
Steps = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def one_step(drive: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A step of the LSTM; ``drive`` ``(B, 4H)`` is W_ih x + b."""
    i, f, g, o = (drive + h @ weight.t()).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def steps(drive: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As many steps as ``drive`` ``(k, B, 4H)`` has; returns the outputs ``(k, B, H)`` and the last h and c."""
    outputs = []
    for each in drive.unbind(0):
        h, c = one_step(each, h, c, weight)
        outputs.append(h)
    return torch.stack(outputs), h, c


def scanned() -> Steps:
    """:func:`steps` by torch's scan operator."""
    scan: Any = import_module("torch._higher_order_ops.scan").scan

    def run(drive: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def combine(state: tuple[Tensor, Tensor], each: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
            h, c = one_step(each, *state, weight)
            return (h, c), h.clone()  # an output must not be the state itself

        (h, c), outputs = scan(combine, (h, c), drive)
        return outputs, h, c

    return run


class LoopLSTM(nn.Module):
    """The weights of a torch.nn.LSTM, run by a function that takes ``every`` steps at a time."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self, reference: nn.LSTM, run: Steps, every: int) -> None:
        super().__init__()
        for name, parameter in reference.named_parameters():
            self.register_parameter(name, nn.Parameter(parameter.detach().clone()))
        self.run, self.every = run, every

    def forward(self, input: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        drive = F.linear(input, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)
        # The start has a gradient as later states have: one compiled graph then serves all pieces.
        size = (input.shape[1], self.weight_hh_l0.shape[1])
        h, c = input.new_zeros(size, requires_grad=True), input.new_zeros(size, requires_grad=True)
        outputs = []
        for piece in drive.split(self.every):
            output, h, c = self.run(piece, h, c, self.weight_hh_l0)
            outputs.append(output)
        return torch.cat(outputs), (h, c)


class BatchFirst(nn.Module):
    """A layer that takes and returns ``(B, T, D)``, and no state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, input: Tensor) -> tuple[Tensor]:
        return (self.layer(input.transpose(0, 1)).transpose(0, 1),)


def compiled_peers(reference: nn.LSTM, quick: bool) -> dict[str, Callable[[], nn.Module]]:
    """The contestants that torch compiles, as functions that make them; they are checked before they are timed.

    ``quick`` leaves out the whole loop, which takes a minute to compile.
    """

    def compiled(run: Steps) -> Steps:
        return torch.compile(run, dynamic=False, fullgraph=True)

    found: dict[str, Callable[[], nn.Module]] = {
        "torch.compile, step": lambda: LoopLSTM(reference, compiled(steps), 1),
        f"torch.compile, {UNROLLED} steps": lambda: LoopLSTM(reference, compiled(steps), UNROLLED),
        f"torch.compile, whole loop of {SIZE.T}": lambda: LoopLSTM(reference, compiled(steps), SIZE.T),
        "torch scan": lambda: LoopLSTM(reference, scanned(), SIZE.T),
        "torch scan, torch.compile": lambda: LoopLSTM(reference, compiled(scanned()), SIZE.T),
    }
    if quick:
        del found[f"torch.compile, whole loop of {SIZE.T}"]
    return found


def race_peers(threads: int, repeats: int, tell: Callable[[str], None], quick: bool) -> list[dict[str, Any]]:
    """Rows as :func:`bench_cells` has them, with ``compile_s``; ``note`` in place of times not measured."""
    base = {"threads": threads, **SIZE._asdict()}
    input, gradient = torch.randn(SIZE.T, SIZE.B, SIZE.D), torch.randn(SIZE.T, SIZE.B, SIZE.H)
    reference = nn.LSTM(SIZE.D, SIZE.H)
    ours = LSTM(SIZE.D, SIZE.H)
    calls = {
        "torch.nn.LSTM": training_step(reference, input, gradient),
        "engram.nn.LSTM": training_step(ours, input, gradient),
        "engram.nn.LSTM, plain loop": training_step(ours, input, gradient, "plain"),
        "Python loop": training_step(LoopLSTM(reference, steps, SIZE.T), input, gradient),
        "engram.nn.MinGRU": training_step(MinGRU(SIZE.D, SIZE.H), input, gradient),
    }
    seconds: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    calls["torch.nn.LSTM"]()
    if find_spec("minGRU_pytorch"):
        layer: nn.Module = BatchFirst(import_module("minGRU_pytorch").minGRU(SIZE.D))
        calls["minGRU-pytorch"] = training_step(layer, input, gradient)
    else:
        rows.append({**base, "contestant": "minGRU-pytorch", "note": "not installed"})
    with _fresh_compiler():
        for name, make in compiled_peers(reference, quick).items():
            try:
                layer = make()
                call = training_step(layer, input, gradient)
                start = time.perf_counter()
                call()
                first = time.perf_counter() - start
                problem = _difference(reference, layer)
            except Exception as error:  # whatever a compiler of others raises: the row says so
                problem = f"fails: {type(error).__name__}: {' '.join(str(error).split())[:160]}"
            if problem:
                rows.append({**base, "contestant": name, "note": problem})
                tell(f"{threads} thread(s), {name}: {problem}")
                continue
            start = time.perf_counter()
            call()
            seconds[name], calls[name] = first - (time.perf_counter() - start), call
            tell(f"{threads} thread(s), {name}: {seconds[name]:.1f} s to compile")
        times = interleaved(calls, repeats)
    for name, found in times.items():
        rows.append({**base, "contestant": name, **spread(found), "compile_s": seconds.get(name)})
    return rows


def _difference(reference: nn.LSTM, layer: nn.Module) -> str:
    """How the gradients of two layers differ after the same training step; empty if they agree up to rounding."""
    theirs = dict(layer.named_parameters())
    for name, parameter in reference.named_parameters():
        right, found = parameter.grad, theirs[name].grad
        if right is None or found is None:
            return f"no gradient of {name}"
        error = float((found - right).norm() / right.norm())
        if not error < 1e-4:  # float32, sums of 8,192 rows; NaN is wrong, too
            return f"wrong gradient of {name}: relative error {error:.1g}"
    return ""


@contextmanager
def _fresh_compiler() -> Iterator[None]:
    """Nothing compiled before is found: compile times are those of a first call."""
    torch.compiler.reset()
    config: Any = import_module("torch.compiler.config")
    before, config.force_disable_caches = config.force_disable_caches, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's compiler warns about its own code
            with suppress(Exception):  # where nothing can be compiled, the rows will say so
                torch.compile(torch.sin)(torch.zeros(3, requires_grad=True)).sum().backward()  # starts the compiler
            yield
    finally:
        config.force_disable_caches = before
        torch.compiler.reset()

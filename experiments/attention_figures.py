"""Figures of trained attention networks (Kerg 2022, Figs. 4.2, B.1, B.8, B.9): gradients, memory, heat maps.

    python experiments/attention_figures.py gradients docs/results/attention-trained.svg RUN [RUN ...]
    python experiments/attention_figures.py trade-off docs/results/attention-trade-off.svg RUN [RUN ...]
    python experiments/attention_figures.py heat docs/results/attention-heat.svg RUN [RUN ...]

RUN is a folder of a sweep, `sweeps/attention/denoise-rellstm-...`. The numbers go into a JSON file beside the figure.
Fig. 4.2, centre, peak memory against T, is the figure of `engram bench attention`.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attention_tables import NAMES
from torch import Tensor

from engram.bench import _attention_layers
from engram.figures import INK, dot_styles, heat_colors, new_figure
from engram.loops import use
from engram.models import Network
from engram.state import parts
from engram.tasks import Batch
from engram.train import RunDirectory, load_network

ALLOW = [str(Path(__file__).with_name("as_printed.py"))]
ROWS = 10
LENGTHS = (400, 600, 800)
"""Delays of the trade-off."""


def gradient_norms(network: Network, batch: Batch, asked: int = 10) -> list[float]:
    """The norm of dL/dh_t over batch and units, of the last step first.

    L is the cross-entropy of the last ``asked`` steps, summed over these and divided by the number of all steps, as
    in the authors' program; h_t is the first field of the state, and its gradient that of all ways from it to L.
    """
    cell = network.core.cells[0].with_built_weights()  # type: ignore[union-attr, index]
    drive, state = cell.drive(network.encode(batch.inputs)), cell.initial_state(batch.inputs.shape[1])
    states, outputs = [], []
    for t in range(len(batch.inputs)):
        now = tuple(part[t] for part in drive) if isinstance(drive, tuple) else drive[t]
        state = cell.step(now, state)
        h: Tensor = parts(state)[0]
        h.retain_grad()
        states.append(h)
        outputs.append(cell.output(state))
    logits = network.head(torch.stack(outputs))
    loss = sum(F.cross_entropy(logits[-k], batch.targets[-k]) for k in range(1, asked + 1))
    (loss / len(batch.inputs)).backward()  # type: ignore[union-attr, operator]
    norms = [0.0 if h.grad is None else float(h.grad.norm()) for h in states]
    return norms[::-1]


def opened(folder: str) -> tuple[Any, Network]:
    return RunDirectory(Path(folder), ALLOW).settings, load_network(folder, allow=ALLOW)


DEFAULTS = {"nu": 10, "rho": 10, "screen": "relevance"}


def label(settings: Any) -> str:
    """What the thesis calls the model, and what of its memory is not as by default."""
    options = {**DEFAULTS, **settings.model.options}
    memory = [f"{name}={options[name]}" for name, default in DEFAULTS.items() if options[name] != default]
    return ", ".join([NAMES.get(settings.model.label, settings.model.label), *memory])


def sampled(task: Any) -> Batch:
    return task.sample(ROWS, torch.Generator().manual_seed(0))  # type: ignore[no-any-return]


Numbers = dict[str, Any]


def gradients(folders: list[str]) -> Numbers:
    """The norm of dL/dh by the distance from the end, for each run."""
    found = {}
    for folder in folders:
        settings, network = opened(folder)
        found[label(settings)] = gradient_norms(network, sampled(settings.task))
    return found


def plot_gradients(found: Numbers, path: Path) -> None:
    """A line per run."""
    with new_figure(path, height=4.2, title="Gradient of the loss by the state, after training") as figure:
        (axes,) = figure.axes
        for name, look in dot_styles(list(found)).items():
            axes.plot([max(norm, 1e-30) for norm in found[name]], color=look.color, label=name)
        axes.set(xlabel="steps from the end", ylabel="norm of dL/dh (log scale)", yscale="log")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=6)


def trade_off(folders: list[str]) -> Numbers:
    """The mean log norm and the peak memory of a training step at three delays, for each run."""
    found: dict[str, list[dict[str, float]]] = {}
    for folder in folders:
        settings, network = opened(folder)
        name = NAMES.get(settings.model.label, settings.model.label)
        if name not in ("RelRNN", "RelLSTM", "MemRNN", "SAB"):
            name = "RNN" if "rnn" in name.lower() else "LSTM"
        for delay in LENGTHS:
            task = type(settings.task)(**{**settings.task.options(), "delay": delay})
            norms = [math.log(max(norm, 1e-30)) for norm in gradient_norms(network, sampled(task))]
            memory = _attention_layers.step_memory(name, task.steps)
            row = {"delay": delay, "mean_log_norm": sum(norms) / len(norms), "memory_mb": memory}
            found.setdefault(label(settings), []).append(row)
    return found


def plot_trade_off(found: Numbers, path: Path) -> None:
    """A line per run, a point per delay."""
    with new_figure(path, height=4.2, title="Gradients against memory, delays 400, 600 and 800") as figure:
        (axes,) = figure.axes
        for name, look in dot_styles(list(found)).items():
            points = [(row["memory_mb"], row["mean_log_norm"]) for row in found[name]]
            axes.plot(*zip(*points, strict=True), color=look.color, marker=look.marker, label=name)
        axes.set(xlabel="peak memory of a training step (MB, log scale)", ylabel="mean log norm", xscale="log")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=6)


def heat(folders: list[str]) -> Numbers:
    """Attention at each step to the states of each step, the mean over a batch, for each run."""
    maps = {}
    for folder in folders:
        settings, network = opened(folder)
        with torch.no_grad(), use("plain"):
            encoded = network.encode(sampled(settings.task).inputs)
            attention = network.core(encoded, return_attention=True)[2]
        weights = attention.over_time()[0].mean((0, 1)).tolist()
        maps[f"{label(settings)}, delay {settings.task.delay}"] = [[round(w, 4) for w in row] for row in weights]
    return maps


def plot_heat(maps: Numbers, path: Path) -> None:
    """A panel per run."""
    with new_figure(path, 1, len(maps), height=4.2, title="Attention: to which step, at which step") as figure:
        for axes, (name, grid) in zip(figure.axes, maps.items(), strict=True):
            axes.imshow(grid, cmap=heat_colors(), vmin=0, vmax=max(map(max, grid)), aspect="auto")
            axes.set(title=name, xlabel="step attended to", ylabel="step that attends")
            axes.title.set_color(INK)


WAYS = {
    "gradients": (gradients, plot_gradients), "trade-off": (trade_off, plot_trade_off), "heat": (heat, plot_heat),
}  # fmt: skip

if __name__ == "__main__":
    measure, plot = WAYS[sys.argv[1]]
    figure = Path(sys.argv[2])
    numbers = measure(sys.argv[3:])
    figure.with_suffix(".json").write_text(json.dumps(numbers) + "\n")
    plot(numbers, figure)

"""What does orthogonality cost? Identification of a contractive ReLU system (Emami et al. 2019, poster).

    python experiments/identification.py laptop runs/identification
    python experiments/identification.py plot runs/identification docs/results

Networks learn the outputs of a random system of 4 states from its inputs and noisy outputs: a ReLU RNN, an orthogonal
one by a map and one by projection after each step, and an LSTM. Also plotted: the ceiling that the noise sets, and the
8-state orthogonal network that `engram.convert.to_orthogonal` makes of the true system. `paper` is the poster's
setting (30 systems, 2 to 14 units, 700 sequences of 1000 steps, 100 epochs); `laptop` has 5 systems with twice the
contraction and half the length, so that a sequence still spans 10 time constants, and 500 steps on fresh sequences.
Finished runs are kept: a second call goes on after them, and `plot` shows what is there.
"""

import json
import math
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
from kept import kept
from torch import Tensor

from engram.convert import to_orthogonal
from engram.errors import StoppedError
from engram.figures import INK, MUTED, dot_styles, new_figure
from engram.nn import RNN
from engram.tasks import ContractiveSystem
from engram.train import Settings

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "RNN": ("rnn", {"activation": "relu"}),
    "orthogonal, map": ("rnn", {"activation": "relu", "map": "exponential"}),
    "orthogonal, projected": ("rnn", {"activation": "relu", "map": "projected"}),
    "LSTM": ("lstm", {}),
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"systems": 1, "hidden": [4], "task": {"epsilon": 0.1, "length": 100}, "train": {"steps": 20}},
    "laptop": {
        "systems": 5,
        "hidden": [2, 4, 8, 14],
        "task": {"epsilon": 0.02, "length": 500},
        "train": {"steps": 500, "validate_every": 100, "valid_samples": 40, "test_samples": 100},
    },
    "paper": {
        "systems": 30,
        "hidden": [2, 4, 6, 8, 10, 12, 14],
        "task": {"epsilon": 0.01, "length": 1000},
        "train": {
            "samples": 700,
            "epochs": 100,
            "validate_every": 700,
            "valid_samples": 100,
            "test_samples": 300,
            "clip": 0.0,
            "readout_bias": False,
        },
    },
}
SNRS = (20.0, 15.0)


def settings(scale: dict[str, Any], model: str, hidden: int, system: int, snr: float) -> Settings:
    """Batch 10 and rate 0.01 are the poster's; Adam is the script's."""
    kind, options = MODELS[model]
    task = ContractiveSystem(system=system, snr=snr, **scale["task"])
    rates = {"lr": 0.01, "lr_orthogonal": 0.01}
    return Settings.of(task, kind, hidden=hidden, options=options, batch=10, threads=1, **rates, **scale["train"])


def learned(given: Settings, out: Path, folder: str) -> float | None:
    """R^2 on the test of a run; None if it diverged."""
    try:
        run = kept(given, out, folder)
    except StoppedError:
        return None
    return run.facts["results"]["test"]["r2"] if run.status == "done" else None


def exact(given: Settings) -> dict[str, Any]:
    """The true system and its orthogonal twin on the same test; in float64, where 1 - rho is not lost in rounding."""
    task: Any = given.task
    batches, weights = given.batches("test"), task.truth.weights
    true = RNN(task.inputs, task.states, activation="relu", dtype=torch.float64)
    with torch.no_grad():
        for name, value in (("weight_hh", weights.W), ("weight_ih", weights.F), ("bias", weights.b)):
            getattr(true.cells[0], name).copy_(torch.from_numpy(value))
    read_out = torch.from_numpy(weights.C)
    tests = [
        batch._replace(inputs=batch.inputs.double()) for batch in map(batches.__getitem__, range(batches.per_epoch))
    ]
    twin = to_orthogonal(true, data=torch.cat([batch.inputs for batch in tests], 1))

    def score(network: Any) -> Any:
        """Mean R^2 over batches, all of one size."""
        outputs: list[Tensor] = [network(batch.inputs)[0].detach() @ read_out.mT for batch in tests]
        found = [task.metrics(y, batch)["r2"] for y, batch in zip(outputs, tests, strict=True)]
        return sum(found) / len(found)

    return {
        "true_r2": score(true),
        "converted_r2": score(twin),
        "ceiling": task.ceiling,
        **{name: twin.report[name] for name in ("states_used", "orthogonality_error", "input_bound", "difference")},
        "bias_bound": twin.bias_bound,
    }


def run(name: str, out: Path) -> None:
    """All runs of a scale, one system after another, so that what is there at any time is balanced."""
    scale = SCALES[name]
    found: dict[str, Any] = {"scale": name, **scale, "runs": [], "exact": []}
    for system in range(scale["systems"]):
        for snr in SNRS:
            place = {"system": system, "snr": snr}
            found["exact"].append({**place, **exact(settings(scale, "RNN", 4, system, snr))})
            for model in MODELS:
                for hidden in scale["hidden"]:
                    given = settings(scale, model, hidden, system, snr)
                    folder = f"{name}-{model.replace(', ', '-')}-{hidden}-snr{snr:.0f}-system{system}"
                    r2 = learned(given, out, folder.lower())
                    found["runs"].append({**place, "model": model, "hidden": hidden, "r2": r2})
                    shown = "diverged" if r2 is None else f"R2 {r2:.4f}"
                    print(f"{folder}: {shown} (ceiling {found['exact'][-1]['ceiling']:.4f})", flush=True)
            out.mkdir(parents=True, exist_ok=True)
            (out / "identification.json").write_text(json.dumps(found, indent=1) + "\n")


def plot(results: Path) -> None:
    """Test R^2 against hidden units, one panel per noise level: each system, and the median, for which a run that
    diverged is the worst.

    The axis is that of log(1 - R^2): equal steps divide what is left unexplained by equal factors.
    """
    found = json.loads((results / "identification.json").read_text())
    systems = len({row["system"] for row in found["exact"]})
    title = f"Identification of {systems} random systems of 4 states: each a dot, lines through the medians"
    with new_figure(results / "identification.svg", 1, len(SNRS), height=4.6, title=title, sharey=True) as figure:
        for axes, snr in zip(figure.axes, SNRS, strict=True):
            _plot_noise(axes, found, snr)
        left, ticks = figure.axes[0], [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99]
        left.set(yscale="log", ylabel=f"test R² (log scale of 1 - R²), {found['scale']} scale")
        left.invert_yaxis()
        left.set_yticks([1 - tick for tick in ticks], [f"{tick:g}" for tick in ticks])
        left.set_yticks([], minor=True)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3)


def _plot_noise(axes: Any, found: dict[str, Any], snr: float) -> None:
    lost = []
    for k, (model, look) in enumerate(dot_styles(list(MODELS)).items()):
        rows = [row for row in found["runs"] if (row["model"], row["snr"]) == (model, snr)]
        left = [(row["hidden"], math.inf if row["r2"] is None else 1 - row["r2"]) for row in rows]
        medians = [median(value for hidden, value in left if hidden == size) for size in found["hidden"]]
        axes.plot(found["hidden"], medians, "-", color=look.color, marker=look.marker, label=model)
        for size in found["hidden"]:
            each = [value for hidden, value in left if hidden == size]
            axes.plot([size + 0.2 * (k - 1.5)] * len(each), each, "o", markersize=3, color=look.color)
            if each.count(math.inf):
                lost.append(f"{model}, {size} units: {each.count(math.inf)} of {len(each)}")
    exact = [row for row in found["exact"] if row["snr"] == snr]
    floors = [1 - row["ceiling"] for row in exact]
    axes.axhspan(min(floors), max(floors), color=MUTED, alpha=0.25, linewidth=0, label="best possible under the noise")
    converted = [1 - row["converted_r2"] for row in exact]
    axes.plot([8] * len(exact), converted, "*", markersize=9, markerfacecolor="none", color=INK,
              label="true system, converted to 8 orthogonal states")  # fmt: skip
    diverged = f"\n(diverged: {'; '.join(lost)})" if lost else "\n"
    axes.set(title=f"signal-to-noise ratio {snr:.0f} dB{diverged}", xlabel="hidden units", xticks=found["hidden"])


if __name__ == "__main__":
    what, out = sys.argv[1], Path(sys.argv[2])
    if what == "plot":
        results = Path(sys.argv[3])
        (results / "identification.json").write_text((out / "identification.json").read_text())
        plot(results)
    else:
        run(what, out)

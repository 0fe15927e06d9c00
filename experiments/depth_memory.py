"""How long a delay does depth buy? scoRNN of depth 1, 2 and 3, one parameter budget (Ziv 2019, sections 3 and C).

    python experiments/depth_memory.py copying-memory runs/depth
    python experiments/depth_memory.py start-end runs/depth
    python experiments/depth_memory.py plot runs/depth docs/results

For each depth and seed the delay grows until a network no longer solves the task (accuracy above 99 % on the test).
As in the thesis: RMSprop with smoothing 0.9, no clipping, batch 128, fresh sequences at each step, 4,992 sequences for
validation and 9,984 for the test. As in its program: rate 1e-3, 1e-4 for the skew matrix, initial weights and states.
Not as in the thesis: fewer symbols, smaller budgets, 2,000 and 3,000 steps in place of up to 200,000, one learning rate
in place of the best of several. Finished runs are kept: a second call goes on after them.
"""

import json
import sys
from pathlib import Path

from kept import kept

from engram.figures import BLUE, ORANGE, new_figure
from engram.tasks import make_task
from engram.train import Settings

SOLVED = 0.99
MODEL = str(Path(__file__).with_name("as_printed.py")) + ":ZivScoRNN"
SCALES = {  # task: its options, the name of the delay and its values, the budget, the steps
    "copying-memory": ({"length": 10, "symbols": 8}, "delay", [0, 100, 200, 300], 2**11, 2000),
    "start-end": ({"data": 4, "symbols": 4}, "length", [20, 40, 80], 2**13, 3000),
}


def parameters(depth: int, width: int, inputs: int, outputs: int) -> int:
    """Of stacked scoRNNs with a read-out, the skew matrix counted by its free entries."""
    skew = depth * width * (width - 1) // 2
    return skew + width * inputs + (depth - 1) * width**2 + depth * width + width * outputs + outputs


def widest(depth: int, budget: int, inputs: int, outputs: int) -> int:
    return max(width for width in range(1, budget) if parameters(depth, width, inputs, outputs) <= budget)


def settings(name: str, depth: int, value: int, seed: int) -> Settings:
    """Of the run of one task at one delay."""
    options, delay, _, budget, steps = SCALES[name]
    task = make_task(name, **options, **{delay: value})
    return Settings.of(
        task, MODEL, hidden=widest(depth, budget, task.input_size, task.output_size), layers=depth, batch=128,
        optimizer="rmsprop", alpha=0.9, clip=0.0, lr=1e-3, lr_orthogonal=1e-4, steps=steps, validate_every=1000,
        valid_samples=4992, test_samples=9984, seed=seed, threads=1,
    )  # fmt: skip


def solve(name: str, out: Path, depth: int, seed: int) -> list[dict[str, float]]:
    """The accuracies at growing delays, up to the first that is not solved."""
    _, delay, values, *_ = SCALES[name]
    rows = []
    for value in values:
        given = settings(name, depth, value, seed)
        width = given.model.hidden
        run = kept(given, out, f"{name}-{value}-depth{depth}-seed{seed}")
        accuracy = run.facts["results"]["test"]["accuracy"]
        rows.append({"delay": value, "width": width, "accuracy": accuracy})
        print(f"{name} depth {depth} (width {width}) seed {seed}: {delay} {value}, accuracy {accuracy:.4f}", flush=True)
        if accuracy <= SOLVED:
            break
    return rows


def plot(results: Path) -> None:
    """The longest delay solved against depth, one dot per seed and a line at the median."""
    title = "Longest delay solved (test accuracy above 99 %), at equal parameters"
    with new_figure(results / "depth-memory.svg", 1, len(SCALES), height=3.2, title=title) as figure:
        for axes, (name, (_, delay, values, budget, _)) in zip(figure.axes, SCALES.items(), strict=True):
            places = {None: 0} | {value: place for place, value in enumerate(values, 1)}
            longest: dict[int, list[int]] = {}
            for row in json.loads((results / f"depth-{name}.json").read_text()):
                solved = [step["delay"] for step in row["walk"] if step["accuracy"] > SOLVED]
                longest.setdefault(row["depth"], []).append(places[max(solved, default=None)])
            for depth, found in longest.items():
                middle = sorted(found)[len(found) // 2]
                axes.plot([depth - 0.3, depth + 0.3], [middle, middle], color=BLUE, linewidth=3, label="median")
                beside = [depth + 0.14 * (k - (len(found) - 1) / 2) for k in range(len(found))]
                axes.plot(beside, found, "o", color=ORANGE, markersize=7, label="one seed")
            axes.set(title=f"{name}, {budget:,} parameters", xlabel="layers", ylabel=f"longest {delay} solved (steps)")
            axes.set(
                xticks=sorted(longest), xlim=(min(longest) - 0.5, max(longest) + 0.5), ylim=(-0.4, len(values) + 0.4)
            )
            axes.set_yticks(range(len(values) + 1), ["none", *values[:-1], f"{values[-1]}\n(longest tried)"])
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles[:2], labels[:2], loc="outside lower left", ncols=2)


if __name__ == "__main__":
    what, out = sys.argv[1], Path(sys.argv[2])
    if what == "plot":
        results = Path(sys.argv[3])
        for name in SCALES:
            (results / f"depth-{name}.json").write_text((out / f"{name}.json").read_text())
        plot(results)
    else:
        rows = []
        for seed in range(3):
            for depth in (1, 2, 3):
                rows.append({"depth": depth, "seed": seed, "walk": solve(what, out, depth, seed)})
                (out / f"{what}.json").write_text(json.dumps(rows, indent=1) + "\n")

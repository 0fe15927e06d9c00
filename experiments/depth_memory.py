"""How long a delay does depth buy? scoRNN of depth 1, 2 and 3, one parameter budget (Ziv 2019, sections 3 and C).

    python experiments/depth_memory.py copying-memory runs/depth
    python experiments/depth_memory.py start-end runs/depth
    python experiments/depth_memory.py draw runs/depth docs/results

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


def draw(folder: Path, results: Path) -> None:
    """One figure, the longest delay solved against depth: the median of the seeds, and each of them."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(SCALES), figsize=(8, 3.2), layout="constrained")
    for panel, name in zip(panels, SCALES, strict=True):
        found = json.loads((folder / f"{name}.json").read_text())
        longest: dict[int, list[float]] = {}
        for row in found:
            solved = [step["delay"] for step in row["walk"] if step["accuracy"] > SOLVED]
            longest.setdefault(row["depth"], []).append(max(solved, default=0))
        for depth, values in longest.items():
            panel.bar(depth, sorted(values)[len(values) // 2], width=0.5, color="#4477aa", alpha=0.6)
            panel.plot([depth + 0.08 * k - 0.08 for k in range(len(values))], values, "o", color="#222222")
        budget = SCALES[name][3]
        panel.set(title=f"{name}, {budget:,} parameters", xlabel="depth", xticks=sorted(longest))
        panel.set_ylabel(f"longest {SCALES[name][1]} solved")
        (results / f"depth-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    figure.savefig(results / "depth-memory.svg")


if __name__ == "__main__":
    what, out = sys.argv[1], Path(sys.argv[2])
    if what == "draw":
        draw(out, Path(sys.argv[3]))
    else:
        rows = []
        for seed in range(3):
            for depth in (1, 2, 3):
                rows.append({"depth": depth, "seed": seed, "walk": solve(what, out, depth, seed)})
                (out / f"{what}.json").write_text(json.dumps(rows, indent=1) + "\n")

"""What the training reaches: the runs of docs/results/training.md, each a command of `engram train`.

    python experiments/training.py copy-printed-nnrnn copy-printed-rnn ... runs/training
    python experiments/training.py collect runs/training docs/results

The first trains the named rows (or `all`) with seeds 0, 1, 2, one after another; finished runs are kept. The second
adds what is there to training.json; rows that were not run again stay as they are.
"""

import json
import sys
from pathlib import Path
from typing import Any

from engram.cli import main
from engram.train import RunDirectory

SEEDS = range(3)
INTERRUPTED = 130  # the exit code of `engram train` after Ctrl-C
MODELS = Path(__file__).with_name("as_printed.py")
COPY = "copy --delay 200 --batch 10 --steps 1500 --optimizer rmsprop --clip 0"  # Kerg et al. 2019, appendix A.1.1
ROWS = {  # name: title, command
    # Kerg et al. 2019, Table A.1, at full size.
    "copy-printed-nnrnn": (
        "nnRNN",
        f"{COPY} --model nnrnn --hidden 128 --lr 5e-4 --lr-orthogonal 1e-6 --alpha 0.99 --init henaff "
        "--gamma-penalty 1e-4 --decay 1e-6",
    ),
    "copy-printed-exprnn": (
        "expRNN",
        f"{COPY} --model exprnn --hidden 128 --lr 1e-3 --lr-orthogonal 1e-4 --alpha 0.99 --init henaff",
    ),
    "copy-printed-orth-init": ("RNN-orth", f"{COPY} --model orth-init --hidden 128 --lr 2e-4 --alpha 0.99 --init haar"),
    "copy-printed-rnn": (
        "RNN (modReLU, Glorot)",
        f"{COPY} --model experiments/as_printed.py:GlorotRNN --hidden 128 --lr 1e-3 --alpha 0.9",
    ),
    "copy-printed-lstm": (
        "LSTM (Glorot)",
        f"{COPY} --model experiments/as_printed.py:GlorotLSTM --hidden 128 --lr 5e-4 --alpha 0.99",
    ),
    # Settings of engram.
    "copy200-exprnn": ("copy, delay 200, exprnn", "copy --model exprnn --hidden 128 --delay 200"),
    "copy200-nnrnn": ("copy, delay 200, nnrnn", "copy --model nnrnn --hidden 128 --delay 200"),
    "copy200-lstm": ("copy, delay 200, lstm", "copy --model lstm --hidden 128 --delay 200"),
    "copy200-rnn": ("copy, delay 200, rnn (tanh)", "copy --model rnn --hidden 128 --delay 200"),
    "copy1000": (
        "copy, delay 1000, exprnn",
        "copy --delay 1000 --model exprnn --hidden 128 --steps 1600 --lr 1e-3 --lr-orthogonal 2e-4",
    ),
    "copy2000": (
        "copy, delay 2000, exprnn",
        "copy --delay 2000 --model exprnn --hidden 128 --steps 2400 --lr 1e-3 --lr-orthogonal 2e-4",
    ),
    "adding": (
        "adding, length 200, exprnn (ReLU)",
        "adding --length 200 --model exprnn --init cayley --activation relu --steps 4000 --lr 1e-3",
    ),
    "parity": ("parity, length 20, tanh RNN", "parity --model rnn --hidden 64 --batch 128 --steps 4000"),
    # The start and the regulariser of Tables A.2 and A.4; all else is smaller than there.
    "psmnist-nnrnn": (
        "psMNIST, nnrnn",
        "psmnist --model nnrnn --hidden 128 --batch 100 --epochs 2 --lr 1e-3 --init cayley --gamma-penalty 0.15 "
        "--decay 1e-4",
    ),
    "psmnist-lstm": ("psMNIST, lstm", "psmnist --model lstm --hidden 128 --batch 100 --epochs 2 --lr 1e-3"),
    "ptb-nnrnn": (
        "Penn Treebank, nnrnn",
        "ptb --model nnrnn --hidden 256 --batch 128 --epochs 1 --lr 1e-2 --init cayley --gamma-penalty 1 --decay 1e-4",
    ),
    "ptb-exprnn": (
        "Penn Treebank, exprnn",
        "ptb --model exprnn --hidden 256 --batch 128 --epochs 1 --lr 1e-2 --init cayley",
    ),
    "ptb-lstm": ("Penn Treebank, lstm", "ptb --model lstm --hidden 256 --batch 128 --epochs 1 --lr 5e-3"),
    "shakespeare-nnrnn": (
        "Tiny Shakespeare, nnrnn",
        "shakespeare --model nnrnn --hidden 256 --epochs 5 --lr 5e-3 --init cayley",
    ),
    "shakespeare-exprnn": (
        "Tiny Shakespeare, exprnn",
        "shakespeare --model exprnn --hidden 256 --epochs 5 --lr 5e-3 --init cayley",
    ),
    "shakespeare-lstm": ("Tiny Shakespeare, lstm", "shakespeare --model lstm --hidden 256 --epochs 5 --lr 5e-3"),
}


def run(names: list[str], out: Path) -> None:
    """Train each row with each seed; what is finished is not trained again."""
    for name in ROWS if names == ["all"] else names:
        for seed in SEEDS:
            folder = out / f"{name}-{seed}"
            words = ["train", *ROWS[name][1].split(), "--seed", str(seed), "--threads", "1"]
            words += ["--out", str(out), "--name", folder.name]
            if (folder / "run.json").exists():
                if RunDirectory(folder, [str(MODELS)]).status in ("done", "failed"):
                    continue
                words = ["resume", str(folder), "--allow", str(MODELS)]
            if main(words) == INTERRUPTED:
                return


def collect(out: Path, results: Path) -> None:
    """The finished runs, into training.json."""
    path = results / "training.json"
    found: dict[str, Any] = json.loads(path.read_text())
    for name, (title, words) in ROWS.items():
        runs = [RunDirectory(folder, [str(MODELS)]) for folder in sorted(out.glob(f"{name}-?"))]
        if done := [row(run) for run in runs if run.status == "done"]:
            metric = runs[0].settings.task.metric
            found[name] = {"title": title, "command": f"engram train {words} --seed S", "metric": metric, "runs": done}
            found[name]["diverged"] = [run.settings.seed for run in runs if run.status == "failed"]
    path.write_text(json.dumps(found, indent=1) + "\n")


def row(run: RunDirectory) -> dict[str, Any]:
    """What a run reached."""
    facts, metrics = run.facts, run.metrics()
    baseline = run.settings.task.memoryless_baseline
    valid = [line for line in metrics if line["split"] == "valid"]
    return {
        "seed": run.settings.seed,
        "parameters": facts["parameters"],
        "steps": facts["step"],
        "seconds": metrics[-1]["seconds"],
        "share_of_baseline": facts["results"]["test"]["loss"] / baseline,
        "first_step_under_2_percent": next((v["step"] for v in valid if v["loss"] < 0.02 * baseline), None),
        **facts["results"]["test"],
    }


if __name__ == "__main__":
    *names, last = sys.argv[1:]
    if names[0] == "collect":
        collect(Path(names[1]), Path(last))
    else:
        run(names, Path(last))

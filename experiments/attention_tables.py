"""The tables of docs/results/attention-tasks.md: what the sweeps `attention-*` reached, beside what was reported.

    engram sweep experiments/sweeps/attention-NAME.toml --out sweeps/attention --allow experiments/as_printed.py
    engram sweep export experiments/sweeps/attention-NAME.toml --out sweeps/attention --format json \
      --allow experiments/as_printed.py -o docs/results/attention-NAME.json
    python experiments/pages.py docs/results

A sweep that has not come to its end has no table.
"""

from pathlib import Path
from statistics import mean
from typing import Any

from sweep_figures import table

NAMES = {
    "orth-init": "orth-RNN", "exprnn": "expRNN", "memrnn": "MemRNN", "relrnn": "RelRNN", "GlorotLSTM": "LSTM",
    "h-detach": "h-detach", "goru": "GORU", "sab": "SAB", "rellstm": "RelLSTM", "GlorotRNN": "RNN", "rnn": "RNN",
    "HenaffRelRNN": "RelRNN", "HenaffMemRNN": "MemRNN", "GlorotRelLSTM": "RelLSTM",
    "KaimingRelRNN": "RelRNN", "KaimingOrthRNN": "orth-RNN",
}  # fmt: skip
"""What the thesis calls our models."""
OOM = "out of memory"
TRANSFER: dict[str, list[Any]] = {  # Kerg (2022), Table 4.1: % right at delays 100 (trained), 200, 400, 2000, 5000
    "orth-RNN": [99, 4, 16, 10, 0],
    "expRNN": [100, 86, 73, 58, 50],
    "MemRNN": [99, 99, 99, 92, OOM],
    "RelRNN": [100, 99, 99, 99, 99],
    "LSTM": [99, 64, 48, 19, 14],
    "h-detach": [100, 91, 77, 51, 42],
    "SAB": [99, 95, 95, 95, 95],
    "RelLSTM": [100, 99, 99, 99, 99],
}
DENOISE: dict[str, dict[int, Any]] = {  # Table 4.2: % right by delay
    name: dict(zip((100, 300, 500, 1000, 2000), values, strict=True))
    for name, values in {
        "orth-RNN": [90, 71, 61, 29, 3],
        "expRNN": [34, 25, 20, 16, 11],
        "MemRNN": [99, 99, 99, 99, OOM],
        "RelRNN": [100, 99, 99, 99, 99],
        "LSTM": [82, 41, 33, 21, 15],
        "GORU": [92, 93, 91, 93, 73],
        "SAB": [99, 99, 99, 99, 99],
        "RelLSTM": [100, 99, 99, 99, 99],
    }.items()
}
COPY: dict[str, dict[int, Any]] = {  # Table B.2: % right by delay
    name: dict(zip((100, 200, 300, 500, 1000, 2000), values, strict=True))
    for name, values in {
        "LSTM": [100, 100, 100, 12, 12, 12],
        "orth-RNN": [100, 100, 100, 100, 80, 11],
        "expRNN": [100] * 6,
        "MemRNN": [100, 100, 100, 100, 100, OOM],
        "SAB": [100] * 6,
        "RelRNN": [100] * 6,
        "RelLSTM": [100] * 6,
    }.items()
}
PSMNIST: dict[str, float] = {  # Table 4.3: % right
    "RNN": 90.4, "orth-RNN": 93.4, "expRNN": 96.6, "RelRNN": 92.8, "LSTM": 91.1, "h-detach": 92.3, "SAB": 94.2,
    "RelLSTM": 94.3,
}  # fmt: skip
PTB: dict[str, float] = {  # Table 4.3: bits per character
    "RNN": 1.56, "orth-RNN": 1.53, "expRNN": 1.49, "RelRNN": 1.43, "LSTM": 1.36, "SAB": 1.37, "RelLSTM": 1.36,
}  # fmt: skip
SCREENS = {
    "relevance": "the paper's: attention received", "beta_norm": "the same, counted fairly",
    "first": "the first states", "reservoir": "uniform sample of the past", "recency": "the most recent states",
}  # fmt: skip
Row = dict[str, Any]


def called(row: Row) -> str:
    """What the thesis calls the model of a row."""
    return NAMES[row["model"].rpartition(":")[2]]


def percent(rows: list[Row], key: str) -> str:
    """The mean of an accuracy over seeds, and its range; runs that diverged are told."""
    return _spread([100 * row[key] for row in rows if row.get(key) is not None], rows, "{:.1f}")


def _spread(values: list[float], rows: list[Row], form: str) -> str:
    if not values:
        return "-"
    shown = form.format(mean(values))
    if len(values) > 1:
        shown += f" ({form.format(min(values))} - {form.format(max(values))})"
    lost = sum(row["status"] == "diverged" for row in rows)
    return shown + (f", {lost} diverged" if lost else "")


def by_model(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each model, seeds together, in the order of the sweep."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(called(row), []).append(row)
    return found


def transfer(results: Path, name: str) -> list[list[str]]:
    """Accuracy by the delay of the test, ours and reported."""
    tests = {100: "test", 200: "test-200", 400: "test-400", 2000: "test-2000", 5000: "test-5000"}
    lines = [["network", *(f"{delay}" for delay in tests), "reported"]]
    for model, rows in by_model(table(results, name)).items():
        own = [percent(rows, f"{split}_accuracy") for split in tests.values()]
        lines.append([model, *own, ", ".join(map(str, TRANSFER[model]))])
    return lines


def delays(results: Path, name: str) -> list[list[str]]:
    """Accuracy by the delay of training and test, ours and reported; copying at 100 is in the sweep of its transfer."""
    reported = DENOISE if name == "attention-denoise" else COPY
    found = table(results, name)
    if name == "attention-copy":
        found = table(results, "attention-transfer-copy") + found
    tried = sorted({row["delay"] for row in found})
    lines = [["network", *(f"{delay} (reported)" for delay in tried)]]
    for model, rows in by_model(found).items():
        cells = []
        for delay in tried:
            own = [row for row in rows if row["delay"] == delay]
            theirs = reported.get(model, {}).get(delay, "-")
            cells.append(f"{percent(own, 'test_accuracy')} ({theirs})" if own else f"not run ({theirs})")
        lines.append([model, *cells])
    return lines


def all_past(results: Path, name: str) -> list[list[str]]:
    """MemRNN, trained with a delay of 100."""
    own = table(results, name)
    cells = [percent(own, f"{split}_accuracy") for split in ("test", "test-200", "test-400", "test-2000")]
    reported = ", ".join(map(str, TRANSFER["MemRNN"][:4]))
    return [["network", "100", "200", "400", "2000", "reported"], ["MemRNN", *cells, reported]]


def screening(results: Path, name: str) -> list[list[str]]:
    """Copying, its transfer and denoise by the rule of screening."""
    found = table(results, name)
    lines = [["screening", "copy 100", "200", "400", "2000", "5000", "denoise 100"]]
    for screen, words in SCREENS.items():
        copy, noise = (
            [row for row in found if (row["screen"], row["task"]) == (screen, task)]
            for task in ("transfer-copy", "denoise")
        )
        tests = ["test", "test-200", "test-400", "test-2000", "test-5000"]
        cells = [percent(copy, f"{split}_accuracy") for split in tests]
        lines.append([words, *cells, percent(noise, "test_accuracy")])
    return lines


def sparsity(results: Path, name: str) -> list[list[str]]:
    """Denoise by the sizes of the buffer and of the relevant set."""
    lines = [["nu", "rho", "accuracy"]]
    for row in table(results, name):
        lines.append([str(row["nu"]), str(row["rho"]), percent([row], "test_accuracy")])
    return lines


def short(results: Path, name: str) -> list[list[str]]:
    """psMNIST or Penn Treebank: short runs, beside reported numbers of long ones."""
    is_text = name == "attention-ptb"
    reported = PTB if is_text else PSMNIST
    lines = [["network", "parameters", "bits per character" if is_text else "accuracy (%)", "reported, long training"]]
    for model, rows in by_model(table(results, name)).items():
        if is_text:
            shown = _spread([row["test_bpc"] for row in rows if row.get("test_bpc") is not None], rows, "{:.3f}")
        else:
            shown = percent(rows, "test_accuracy")
        lines.append([model, f"{rows[0]['parameters']:,}", shown, str(reported.get(model, "-"))])
    return lines


TABLES = {
    "attention-transfer-copy": transfer,
    "attention-screening": screening,
    "attention-denoise": delays,
    "attention-copy": delays,
    "attention-memrnn": all_past,
    "attention-sparsity": sparsity,
    "attention-psmnist": short,
    "attention-ptb": short,
}

"""Run directories in no time: as ``engram train`` leaves them, without the training."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from engram.tasks import Copy
from engram.train import Settings


@cache
def _settings() -> dict[str, Any]:
    return Settings.of(Copy(5), "exprnn", hidden=16, steps=100, threads=1).resolved().to_dict()


def facts(**changes: Any) -> dict[str, Any]:
    """The content of a run.json, with other entries or settings (by flat names: hidden, model, seed, lr, delay)."""
    settings = copy.deepcopy(_settings())
    places = {"hidden": "model", "layers": "model", "options": "model", "lr": "optimiser"}
    places |= {"steps": "budget", "stop_by": "budget"}
    for name in [*changes]:
        if name in places:
            settings[places[name]][name] = changes.pop(name)
        elif name in ("model", "task"):
            settings[name]["name"] = changes.pop(name)
        elif name == "delay":
            settings["task"]["delay"] = changes.pop(name)
        elif name == "seed":
            settings["seed"] = changes.pop(name)
    accuracy = changes.pop("accuracy", 0.75)
    scores = {"loss": 1 - accuracy, "accuracy": accuracy}
    found = {
        "status": "done",
        "settings": settings,
        "seed": settings["seed"],
        "metric": "accuracy",
        "chance": 0.125,
        "memoryless_baseline": 0.83,
        "versions": {},
        "created": "2026-11-18T04:43:59+0000",
        "command": "",
        "reason": "",
        "parameters": 449,
        "total_steps": 100,
        "results": {"test": scores},
        "best": {"step": 80, **scores},
        "step": 100,
        "seconds": 12.5,
        "diverged": False,
    }
    return {name: value for name, value in (found | changes).items() if value is not ...}


def make_run(folder: Path, validations: int = 5, **changes: Any) -> Path:
    """A run directory with a curve of so many validations; an entry that is ``...`` is left out."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(facts(**changes)))
    accuracy = changes.get("accuracy", 0.75)
    lines = [
        {"step": 20 * k, "split": "valid", "loss": 2.0 / k, "accuracy": accuracy * k / validations, "seconds": 2.5 * k}
        for k in range(1, validations + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in ("checkpoint.json", "checkpoint.safetensors", "stdout.log", "lock"):
        (folder / name).write_bytes(b"" if name == "lock" else b"x" * 100)
    return folder

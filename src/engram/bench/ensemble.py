"""``engram bench ensemble``: eight seeds trained as one, against one seed alone and against two processes of four."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import environ, pathsep
from pathlib import Path
from statistics import median
from typing import IO, Any, cast

import torch

from engram.bench._measure import interleaved, machine, spread
from engram.loops import use_threads
from engram.tasks import Copy, IdentityRules
from engram.train import Loop, Settings, make_fabric, together_steps, without_denormals

MODELS = ("exprnn", "cprnn", "lstm", "corelnet")
ALONE, TOGETHER, WORKERS = "1 alone", "8 as one", "2 workers of 4"
SEEDS = 8
STEPS = 10
"""Steps of one measured call."""
TARGETS = {
    "exprnn: 8 as one/1 alone": (None, 2.5),
    "cprnn: 8 as one/1 alone": (None, 2.5),
    "lstm: 8 as one/1 alone": (None, 4.0),
    **{f"{model}: 8 as one/2 workers of 4": (None, 1.0) for model in ("exprnn", "cprnn", "lstm")},
}
"""At most, on two cores. Of CoRelNet nothing is asked: its row is shown."""


def settings_of(model: str, seed: int) -> Settings:
    """Hidden 64, batch 32, T = 100; CoRelNet on identity rules with 95 shapes held out, as its paper has it. So small a
    rate leaves the weights as they are, and with them what a step costs."""
    if model == "corelnet":
        task = IdentityRules(holdout=95, shapes="glyphs")
        return Settings.of(task, model, validate_every=0, lr=1e-12, seed=seed).resolved()
    return Settings.of(Copy(80), model, hidden=64, batch=32, validate_every=0, lr=1e-12, seed=seed).resolved()


def steps_of_each(model: str, seeds: list[int]) -> Callable[[], None]:
    """So many steps of each of some runs, one run after the other."""
    fabric = make_fabric(settings_of(model, 0))
    loops = [Loop(settings_of(model, seed), fabric) for seed in seeds]

    def call() -> None:
        for loop in loops:
            for _ in range(STEPS):
                loop.train_step()

    return call


class Workers:
    """Two processes, each of which trains four runs when it is asked to."""

    def __init__(self) -> None:
        source = Path(__file__).parents[2]
        path = pathsep.join([str(source), *filter(None, [environ.get("PYTHONPATH")])])
        command = [sys.executable, "-P", "-m", "engram.bench._ensemble_program"]
        environment = {**environ, "PYTHONPATH": path}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]

    def ask(self, *what: Any) -> None:
        """Both do it at the same time; returns when both are done."""
        for k, process in enumerate(self.processes):
            half = SEEDS // 2
            print(json.dumps([*what, list(range(k * half, (k + 1) * half))]), file=process.stdin, flush=True)
        for process in self.processes:
            if not cast(IO[str], process.stdout).readline():
                raise RuntimeError(f"a worker of the bench ended with exit code {process.wait()}")

    def close(self) -> None:
        for process in self.processes:
            process.communicate()


@contextmanager
def workers() -> Iterator[Workers]:
    found = Workers()
    try:
        yield found
    finally:
        found.close()


def bench_ensemble(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race them; returns ``summary``, ``rows`` and ``machine``."""
    rows: list[dict[str, Any]] = []
    summary: dict[str, dict[str, float]] = {}
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        two = stack.enter_context(workers())
        stack.enter_context(torch.random.fork_rng(devices=()))
        stack.enter_context(without_denormals(1))
        stack.enter_context(use_threads(threads))
        for model in MODELS[:1] if quick else MODELS:
            two.ask("prepare", model)
            with together_steps([settings_of(model, seed) for seed in range(SEEDS)]) as together:
                contestants: dict[str, Callable[[], object]] = {
                    ALONE: steps_of_each(model, [0]),
                    TOGETHER: lambda: together(STEPS),
                    WORKERS: lambda: two.ask("run", ""),
                }
                times = interleaved(contestants, repeats)
            rows += [{"case": model, "contestant": who, **spread(seconds)} for who, seconds in times.items()]
            ratios = {who: median(times[TOGETHER]) / median(times[who]) for who in (ALONE, WORKERS)}
            summary |= {f"{model}: {TOGETHER}/{who}": {"geomean": r, "worst": r} for who, r in ratios.items()}
            tell(f"{model}: {ratios[ALONE]:.2f} of one alone, {ratios[WORKERS]:.2f} of two workers")
    return {"summary": summary, "rows": rows, "machine": machine() | {"threads": threads}}

"""A run that is killed again and again ends as if nothing had happened, bit for bit."""

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engram.tasks import PennTreebank
from engram.train import Settings
from engram.train._checkpoint import TENSORS, load
from prepared import Prepared
from tiers import slow

# Imports once, then forks a process for every life of the run and kills it (SIGKILL) at a random moment: some while
# they start, most soon after a random number of steps, every third as soon as a save is seen half done. Every life has
# a working directory of its own.
PROGRAM = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
from engram.train import RunDirectory, Settings, resume, train

settings, out, kills = Settings.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
chance = random.Random(int(sys.argv[4]))
run, metrics = out / "killed", out / "killed" / "metrics.jsonl"

def live(action):
    child = os.fork()
    if not child:
        try:
            action()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child

def slow_disk():
    os.fsync = lambda file: time.sleep(0.002)  # so that kills find saves half done

def begin():
    slow_disk()
    train(settings, out, "killed")

def go_on():
    cwd = out / f"life{os.getpid()}"
    cwd.mkdir()
    slow_disk()
    os.chdir(cwd)
    resume(Path("..") / "killed")

def length():
    return metrics.read_bytes().count(b"\\n") if metrics.exists() else 0

def half_saved():
    return any(run.glob("checkpoint*.new"))

def dies(child, aimed):
    before, starting = length(), chance.random() < 0.2
    lines, wait = chance.randint(1, 8), chance.uniform(0, 0.02)
    deadline = time.monotonic() + (chance.uniform(0, 0.3) if starting else 60)
    while time.monotonic() < deadline and length() < before + lines:
        if os.waitpid(child, os.WNOHANG)[0]:
            sys.exit(f"ended by itself in {length()} lines")
        time.sleep(0.001)
    if aimed:
        while not half_saved() and not os.waitpid(child, os.WNOHANG)[0]:
            pass
    else:
        time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

assert os.waitpid(live(lambda: train(settings.replace(save_every=10.0), out, "whole")), 0)[1] == 0
steps, cut = [], 0
for life in range(kills):
    child = live(go_on if (run / "run.json").exists() else begin)
    assert dies(child, aimed=life % 3 == 2) == -signal.SIGKILL
    steps.append(length())
    cut += half_saved()
os.chdir("/")
assert os.waitpid(live(lambda: resume(run)), 0)[1] == 0
print(json.dumps({"lines": steps, "cut": cut}))
"""


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a process dies there as elsewhere, and it does not wait for a disk."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)


@pytest.fixture
def check(out: Path, metrics: Callable[..., Any], prepared: Prepared) -> Callable[..., None]:
    """``check(settings, kills, seed)``: the run that was killed has the lines, weights and facts of the whole one."""
    return partial(_check, out, metrics, prepared)


def _check(
    out: Path,
    metrics: Callable[..., Any],
    prepared: Prepared,
    settings: Settings,
    kills: int,
    seed: int,
    first: str = "",
) -> None:
    done = prepared.run(first + PROGRAM, json.dumps(settings.to_dict()), str(out), str(kills), str(seed))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["lines"][-1] > kills // 2  # it did get on between the kills, on a busy machine too
    assert seen["cut"] > 0 or kills < 20  # some saves were cut off
    killed, whole = out / "killed", out / "whole"
    assert metrics(killed) == metrics(whole)
    assert (killed / TENSORS).read_bytes() == (whole / TENSORS).read_bytes()
    values = [load(run).values for run in (killed, whole)]
    for each in values:
        del each["seconds"], each["metrics"]  # the length of the file, which holds the seconds
    assert values[0] == values[1]
    facts = [json.loads((run / "run.json").read_bytes()) for run in (killed, whole)]
    for name in ("status", "results", "best", "step"):
        assert facts[0][name] == facts[1][name]


@pytest.mark.parametrize("kills", [5, slow(20)])
def test_kills(kills: int, out: Path, small: Any, check: Callable[..., None]) -> None:
    """Dropout, two layers, a base that moves, a rate that falls, a new order each epoch: all that a step depends on."""
    steps = 100 + 10 * kills  # a life has about ten
    settings = small(
        layers=2,
        options={"dropout": 0.3, "rebase_every": 7},
        optimizer="rmsprop",
        samples=30,
        steps=steps,
        validate_every=steps // 13,
        plateau=2,
        lr=0.02,
    )
    check(settings, kills, seed=0)
    assert load(out / "killed").values["falls"] >= 1  # the rate fell; how often is up to the processor's rounding


@pytest.mark.slow
def test_kills_at_two_threads(small: Any, check: Callable[..., None]) -> None:
    """At a size where the second thread has something to do."""
    settings = small(hidden=64, batch=48, threads=2, steps=60, options={"dropout": 0.3}, layers=2)
    check(settings, 4, seed=2)


@pytest.mark.parametrize(("model", "kills"), [("lstm", 3), slow("lstm", 6), slow("full-capacity", 6)])
def test_kills_with_a_state_carried_on(
    model: str, kills: int, small: Any, data_sets: str, check: Callable[..., None]
) -> None:
    """Text in windows: the state of the network goes over from step to step, and so over a kill."""
    options = {"dropout": 0.3} if model == "lstm" else {}
    settings = small(
        PennTreebank(bptt=5, subset=600), model, layers=1 + len(options), options=options, embedding=3, steps=25 * kills
    )
    check(settings, kills, seed=1, first=data_sets)

"""The Ray engine: a real cluster of two nodes on this machine, of which a worker and then a node are killed."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from tests.sweep.conftest import run_here
from tests.sweep.test_sweep import alive, wait_for

from engram.cli import main
from engram.sweep import make_plan, read_sweep
from engram.sweep._job import job_of
from engram.sweep._ray import _progress, _train


@pytest.fixture
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray is installed, and no other test has a cluster on this machine: ``auto`` would find it."""
    if find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    with FileLock(tmp_path_factory.getbasetemp().parent / "ray.lock"):
        yield


needs_ray = pytest.mark.usefixtures("ray")
HEAD = """
import json, os, signal, sys, time, warnings
warnings.simplefilter("ignore")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from pathlib import Path
from ray.cluster_utils import Cluster
from engram.sweep import *

file, out = map(Path, sys.argv[1:3])
plan = make_plan(read_sweep(file))
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1)
raylet = node.all_processes["raylet"][0].process.pid

def owner(unit):
    "The process that has the lease of a run, and whether it is one of the second node's."
    for path in (out / unit[0].folder).glob("lease.*"):
        pid = json.loads(path.read_text())["pid"]
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid, parent == raylet
"""
KILLING = (
    HEAD
    + """
killed = []

def observe(what, unit, facts):
    print(json.dumps([what, unit[0].folder, facts.get("reason", "")]), file=sys.stderr)
    if what == "step" and facts["step"] >= 100 and len(killed) < 2 and (found := owner(unit)):
        pid, on_second = found
        if not killed and not on_second:
            os.kill(pid, signal.SIGKILL)
            killed.append(unit[0].folder)
        elif len(killed) == 1 and on_second:
            cluster.remove_node(node, allow_graceful=False)
            killed.append(unit[0].folder)

results = Sweep(plan, out, Ray(cluster.address), observe=observe).run()
cluster.shutdown()
print(json.dumps({"killed": killed, "table": FORMATS["csv"](rows_of(plan, results))}))
"""
)
ENDING = (
    HEAD
    + """
if sys.argv[3] == "stop":  # Ctrl-C, from within
    def observe(what, unit, facts):
        if what == "step" and facts["step"] >= 20:
            raise KeyboardInterrupt
    try:
        Sweep(plan, out, Ray(cluster.address), observe=observe).run()
    except KeyboardInterrupt:
        print("stopped", flush=True)
    cluster.shutdown()
else:  # a controller of its own, which is killed
    import subprocess
    program = '''
import json, sys
from pathlib import Path
from engram.sweep import *
def observe(what, unit, facts):
    print(what, flush=True)
Sweep(make_plan(read_sweep(Path(sys.argv[1]))), Path(sys.argv[2]), Ray(sys.argv[3]), observe=observe).run()
'''
    words = [sys.executable, "-c", program, str(file), str(out), cluster.address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as controller:
        for line in controller.stdout:
            if line == "step\\n":
                break
        pids = [json.loads(path.read_text())["pid"] for path in out.glob("*/lease.*")]
        controller.kill()
    print(json.dumps(pids), flush=True)
    sys.stdin.readline()  # the cluster lives until then
    cluster.shutdown()
"""
)


def test_not_installed(monkeypatch: pytest.MonkeyPatch, capsys: Any, small: Any, tmp_path: Path) -> None:
    """One line that names the extra."""
    monkeypatch.setitem(sys.modules, "ray", None)  # an import raises
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", str(make_file(small, tmp_path)), "--engine", "ray"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "engram: the engine ray needs the package ray: pip install 'engram[ray]'\n"


def test_an_address_without_the_engine(capsys: Any, small: Any, tmp_path: Path) -> None:
    assert main(["sweep", str(make_file(small, tmp_path)), "--address", "auto"]) == 2
    assert "--address is for the engine ray; the engine is local" in capsys.readouterr().err


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "nowhere.invalid:6379"])
def test_no_cluster(address: str, tmp_path: Path, small: Any) -> None:
    words = ["sweep", str(make_file(small, tmp_path)), "--engine", "ray", "--address", address]
    program = "import sys; from engram.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert f"no Ray cluster at address {address!r} (" in done.stderr.splitlines()[-1]
    assert "ray start --head starts one" in done.stderr.splitlines()[-1]


def test_progress_is_in_the_last_whole_line(tmp_path: Path) -> None:
    run = {"folder": str(tmp_path)}
    assert _progress(0, run) is None
    lines = "".join(json.dumps({"step": step, "split": "train", "loss": 1 / step}) + "\n" for step in range(1, 2000))
    path = tmp_path / "metrics.jsonl"
    path.write_text("")
    assert _progress(0, run) is None
    path.write_text(lines + '{"step": 2000, "spl')
    assert _progress(3, run) == {"run": 3, "step": 1999, "loss": 1 / 1999}


def test_what_is_refused_is_final(small: Any, tmp_path: Path) -> None:
    """A task says of a job what a worker of the local engine says."""
    found = _train(job_of(small(base="device = 'cuda:99'").runs[:1], tmp_path), [0])
    assert "cuda" in found["failed"]
    assert found["final"]


@pytest.mark.slow
@needs_ray
def test_worker_and_node_killed_in_the_middle(small: Any, tmp_path: Path) -> None:
    """Every run ends once, resumed from its checkpoint, and the table is that of the local engine."""
    file, out = long_file(small, tmp_path), tmp_path / "ray"
    file.write_text(f"together = false\n{file.read_text()}")
    done = subprocess.run([sys.executable, "-c", KILLING, str(file), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])  # before it Ray may tell of the dead node, later than we listen
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("[")]
    assert len(set(found["killed"])) == 2
    plan = make_plan(read_sweep(file))
    ends = Counter(folder for what, folder, _ in told if what == "done")
    assert ends == {run.folder: 1 for run in plan.runs}
    assert [what for what, *_ in told if what in ("again", "failed")] == ["again"]  # a node that died is no attempt
    for folder in found["killed"]:
        starts = [
            line for line in (out / folder / "stdout.log").read_text().splitlines() if " parameters, step " in line
        ]
        assert len(starts) == 2
        assert "step 0 of" in starts[0]
        assert "step 0 of" not in starts[1]
    assert found["table"] == run_here(plan, tmp_path / "here")
    assert list(out.glob("*/lease.*")) == []


@pytest.mark.slow
@needs_ray
def test_ctrl_c_saves(small: Any, tmp_path: Path) -> None:
    file, out = long_file(small, tmp_path), tmp_path / "ray"
    words = [sys.executable, "-c", ENDING, str(file), str(out), "stop"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout == "stopped\n", done.stderr
    assert "stopped" in [json.loads(path.read_text())["status"] for path in out.glob("*/run.json")]
    assert list(out.glob("*/lease.*")) == []
    plan = make_plan(read_sweep(file))
    assert run_here(plan, out) == run_here(plan, tmp_path / "here")


@pytest.mark.slow
@needs_ray
def test_workers_end_when_their_controller_dies(small: Any, tmp_path: Path) -> None:
    file, out = long_file(small, tmp_path), tmp_path / "ray"
    words = [sys.executable, "-c", ENDING, str(file), str(out), "kill"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pids = json.loads(program.stdout.readline())
        assert pids
        wait_for(lambda: not any(map(alive, pids)))
        program.communicate("\n")
    plan = make_plan(read_sweep(file))
    assert run_here(plan, out) == run_here(plan, tmp_path / "here")


def make_file(small: Any, folder: Path, **lines: str) -> Path:
    small(**lines)
    return folder / "sweep.toml"


def long_file(small: Any, folder: Path) -> Path:
    """Four runs of some seconds each."""
    path = make_file(small, folder, base="save_every = 0.1\nlog_every = 1")
    path.write_text(path.read_text().replace("steps = 6", "steps = 1000").replace("every = 3", "every = 100"))
    return path

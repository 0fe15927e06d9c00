"""Which executor runs: asked for by a block, by the environment, or by what the machine can do."""

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from recurrences import additive

from engram.errors import OptionError
from engram.loops import EXECUTORS, _choice, _compiled, _torch, chosen, compiled_cell, status, use, use_threads
from engram.loops._compiled import Loops
from engram.nn import RNNCell


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("executor", EXECUTORS)
def test_use_is_undone_at_the_end(executor: str) -> None:
    before = chosen()
    with use(executor):
        assert chosen() == executor == status()["executor"]
    assert chosen() == before


def test_use_is_undone_by_an_exception() -> None:
    before = chosen()
    with pytest.raises(KeyError), use("plain"), use("torch"):
        raise KeyError
    assert chosen() == before


def test_threads_for_members_are_undone_at_the_end() -> None:
    """Within a block as many as it says, also where a block is within another; outside of all as many as torch has."""
    outside = torch.get_num_threads()
    with use_threads(outside + 3):
        assert _choice.threads() == outside + 3
        with use_threads(1):
            assert _choice.threads() == 1
        assert _choice.threads() == outside + 3
        with pytest.raises(KeyError), use_threads(1):
            raise KeyError
        assert _choice.threads() == outside + 3
    assert _choice.threads() == outside


def test_unknown_executor() -> None:
    before = chosen()
    with pytest.raises(OptionError, match=r"unknown executor 'compield': expected one of .* Did you mean 'compiled'\?"):
        use("compield").__enter__()
    assert chosen() == before


def test_torch_is_torch_and_plain_is_plain(compiled: str) -> None:
    found, like = compiled_cell(RNNCell(2, 3)), torch.ones(1)
    loops = found.variant(hoist=False, rebuild=True).loops
    for name, right in (("torch", _torch.run), (compiled, loops), ("auto", loops)):
        with use(name):
            assert found.choose(like, 8).executor(like) is right
            assert not _choice.needs_plain(like)
    with use("plain"):
        assert _choice.needs_plain(like)


def test_plain_runs_torch_operations_only() -> None:
    """Its graph is made of torch's own nodes; that of a fast executor is one node."""
    weight = torch.eye(3, requires_grad=True)
    arguments = (torch.ones(2, 1, 3), torch.eye(3), None, weight, torch.zeros(1, 3))
    nodes = {}
    for executor in ("plain", "torch"):
        with use(executor):
            nodes[executor] = type(additive(*arguments)[0].grad_fn).__name__
    assert nodes["plain"] == "StackBackward0"
    assert nodes["torch"] == "LoopFunctionBackward"


def test_transforms_take_the_plain_loop() -> None:
    """Inside torch.func no custom operator can be seen into: jacrev works, and equals plain autograd."""
    weight = torch.randn(3, 3, dtype=torch.float64)
    rest = (torch.ones(4, 1, 3).double(), torch.eye(3).double(), None)

    def last(matrix: torch.Tensor) -> torch.Tensor:
        return additive(*rest, matrix, torch.zeros(1, 3).double())[1]

    found = torch.func.jacrev(last)(weight)
    right = torch.autograd.functional.jacobian(last, weight)
    torch.testing.assert_close(found, right, rtol=0, atol=1e-12)  # float64 rounding of four steps


def test_the_environment_is_read_when_the_module_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> Any:
        spec = importlib.util.find_spec("engram.loops._choice")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    monkeypatch.setenv("ENGRAM_LOOP", "torch")
    assert made().chosen() == "torch"
    monkeypatch.setenv("ENGRAM_LOOP", "torhc")
    with pytest.raises(OptionError, match=r"unknown executor \(ENGRAM_LOOP\) 'torhc': .* Did you mean 'torch'\?"):
        made()
    monkeypatch.delenv("ENGRAM_LOOP")
    assert made().chosen() == "auto"


@pytest.mark.slow
def test_environment_sets_the_default() -> None:
    done = python("from engram.loops import chosen; print(chosen())", ENGRAM_LOOP="torch")
    assert (done.returncode, done.stdout) == (0, "torch\n"), done.stderr


@pytest.mark.slow
def test_unknown_executor_in_the_environment() -> None:
    done = python("import engram.loops", ENGRAM_LOOP="torhc")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "engram.errors.OptionError: unknown executor (ENGRAM_LOOP) 'torhc': "
        "expected one of auto, compiled, plain, torch. Did you mean 'torch'?"
    )


def test_the_reason_is_that_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runtime library no loop runs, whether its own library was compiled or not."""
    loop = Loops("own", compiled_cell(RNNCell(2, 3)).variant(hoist=False, rebuild=True).plan, torch.float32)
    monkeypatch.setattr(_compiled, "reason", lambda name, *_: f"of {name}")
    monkeypatch.setattr(_compiled, "functions", lambda _: None)
    assert loop.reason() == "of runtime"
    monkeypatch.setattr(_compiled, "functions", lambda _: object())
    assert loop.reason() == f"of {loop.name}"

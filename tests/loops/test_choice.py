"""Which kernel runs: asked for by a block, by the environment, or by what the machine can do."""

import os
import subprocess
import sys

import pytest
import torch

from engram.errors import OptionError
from engram.loops import KERNELS, _choice, _eager, _loops, additive, chosen, status, use


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_use_is_undone_at_the_end(kernel: str) -> None:
    before = chosen()
    with use(kernel):
        assert chosen() == kernel == status()["kernel"]
    assert chosen() == before


def test_use_is_undone_by_an_exception() -> None:
    before = chosen()
    with pytest.raises(KeyError), use("plain"), use("torch"):
        raise KeyError
    assert chosen() == before


def test_unknown_kernel() -> None:
    before = chosen()
    with pytest.raises(OptionError, match=r"unknown kernel 'compield': expected one of .* Did you mean 'compiled'\?"):
        use("compield").__enter__()
    assert chosen() == before


def test_eager_is_eager_and_reference_is_plain() -> None:
    states = torch.empty(1)
    with use("torch"):
        assert _loops.loops(states) is _eager
        assert not _choice.needs_reference(torch.ones(1))
    with use("plain"):
        assert _choice.needs_reference(torch.ones(1))


def test_reference_runs_torch_operations_only() -> None:
    """Its graph is made of torch's own nodes; that of a fast kernel is one node."""
    weight = torch.eye(3, requires_grad=True)
    arguments = (torch.ones(2, 1, 3), torch.eye(3), None, weight, torch.zeros(1, 3))
    nodes = {}
    for kernel in ("plain", "torch"):
        with use(kernel):
            nodes[kernel] = type(additive(*arguments)[0].grad_fn).__name__
    assert nodes["plain"] == "StackBackward0"
    assert "engram" in nodes["torch"]


def test_transforms_take_the_plain_loop() -> None:
    """Inside torch.func no custom operator can be seen into: jacrev works, and equals plain autograd."""
    weight = torch.randn(3, 3, dtype=torch.float64)
    rest = (torch.ones(4, 1, 3).double(), torch.eye(3).double(), None)

    def last(matrix: torch.Tensor) -> torch.Tensor:
        return additive(*rest, matrix, torch.zeros(1, 3).double())[1]

    found = torch.func.jacrev(last)(weight)
    right = torch.autograd.functional.jacobian(last, weight)
    torch.testing.assert_close(found, right, rtol=0, atol=1e-12)  # float64 rounding of four steps


def test_environment_sets_the_default() -> None:
    done = python("from engram.loops import chosen; print(chosen())", ENGRAM_KERNEL="torch")
    assert (done.returncode, done.stdout) == (0, "eager\n"), done.stderr


def test_unknown_kernel_in_the_environment() -> None:
    done = python("import engram.loops", ENGRAM_KERNEL="eagr")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "engram.errors.OptionError: unknown kernel (ENGRAM_KERNEL) 'eagr': "
        "expected one of auto, compiled, eager, reference. Did you mean 'eager'?"
    )

"""Tensor networks in a run: their options as flags, what is refused, and a run that ends as one never stopped."""

import json
from pathlib import Path

import pytest
import torch

from engram.cli import main
from engram.errors import OptionError
from engram.nn import TensorTrainNet
from engram.tasks import Adding, StartEnd
from engram.train import Settings, load_network, make_network, resume, train

TASK = StartEnd(length=6, data=2, symbols=2)


def settings(**changes: object) -> Settings:
    return Settings.of(**{"task": TASK, "model": "tensor-train", "hidden": 3, "batch": 4, "steps": 6, **changes})


def test_the_network_of_the_settings() -> None:
    network = make_network(settings(options={"equal_cores": True, "features": 2}))
    assert isinstance(network.core, TensorTrainNet)
    assert (network.core.equal_cores, network.core.features, network.core.steps) == (True, 2, 6)
    outputs, state = network(torch.randn(6, 5, TASK.input_size))
    assert outputs.shape == (1, 5, 3)
    assert state is None
    assert make_network(settings(precision="64-true")).dtype == torch.float64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 2}, "no layers"),
        ({"options": {"equal_core": True}}, "equal_cores"),
        ({"options": {"batch_first": True}}, "a run sets it itself"),
        ({"embedding": 3}, "feature map"),
    ],
)
def test_what_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_network(settings(**changes))


def test_a_run_that_goes_on_is_a_run_never_stopped(tmp_path: Path) -> None:
    whole = train(settings(steps=6), tmp_path, "whole")
    train(settings(steps=3), tmp_path, "part")
    part = resume(tmp_path / "part", steps=6)
    assert part.facts["results"] == whole.facts["results"]
    for a, b in zip(load_network(whole.folder).parameters(), load_network(part.folder).parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_tensor_train_learns_to_add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is the sum of two marked numbers out of four: a polynomial, so it is within reach."""
    found = train(
        Settings.of(Adding(length=4), "tensor-train", hidden=8, steps=300, lr=1e-2, options={"features": 6}),
        tmp_path,
        "run",
    )
    assert found.facts["results"]["test"]["loss"] < 0.5 * Adding(length=4).memoryless_baseline
    assert main(["evaluate", str(found.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)

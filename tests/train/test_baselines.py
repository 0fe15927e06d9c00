"""The baselines of long memory train from the registry, and LSTM and GRU as torch's do."""

from pathlib import Path

import pytest

from engram.tasks import Copy
from engram.train import Settings, make_network, train
from tiers import slow_but

NAMES = ("lstm", "gru", "antisymmetric", "cornn", "lem", "min-gru", "min-lstm")


def settings(name: str, **more: object) -> Settings:
    return Settings.of(Copy(3, 2), name, hidden=12, batch=8, lr=1e-2, test_samples=50, **more)  # type: ignore[arg-type]


def loss(name: str, folder: Path, **more: object) -> float:
    run = train(settings(name, **more), folder, f"{name} {more['steps']}")
    return float(run.facts["results"]["test"]["loss"])


@pytest.mark.parametrize("name", slow_but(NAMES, {"lstm", "cornn", "min-gru"}))
def test_twenty_steps_of_training(name: str, tmp_path: Path) -> None:
    """Better than after one step, by at least 3 %: the slowest, cornn, moves by dt = 0.042 of a change per step."""
    assert loss(name, tmp_path, steps=20) < 0.97 * loss(name, tmp_path, steps=1)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_training_is_that_of_torch_s_own(name: str, tmp_path: Path) -> None:
    """The same initial weights, the same batches, the same gradients: the same loss after 20 steps, in float64."""
    losses = [loss(kind, tmp_path, steps=20, precision="64-true") for kind in (name, f"torch-{name}")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_weights_of_a_run_with_torch_s_own_load(name: str) -> None:
    """Runs from before engram had an LSTM: the names and shapes of all weights of the network are the same."""
    ours, theirs = (make_network(settings(kind, layers=2)) for kind in (name, f"torch-{name}"))
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    ours.load_state_dict(theirs.state_dict())
    mine, others = ([n for n, _ in network.named_parameters()] for network in (ours, theirs))
    assert mine == others  # optimisers know their parameters by place

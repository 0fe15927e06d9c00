"""Arithmetic circuits, tensor trains and matrix product states: round trips."""

from typing import Any

import numpy as np
import pytest
import torch

from engram.convert import circuit_to_train, mps_to_train, train_to_circuit, train_to_mps
from engram.errors import OptionError, ShapeError
from engram.nn import RAC, TensorTrainNet

DOUBLE = {"dtype": torch.float64}


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).detach().abs().max() / b.detach().abs().max())


def circuit(start: str = "ones") -> tuple[RAC, torch.Tensor]:
    torch.manual_seed(0)
    layer = RAC(3, 4, initial_state=start, **DOUBLE)
    if start == "trained":
        torch.nn.init.normal_(layer.cells[0].start_product)
        layer.cells[0].start_product.data[1] = 0.0
    return layer, torch.randn(2, 4, **DOUBLE)


def sequence(steps: int = 6, size: int = 3) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(steps, 5, size, **DOUBLE)


@pytest.mark.parametrize("start", ["ones", "trained"])
def test_circuit_to_train_and_back(start: str) -> None:
    """The same scores, also where a unit starts at zero and the first core tells nothing of it."""
    layer, readout = circuit(start)
    x = sequence()
    scores = layer(x)[0][-1] @ readout.mT
    train = circuit_to_train(layer, readout, 6)
    assert apart(train(x), scores) < 1e-12
    again, read = train_to_circuit(train)
    assert again.cells[0].start_product is None if start == "ones" else again.cells[0].start_product is not None
    assert apart(again(x)[0][-1] @ read.mT, scores) < 1e-12
    assert apart(circuit_to_train(again, read, 6).coefficients(), train.coefficients()) < 1e-12


def test_the_weights_of_a_circuit_come_back() -> None:
    """From a = 1 nothing is left to choose."""
    layer, readout = circuit()
    again, read = train_to_circuit(circuit_to_train(layer, readout, 4))
    for name in ("weight_ih", "weight_hh"):
        assert apart(getattr(again.cells[0], name), getattr(layer.cells[0], name)) < 1e-12
    assert apart(read, readout) < 1e-12


def test_a_train_of_a_circuit_may_be_longer() -> None:
    """What was found from 4 steps holds at 9."""
    layer, readout = circuit()
    again, read = train_to_circuit(circuit_to_train(layer, readout, 4))
    x = sequence(9)
    assert apart(again(x)[0][-1] @ read.mT, layer(x)[0][-1] @ readout.mT) < 1e-12


TRAINS: dict[str, dict[str, Any]] = {
    "plain": {},
    "equal cores": {"equal_cores": True},
    "own cores": {"own_cores": True},
    "own equal cores": {"own_cores": True, "equal_cores": True},
    "two steps": {"steps": 2},
    "three equal cores": {"steps": 3, "equal_cores": True},
}


@pytest.mark.parametrize("case", TRAINS)
def test_train_to_mps_and_back(case: str) -> None:
    torch.manual_seed(0)
    options = {"steps": 5, "features": 0, **DOUBLE, **TRAINS[case]}
    train = TensorTrainNet(3, 4, 2, **options)
    cores = train_to_mps(train)
    assert [core.dim() for core in cores] == [3] * train.steps
    assert (cores[0].shape[0], cores[-1].shape[2]) == (1, 2)
    whole = cores[0]
    for core in cores[1:]:  # the usual contraction, bond with bond
        whole = torch.einsum("a...b,bic->a...ic", whole, core)
    assert apart(whole[0].movedim(-1, 0), train.coefficients()) < 1e-12
    again = mps_to_train(cores)
    assert again.equal_cores == (train.equal_cores and train.steps > 2)
    x = sequence(train.steps)
    assert apart(again(x), train(x)) < 1e-12
    assert all(torch.equal(a, b) for a, b in zip(train_to_mps(again), cores, strict=True))


def test_from_circuit_to_mps_and_all_the_way_back() -> None:
    layer, readout = circuit()
    cores = [core.numpy() for core in train_to_mps(circuit_to_train(layer, readout, 6))]
    again, read = train_to_circuit(mps_to_train(cores))
    assert apart(again(sequence())[0][-1] @ read.mT, layer(sequence())[0][-1] @ readout.mT) < 1e-12


def test_bonds_of_different_sizes() -> None:
    """Cores written by hand: the value at (i, j, k) is i + 10 j + 100 k."""
    digits = np.arange(3.0)
    one = np.ones(3)
    cores = [
        np.stack([one, digits], -1)[None],
        np.stack([np.stack([one, 10 * digits], -1), np.stack([0 * one, one], -1)]),
        np.stack([100 * digits, one])[..., None],
    ]
    train = mps_to_train(cores)
    expected = digits[:, None, None] + 10 * digits[:, None] + 100 * digits
    assert np.abs(train.coefficients()[0].detach().numpy() - expected).max() < 1e-12
    wide = mps_to_train([cores[0], np.concatenate([cores[1], cores[1]], -1), np.concatenate([cores[2], cores[2]])])
    assert wide.rank == 4
    assert np.abs(wide.coefficients()[0].detach().numpy() - 2 * expected).max() < 1e-12


def random_train(**options: Any) -> TensorTrainNet:
    torch.manual_seed(0)
    return TensorTrainNet(3, 4, 2, 5, features=0, **options)


WRONG: dict[str, Any] = {
    "random core": (
        lambda: train_to_circuit(random_train(equal_cores=True)),
        "distance of its core to the nearest circuit is [0-9.]+,",
    ),
    "different cores": (lambda: train_to_circuit(random_train()), "with different cores of 5 steps"),
    "cores of each class": (lambda: train_to_circuit(random_train(equal_cores=True, own_cores=True)), "of each class"),
    "first bond": (lambda: mps_to_train([np.ones((2, 3, 2)), np.ones((2, 3, 1))]), "the first r 1"),
    "bonds": (lambda: mps_to_train([np.ones((1, 3, 2)), np.ones((3, 3, 1))]), "each r' equal to the next r"),
    "one core": (lambda: mps_to_train([np.ones((1, 3, 1))]), "two or more cores"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str) -> None:
    call, words = WRONG[case]
    with pytest.raises((OptionError, ShapeError), match=words):
        call()


def test_another_last_core_is_refused() -> None:
    train = circuit_to_train(*circuit(), 5)
    torch.nn.init.normal_(train.last)
    with pytest.raises(OptionError, match="distance of its last core"):
        train_to_circuit(train)


def test_the_distance_is_the_distance() -> None:
    """Of a core that was moved in one number, in a direction the circuit cannot follow."""
    train = circuit_to_train(*circuit(), 5)
    slice_ = train.inner.data[0, 0, :, :, 2]
    u, _, vh = torch.linalg.svd(slice_)
    slice_ += 0.25 * u[:, 1:2] @ vh[1:2]
    with pytest.raises(OptionError, match=r"core to the nearest circuit is 0\.25,"):
        train_to_circuit(train)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_distance_to_a_circuit_is_relative(scale: float) -> None:
    """A train that is no circuit stays none where its numbers are tiny, and a circuit one where they are huge."""
    right, wrong = circuit_to_train(*circuit(), 5), random_train(equal_cores=True, **DOUBLE)
    with torch.no_grad():
        for train in (right, wrong):
            train.inner.mul_(scale)
            train.last.mul_(scale)
    assert apart(circuit_to_train(*train_to_circuit(right), 5).last, right.last) < 1e-10
    with pytest.raises(OptionError, match="distance of its core to the nearest circuit"):
        train_to_circuit(wrong)

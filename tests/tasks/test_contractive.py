"""Identification of a contractive network: its matrix, its calibration, its noise, and the true system as predictor."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, ContractiveSystem

SHORT = ContractiveSystem(length=100)
SYSTEMS = [replace(SHORT, system=system) for system in range(4)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def perfect(batch: Batch, task: ContractiveSystem) -> Tensor:
    """The true system, run by plain products: y_t = C relu(W h_{t-1} + F x_t + b)."""
    W, F, b, C = (torch.from_numpy(part) for part in task.truth.weights)
    h = torch.zeros(batch.inputs.shape[1], task.states, dtype=torch.float64)
    outputs = []
    for x in batch.inputs.double():
        h = torch.relu(h @ W.T + x @ F.T + b)
        outputs.append(h @ C.T)
    return torch.stack(outputs)


@pytest.mark.parametrize("task", SYSTEMS, ids=repr)
def test_the_matrix_contracts(task: ContractiveSystem) -> None:
    """Symmetric, eigenvalues in [1 - epsilon, 1), the smallest exactly 1 - epsilon."""
    W = task.truth.weights.W
    assert np.array_equal(W, W.T)
    values = np.linalg.eigvalsh(W)
    assert values[0] == pytest.approx(0.99, abs=1e-12)
    assert values[-1] < 1


def test_the_form_of_the_script() -> None:
    """I - epsilon A'A: the same A, not divided by its squared norm."""
    poster, script = SHORT.truth.weights.W, replace(SHORT, normalised=False).truth.weights.W
    ratio = (np.eye(4) - script) / (np.eye(4) - poster)
    assert ratio.std() < 1e-9  # one number, the squared norm ...
    assert np.linalg.eigvalsh(script)[0] == pytest.approx(1 - 0.01 * ratio.mean())  # ... which is the largest
    assert ratio.mean() > 2


@pytest.mark.parametrize("on", [0.3, 0.6])
@pytest.mark.parametrize("system", range(3))
def test_units_are_on_as_often_as_asked(system: int, on: float) -> None:
    task = replace(SHORT, system=system, on=on)
    assert np.abs(task.truth.on - on).max() < 0.03
    batch = task.sample(1000, generator(9))  # and on other sequences
    W, F, b, _ = (torch.from_numpy(part) for part in task.truth.weights)
    h, share = torch.zeros(1000, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    for x in batch.inputs.double():
        h = torch.relu(h @ W.T + x @ F.T + b)
        share += (h > 1e-3).double().mean(0) / len(batch.inputs)
    assert (share - on).abs().max() < 0.04


def test_system_of_the_poster() -> None:
    """At T = 1000 and the defaults; ceilings found elsewhere: 0.983 to 0.987 on four systems."""
    task = ContractiveSystem()
    assert np.abs(task.truth.on - 0.6).max() < 0.02
    assert 0.98 < task.ceiling < 1 / 1.01
    assert (task.input_size, task.output_size, task.steps, task.states) == (2, 2, 1000, 4)
    assert (task.metric, task.chance) == ("r2", 0.0)


@pytest.mark.parametrize("task", SYSTEMS[:2], ids=repr)
def test_perfect_predictor(task: ContractiveSystem) -> None:
    """Without noise to speak of the true system has no error but the rounding of the targets to float32."""
    task = replace(task, snr=200.0)
    batch = task.sample(20, generator())
    outputs = perfect(batch, task)
    assert batch.inputs.shape == (100, 20, 2)
    assert batch.targets.dtype == torch.float32
    assert batch.targets.is_contiguous()
    assert float(task.loss(outputs, batch)) < 1e-12 * task.memoryless_baseline
    assert task.metrics(outputs, batch)["r2"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("snr", [15.0, 20.0])
@pytest.mark.parametrize("system", range(3))
def test_the_true_system_reaches_the_ceiling(system: int, snr: float) -> None:
    """Its error is the noise: v, within four standard errors v sqrt(2 / N)."""
    task = replace(SHORT, system=system, snr=snr)
    batch = task.sample(200, generator())
    scores = task.metrics(perfect(batch, task), batch)
    spread = task.noise * (2 / batch.targets.numel()) ** 0.5
    assert scores["mse"] == pytest.approx(task.noise, abs=4 * spread)
    assert scores["r2"] == pytest.approx(task.ceiling, abs=4 * spread / task.memoryless_baseline)
    assert task.ceiling < 1 / (1 + 10 ** (-snr / 10))  # reached only by outputs of mean 0


@pytest.mark.parametrize("task", SYSTEMS, ids=repr)
def test_memoryless_predictor_scores_the_baseline(task: ContractiveSystem) -> None:
    """The mean of each output; 1000 fresh sequences against the 1000 of the task, each with its spread."""
    batch = task.sample(1000, generator())
    mean = batch.targets.mean((0, 1)).expand_as(batch.targets)
    each = (batch.targets - mean).square().mean((0, 2))
    spread = float(each.std() / 1000**0.5) * 2**0.5
    assert float(task.loss(mean, batch)) == pytest.approx(task.memoryless_baseline, abs=4 * spread)
    assert task.metrics(mean, batch)["r2"] == pytest.approx(task.chance, abs=4 * spread / task.memoryless_baseline)
    assert 4 * spread < 0.3 * task.memoryless_baseline  # or this would say nothing


def test_signal_to_noise() -> None:
    """10 log10 of mean(y^2) / v, not centred (here the mean is most of it); the same system at every ratio."""
    task = SYSTEMS[3]
    outputs = perfect(task.sample(1000, generator()), task)
    power = outputs.square().mean((0, 2))
    spread = float(power.std() / 1000**0.5) * 2**0.5
    assert task.noise * 100 == pytest.approx(float(power.mean()), abs=4 * spread)
    assert float(power.mean()) - 4 * spread > 1.5 * float(outputs.var((0, 1)).mean())  # the centred power is far off
    louder = replace(task, snr=10.0)
    assert louder.truth is task.truth
    assert louder.noise == pytest.approx(10 * task.noise)
    assert louder.memoryless_baseline - louder.noise == pytest.approx(task.memoryless_baseline - task.noise)


def test_noise_is_white() -> None:
    """Gaussian, and not the same for the two outputs or for neighbouring steps."""
    batch = SHORT.sample(300, generator())
    noise = (batch.targets - perfect(batch, SHORT)) / math.sqrt(SHORT.noise)
    count = noise.numel()
    assert noise.mean() == pytest.approx(0, abs=4 / count**0.5)
    assert (noise**4).mean() == pytest.approx(3, abs=4 * (96 / count) ** 0.5)
    assert (noise[..., 0] * noise[..., 1]).mean() == pytest.approx(0, abs=4 / (count / 2) ** 0.5)
    assert (noise[1:] * noise[:-1]).mean() == pytest.approx(0, abs=4 / (count * 0.99) ** 0.5)


def test_the_system_is_found_once() -> None:
    """And is a function of the options, whatever the generator of the sequences."""
    assert replace(SHORT).truth is SHORT.truth
    SHORT.sample(2, generator(5))
    assert replace(SHORT).truth is SHORT.truth
    assert not np.array_equal(SYSTEMS[0].truth.weights.W, SYSTEMS[1].truth.weights.W)


def test_other_sizes() -> None:
    task = ContractiveSystem(states=3, inputs=1, outputs=4, length=7)
    batch = task.sample(5, generator())
    assert (batch.inputs.shape, batch.targets.shape, batch.mask.shape) == ((7, 5, 1), (7, 5, 4), (7, 5))
    assert [part.shape for part in task.truth.weights] == [(3, 3), (3, 1), (3,), (4, 3)]
    one = ContractiveSystem(states=1, inputs=1, outputs=1, length=7)
    assert pytest.approx(0.99) == one.truth.weights.W  # A'A / |A|^2 = 1


WRONG = {
    "states 0": ({"states": 0}, OptionError, "states must be at least 1, got 0"),
    "length a float": ({"length": 10.0}, DTypeError, "length must be a whole number"),
    "system negative": ({"system": -1}, OptionError, "system must be at least 0, got -1"),
    "epsilon 0": ({"epsilon": 0.0}, OptionError, "epsilon must lie between 0 and 1, exclusive, got 0.0"),
    "epsilon 1": ({"epsilon": 1}, OptionError, "epsilon must lie between 0 and 1"),
    "on above 1": ({"on": 60}, OptionError, "on must lie between 0 and 1, exclusive, got 60"),
    "snr nan": ({"snr": math.nan}, OptionError, "snr must lie between"),
    "snr a bool": ({"snr": True}, DTypeError, "snr must be a number"),
    "normalised": ({"normalised": "no"}, DTypeError, "normalised must be True or False, got 'no'"),
    "expands": ({"epsilon": 0.9, "normalised": False}, OptionError, "epsilon must be below 0.* to contract, got 0.9"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        ContractiveSystem(**options)  # type: ignore[arg-type]

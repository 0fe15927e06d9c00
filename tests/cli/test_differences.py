"""What a conversion says of itself: the differences that it measures, with networks that do differ; in words."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.cli import _convert_automaton, _convert_onnx, _convert_torch, _convert_unitary
from engram.cli._converted import compared, settings_of
from engram.convert import WeightedAutomaton
from engram.nn import RNN, LinearRNN
from engram.tasks import Copy
from engram.train import Settings


class Twin:
    """Gives back what it is given, and so much more where that is negative."""

    dtype = torch.float64

    def __init__(self, more: float) -> None:
        self.more = more

    def __call__(self, inputs: Tensor) -> tuple[Tensor, None]:
        return inputs + self.more * (inputs < 0), None


def test_two_networks_on_the_test_of_a_run() -> None:
    """A thousand sequences or a little more: three batches of 500. The largest of each is in the middle."""
    values = [torch.full((2, 500, 3), value) for value in (2.0, -5.0, 1.0, -100.0)]
    values[1][0, 0, 0] = 3.0
    batches = [SimpleNamespace(inputs=value) for value in values]
    tests = type("Batches", (), {"per_epoch": 4, "__getitem__": lambda self, k: batches[k]})()
    settings: Any = SimpleNamespace(
        task=SimpleNamespace(exams=lambda: {"test": None}),
        budget=SimpleNamespace(batch=500),
        batches=lambda exam, task: tests,
    )
    before, after = Twin(0.0), Twin(0.25)
    found = compared(settings, before, after)  # type: ignore[arg-type]
    assert found == {"sequences": 1500, "difference": 0.25, "largest_output": 5.0}
    assert compared(settings, after, before)["difference"] == 0.25  # type: ignore[arg-type]


def test_all_states_of_a_layer_are_compared() -> None:
    zero = torch.zeros(3)
    equal: Any = lambda x: (x, (zero, zero))  # noqa: E731
    facts = SimpleNamespace(input_size=2, weight_ih_l0=torch.zeros(1, dtype=torch.float64))

    class Equal:
        input_size, weight_ih_l0 = facts.input_size, facts.weight_ih_l0

        def __call__(self, x: Tensor) -> Any:
            return equal(x)

    moved = torch.tensor([0.0, -0.5, 0.25])
    for states in ((zero, moved), (moved, zero)):
        assert _convert_torch._difference(lambda x, states=states: (x, states), Equal()) == 0.5


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_file_is_compared_with_the_network(sign: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    session = SimpleNamespace(run=lambda names, given: [given["input"] + np.float32(sign * 0.5)])
    runtime = SimpleNamespace(SessionOptions=SimpleNamespace, InferenceSession=lambda path, options, providers: session)
    monkeypatch.setattr(_convert_onnx, "import_module", lambda name: runtime)
    monkeypatch.setattr(_convert_onnx, "sample_input", lambda network, steps, batch: torch.ones(steps, batch, 2))
    assert _convert_onnx._difference(lambda inputs: (inputs, None), tmp_path / "a.onnx") == 0.5


def test_values_of_words_differ_by_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of 100, and a quarter where the value is 0; of several outputs the largest counts."""
    monkeypatch.setattr(_convert_automaton, "word_values", lambda found, words: found)
    source: Any = SimpleNamespace(value=lambda word: {0: [0.0, 0.0], 1: [-100.0, 5.0]}[len(word)])
    for values, share in (([[0.0, 0.0], [-101.0, 5.0]], 0.01), ([[-0.25, 0.0], [-101.0, 5.0]], 0.25)):
        made: Any = SimpleNamespace(to_network=lambda values=values: (torch.tensor(values),))
        assert _convert_automaton.difference(source, made, [[], [0]]) == pytest.approx(share)


def test_words_that_an_automaton_reads() -> None:
    """Of its three symbols the second one leads nowhere. Lengths from 0 to 20, 256 of them if they cost little."""
    matrices = np.array([[[0.5]], [[0.0]], [[0.25]]])
    automaton = WeightedAutomaton(np.ones(1), matrices, np.ones(1))
    words = _convert_automaton.random_words(automaton)
    assert len(words) == 256
    assert {len(word) for word in words} == {*range(21)}
    assert {symbol for word in words for symbol in word} == {0, 2}


def test_the_norm_of_a_step() -> None:
    rows = torch.tensor([[[3.0, 4.0], [1.0, 1.0]], [[0.0, 2.0], [-6.0, 8.0]]])
    assert _convert_unitary._largest(rows) == 10.0


def test_an_orthogonal_twin_in_words() -> None:
    report: dict[str, Any] = {
        "cells": [
            {"norm": 0.75, "added": 2, "bias_bound": -3.5},
            {"norm": 0.5, "added": 4, "bias_bound": -9.0},
        ],
        "contracted": False, "difference": {"data": 1e-7, "worst": 2e-7}, "largest_output": 4.0,
        "bias_used": {"data": 0.25, "worst": 0.5}, "states": 4, "states_used": 8, "orthogonality_error": 1e-15,
        "input_bound": 1.5, "steps": None, "run": "a b",
        "results": {"before": {"test": {"loss": 0.5}}, "after": {"test": {"loss": 0.25}}},
    }  # fmt: skip
    assert _convert_unitary.told(report).splitlines() == [
        "norms of W_hh: 0.75, 0.5",
        "states:        4 -> 8 per layer (rank of I - W'W: 2, 4); W'W - I is 1e-15 at most",
        "promise:       equal outputs for inputs of norm up to 1.5; biases of the added units down to -9",
        "measured:      largest difference of outputs 1e-07 (data), 2e-07 (worst); outputs are up to 4",
        "room left:     the added units got at most 50.00% of what would wake them",
        "test before:   loss 0.5",
        "test after:    loss 0.25",
        "run: a b (engram evaluate 'a b')",
    ]
    report |= {"contracted": True, "moved_by_contraction": 0.125, "steps": 40}
    said = _convert_unitary.told(report)
    assert (
        "not contractive. Singular values above 1 were set to 1, which moved the outputs of the layer by up to 0.125"
        in said
    )
    assert "of norm up to 1.5, in sequences of up to 40 steps; biases" in said


LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "linear": (LinearRNN(3, 5), {"name": "linear-rnn", "options": {}}),
    "no bias": (LinearRNN(3, 5, bias=False), {"name": "linear-rnn", "options": {"bias": False}}),
    "all": (
        RNN(
            3, 5, 2, activation="relu", activation_in="depth", dropout=0.5, bidirectional=True, initial_state="trained"
        ),
        {"name": "rnn", "layers": 2, "options": {
            "activation": "relu", "activation_in": "depth", "initial_state": "trained", "dropout": 0.5,
            "bidirectional": True,
        }},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_settings_of_a_layer(case: str) -> None:
    """A network made of them has it."""
    layer, model = LAYERS[case]
    settings = settings_of(Settings.of(Copy(3), "lstm", hidden=9, layers=3), layer)
    found = {name: getattr(settings.model, name) for name in ("name", "hidden", "layers", "options")}
    assert found == {"hidden": 5, "layers": 1, **model}

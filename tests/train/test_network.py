"""The network between a task and its outputs: sizes, embedding, the last step, and the counts of the papers."""

from typing import Any

import pytest
import torch
from torch import nn

from engram import models
from engram.errors import OptionError
from engram.models import MODELS, Model, OneHot
from engram.tasks import Adding, Copy, PennTreebank, PermutedMNIST, Task
from engram.train import Settings, make_network
from tiers import MODELS_OF_EACH_KIND, slow, slow_but

LAYERS = [name for name, entry in MODELS.items() if not entry.answers_itself]

# recurrent + input + modReLU bias + decoder [+ embedding], one bias per gate.
COUNTS = [
    (Copy(200), "nnrnn", 128, 18_953),
    (Copy(200), "exprnn", 176, 18_929),
    (Copy(200), "exprnn", 128, 10_697),
    (Copy(200), "lstm", 63, 19_224),
    (Copy(200), "lstm", 128, 72_329),
    (PermutedMNIST(), "nnrnn", 512, 268_298),
    (PermutedMNIST(), "exprnn", 722, 268_955),
    (PermutedMNIST(), "exprnn", 512, 136_970),
    (PermutedMNIST(), "lstm", 257, 268_832),
    (PermutedMNIST(), "lstm", 512, 1_057_802),
    (PennTreebank(), "nnrnn", 1024, 1_315_650),
    (PennTreebank(), "exprnn", 1386, 1_317_741),
    (PennTreebank(), "exprnn", 1024, 790_850),
    (PennTreebank(), "lstm", 475, 1_318_200),
    (PennTreebank(), "lstm", 1024, 5_078_850),
]


@pytest.mark.parametrize(
    ("task", "model", "hidden", "count"),
    [slow(*row) if row[2] > 500 else row for row in COUNTS],  # their weights take long
)
def test_parameter_counts_of_the_papers(task: Task, model: str, hidden: int, count: int) -> None:
    """torch's LSTM has a second bias, which adds nothing, on each of its four gates."""
    network = make_network(Settings.of(task, model, hidden=hidden))
    second = 4 * hidden if model == "lstm" else 0
    assert sum(p.numel() for p in network.parameters()) == count + second


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("task", [Copy(3, 2), Adding(7), PennTreebank(bptt=5)], ids=lambda task: task.name)
@pytest.mark.parametrize("model", slow_but(LAYERS, MODELS_OF_EACH_KIND))
def test_every_model_fits_every_kind_of_task(model: str, task: Task, layers: int) -> None:
    """Answers at every step or at the last, numbers or symbols; a state that can be given back."""
    network = make_network(Settings.of(task, model, hidden=6, layers=layers, embedding=3 if task.vocabulary else None))
    shape = (task.steps, 4) if task.vocabulary else (task.steps, 4, task.input_size)
    inputs = torch.randint(50, shape) if task.vocabulary else torch.randn(shape)
    outputs, state = network(inputs)
    assert outputs.shape == (task.steps if task.answer == "every" else 1, 4, task.output_size)
    assert not outputs.is_complex()
    again, _ = network(inputs, state)
    assert again.shape == outputs.shape
    if (model, layers) not in {
        *((m, 2) for m in ("eurnn", "rac", "birnn", "cpbirnn")),
        ("eurnn", 1),
    }:  # the second layer gets too little, and modReLU's bias of -0.01 cuts off what weights of 0.01 let in
        assert not again.allclose(outputs)  # the state does something


def test_the_last_step_only() -> None:
    """The same as all steps, of which all but the last are thrown away."""
    task = Adding(7)
    network = make_network(Settings.of(task, "exprnn", hidden=6))
    network.core.return_sequence = False
    inputs = torch.randn(task.steps, 4, 2)
    last, state = network(inputs)
    network.core.return_sequence = True
    every, same = network(inputs)
    assert last.equal(every)
    assert isinstance(state, torch.Tensor)
    assert state.equal(same)
    every_step = network.head(network.core(inputs)[0])
    assert last.allclose(every_step[-1:])


def test_one_hot_or_embedded() -> None:
    """embedding=0 is a one-hot input of the size of the alphabet; unless given, the paper's 200."""
    task = PennTreebank(bptt=5)
    symbols = torch.randint(50, (5, 2))
    plain = make_network(Settings.of(task, "lstm", hidden=6, embedding=0))
    assert isinstance(plain.encoder, OneHot)
    one_hot = nn.functional.one_hot(symbols, 50).float()
    assert plain(symbols)[0].equal(plain.head(plain.core(one_hot)[0]))
    embedded = make_network(Settings.of(task, "lstm", hidden=6))
    assert isinstance(embedded.encoder, nn.Embedding)
    assert embedded.encoder.weight.shape == (50, 200)
    assert embedded(symbols)[0].equal(embedded.head(embedded.core(embedded.encoder(symbols))[0]))


class Sum(nn.Module):
    """The sum of all inputs so far, three times."""

    def forward(self, inputs: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        return inputs.cumsum(0).repeat(1, 1, 3), state


def test_any_module_will_do() -> None:
    """A layer of one's own, whose number of features is asked from itself."""
    network = models.make_network(Copy(3, 2), Model(f"{__file__}:Sum"))
    assert network.head.in_features == 3 * Copy(3, 2).input_size
    assert network.penalty() is None


def test_the_same_seed_gives_the_same_weights() -> None:
    settings = Settings.of(Copy(3, 2), "exprnn", hidden=6)
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        weights.append(make_network(settings).head.weight)
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_refusals() -> None:
    with pytest.raises(OptionError, match="embedding is for tasks of symbols or images; copy has 10 numbers per step"):
        make_network(Settings.of(Copy(5), "lstm", embedding=3))
    for model in ("lstm", "exprnn"):
        with pytest.raises(OptionError, match="no_such"):
            make_network(Settings.of(Copy(5), model, options={"no_such": 3}))
    with pytest.raises((OptionError, ValueError), match="dropout"):
        make_network(Settings.of(Copy(5), "lstm", options={"dropout": 3}))


@pytest.mark.parametrize("model", ["nnrnn", "exprnn"])
def test_penalty(model: str) -> None:
    """Of the layer, where there is one."""
    options = {"gamma_penalty": 0.5} if model == "nnrnn" else {}
    network = make_network(Settings.of(Copy(5), model, hidden=6, options=options))
    for name, p in network.named_parameters():
        if name.endswith("weight_hh.original3"):
            p.data.fill_(0.8)  # the moduli gamma, two by two
    penalty = network.penalty()
    if model == "nnrnn":
        assert penalty is not None
        assert penalty.item() == pytest.approx(3 * 0.5 * 0.2**2)
    else:
        assert penalty is None or penalty.item() == 0


@pytest.mark.parametrize("option", ["batch_first", "return_sequence", "output_all_layers", "dtype"])
@pytest.mark.parametrize("model", ["lstm", "rnn"])
def test_what_a_run_decides_itself(model: str, option: str) -> None:
    with pytest.raises(OptionError, match=f"option {option} is for your own programs"):
        make_network(Settings.of(Copy(3), model, hidden=4, options={option: True}))


def test_no_way_back_through_the_answers() -> None:
    with pytest.raises(OptionError, match="asks for the next symbol, which the way back has read already"):
        make_network(Settings.of(PennTreebank(), "lstm", hidden=4, options={"bidirectional": True}))


@pytest.mark.parametrize("model", ["lstm", "gru", "rnn", "exprnn"])
def test_both_directions_have_read_everything(model: str) -> None:
    """The answer at the last step depends on the first input and on the last, through either direction."""
    network = make_network(Settings.of(Adding(9), model, hidden=4, options={"bidirectional": True}))
    inputs = torch.rand(9, 2, 2)
    features = network.head.select(network.features(inputs)[0])
    assert features.shape == (1, 2, 8)
    for step in (0, -1):
        changed = inputs.clone()
        changed[step] += 1
        moved = (network.head.select(network.features(changed)[0]) - features).abs()[0]
        assert moved[:, :4].sum() > 0
        assert moved[:, 4:].sum() > 0


def test_a_batch_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 sequences of 23 steps, of 10 numbers and 9 scores of 4 bytes: 34 MB."""
    settings = Settings.of(Copy(3), hidden=2, layers=1, batch=20_000)
    monkeypatch.setattr("engram.train._memory.free_memory", lambda: 35)
    make_network(settings)
    monkeypatch.setattr("engram.train._memory.free_memory", lambda: 33)
    with pytest.raises(OptionError, match=r"a batch needs 34 MB or more .* 33 MB are free"):
        make_network(settings)

"""Any module as a core: how it is made from sizes, how it is called, and what is told of those that do not fit."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engram.errors import EngramError, OptionError, ShapeError
from engram.models import (
    LastStep,
    MeanOverTime,
    Model,
    Network,
    OwnAnswer,
    OwnEncoder,
    make_core,
    make_network,
)
from engram.models._cores import check_state
from engram.nn import Cell, Recurrent
from engram.tasks import Adding, Copy, PennTreebank, Task

HERE = f"{__file__}:"


class LeakyCell(Cell):
    """The cell of README."""

    equation = "h_t = 0.9 h_{t-1} + 0.1 tanh(W_hh h_{t-1} + W_ih x_t + b)"

    def step(self, drive: Tensor, state: Tensor) -> Tensor:
        return 0.9 * state + 0.1 * torch.tanh(drive + state @ self.weight_hh.mT)


class LeakyRNN(Recurrent):
    cell = LeakyCell


class Plain(nn.Module):
    """A sequence in, a sequence out, nothing else."""

    def __init__(self, input_size: int, width: int = 5) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, width)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs).cumsum(0)


class WithNoise(Plain):
    """Returns something beside, which is no state: it takes none."""

    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs), {"attention": 1}


class Once(Plain):
    """One answer, (B, G)."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs)[-1]


class Averaged(Plain):
    readout = "mean"


class AveragedRNN(LeakyRNN):
    readout = "mean"


class Normed(nn.Module):
    """A batch normalisation, which a call in training mode with one row would break, and with zeros spoil."""

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(input_size)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.norm(inputs.flatten(0, 1)).reshape(inputs.shape)


class Whole(nn.Module):
    """Answers itself; needs to know how many steps there are."""

    def __init__(self, input_size: int, output_size: int, steps: int, task: Task, every: bool = False) -> None:
        super().__init__()
        self.linear, self.task = nn.Linear(input_size * steps, output_size), task
        self.every = every

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.linear(inputs.transpose(0, 1).flatten(1))
        return answer.expand(len(inputs), *answer.shape) if self.every else answer


class Wrong(nn.Module):
    """Each mode breaks one rule."""

    def __init__(self, input_size: int, output_size: int = 0, mode: str = "rank") -> None:
        super().__init__()
        self.mode = mode

    def forward(self, inputs: Tensor) -> Any:
        if self.mode == "raises":
            raise KeyError("nothing\nhere")
        answers = {"rank": inputs[..., None], "text": "no", "none": (), "batch": inputs[:, :1], "width": inputs}
        answers |= {"steps": inputs[:, 0], "fewer": inputs[1:]}
        return answers[self.mode]


class Strange(nn.Module):
    def __init__(self, n_in: int, n_out: int = 3) -> None:
        super().__init__()


def outputs_of(network: Network, task: Task, batch: int = 3) -> Tensor:
    outputs: Tensor = network(task.sample(batch, torch.Generator().manual_seed(0)).inputs)[0]
    return outputs


@pytest.mark.parametrize("task", [Copy(3, 2), Adding(6)], ids=lambda task: task.name)
@pytest.mark.parametrize("name", ["LeakyRNN", "Plain", "WithNoise", "Averaged", "Normed"])
def test_a_module_of_ones_own(name: str, task: Task) -> None:
    network = make_network(task, Model(HERE + name))
    outputs = outputs_of(network, task)
    assert outputs.shape == (task.steps if task.answer == "every" else 1, 3, task.output_size)
    assert network.training


def test_options_go_to_the_constructor() -> None:
    network = make_network(Copy(3, 2), Model(HERE + "Plain", options={"width": 7}))
    assert network.head.in_features == 7
    with pytest.raises(OptionError, match=r"unknown option 'widht' of Plain.*Did you mean 'width'"):
        Model(HERE + "Plain", options={"widht": 7})
    leaky = make_network(Copy(3, 2), Model(HERE + "LeakyRNN", 4, 2, options={"map": "cayley", "dropout": 0.5}))
    assert (leaky.core.num_layers, leaky.core.hidden_size, leaky.core.dropout) == (2, 4, 0.5)


class Asking(Plain):
    """An option that must be given."""

    def __init__(self, input_size: int, width: int, reach: float) -> None:
        super().__init__(input_size, width)
        self.reach = reach


def test_options_that_must_be_given() -> None:
    network = make_network(Copy(3, 2), Model(HERE + "Asking", options={"width": 7, "reach": 0.5}))
    assert (network.head.in_features, network.core.reach) == (7, 0.5)
    with pytest.raises(OptionError, match="Asking needs reach: a run gives a model those of"):
        make_network(Copy(3, 2), Model(HERE + "Asking", options={"width": 7}))


def test_only_cores_that_take_a_state_have_one() -> None:
    task = Adding(6)
    inputs = task.sample(3, torch.Generator().manual_seed(0)).inputs
    for name in ("Plain", "WithNoise"):
        network = make_network(task, Model(HERE + name))
        outputs, state = network(inputs)
        assert state is None
        assert network(inputs, "ignored")[0].equal(outputs)
    leaky = make_network(task, Model(HERE + "LeakyRNN", hidden=4))
    outputs, state = leaky(inputs)
    assert state.shape == (1, 3, 4)
    assert not leaky(inputs, state)[0].equal(outputs)


class Open(Plain):
    """Hands on what it is given, whatever that is; and is made for evaluation."""

    def __init__(self, input_size: int) -> None:
        super().__init__(input_size)
        self.eval()

    def forward(self, *given: Any) -> Any:
        output = super().forward(given[0])
        return output, output[-1] + (given[1] if len(given) > 1 else 0)


def test_any_arguments_are_a_state_too() -> None:
    network = make_network(Adding(6), Model(HERE + "Open"))
    inputs = torch.randn(6, 3, 2)
    _, state = network(inputs)
    assert network(inputs, state)[1].equal(2 * state)
    assert not network.core.training


class Showing(Plain):
    """An output, a state, and something to look at."""

    def forward(self, inputs: Tensor, state: Any = None) -> Any:
        output = super().forward(inputs)
        return output, output[-1], inputs


def test_the_state_is_the_second_of_several() -> None:
    network = make_network(Adding(6), Model(HERE + "Showing"))
    inputs = torch.randn(6, 3, 2)
    assert network(inputs)[1].equal(network.core(inputs)[1])


def test_heads_that_fit() -> None:
    once = make_network(Adding(6), Model(HERE + "Once"))
    plain = make_network(Adding(6), Model(HERE + "Plain"))
    assert isinstance(once.head, LastStep)
    plain.load_state_dict(once.state_dict())
    assert outputs_of(plain, Adding(6)).equal(outputs_of(once, Adding(6)))
    assert isinstance(make_network(Adding(6), Model(HERE + "Averaged")).head, MeanOverTime)
    averaged, inputs = make_network(Adding(6), Model(HERE + "AveragedRNN", hidden=4)), torch.randn(6, 3, 2)
    every = averaged.core(inputs)[0]
    assert every.shape == (6, 3, 4)
    torch.testing.assert_close(averaged(inputs)[0], averaged.head(every.mean(0)))
    with pytest.raises(OptionError, match="Once answers once, after the last input; copy asks at every step"):
        make_network(Copy(3, 2), Model(HERE + "Once"))


def test_a_core_that_answers_itself() -> None:
    task = Adding(6)
    network = make_network(task, Model(HERE + "Whole"))
    assert isinstance(network.head, OwnAnswer)
    assert network.core.task is task
    assert outputs_of(network, task).shape == (1, 3, 1)
    copy = Copy(3, 2)
    assert outputs_of(make_network(copy, Model(HERE + "Whole", options={"every": True})), copy).shape == (
        copy.steps,
        3,
        copy.output_size,
    )
    with pytest.raises(OptionError, match="Whole answers once"):
        make_network(copy, Model(HERE + "Whole"))


class Frozen(Whole):
    """Answers itself, and learns nothing."""

    def __init__(self, input_size: int, output_size: int, steps: int, task: Task) -> None:
        super().__init__(input_size, output_size, steps, task)
        self.requires_grad_(False)


def test_what_cannot_be_trained() -> None:
    with pytest.raises(OptionError, match="Frozen on adding has no parameter that could be trained"):
        make_network(Adding(6), Model(HERE + "Frozen"))


def test_batch_normalisation_is_not_spoiled() -> None:
    norm = make_network(Copy(3, 2), Model(HERE + "Normed")).core.norm
    assert int(norm.num_batches_tracked) == 0


def test_a_layer_of_ours_with_batch_normalisation() -> None:
    """In training mode S4 could not take the one row and step that a layer is asked about its sizes with."""
    core = make_network(Copy(3, 2), Model("s4", options={"norm": "batch"})).core
    assert core.training
    moments = [buffer for name, buffer in core.named_buffers() if "running" in name]
    assert moments
    assert {*torch.cat([moment.flatten() for moment in moments]).tolist()} == {0.0, 1.0}


def test_torch_by_its_own_name() -> None:
    for name in ("RNN", "GRU", "LSTM"):
        network = make_network(Copy(3, 2), Model(f"torch.nn:{name}", 4, 2, options={"dropout": 0.1}))
        assert type(network.core) is getattr(nn, name)
        assert network.core.hidden_size == 4
    relu = make_network(Copy(3, 2), Model("torch.nn:RNN", 4, options={"nonlinearity": "relu"}))
    assert relu.core.nonlinearity == "relu"


SIZES: list[tuple[dict[str, Any], str]] = [
    ({"name": "Plain", "layers": 2}, "Plain has no layers"),
    ({"name": "Plain", "hidden": 7}, "Plain has no hidden units to set"),
    ({"name": "Strange"}, "Strange needs n_in: a run gives a model those of input_size, hidden_size"),
    ({"name": "Wrong"}, r"must return \(steps, batch, features\) or \(batch, features\)"),
    ({"name": "Wrong", "options": {"mode": "batch"}}, r"it made \(7, 1, 10\)"),
    ({"name": "Wrong", "options": {"mode": "steps"}}, r"of \(7, 2, 10\) it made \(7, 10\)"),
    ({"name": "Wrong", "options": {"mode": "fewer"}}, r"of \(7, 2, 10\) it made \(6, 2, 10\)"),
    (
        {"name": "Wrong", "options": {"mode": "text"}},
        "a tensor of numbers, alone or in a tuple with a state; got str",
    ),
    ({"name": "Wrong", "options": {"mode": "none"}}, "must return a tensor.*got tuple"),
    ({"name": "Wrong", "options": {"mode": "raises"}}, r"it refused \(7, 2, 10\): KeyError: .*nothing"),
    ({"name": "Wrong", "options": {"mode": "width"}}, "it must give 9 numbers, it gave 10"),
]


@pytest.mark.parametrize(("values", "message"), SIZES)
def test_what_does_not_fit(values: dict[str, Any], message: str) -> None:
    with pytest.raises(EngramError, match=message) as told:
        make_network(Copy(3, 2), Model(**{**values, "name": HERE + values["name"]}))
    assert isinstance(told.value, OptionError | ShapeError)
    assert "\n" not in str(told.value)


def test_make_core_by_hand() -> None:
    core = make_core(HERE + "LeakyRNN", 3, 4, 2)
    assert isinstance(core, Recurrent)
    assert core(torch.zeros(5, 2, 3))[0].shape == (5, 2, 4)


def test_no_way_back_through_the_answers() -> None:
    with pytest.raises(OptionError, match="asks for the next symbol"):
        make_network(PennTreebank(), Model(HERE + "LeakyRNN", options={"bidirectional": True}))


class WithWords(Plain):
    """Takes again what no run can hand on."""

    def forward(self, inputs: Tensor, state: Any = None) -> Any:
        return super().forward(inputs), "the state"


class Fails(nn.Module):
    """An encoder that raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, inputs: Tensor) -> Tensor:
        raise self.error


def test_a_state_must_be_tensors() -> None:
    with pytest.raises(ShapeError, match=r"the state of WithWords.* must be a tensor or a tuple of tensors; got str"):
        check_state(WithWords(3), "the state")
    check_state(WithWords(3), (torch.ones(1), torch.ones(2)))
    check_state(Plain(3), "of no core")


def test_an_encoder_that_fails() -> None:
    """It is put back into training; an error of engram comes through as it is."""
    encoder = Fails(ValueError("no\nmore"))
    words = r"the encoder Fails must take \('batch', 3, 8, 8\).* it refused \(2, 3, 8, 8\): ValueError: no"
    with pytest.raises(OptionError, match=words):
        OwnEncoder(encoder, (3, 8, 8))
    assert encoder.training
    with pytest.raises(ShapeError, match=r"^as it is$"):
        OwnEncoder(Fails(ShapeError("as it is")).eval(), (3, 8, 8))


def test_a_tensor_network_takes_no_encoder() -> None:
    with pytest.raises(OptionError, match=r"tensor-train has a feature map of its own \(option features\), no encoder"):
        make_network(Adding(6), Model("tensor-train", encoder="learned"))

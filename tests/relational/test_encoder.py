"""The encoder of images in a network: once per object, learned, frozen or somebody else's, and under a penalty."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.relational.conftest import Shown
from torch import nn

from engram.errors import OptionError, ShapeError
from engram.models import Model, Network, OwnEncoder, make_network
from engram.relational import ContextNorm, PixelCNN, Sparse
from engram.tasks import Copy, make_task
from engram.train import Settings

TASK = Shown(length=5, count=6, side=9)


def network_of(name: str = "corelnet", task: Shown = TASK, **settings: Any) -> Network:
    torch.manual_seed(0)
    return make_network(task, Model(name, **settings)).double()


def rows(batch: int = 4) -> torch.Tensor:
    return TASK.sample(batch, torch.Generator().manual_seed(1)).inputs


class TestOncePerObject:
    @pytest.mark.parametrize("settings", [{}, {"l1": 2.0}, {"context": "off"}, {"context": "2+3"}])
    def test_equals_encoding_every_position(self, settings: dict[str, Any]) -> None:
        """Answers, penalty and gradients."""
        network, shown = network_of(**settings), rows()
        found = []
        for inputs in (shown, network.objects[shown]):  # type: ignore[index]
            answers = network(inputs)[0]
            penalty = network.penalty()
            total = answers.square().sum() + (0 if penalty is None else penalty)
            found.append([answers, *torch.autograd.grad(total, list(network.parameters()), allow_unused=True)])
        for ours, theirs in zip(*found, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)

    def test_an_object_is_encoded_once_however_often_it_is_shown(self) -> None:
        network, seen = network_of(), []
        network.encoder.register_forward_hook(lambda module, given, made: seen.append(len(given[0])))
        shown = torch.tensor([[0, 0, 3, 0]] * 5)
        network(shown)
        assert seen == [2]


class TestRandom:
    def test_it_is_not_trained(self) -> None:
        network = network_of(encoder="random")
        assert not any(p.requires_grad for p in network.encoder.parameters())
        assert all(p.requires_grad for part in (network.core, network.context) for p in part.parameters())  # type: ignore[union-attr]
        network(rows())[0].sum().backward()
        assert all(p.grad is None for p in network.encoder.parameters())

    def test_it_has_the_same_weights_as_the_learned_one(self) -> None:
        a, b = network_of(encoder="random"), network_of(encoder="learned")
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))

    def test_it_tells_objects_apart(self) -> None:
        """Injective on a hundred images: no two codes are equal."""
        torch.manual_seed(0)
        codes = PixelCNN((3, 32, 32), frozen=True)(torch.rand(100, 3, 32, 32))
        distances = torch.cdist(codes, codes) + torch.eye(100) * 1e9
        assert float(distances.min()) > 1e-3


class Half(nn.Module):
    """An encoder of somebody else, which has a size of its own."""

    def __init__(self, input_shape: tuple[int, ...], output_size: int = 8) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Flatten(), nn.Linear(3 * 9 * 9, output_size // 2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(images)
        return found


class Picture(nn.Module):
    """Makes no vector."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images


class Demanding(nn.Module):
    def __init__(self, taste: str) -> None:
        super().__init__()


class TestOwn:
    def test_any_module_is_an_encoder(self) -> None:
        network = network_of(encoder=f"{Path(__file__)}:Half", embedding=12)
        assert isinstance(network.encoder, OwnEncoder)
        assert network.encoder.output_size == network.core.input_size == 6  # type: ignore[union-attr]
        assert network(rows())[0].shape == (1, 4, 2)
        assert all(module.training for module in network.modules())  # it was measured in evaluation

    def test_one_of_torch(self) -> None:
        network = network_of(encoder="torch.nn:Flatten", context="off")
        assert network.encoder.output_size == 3 * 9 * 9
        assert network(rows())[0].shape == (1, 4, 2)

    def test_what_is_refused(self) -> None:
        with pytest.raises(ShapeError, match=r"must make a vector of each input.*it made \(2, 3, 9, 9\)"):
            network_of(encoder=f"{Path(__file__)}:Picture")
        with pytest.raises(OptionError, match="the encoder Demanding needs taste"):
            network_of(encoder=f"{Path(__file__)}:Demanding")
        with pytest.raises(OptionError, match=r"unknown encoder 'learnt'.*Did you mean 'learned'"):
            Model("corelnet", encoder="learnt")
        with pytest.raises(OptionError, match="encoder is for tasks of images with an embedding; copy shows"):
            make_network(Copy(5), Model("lstm", encoder="random"))

    def test_a_file_of_a_stranger_does_not_import_it(self) -> None:
        values = Model("corelnet", encoder=f"{Path(__file__)}:Half").to_dict()
        with pytest.raises(OptionError, match="is code outside engram, and importing it would run it"):
            Model.from_dict(values)
        assert Model.from_dict(values, allow=[str(Path(__file__))]).encoder == values["encoder"]

    def test_its_code_is_noted(self) -> None:
        """What a run keeps a copy of: the files of the model and of the encoder."""
        here = f"{Path(__file__).resolve()}:"
        assert {name: kind.__name__ for name, kind in Model("corelnet", encoder=here + "Half").outside.items()} == {
            here + "Half": "Half"
        }
        both = Model(here + "Picture", encoder=here + "Half").outside
        assert {name: kind.__name__ for name, kind in both.items()} == {
            here + "Picture": "Picture",
            here + "Half": "Half",
        }
        assert Model("corelnet").outside == {}


class TestSparse:
    @pytest.mark.parametrize("on", ["codes", "weights"])
    def test_its_penalty(self, on: str) -> None:
        network = network_of(l1=3.0, l1_on=on)
        codes = network.codes(rows())
        network(rows())
        weight = network.sparse.weight  # type: ignore[union-attr]
        numbers = (codes @ weight.mT if on == "codes" else weight).detach()
        expected = 3 * sum(abs(float(number)) for number in numbers.flatten()) / numbers.numel()
        assert float(network.penalty().detach()) == pytest.approx(expected, rel=1e-12)  # type: ignore[union-attr]

    def test_a_copy_in_the_middle_of_a_step_has_no_past(self) -> None:
        """And what was penalised once is not penalised again."""
        for name, settings in (("corelnet", {"l1": 3.0}), ("mnm", {})):
            network = network_of(name, **settings)
            network(rows())
            twin = copy.deepcopy(network)
            assert float(twin.penalty().detach()) == 0  # type: ignore[union-attr]
            assert float(network.penalty().detach()) > 0  # type: ignore[union-attr]
            assert float(network.penalty().detach()) == 0  # type: ignore[union-attr]

    def test_nothing_outside_of_training(self) -> None:
        network = network_of(l1=3.0).eval()
        network(rows())
        assert float(network.penalty()) == 0  # type: ignore[arg-type]

    def test_what_is_refused(self) -> None:
        with pytest.raises(OptionError, match="must be above 0 and finite, got 0"):
            Sparse(3, 0.0)
        with pytest.raises(OptionError, match="l1 must be a strength of at least 0, got -1"):
            Model("corelnet", l1=-1)
        with pytest.raises(OptionError, match="unknown l1_on 'code'"):
            Model("corelnet", l1=1.0, l1_on="code")


class TestContext:
    def test_it_is_that_of_the_task_unless_said_otherwise(self) -> None:
        task = Shown(length=4, side=9, parts=(2, 2))
        assert Settings.of(task, "corelnet").resolved().model.context == "whole"
        segments = {
            name: getattr(make_network(task, Model("lstm", context=name)).context, "segments", None)
            for name in ("", "off", "whole", "segmented", "2+2")
        }
        assert segments == {"": (), "off": None, "whole": (), "segmented": (2, 2), "2+2": (2, 2)}
        assert make_network(Copy(5), Model("lstm")).context is None
        assert isinstance(make_network(Copy(5), Model("lstm", context="whole")).context, ContextNorm)

    def test_what_is_refused(self) -> None:
        message = r"must add up to the steps of Shown: 3\+3 makes 6 of 5. Its own are 5"
        with pytest.raises(OptionError, match=message):
            network_of(context="3+3")
        with pytest.raises(OptionError, match=r"must add up to the steps of Shown: 1\+2 makes 3 of 5"):
            network_of(context="1+2")
        with pytest.raises(OptionError, match="unknown context 'hole'"):
            Model("corelnet", context="hole")

    def test_the_image_must_be_large_enough(self) -> None:
        with pytest.raises(OptionError, match=r"at least 8 x 8 pixels.*got \(3, 7, 7\)"):
            network_of(task=Shown(side=7))


class TestDefaults:
    def test_hidden_is_the_model_s_own(self) -> None:
        found = {name: Model(name).hidden for name in ("corelnet", "esbn", "predinet", "mnm", "lstm", "exprnn")}
        assert found == {"corelnet": 256, "esbn": 512, "predinet": 8, "mnm": 128, "lstm": 128, "exprnn": 128}
        settings = Settings.of(TASK, "esbn")
        assert settings.model.hidden == 512
        assert settings.replace(model="corelnet").model.hidden == 256
        assert Settings.of(TASK, "esbn", hidden=7).replace(model="corelnet").model.hidden == 7

    def test_hidden_of_the_papers(self) -> None:
        """An LSTM has 512 units on relational tasks, 128 on others, and any number that is said."""
        task = make_task("rmts")
        assert Settings.of(task, "lstm").model.hidden == 512
        assert Settings.of(task, "lstm", hidden=128).model.hidden == 128
        assert Settings.of(task, "gru").model.hidden == 128
        assert Settings.of(task).replace(model="lstm").model.hidden == 512
        assert Settings.of(task, "lstm").replace(model="gru").model.hidden == 128
        assert Settings.of(task, "lstm", hidden=7).replace(model="gru").model.hidden == 7
        assert Settings.of(Copy(5), "esbn").replace(task=task, model="lstm").model.hidden == 512

    def test_settings_of_the_papers(self) -> None:
        class Paper(Shown):
            defaults = {"lr": 5e-4, "clip": 0.0, "hidden": 99}  # noqa: RUF012

        settings = Settings.of(Paper(), "corelnet", lr=0.1)
        assert (settings.optimiser.lr, settings.optimiser.clip, settings.model.hidden) == (0.1, 0.0, 99)

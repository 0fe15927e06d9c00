"""Optimisers: every parameter in one group, orthogonal ones with a rate of their own, gradients that are clipped."""

from typing import Any

import pytest
import torch

from engram.errors import EngramError, OptionError
from engram.maps import StiefelStep, orthogonality_error
from engram.models import MODELS, Network
from engram.nn import ExpRNN, param_groups
from engram.tasks import Copy
from engram.train import Group, Optimizers, Settings, make_fabric, make_network
from engram.train._loop import Loop

LAYERS = [name for name, entry in MODELS.items() if not entry.answers_itself]

TURNING = {  # what moves an orthogonal or unitary matrix; the spectrum of nnrnn and the two SVDs is plain
    "urnn": ["original0"],
    "full-capacity": ["original"],
    "hyland-raetsch": ["original0"],
    "householder": ["original"],
    "eurnn": ["original0"],
    "scornn": ["original"],
    "scurnn": ["original0", "original1"],
    "exprnn": ["original"],
    "nnrnn": ["original0"],
    "spectral-margin": ["original0", "original1"],
    "spectral": ["original0", "original1"],
    "goru": ["original"],
}

SLOW = {  # lambda, B and Delta of state spaces, and P of S4's
    "s4": ["log_decay", "frequency", "weight_b", "weight_p", "log_step"],
    "s4d": ["log_decay", "frequency", "weight_b", "log_step"],
}


def parts(network: Network, optimizers: Optimizers) -> dict[float, list[str]]:
    """The names of the parameters by their rate, in all optimisers."""
    names = {id(p): name for name, p in network.named_parameters()}
    found: dict[float, list[str]] = {}
    for optimizer in optimizers.all:
        for group in optimizer.param_groups:
            found.setdefault(group["lr"], []).extend(names[id(p)] for p in group["params"])
    return found


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("model", LAYERS)
def test_every_parameter_has_one_place(model: str, layers: int) -> None:
    """And what turns an orthogonal matrix has the slow rate, in every layer."""
    settings = Settings.of(Copy(3), model, hidden=6, layers=layers, lr=1.0, lr_orthogonal=0.25)
    network = make_network(settings)
    found = parts(network, Optimizers(network, settings.optimiser))
    assert sorted(name for names in found.values() for name in names) == sorted(
        name for name, _ in network.named_parameters()
    )
    turning = [name.split(".")[-1] for name in found.get(0.25, [])]
    assert turning == TURNING.get(model, []) * layers
    assert all("weight_hh" in name or "rotation" in name for name in found.get(0.25, []))
    slow = sorted(name.split(".")[-1] for name in found.get(1e-3, []))
    assert slow == sorted(SLOW.get(model, []) * layers)
    assert found.keys() <= {1.0, 0.25, 1e-3}


@pytest.mark.parametrize("model", LAYERS)
def test_only_the_plain_ones_are_clipped(model: str) -> None:
    settings = Settings.of(Copy(3), model, hidden=6, lr=1.0, lr_orthogonal=0.25)
    network = make_network(settings)
    optimizers = Optimizers(network, settings.optimiser)
    names = {id(p): name for name, p in network.named_parameters()}
    found = parts(network, optimizers)
    assert [names[id(p)] for p in optimizers.clipped] == [*found[1.0], *found.get(1e-3, [])]


def test_a_tenth_unless_given() -> None:
    settings = Settings.of(Copy(3), "exprnn", hidden=6, lr=0.5)
    network = make_network(settings)
    assert parts(network, Optimizers(network, settings.optimiser)).keys() == {0.5, 0.05}


def test_a_matrix_on_the_group_has_an_optimiser_of_its_own() -> None:
    settings = Settings.of(Copy(3), "full-capacity", hidden=6)
    optimizers = Optimizers(make_network(settings), settings.optimiser)
    assert [type(o) for o in optimizers.all] == [torch.optim.Adam, StiefelStep]
    assert optimizers.all[1].param_groups[0]["alpha"] == 0.99


KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"betas": (0.9, 0.999)}),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.999)}),
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.99, "momentum": 0}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str) -> None:
    """The one that was asked for; weight decay on plain parameters only."""
    settings = Settings.of(Copy(3), "exprnn", hidden=6, optimizer=name, weight_decay=0.3)  # type: ignore[arg-type]
    (optimizer,) = Optimizers(make_network(settings), settings.optimiser).all
    kind, options = KINDS[name]
    assert type(optimizer) is kind
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    assert {key: optimizer.defaults[key] for key in options} == options


def test_no_decay_unless_asked() -> None:
    """AdamW's own default is 0.01."""
    settings = Settings.of(Copy(3), "exprnn", optimizer="adamw")
    (optimizer,) = Optimizers(make_network(settings), settings.optimiser).all
    assert all(group["weight_decay"] == 0 for group in optimizer.param_groups)


@pytest.mark.parametrize("model", ["exprnn", "full-capacity", "lstm"])
def test_scale(model: str) -> None:
    """Every rate, that of a StiefelStep too."""
    settings = Settings.of(Copy(3), model, hidden=6, lr=1.0, lr_orthogonal=0.25)
    network = make_network(settings)
    optimizers = Optimizers(network, settings.optimiser)
    before = parts(network, optimizers)
    assert optimizers.lr == 1.0
    for factor in (0.5, 0.25):  # of the rates at the start, not of the last ones
        optimizers.scale(factor)
        assert parts(network, optimizers) == {factor * lr: names for lr, names in before.items()}
        assert optimizers.lr == factor


OWN: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "rmsprop": ("rmsprop", {"alpha": 0.9, "momentum": 0.3, "eps": 1e-5}, {}),
    "adam": ("adam", {"betas": (0.5, 0.6), "eps": 1e-5}, {}),
    "sgd": ("sgd", {"momentum": 0.3}, {}),
    "sgd without": ("sgd", {"momentum": 0.0}, {}),
    "rmsprop's default": ("rmsprop", {}, {"alpha": 0.99, "momentum": 0, "eps": 1e-8}),
}


@pytest.mark.parametrize("case", OWN)
def test_settings_of_one_optimiser(case: str) -> None:
    name, given, expected = OWN[case]
    settings = Settings.of(Copy(3), "exprnn", hidden=6, optimizer=name, **given)
    for optimiser in (settings.optimiser, settings.resolved().optimiser):
        (optimizer,) = Optimizers(make_network(settings), optimiser).all
        assert {key: optimizer.defaults[key] for key in given | expected} == given | expected


def test_state_spaces_learn_slowly() -> None:
    """At 0.001 at most, without decay, as in the source; everything else at its own rate, with decay."""
    for lr, slow in ((0.01, 1e-3), (1e-4, 1e-4)):
        settings = Settings.of(Copy(3), "s4", hidden=4, lr=lr, weight_decay=0.5)
        groups = Optimizers(make_network(settings), settings.optimiser).all[0].param_groups
        assert [(g["name"], g["lr"], g["weight_decay"]) for g in groups] == [
            ("plain", lr, 0.5),
            ("state-space", slow, 0.0),
        ]


# Groups by pattern


def by_name(network: Network, optimizers: Optimizers) -> dict[str, tuple[float, float]]:
    names = {id(p): name for name, p in network.named_parameters()}
    return {
        names[id(p)]: (group["lr"], group.get("weight_decay", 0.0))
        for optimizer in optimizers.all
        for group in optimizer.param_groups
        for p in group["params"]
    }


def test_groups_by_pattern() -> None:
    """The first pattern that matches counts; what a group leaves out is as without it."""
    groups = (Group("head.bias", weight_decay=0.0), Group("head.*", 0.5, 0.25), Group("*original*", 0.125))
    settings = Settings.of(Copy(3), "exprnn", hidden=6, lr=1.0, weight_decay=0.1, groups=groups)
    network = make_network(settings)
    found = by_name(network, Optimizers(network, settings.optimiser))
    assert found.pop("head.bias") == (1.0, 0.0)
    assert found.pop("head.weight") == (0.5, 0.25)
    (turning,) = [name for name in found if "original" in name]
    assert found.pop(turning) == (0.125, 0.0)
    assert found
    assert all(value == (1.0, 0.1) for value in found.values())


def test_a_group_of_a_matrix_on_the_group() -> None:
    """Its rate is that of the StiefelStep, which knows no decay."""
    settings = Settings.of(Copy(3), "full-capacity", hidden=6, groups=(Group("*original*", 0.125),))
    optimizers = Optimizers(make_network(settings), settings.optimiser)
    assert optimizers.all[1].param_groups[0]["lr"] == 0.125
    settings = settings.replace(groups=(Group("*", weight_decay=0.1),))
    with pytest.raises(OptionError, match="a matrix that StiefelStep moves, which has no decay"):
        Optimizers(make_network(settings), settings.optimiser)


def test_a_pattern_that_matches_nothing() -> None:
    settings = Settings.of(Copy(3), "exprnn", hidden=6, groups=(Group("haed.*", 0.1),))
    with pytest.raises(OptionError, match=r"the group 'haed\.\*' matches no parameter; they are .*head\.weight"):
        Optimizers(make_network(settings), settings.optimiser)


READ = {
    "head.*": Group("head.*"),
    "head.* lr=1e-4": Group("head.*", 1e-4),
    "*bias decay=0": Group("*bias", None, 0.0),
    " *  decay=0.5   lr=1 ": Group("*", 1.0, 0.5),
    "* weight_decay=2": Group("*", None, 2.0),
}


@pytest.mark.parametrize("text", READ)
def test_groups_of_the_command_line(text: str) -> None:
    assert Group.read(text) == READ[text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "pattern must be a text"),
        ("* lr", "lr of --group . must be a number, got ''"),
        ("* lr=fast", "must be a number, got 'fast'"),
        ("* rate=3", "unknown value 'rate' of --group: expected one of decay, lr"),
        ("* lr=-1", "lr of a group must be positive, got -1.0"),
        ("* decay=-1", "weight_decay of a group must not be negative"),
    ],
)
def test_wrong_groups(text: str, message: str) -> None:
    with pytest.raises(EngramError, match=message):
        Group.read(text)


def test_param_groups_of_a_model_of_ones_own() -> None:
    """Any module, any torch optimiser."""
    model = torch.nn.Sequential(ExpRNN(3, 4), torch.nn.Linear(4, 2))
    groups = param_groups(model, lr=0.5, weight_decay=0.1, lr_orthogonal=0.2)
    assert [(g["name"], g["lr"], g["weight_decay"], len(g["params"])) for g in groups] == [
        ("plain", 0.5, 0.1, 4),
        ("orthogonal", 0.2, 0.0, 1),
    ]
    assert [group["lr"] for group in param_groups(model, lr=0.5, lr_orthogonal=0.0)] == [0.5, 0.0]  # it stays
    optimizer = torch.optim.NAdam(groups)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_frozen_parameters_stay() -> None:
    settings = Settings.of(Copy(3), "exprnn", hidden=6)
    network = make_network(settings)
    network.head.requires_grad_(False)
    found = parts(network, Optimizers(network, settings.optimiser))
    assert not any("head" in name for names in found.values() for name in names)


@pytest.mark.parametrize("model", ["exprnn", "scornn", "full-capacity", "urnn"])
@pytest.mark.parametrize("optimizer", KINDS)
def test_training_keeps_the_matrix_orthogonal(model: str, optimizer: Any) -> None:
    settings = Settings.of(Copy(3), model, hidden=6, batch=4, optimizer=optimizer, lr=0.01, weight_decay=0.1)
    loop = Loop(settings, make_fabric(settings))
    before = loop.network.core.cells[0].weight_hh.detach().clone()  # type: ignore[index, union-attr]
    for _ in range(5):
        loop.train_step()
    after = loop.network.core.cells[0].weight_hh.detach()  # type: ignore[index, union-attr]
    after = after if isinstance(after, torch.Tensor) else after.to_dense()
    assert not after.equal(before)
    assert orthogonality_error(after) < 1e-5


def away_from_one(network: Network) -> None:
    """The moduli of nnrnn, which start at one, where the penalty is flat."""
    for name, p in network.named_parameters():
        if name.endswith("weight_hh.original3"):
            p.data.fill_(0.8)


def moved(settings: Settings) -> dict[str, torch.Tensor]:
    """By how much each parameter moves in the first step."""
    loop = Loop(settings, make_fabric(settings))
    away_from_one(loop.network)
    before = {name: p.detach().clone() for name, p in loop.network.named_parameters()}
    loop.train_step()
    return {name: p.detach() - before[name] for name, p in loop.network.named_parameters()}


@pytest.mark.parametrize("clip", [0.01, 0.1])
def test_clipping_bounds_the_gradient(clip: float, small: Any) -> None:
    """With plain SGD of rate 1, what the weights move in the first step is the gradient: never longer than ``clip``.

    The direction is that of the gradient, and the orthogonal parameters are not clipped.
    """
    free = moved(small(optimizer="sgd", lr=1.0, lr_orthogonal=1.0, clip=0.0))
    clipped = moved(small(optimizer="sgd", lr=1.0, lr_orthogonal=1.0, clip=clip))
    plain = [name for name in free if "original" not in name]
    length = torch.cat([free[name].flatten() for name in plain]).norm()
    assert length > clip  # else nothing would be tested
    for name in free:
        scale = clip / length if name in plain else 1.0
        torch.testing.assert_close(clipped[name], scale * free[name], rtol=1e-4, atol=1e-7)
    assert torch.cat([clipped[name].flatten() for name in plain]).norm() <= clip * (1 + 1e-5)


def test_a_short_gradient_is_not_clipped(small: Any) -> None:
    free, clipped = (moved(small(optimizer="sgd", lr=1.0, clip=clip)) for clip in (0.0, 1e6))
    assert all(free[name].equal(clipped[name]) for name in free)


def test_the_penalty_is_trained_and_not_reported(small: Any) -> None:
    """Its gradient is added, by hand: SGD of rate 1 moves the weights by the gradient of loss + penalty."""
    usual = {"model": "nnrnn", "optimizer": "sgd", "lr": 1.0, "lr_orthogonal": 1.0, "clip": 0.0, "precision": "64-true"}
    without = small(**usual)
    settings = small(**usual, options={"gamma_penalty": 0.5})
    by = moved(settings)
    by_loss = moved(without)
    fresh = Loop(settings, make_fabric(settings)).network
    away_from_one(fresh)
    penalty = fresh.penalty()
    assert penalty is not None
    names = [name for name, _ in fresh.named_parameters()]
    gradients = torch.autograd.grad(penalty, list(fresh.parameters()), allow_unused=True)
    changed = []
    for name, gradient in zip(names, gradients, strict=True):
        expected = by_loss[name] if gradient is None else by_loss[name] - gradient
        torch.testing.assert_close(by[name], expected, rtol=0, atol=1e-12)
        if gradient is not None and gradient.abs().max() > 0.1:
            changed.append(name.split(".")[-1])
    assert changed == ["original3"]
    losses = []
    for each in (settings, without):
        loop = Loop(each, make_fabric(each))
        away_from_one(loop.network)
        losses.append(loop.train_step()[0])
    assert losses[0] == losses[1]  # without the penalty, so that runs can be compared

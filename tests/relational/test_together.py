"""Several seeds of a relational network as one batched model: the numbers of each alone."""

from typing import Any

import pytest
import torch
from tests.relational.conftest import Shown

from engram.train import Loop, Settings, make_fabric, why_not_together
from engram.train._members import Members, Now

TASK = Shown(length=4, count=5, side=8)
SMALL: dict[str, dict[str, Any]] = {
    "corelnet": {"hidden": 6},
    "corelnet-t": {"hidden": 6, "options": {"heads": 2, "feedforward": 5}},
    "esbn": {"hidden": 4, "options": {"key_size": 3}},
    "transformer": {"hidden": 6, "embedding": 8, "options": {"heads": 2, "feedforward": 5}},
    "predinet": {"hidden": 5, "options": {"heads": 2}},
    "rn": {"hidden": 5, "options": {"pair_size": 4}},
    "ntm": {"hidden": 4, "options": {"slots": 3, "slot_size": 3}},
    "mnm": {"hidden": 4, "options": {"memory_size": 3}},
    "lstm": {"hidden": 4},
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"model": name} | own for name, own in SMALL.items()},
    "random encoder": {"model": "corelnet", "encoder": "random"},
    "l1 on codes": {"model": "corelnet", "l1": 2.0},
    "l1 on weights": {"model": "corelnet", "l1": 2.0, "l1_on": "weights"},
    "asymmetric": {"model": "corelnet", "options": {"similarity": "asymmetric"}},
}


def settings_of(name: str, seed: int, **more: Any) -> Settings:
    values = {"embedding": 6, "batch": 3, "lr": 1e-3, "validate_every": 0, "precision": "64-true", "seed": seed}
    own = dict(VARIANTS[name])
    return Settings.of(TASK, own.pop("model"), **(values | own | more)).resolved()


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_steps_as_alone(name: str) -> None:
    """Three members, three steps, in float64; a batch of three sequences shows some of five objects, not as many to
    each member."""
    every = [settings_of(name, seed) for seed in range(3)]
    assert why_not_together(every) == ""
    fabric = make_fabric(every[0])
    alone, together = ([Loop(own, fabric) for own in every] for _ in range(2))
    members = Members(list(together), Now())
    for _ in range(3):
        expected = [loop.train_step()[0] for loop in alone]
        assert [taken.loss for taken in members.train_step()] == pytest.approx(expected, rel=1e-9)
    for one, other in zip(alone, together, strict=True):
        for (what, p), q in zip(one.network.named_parameters(), other.network.parameters(), strict=True):
            torch.testing.assert_close(q, p, rtol=1e-7, atol=1e-9, msg=lambda text, what=what: f"{what}: {text}")


def test_a_rule_that_is_sampled_trains_alone() -> None:
    settings = settings_of("corelnet", 0, options={"similarity": "mix"})
    assert "random numbers in training" in why_not_together([settings])

"""The parts of training several runs as one: batches, clipping, what each member holds, and who may be a member."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.train.test_together import Mean
from torch import Tensor, nn

from engram.errors import OptionError
from engram.loops import use
from engram.tasks import Copy, PennTreebank
from engram.train import Settings, make_fabric, make_network, train_together, why_not_together
from engram.train._loop import Loop
from engram.train._members import Ahead, Members, Now
from engram.train._why_not_together import keeps_bits


def loops_of(settings: list[Settings]) -> list[Loop]:
    return [Loop(each.resolved(), make_fabric(each)) for each in settings]


class Mixed(nn.Module):
    """One layer in float32, one in float64."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size).double()

    def forward(self, input: Tensor) -> Tensor:
        return self.second(self.first(input).double()).float()  # type: ignore[no-any-return]


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_everyone_has_the_batch_of_its_seed_and_step(precision: str, small: Any) -> None:
    """Members of one seed share a batch only where they are at the same step; and so it is if somebody jumps."""
    loops = loops_of([small(seed=seed, precision=precision) for seed in (0, 0, 1, 0)])
    dtype = torch.float64 if precision == "64-true" else torch.float32
    for loop, step in zip(loops, (0, 3, 3, 0), strict=True):
        loop.step = step
    with Ahead(1) as ahead:
        for jump in (0, 1, 1, 5, 0, 1):  # with a step ahead, the next but one, and the same again
            for loop in loops[jump > 1 :]:
                loop.step += jump
            for batches in (Now(), ahead):
                found = batches.take(list(loops))
                for e, loop in enumerate(loops):
                    expected = loop.objective.batches[loop.step]  # type: ignore[attr-defined]
                    assert all(a[e].equal(b) for a, b in zip(found, expected, strict=True))
                    assert found.inputs[e].dtype == dtype
    with pytest.raises(RuntimeError):
        ahead.take(list(loops))  # its thread has ended


def test_the_thread_that_samples_is_as_the_others() -> None:
    with Ahead(2) as ahead:
        assert ahead.pool.submit(torch.get_num_threads).result() == 2
        if torch.set_flush_denormal(False):
            assert ahead.pool.submit(lambda: float(torch.tensor([1e-39]) * 1.0)).result() == 0.0


def test_every_member_is_clipped_by_itself() -> None:
    """As torch clips: to its own bound and never made longer; the orthogonal part, the last two, is left alone."""
    torch.manual_seed(1)
    grads, bounds = torch.randn(4, 7, dtype=torch.float64), [0.5, float("inf"), 100.0, 1e-7]
    grads[3] *= 1e-7  # as short as what torch adds to a norm
    members: Any = object.__new__(Members)
    members.stacked = SimpleNamespace(grads=grads.clone(), columns=SimpleNamespace(clipped=5))
    members.clip = torch.tensor(bounds, dtype=torch.float64)
    norms, others = members._clip()
    for e, bound in enumerate(bounds):
        p = torch.zeros(5, dtype=torch.float64)
        p.grad = grads[e, :5].clone()
        assert norms[e] == pytest.approx(float(nn.utils.clip_grad_norm_([p], bound)), rel=1e-14)
        torch.testing.assert_close(members.stacked.grads[e, :5], p.grad, rtol=1e-14, atol=0)
        assert others[e] == pytest.approx(float(grads[e, 5:].norm()), rel=1e-14)
    assert members.stacked.grads[:, 5:].equal(grads[:, 5:])


CASES: dict[str, dict[str, Any]] = {
    "a batch normalisation": {"model": f"{Mean.__module__}:Mean"},
    "one without gaps between its members": {"model": f"{Mean.__module__}:Mean", "hidden": 64},
    "a base that moves": {"options": {"rebase_every": 2}},
    "a penalty": {"model": "nnrnn", "options": {"gamma_penalty": 0.5, "decay": 0.5, "rebase_every": 3}},
    "complex numbers": {"model": "scurnn"},
    "a rate that falls": {"schedule": "step", "step_size": 2, "optimizer": "adamw", "weight_decay": 0.2},
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_all_that_a_member_holds(case: str, count: int, small: Any) -> None:
    """Weights, buffers, moments and counters after six steps are those of the loop alone, to rounding: 6 steps of Adam
    move a weight by at most 6 lr, and what an error of 1e-15 in a gradient adds is far below that."""
    settings = [small(precision="64-true", seed=k, lr=0.01 * (k + 1), **CASES[case]) for k in range(count)]
    assert why_not_together(settings) == ""
    own, alone = loops_of(settings), loops_of(settings)
    members = Members(list(own), Now())
    for _ in range(6):
        taken = members.train_step()
        losses = [loop.train_step()[0] for loop in alone]
        assert [each.loss for each in taken] == pytest.approx(losses, abs=1e-10)
    for one, other in zip(own, alone, strict=True):
        found, expected = one.state(), other.state()
        assert found.tensors.keys() == expected.tensors.keys()
        for name, tensor in expected.tensors.items():
            torch.testing.assert_close(found.tensors[name], tensor, rtol=1e-6, atol=1e-8, msg=name)
        assert (one.step, one.optimizers.lr) == (other.step, other.optimizers.lr)
        for ours, theirs in zip(one.optimizers.all, other.optimizers.all, strict=True):
            assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]


@pytest.mark.parametrize("kind", [{"options": {"rebase_every": 1}}, {"model": f"{Mean.__module__}:Mean"}])
def test_one_that_cannot_step_keeps_all_it_holds(kind: dict[str, Any], small: Any) -> None:
    """Its map is not touched either, though the others' bases move at every step; nor what it normalises with."""
    loops = loops_of([small(seed=k, **kind) for k in range(2)])
    members = Members(list(loops), Now())
    members.train_step()
    with torch.no_grad():
        loops[1].network.head.bias[0] = float("nan")
    before = [loop.state().tensors for loop in loops]
    first, second = members.train_step()
    assert first.fault is None
    assert str(second.fault) == "the loss is nan at step 2"
    after = [loop.state().tensors for loop in loops]
    changed = [
        {name for name in old if not torch.equal(old[name].nan_to_num(7.0), new[name].nan_to_num(7.0))}
        for old, new in zip(before, after, strict=True)
    ]
    assert changed[1] == set()
    assert len(changed[0]) > 1
    assert [loop.step for loop in loops] == [2, 1]


UNFIT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "samples": ({}, {"samples": 8}, "the same number of training sequences, got 0 and 8"),
    "precision": ({"precision": "64-true"}, {"precision": "32-true"}, "the same precision, got 64-true and 32-true"),
    "device": ({"device": "cuda:1"}, {}, "computed on the CPU, got device cuda:1"),
    "data set": ({"task": PennTreebank(5)}, {}, "is a data set"),
    "two precisions": (
        {"model": f"{__name__}:Mixed"},
        {},
        "must be of one precision, got torch.float32, torch.float64",
    ),
}


@pytest.mark.parametrize("which", UNFIT)
def test_who_cannot_be_members(which: str, small: Any) -> None:
    both, other, words = UNFIT[which]
    assert words in why_not_together([small(**both), small(**{**both, **other}, seed=1)])


def test_what_members_may_differ_in(small: Any) -> None:
    """Seed, rates, lengths, validations and logs."""
    usual = small(optimizer="rmsprop", momentum=0.5)
    more = {"seed": 9, "lr": 1.0, "lr_orthogonal": 0.5, "weight_decay": 0.1, "clip": 0.0, "alpha": 0.5, "eps": 0.1}
    more |= {"momentum": 0.7, "steps": 3, "validate_every": 2, "patience": 3, "warmup": 2, "schedule": "cosine"}
    assert why_not_together([usual, usual.replace(**more, log_every=7, save_every=3.0, test_samples=9)]) == ""


def test_bits_are_kept_only_where_c_computes(small: Any) -> None:
    settings = small()
    network = make_network(settings)
    assert keeps_bits(network, settings.budget.batch)
    with use("torch"):
        assert not keeps_bits(network, settings.budget.batch)


def test_every_run_has_a_folder_of_its_own(small: Any, tmp_path: Path) -> None:
    """However it is spelled; and there are as many as runs."""
    settings = [small(Copy(3, 2), seed=k, steps=1) for k in range(2)]
    for folders in ([tmp_path / "a"], [tmp_path / "a", tmp_path / "b" / ".." / "a"], [tmp_path / c for c in "abc"]):
        with pytest.raises(OptionError, match=f"every run needs a folder of its own: got 2 runs and {len(folders)}"):
            train_together(settings, folders)
    assert not list(tmp_path.iterdir())

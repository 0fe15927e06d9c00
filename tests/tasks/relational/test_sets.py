"""Which trials are for training and which for the test: sizes of the source, no object and no trial in both."""

from math import perm

import pytest
import torch

from engram.tasks import (
    TASKS,
    Batch,
    Comparison,
    Distribution3,
    DistributionN,
    IdentityRules,
    IdentityRules4,
    RelationalGame,
    RelationalMatch,
    RelationalMatch3,
    RelationalTask,
    SameDifferent,
    SameDifferent6,
    Separated,
    Task,
    TransitiveComparison,
    make_task,
)
from engram.tasks._seeds import seeded
from engram.tasks.relational._trials import distinct

OBJECTS = {SameDifferent: 1, RelationalMatch: 1, Distribution3: 1, IdentityRules: 1, Comparison: 3}
SOURCE = {  # training and test trials, by task and m
    (SameDifferent, 0): (18_810, 990),
    (SameDifferent, 50): (4900, 4900),
    (SameDifferent, 85): (420, 10_000),
    (SameDifferent, 95): (40, 10_000),
    (SameDifferent, 98): (4, 10_000),
    (RelationalMatch, 0): (10_000, 10_000),
    (RelationalMatch, 85): (10_000, 10_000),
    (RelationalMatch, 95): (480, 10_000),
    (Distribution3, 85): (10_000, 10_000),
    (Distribution3, 95): (360, 10_000),
    (IdentityRules, 50): (10_000, 10_000),
    (IdentityRules, 95): (8640, 10_000),
    (RelationalMatch3, 94): (8640, 10_000),
    (IdentityRules4, 94): (10_000, 10_000),
    (SameDifferent6, 98): (60, 10_000),
    (DistributionN, 89): (10_000, 10_000),
    (Separated, 98): (10_000, 10_000),
    (Comparison, 95): (10, 190),
    (TransitiveComparison, 95): (20, 190),
}


@pytest.mark.parametrize(("kind", "holdout"), SOURCE)
def test_sizes_of_the_source(kind: type[RelationalTask], holdout: int) -> None:
    task = kind(holdout)
    assert tuple(len(task.trials(split).rows) for split in ("train", "test")) == SOURCE[kind, holdout]


FAMILY: list[RelationalTask] = [
    SameDifferent(50),
    SameDifferent(98),
    SameDifferent(50, spurious=True),
    RelationalMatch(95),
    RelationalMatch(50, spurious=True),
    Distribution3(50),
    IdentityRules(95),
    RelationalMatch3(50),
    SameDifferent6(50),
    IdentityRules4(94),
    DistributionN(50),
    Separated(50),
    Comparison(50),
    TransitiveComparison(50),
]


def shapes_in(task: RelationalTask, rows: torch.Tensor) -> set[int]:
    """The shapes that are shown, whatever their colour or size."""
    if isinstance(task, Separated):
        rows = rows[:, ::2]
    per_shape = {100: 1, 200: 1, 300: 3, 10_000: 100}[len(task.objects())]
    return {row // per_shape for row in rows.unique().tolist()}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", FAMILY, ids=repr)
def test_no_test_shape_is_trained(task: RelationalTask, seed: int) -> None:
    train, test = (shapes_in(task, task.trials(split, seed).rows) for split in ("train", "test"))
    valid = task.batches("valid", 300, seed, 300)[0].inputs.T
    assert train == set(task.shapes_of("train", seed).tolist())
    assert test == set(task.shapes_of("test", seed).tolist())
    assert shapes_in(task, valid) <= train
    assert not train & test
    assert (len(train), len(test)) == (100 - task.holdout, task.holdout)


def test_every_seed_holds_out_other_shapes() -> None:
    held = [frozenset(SameDifferent(50).shapes_of("test", seed).tolist()) for seed in range(5)]
    assert len(set(held)) == 5
    assert SameDifferent(50).shapes_of("test", 3).equal(Separated(50).shapes_of("test", 3))


@pytest.mark.parametrize("task", [SameDifferent(0), RelationalMatch(0), Distribution3(0), Comparison(0)], ids=repr)
def test_with_all_shapes_in_both_no_trial_is(task: RelationalTask) -> None:
    train, test = ({tuple(row[: task.key]) for row in task.trials(s).rows.tolist()} for s in ("train", "test"))
    assert len(train & test) == 0
    assert len(shapes_in(task, task.trials("train").rows)) > 90


@pytest.mark.parametrize("task", FAMILY, ids=repr)
def test_no_trial_twice_where_there_are_enough(task: RelationalTask) -> None:
    for split in ("train", "test"):
        kinds = task.kinds(split, task.shapes_of(split, 0))
        size = 500
        rows = task.trials(split, 0, size).rows
        found = {tuple(row[: task.key]) for row in rows.tolist()}
        enough = [kind.space >= int(size * kind.share) + 1 for kind in kinds]
        fewest = sum(int(len(rows) * kind.share) for kind, is_enough in zip(kinds, enough, strict=True) if is_enough)
        assert len(found) >= fewest
        assert len(found) == len(rows) == size or not all(enough)


COUNTED: list[RelationalTask] = [
    SameDifferent(0),
    RelationalMatch(0),
    Distribution3(0),
    IdentityRules(0),
    RelationalMatch3(0),
    SameDifferent6(0),
    SameDifferent6(0, level="pattern"),
    DistributionN(0, number=3),
    DistributionN(0, number=4, restricted=True),
    Comparison(0),
    TransitiveComparison(0),
]


@pytest.mark.parametrize("task", COUNTED, ids=repr)
def test_number_of_different_trials(task: RelationalTask) -> None:
    """What the kinds say they have, found by sampling for long, with as few shapes as will do and with one more."""
    for split in ("train", "test"):
        for many in range(task.least(split), task.least(split) + 2):
            for kind in task.kinds(split, torch.arange(many)):
                if kind.space > 4000:
                    continue
                rows = kind.sample(int(kind.space * 25 + 100), seeded(many)).rows[:, : task.key]
                assert len(rows.unique(dim=0)) == kind.space  # misses one with probability 4000 e^-25


def test_spaces_of_the_source() -> None:
    """N (N-1) pairs; 48 C(N,4) and 240 C(N,5); 36 C(N,3); 7! 3! and 10! - 7! 3! permutations."""
    pool = torch.arange(15)
    assert [kind.space for kind in SameDifferent().kinds("train", pool)] == [15, 15 * 14]
    assert [kind.space for kind in RelationalMatch().kinds("train", pool)] == [48 * 1365, 240 * 3003]
    assert [kind.space for kind in Distribution3().kinds("train", pool)] == [16_380]
    first_rows = perm(11, 10)
    task = DistributionN(89, restricted=True)
    assert [kind.space // first_rows for kind in task.kinds("train", pool[:11])] == [30_240]
    assert [kind.space // first_rows for kind in task.kinds("test", pool[:11])] == [3_628_800 - 30_240]


def test_spaces_with_colours() -> None:
    """Each image that decides has one of 100 colours: 2 of a pair, 6 and 9 of a trial, 5 of two rows; two patches."""
    pool = torch.arange(15)
    for kind, images in ((SameDifferent, 2), (RelationalMatch, 6), (IdentityRules, 9), (Distribution3, 5)):
        plain, coloured = (kind(spurious=spurious).kinds("train", pool) for spurious in (False, True))
        assert [one.space * 100**images for one in plain] == [one.space for one in coloured]
        assert [one.share for one in plain] == [one.share for one in coloured]
    assert [kind.space for kind in Separated().kinds("train", pool)] == [15 * 10_000, 15 * 14 * 10_000]


def test_a_wrong_number_of_trials_is_told() -> None:
    kind = SameDifferent().kinds("train", torch.arange(5))[0]._replace(space=6)
    with pytest.raises(RuntimeError, match="says that there are 6, and only 5 are found"):
        distinct(kind, 6, 2, seeded(0))


EVERY = [make_task(name) for name, kind in TASKS.items() if issubclass(kind, RelationalTask | RelationalGame)]


def same(one: Batch, two: Batch) -> bool:
    return all(a.equal(b) for a, b in zip(one, two, strict=True))


def test_the_twelve_names() -> None:
    assert [task.name for task in EVERY] == [
        *("same-different", "rmts", "dist3", "identity-rules", "rmts3", "same-different6", "identity-rules4"),
        *("dist-n", "separated", "comparison", "transitive-comparison", "relational-game"),
    ]


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_a_batch_is_a_function_of_seed_and_number(task: Task) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    batches = task.batches("train", 8, seed=1)
    read = [batches[k] for k in range(4)]
    assert torch.get_rng_state().equal(before)
    again = task.batches("train", 8, seed=1)
    assert same(again[3], read[3])
    assert same(again[0], read[0])
    assert not same(read[2], read[3])
    assert not same(task.batches("train", 8, seed=2)[3], read[3])
    for split in ("valid", *task.exams()):
        cut, whole = task.batches(split, 5, 1, 40), task.batches(split, 40, 1, 40)[0]
        parts = zip(*(cut[k] for k in range(cut.per_epoch)), strict=True)
        assert all(torch.cat(part, 1).equal(one) for part, one in zip(parts, whole, strict=True))
        assert same(cut[1], task.batches(split, 5, 1, 40)[1])


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_shapes_and_baselines(task: Task) -> None:
    batch, table = task.sample(6, torch.Generator().manual_seed(0)), task.objects()
    assert table is not None
    assert table.shape[1:] == task.input_shape
    assert table.dtype == torch.float32
    assert 0 <= table.min() < table.max() <= 1
    assert batch.inputs.shape == (task.steps, 6)
    assert batch.inputs.dtype == torch.long
    assert batch.inputs.min() >= 0
    assert batch.inputs.max() < len(table)
    assert batch.targets.shape == batch.mask.shape == (1, 6)
    assert batch.mask.all()
    assert sum(task.segments) == task.steps
    even = torch.zeros(1, 6, task.output_size)
    assert float(task.loss(even, batch)) == pytest.approx(task.memoryless_baseline)
    right = torch.nn.functional.one_hot(batch.targets, task.output_size).float()
    assert task.metrics(right, batch) == {"accuracy": 1.0}
    assert task.metrics(-right, batch) == {"accuracy": 0.0}
    several = Batch(*(torch.stack([part, part]) for part in batch))
    found = task.losses(torch.stack([even, right]), several)
    assert found.tolist() == pytest.approx([float(task.loss(even, batch)), float(task.loss(right, batch))])


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_by_name_and_back(task: Task) -> None:
    assert make_task(task.name, **task.options()) == task
    assert task.exams()["test"] is task
    assert task.options().get("shapes", "esbn") in ("esbn", "glyphs")  # never auto: a run notes which


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_what_is_said_of_a_picture(task: RelationalTask) -> None:
    """Rows add up to the steps; where the answers are choices these are the last row, of as many images each."""
    assert sum(task.rows) == task.steps
    assert len({*task.answers}) == task.output_size
    if task.choice:
        assert task.rows[-1] == task.choice * task.output_size
        assert task.answers == tuple(f"choice {number}" for number in range(1, task.output_size + 1))
    assert (task.embedding, task.context) == (128, "whole")
    assert task.defaults == {"lr": 5e-4, "batch": 32, "clip": 0.0}  # Webb et al. 2021


@pytest.mark.parametrize("kind", [SameDifferent, Separated, SameDifferent6])
def test_same_is_called_same(kind: type[RelationalTask]) -> None:
    rows, answers = kind(50).trials("train", size=60)
    rows = rows[:, ::2] if kind is Separated else rows
    half = rows.shape[1] // 2
    for row, answer in zip(rows.tolist(), answers.tolist(), strict=True):
        assert kind(50).answers[answer] == ("same" if row[:half] == row[half:] else "different")


def test_pairs_belong_together() -> None:
    assert RelationalMatch().segments == (2, 2, 2)
    assert RelationalMatch3().segments == (3, 3, 3)
    assert IdentityRules().segments == (9,)


def test_a_batch_of_too_few_trials_has_all_of_them() -> None:
    """m = 98: two shapes, four trials; each epoch shows each of them."""
    batches = SameDifferent(98).batches("train", 32)
    assert batches.per_epoch == 1
    assert batches[5].inputs.shape == (2, 4)
    assert batches[5].targets.sum() == 2


@pytest.mark.parametrize("samples", [1, 7, 64])
def test_fewer_training_trials(samples: int) -> None:
    trials = IdentityRules(50).trials("train", size=samples)
    assert len(trials.rows) == samples


@pytest.mark.parametrize("name", ["same-different", "rmts", "dist3", "identity-rules"])
def test_colours_follow_the_seed(name: str) -> None:
    """Whatever torch's own random numbers are."""
    task = make_task(name, holdout=50, spurious=True)
    found = []
    for own in (1, 2):
        torch.manual_seed(own)
        found.append(task.sample(40, torch.Generator().manual_seed(0)).inputs)
    assert torch.equal(*found)
    assert len(found[0].unique()) > 20  # of 40 trials of several objects, each with one of 100 colours

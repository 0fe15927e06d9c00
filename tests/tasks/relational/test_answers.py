"""Every answer, found again from the pixels alone: trying all choices, comparing images byte by byte."""

from collections.abc import Callable, Hashable, Sequence
from functools import cache

import pytest
import torch
from torch import Tensor

from engram.tasks import (
    Comparison,
    Distribution3,
    DistributionN,
    IdentityRules,
    IdentityRules4,
    RelationalMatch,
    RelationalMatch3,
    RelationalTask,
    SameDifferent,
    SameDifferent6,
    Separated,
    TransitiveComparison,
)

Names = Sequence[Hashable]
COUNT = 2000


def pattern(names: Names) -> tuple[int, ...]:
    """Which of them are equal: A B A is (0, 1, 0), and so is B A B."""
    return tuple(list(dict.fromkeys(names)).index(name) for name in names)


def only(places: Sequence[int]) -> int:
    """The one place that will do; a trial with two right answers, or none, is a mistake."""
    assert len(places) == 1
    return places[0]


def same_or_different(names: Names) -> int:
    return int(names[0] != names[1])


def matching(names: Names) -> int:
    source, *targets = (pattern(names[i : i + len(names) // 3]) for i in range(0, len(names), len(names) // 3))
    return only([place for place, target in enumerate(targets) if target == source])


def missing(names: Names) -> int:
    number = len(names) // 3
    first, second, choices = names[:number], names[number : 2 * number - 1], names[2 * number - 1 :]
    return only([k for k, choice in enumerate(choices) if sorted([*second, choice]) == sorted(first)])


def completing(length: int) -> Callable[[Names], int]:
    def solve(names: Names) -> int:
        first, second, choices = names[:length], names[length : 2 * length - 1], names[2 * length - 1 :]
        assert len(set(choices)) == len(choices)
        assert {*first, *second} <= {*choices}
        assert not {*first} & {*second}
        return only([k for k, choice in enumerate(choices) if pattern([*second, choice]) == pattern(first)])

    return solve


def triplets(names: Names) -> int:
    return int(names[:3] != names[3:])


def triplets_by_pattern(names: Names) -> int:
    return int(pattern(names[:3]) != pattern(names[3:]))


def every_second(names: Names) -> int:
    return int(names[0] != names[2])


def larger(extents: Names) -> int:
    assert extents[0] != extents[1]
    return int(extents[1] > extents[0])  # type: ignore[operator]


CASES: dict[str, tuple[RelationalTask, Callable[[Names], int]]] = {
    **{
        f"{task.name} m={task.holdout} {'spurious' if task.spurious else ''}": (task, solve)
        for kind, solve, least in (
            (SameDifferent, same_or_different, 98),
            (RelationalMatch, matching, 95),
            (Distribution3, missing, 95),
            (IdentityRules, completing(3), 95),
        )
        for task in (kind(0, "glyphs"), kind(50, "glyphs"), kind(least, "glyphs"), kind(50, "glyphs", True))
    },
    "rmts3": (RelationalMatch3(94, "glyphs"), matching),
    "rmts3 m=0": (RelationalMatch3(0, "glyphs"), matching),
    "same-different6": (SameDifferent6(98, "glyphs"), triplets),
    "same-different6 m=50": (SameDifferent6(50, "glyphs"), triplets),
    "same-different6 of patterns": (SameDifferent6(50, "glyphs", level="pattern"), triplets_by_pattern),
    "same-different6 of patterns, two shapes": (SameDifferent6(98, "glyphs", level="pattern"), triplets_by_pattern),
    "identity-rules4": (IdentityRules4(94, "glyphs"), completing(4)),
    "identity-rules4 missing": (IdentityRules4(94, "glyphs", missing=True), completing(4)),
    "identity-rules4 flipped": (IdentityRules4(94, "glyphs", flipped=True), completing(4)),
    "identity-rules4 flipped, missing": (IdentityRules4(50, "glyphs", flipped=True, missing=True), completing(4)),
    "dist-n": (DistributionN(89, "glyphs"), missing),
    "dist-n of 4": (DistributionN(50, "glyphs", number=4), missing),
    "dist-n restricted": (DistributionN(89, "glyphs", restricted=True), missing),
    "separated": (Separated(98, "glyphs"), every_second),
    "comparison": (Comparison(95, "glyphs"), larger),
    "transitive-comparison": (TransitiveComparison(95, "glyphs"), larger),
}


@cache
def names_of(table: Callable[[], Tensor], by_size: bool) -> list[Hashable]:
    """What each object of a table is: its shape without its colour, or how far its ink reaches.

    The largest channel of a colour is 1, so that the largest channel of an image is the grey of its shape.
    """
    grey = table().amax(1)
    if by_size:
        return [int((image.amin(0) < 1).nonzero()[:, 0].diff().sum()) for image in grey]
    return [image.numpy().tobytes() for image in grey]


def named(task: RelationalTask, rows: Tensor) -> list[Names]:
    names = names_of(task.objects, isinstance(task, Comparison))
    return [[names[row] for row in trial] for trial in rows.tolist()]


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_what_trying_finds(case: str) -> None:
    task, solve = CASES[case]
    for split in ("train", "test"):
        rows, answers = task.trials(split, seed=1, size=COUNT)
        assert torch.tensor([solve(trial) for trial in named(task, rows)]).equal(answers)
        assert rows.shape[1] == task.steps
    fresh = task.sample(500, torch.Generator().manual_seed(0))
    assert torch.tensor([solve(trial) for trial in named(task, fresh.inputs.T)]).equal(fresh.targets[0])


@pytest.mark.parametrize("case", CASES)
def test_the_answers_are_equally_frequent(case: str) -> None:
    """Within 4.5 standard errors of a fair sample, in all sets that are not tiny."""
    task, _ = CASES[case]
    for split in ("train", "test"):
        answers = task.trials(split, seed=2, size=6000).answers
        share = torch.bincount(answers, minlength=task.output_size) / len(answers)
        spread = (task.chance * (1 - task.chance) / len(answers)) ** 0.5
        assert (share - task.chance).abs().max() < 4.5 * spread
    assert task.chance == 1 / task.output_size


def spelled(names: Names) -> str:
    return "".join("ABC"[place] for place in pattern(names))


SEEN = {
    "rmts3": (3, {"AAA", "ABA", "ABB"}, {"ABC", "AAB"}),
    "identity-rules4": (4, {"AAAA", "AABA", "AABB", "ABAA", "ABAB", "ABBA", "ABBB"}, {"ABCA", "ABCB", "ABCC"}),
    "identity-rules4 missing": (4, {"AAAA", "AABA", "AABB", "ABBA", "ABBB"}, {"ABCA", "ABCB", "ABCC"}),
    "identity-rules4 flipped": (
        4,
        {"ABCA", "ABCB", "ABCC"},
        {"AAAA", "AABA", "AABB", "ABAA", "ABAB", "ABBA", "ABBB"},
    ),
    "identity-rules4 flipped, missing": (
        4,
        {"ABCB", "ABCC"},
        {"AAAA", "AABA", "AABB", "ABAA", "ABAB", "ABBA", "ABBB"},
    ),
}


@pytest.mark.parametrize("case", SEEN)
def test_patterns_of_training_and_test(case: str) -> None:
    """All of the source's patterns are there, each as often as the others, and no other."""
    task, _ = CASES[case]
    length, *expected = SEEN[case]
    for split, allowed in zip(("train", "test"), expected, strict=True):
        found = [spelled(trial[:length]) for trial in named(task, task.trials(split, 3, 6000).rows)]
        assert set(found) == allowed
        spread = (len(found) / len(allowed)) ** 0.5
        assert all(abs(found.count(each) - len(found) / len(allowed)) < 4.5 * spread for each in allowed)


@pytest.mark.parametrize("level", ["image", "pattern"])
def test_triplets_of_training_and_test(level: str) -> None:
    """Training never shows AAB (or BBA), a test trial always does; both triplets have the same two shapes at most."""
    task = SameDifferent6(50, level=level)  # type: ignore[arg-type]
    words = [[spelled(trial[:3]), spelled(trial[3:])] for trial in named(task, task.trials("train", 0, COUNT).rows)]
    assert {word for pair in words for word in pair} == {"AAA", "ABA", "ABB"}
    test = named(task, task.trials("test", 0, COUNT).rows)
    assert all("AAB" in (spelled(trial[:3]), spelled(trial[3:])) for trial in test)
    shared = [bool({*trial[:3]} & {*trial[3:]}) for trial in test]
    assert all(shared) if level == "image" else not any(shared)


def test_which_words_are_different() -> None:
    """A pattern and a word over the same two shapes in either order, but not the same: 3 (6 - 1) in training; of the
    4 (8 - 1) of the test those with AAB or BBA, 7 after AAB and 2 after each of the others."""
    task = SameDifferent6(50)
    for split, words in (("train", 15), ("test", 13)):
        *_, different = task.kinds(split, torch.arange(9))
        assert different.space == words * 9 * 8
        rows = different.sample(2000, torch.Generator().manual_seed(0)).rows
        assert len({spelled(row) for row in rows.tolist()}) == words


@pytest.mark.parametrize(("shapes", "shared"), [(3, True), (4, False), (5, False)])
def test_patterns_over_few_shapes(shapes: int, shared: bool) -> None:
    """Each triplet has two shapes of its own as soon as there are four."""
    kinds = SameDifferent6(50, level="pattern").kinds("test", torch.arange(shapes))
    for kind in kinds:
        rows = kind.sample(50, torch.Generator().manual_seed(0)).rows.tolist()
        if all(len({*row[:3]}) == len({*row[3:]}) == 2 for row in rows):
            assert {bool({*row[:3]} & {*row[3:]}) for row in rows} == {shared}


def test_one_pattern_can_be_left_out() -> None:
    task = IdentityRules4(94, without=("ABAB",))
    assert task.patterns("train") == ["AAAA", "AABA", "AABB", "ABAA", "ABBA", "ABBB"]
    assert task.patterns("test") == IdentityRules4().patterns("test")


def test_restricted_permutations() -> None:
    """In training the first seven of the second row are the first seven of the first; in the test never."""
    task = DistributionN(50, restricted=True)
    for split, keeps in (("train", True), ("test", False)):
        rows = task.trials(split, 0, COUNT).rows
        kept = [{*row[:7]} == {*row[10:17]} for row in rows.tolist()]
        assert set(kept) == {keeps}


def test_sizes_of_the_comparisons() -> None:
    """Small and large; in training of the transitive task, neither with the other."""
    sizes = {
        (type(task), split): {tuple(row) for row in (task.trials(split).rows % 3).tolist()}
        for task in (Comparison(), TransitiveComparison())
        for split in ("train", "test")
    }
    assert sizes[Comparison, "train"] == sizes[Comparison, "test"] == {(0, 2), (2, 0)}
    assert sizes[TransitiveComparison, "train"] == {(1, 2), (2, 1), (0, 1), (1, 0)}
    assert sizes[TransitiveComparison, "test"] == {(0, 2), (2, 0)}
    for task in (Comparison(), TransitiveComparison()):
        rows = task.trials("test").rows // 3
        assert rows[:, 0].equal(rows[:, 1])  # the same shape twice

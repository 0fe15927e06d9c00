"""Patterns of equal and different objects, spelled with letters: ABA is two equal ones around another."""

from torch import Tensor


def distinct_in(pattern: str) -> int:
    """How many different letters a pattern has.

    >>> distinct_in("ABA")
    2
    """
    return len(set(pattern))


def letters(pattern: str) -> list[int]:
    """The pattern with its letters numbered, A = 0.

    >>> letters("BAA")
    [1, 0, 0]
    """
    return [ord(letter) - ord("A") for letter in pattern]


def spelled(pattern: str, objects: Tensor) -> Tensor:
    """The pattern with an object in place of each letter: ``(count, letters)`` to ``(count, length)``.

    >>> import torch
    >>> spelled("ABA", torch.tensor([[7, 9]])).tolist()
    [[7, 9, 7]]
    """
    return objects[:, letters(pattern)]


def patterns_of(length: int, least: int, most: int) -> list[str]:
    """All patterns of a length with so many letters, each spelled with its letters in the order in which they come,
    whose last letter has come before.

    >>> patterns_of(4, 3, 3)
    ['ABCA', 'ABCB', 'ABCC']
    """
    found = [""]
    for _ in range(length):
        found = [each + chr(ord("A") + k) for each in found for k in range(distinct_in(each) + 1)]
    return [each for each in found if least <= distinct_in(each) <= most and each[-1] in each[:-1]]

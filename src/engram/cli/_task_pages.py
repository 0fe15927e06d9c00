"""Help with a task, such as ``engram train copy --help``: its page has most lines of the page without one.

The catalogue keeps of such a page only what is new. A line stands as it is; ``[first, end]`` stands for these lines of
the page without a task.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

HAVE_TASKS = (("train",), ("plot", "task"))
"""The commands whose options depend on the task that is named."""


def shortened(page: Sequence[str], without: Sequence[str]) -> list[Any]:
    """What the catalogue keeps of the page of a task.

    >>> shortened(["a", "of the task", "b", "c"], ["a", "b", "c"])
    [[0, 1], 'of the task', [1, 3]]
    """
    found: list[Any] = []
    for kind, first, end, new, new_end in SequenceMatcher(a=without, b=page, autojunk=False).get_opcodes():
        found += [[first, end]] if kind == "equal" else page[new:new_end]
    return found


def whole(kept: Sequence[Any], without: Sequence[str]) -> list[str]:
    """The lines of the page.

    >>> whole([[0, 1], 'of the task', [1, 3]], ["a", "b", "c"])
    ['a', 'of the task', 'b', 'c']
    """
    return [line for each in kept for line in ([each] if isinstance(each, str) else without[slice(*each)])]

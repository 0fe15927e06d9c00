"""The plain time loop. Slow, obvious, differentiable any number of times: the truth every other executor must equal."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from engram.loops._export import in_form
from engram.loops._steps import order, split, step_sizes
from engram.loops._trace import check_state
from engram.state import Fields, State, first_rows, parts, replace_rows


def scan(
    step: Callable[[Any, State], State],
    drive: Any,
    state: State,
    sizes: Tensor | None = None,
    reverse: bool = False,
    output: Callable[[State], Tensor] = lambda state: state,
    fields: Fields = None,
) -> tuple[Tensor, State]:
    """``state = step(drive[t], state)`` for every t; returns the outputs of all steps and the last state.

    Shape:
        drive ``(T, B, G)``, or ``(rows, G)`` with ``sizes`` for packed sequences, or a tuple of such; state ``(B, H)``
        or a NamedTuple; outputs ``(T, B, H)`` or ``(rows, H)``.

    A row that has ended (or, in reverse, not begun) keeps its state. ``fields`` are needed if one of them grows.
    """
    first = drive if isinstance(drive, Tensor) else drive[0]
    alive = step_sizes(first, sizes)
    pieces: Any = split(drive, sizes) if first is drive else list(zip(*(split(d, sizes) for d in drive), strict=True))
    growing = fields if any(field.grows for field in parts(fields)) else None
    outputs: list[Tensor] = [first] * len(alive)
    checked = fields is None or growing is not None
    for t in order(len(alive), reverse):
        before = first_rows(state, alive[t])
        new = step(pieces[t], before)
        if not checked:
            check_state(new, before)
            checked = True
        new = in_form(parts(new), before)  # a tuple may stand for a NamedTuple
        outputs[t] = output(new)
        state = replace_rows(new, state, growing)
    return torch.stack(outputs) if sizes is None else torch.cat(outputs), state

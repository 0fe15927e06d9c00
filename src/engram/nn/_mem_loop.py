"""The loop of attention over all past states, in memory that is allocated once and grows with T alone.

Autograd's own tape would keep the alignment of every step with every earlier one, O(T^2 H) numbers. Here a step keeps
its state before; the backward pass takes the steps in reverse, runs each again by itself, and adds what it sends to
earlier states to one gradient of the whole memory. A second derivative goes through the plain loop.
"""

from typing import Any

import torch
from torch import Tensor

from engram.loops import scan, tensors_of, with_tensors, without_autocast
from engram.state import State, each, parts

LISTS = ("memory", "keys", "made")
"""The fields that grow."""


def run_all_past(cell: Any, drive: Any, state: State, reverse: bool) -> tuple[Tensor, State]:
    """Outputs ``(T, B, H)`` and the last state of a :class:`MemCell` whose weights are built.

    Args:
        drive: ``(T, B, G)``, or a tuple of such.
        state: before the first step, each field ``(B, ...)``.
    """
    drives = drive if isinstance(drive, tuple) else (drive,)
    own = tensors_of(cell)
    tensors = [*drives, *parts(state), *own.values()]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        form = each(lambda _: None, state)
        output, *final = AllPast.apply(cell, tuple(own), form, len(drives), reverse, *tensors)
        return output, type(state)(*final)
    output, final_state, _ = run_forward(cell, drives, state, reverse)
    return output, final_state


def run_forward(
    cell: Any, drives: tuple[Tensor, ...], state: State, reverse: bool, keep: bool = False
) -> tuple[Tensor, State, list[Tensor]]:
    """All steps; to ``keep`` also s and the other fields of the cell before each step, ``(T, B, n)``."""
    steps, before = len(drives[0]), state.memory.shape[1]
    lists = {name: _room(getattr(state, name), steps) for name in LISTS if hasattr(state, name)}
    outputs = Rows(steps)
    own = slice(2, len(state) - len(lists) - 1)  # the other fields of the cell: those without h, s and t
    kept = [Rows(steps) for _ in (state.s, *state[own])] if keep else []
    for k, t in enumerate(reversed(range(steps)) if reverse else range(steps)):
        for rows, field in zip(kept, (state.s, *state[own]), strict=False):
            rows.write(k, field)
        h, others = cell.inner_step(_at(drives, t), state)
        end = before + k + 1
        now = state.t + 1
        new: dict[str, Any] = {"memory": h, "keys": cell.keys(h), "made": now}
        for name, held in lists.items():
            held[:, end - 1] = new[name]
        seen = {name: held[:, :end] for name, held in lists.items()}
        s, _ = cell.attend(state.s, h, seen)
        state = type(state)(h, s, *others, *lists.values(), now)
        outputs.write(t, cell.output(state))
    return outputs.all, state, [rows.all for rows in kept]


class Rows:
    """One tensor per step, written into a single piece of memory, ``(T, ...)``.

    Separate tensors would split the free memory into pieces too small for the temporary arrays of later steps, which
    grow from step to step and would each need new memory: the process would grow with the square of T.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.all = torch.empty(0)

    def write(self, t: int, row: Tensor) -> None:
        if len(self.all) != self.steps:
            self.all = row.new_empty(self.steps, *row.shape)
        self.all[t] = row


def _room(rows: Tensor, steps: int) -> Tensor:
    whole = rows.new_zeros(len(rows), rows.shape[1] + steps, *rows.shape[2:])
    whole[:, : rows.shape[1]] = rows
    return whole


def _at(drives: Any, t: int) -> Any:
    return drives[0][t] if len(drives) == 1 else tuple(drive[t] for drive in drives)


class AllPast(torch.autograd.Function):
    """:func:`run_forward` with a gradient; it is given drives, fields of the state, and the tensors of the cell."""

    @staticmethod
    def forward(ctx: Any, cell: Any, names: Any, form: Any, drives: int, reverse: bool, *tensors: Tensor) -> Any:
        ctx.cell, ctx.names, ctx.form, ctx.drives, ctx.reverse = cell, names, form, drives, reverse
        given, state, view = _parts_of(ctx, [tensor.detach() for tensor in tensors])
        output, final, kept = run_forward(view, given, state, reverse, keep=True)
        lists = [getattr(final, name) for name in LISTS if hasattr(final, name)]
        ctx.save_for_backward(*tensors, *lists, *kept)
        ctx.count = len(tensors)
        ctx.set_materialize_grads(False)
        final = each(lambda field: field.clone(), final)  # nobody changes in place what is kept
        ctx.mark_non_differentiable(*(field for field in final if not field.is_floating_point()))
        return (output, *final)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *final: Tensor | None) -> Any:
        saved = list(ctx.saved_tensors)
        tensors, rest = saved[: ctx.count], saved[ctx.count :]
        found = _twice(ctx, tensors, grad, final) if torch.is_grad_enabled() else _once(ctx, tensors, rest, grad, final)
        needed = ctx.needs_input_grad[5:]
        return (None,) * 5 + tuple(g if need else None for g, need in zip(found, needed, strict=True))


def _parts_of(ctx: Any, tensors: list[Tensor]) -> tuple[tuple[Tensor, ...], State, Any]:
    """Drives, state, and the cell with the tensors given."""
    end = ctx.drives + len(ctx.form)
    cell = with_tensors(ctx.cell, dict(zip(ctx.names, tensors[end:], strict=True)))
    return tuple(tensors[: ctx.drives]), type(ctx.form)(*tensors[ctx.drives : end]), cell


def _twice(ctx: Any, tensors: list[Tensor], grad: Tensor | None, final: Any) -> list[Tensor | None]:
    """Gradients that can be differentiated again: those of the plain loop."""
    drives, state, cell = _parts_of(ctx, tensors)
    with torch.enable_grad(), without_autocast(drives[0]):
        drive = drives if len(drives) > 1 else drives[0]
        output, last = scan(cell.step, drive, state, None, ctx.reverse, cell.output, cell.fields())
        pairs = [(o, g) for o, g in zip((output, *last), (grad, *final), strict=True) if g is not None]
        return _gradients([o for o, _ in pairs], tensors, [g for _, g in pairs], create_graph=True)


def _gradients(outputs: Any, inputs: list[Tensor], grads: Any, create_graph: bool = False) -> list[Tensor | None]:
    """One gradient per input; None for one that has none."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=create_graph, allow_unused=True))
    return [next(found) if tensor.requires_grad else None for tensor in inputs]


def _once(ctx: Any, tensors: list[Tensor], rest: list[Tensor], grad: Tensor | None, final: Any) -> list[Any]:
    """The steps in reverse, each run again by itself."""
    drives, state, _ = _parts_of(ctx, tensors)
    names = [name for name in LISTS if hasattr(state, name)]
    lists = dict(zip(names, rest, strict=False))
    kept, arriving = rest[len(names) :], type(state)(*final)
    weights = [_leaf(tensor) for tensor in tensors[ctx.drives + len(state) :]]
    cell = with_tensors(ctx.cell, dict(zip(ctx.names, weights, strict=True)))
    steps, before = len(drives[0]), state.memory.shape[1]
    whole = {  # dL/d of all that is remembered
        name: torch.zeros_like(lists[name]) if getattr(arriving, name) is None else getattr(arriving, name).clone()
        for name in names
        if name != "made"
    }
    going = [arriving.s, *arriving[2 : 1 + len(kept)]]  # dL/d of s and of the other fields, after the step
    of_h: Tensor | None = arriving.h
    of_weights: list[Tensor | None] = [None] * len(weights)
    of_drives = [torch.zeros_like(drive) for drive in drives]
    for k, t in reversed(list(enumerate(reversed(range(steps)) if ctx.reverse else range(steps)))):
        end = before + k
        given = [_leaf(drive[t]) for drive in drives]
        own = [_leaf(field[k]) for field in kept]
        past = {name: _leaf(lists[name][:, :end]) for name in names}
        entering = type(state)(own[0], *own, *past.values(), (lists["made"][:, end] - 1))
        with torch.enable_grad(), without_autocast(drives[0]):
            new = cell.step(tuple(given) if len(given) > 1 else given[0], entering)
            made = [cell.output(new), new.s, *new[2 : 1 + len(kept)], new.h]
            sent = [None if grad is None else grad[t], *going, whole["memory"][:, end]]
            sent[-1] = sent[-1] if of_h is None else sent[-1] + of_h
            if "keys" in whole:
                made, sent = [*made, new.keys[:, -1]], [*sent, whole["keys"][:, end]]
        of_h = None
        pairs = [(m, g) for m, g in zip(made, sent, strict=True) if g is not None and m.requires_grad]
        inputs = [*given, *own, *(past[name] for name in whole), *weights]
        found = _gradients([m for m, _ in pairs], inputs, [g for _, g in pairs])
        for drive, g in zip(of_drives, found, strict=False):
            if g is not None:
                drive[t] = g
        going = found[len(given) : len(given) + len(own)]
        for name, g in zip(whole, found[len(given) + len(own) :], strict=False):
            if g is not None:
                whole[name][:, :end] += g
        for n, g in enumerate(found[len(inputs) - len(weights) :]):
            if g is not None:
                of_weights[n] = g.clone() if (so_far := of_weights[n]) is None else so_far.add_(g)
    fields = {"s": going[0], **{name: g[:, :before] for name, g in whole.items()}}
    fields |= dict(zip(state._fields[2 : 1 + len(kept)], going[1:], strict=True))
    return [*of_drives, *(fields.get(name) for name in state._fields), *of_weights]


def _leaf(tensor: Tensor) -> Tensor:
    leaf = tensor.detach()
    return leaf.requires_grad_() if leaf.is_floating_point() else leaf

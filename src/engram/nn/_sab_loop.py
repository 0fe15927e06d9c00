"""The loop of :class:`engram.nn.SAB` with a memory that is allocated once, and its gradient.

The plain loop copies all stored states at every step, forward and backward. Here a state is written once, the few that
a step reads are gathered, and the backward loop adds their gradients to one array of the memory's size.

Letters: T steps, B rows, H units, M stored states in the end, K of them read at a step.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.loops import needs_plain, scan, tensors_of, with_tensors, without_autocast
from engram.maps import observed
from engram.state import State, parts

EPSILON = 1e-7
"""What the source adds to the k-th largest score, and to the sum of the weights."""


def can_run_sparse(state: Any, input: Tensor) -> bool:
    """Whether all rows have stored the same steps, and no transform or tracer of torch records the operations."""
    if observed() or needs_plain(state.h) or input.numel() == 0 or input.is_meta:
        return False
    return bool((state.stored == state.stored[:1]).all() and (state.time == state.time[0]).all())


def run_sparse(cell: Any, input: Tensor, state: Any, reverse: bool) -> tuple[Tensor, State]:
    """All steps: outputs ``(T, B, 2H)`` and the last state, as the plain loop gives them."""
    with without_autocast(input):
        drive = cell.drive(input.flip(0) if reverse else input)
        output, *final = SparseLoop.apply(cell, drive, cell.weight_hh, cell.weight_score, *state)
    return output.flip(0) if reverse else output, type(state)(*final)


class Read(NamedTuple):
    """What a step has read: places ``(B, K)``, their weights ``(B, K)``, and the sum that made these add up to 1
    ``(B, 1)``, None where they are the scores themselves."""

    places: Tensor
    weights: Tensor
    total: Tensor | None


class Memory:
    """M stored states ``(B, M, H)`` and the part of their scores that is their own ``(B, M)``; the first is zero."""

    def __init__(self, before: Tensor, added: int, weight: Tensor, k: int) -> None:
        rows, self.count, size = before.shape[0], 1 + before.shape[1], before.shape[2]
        self.states = before.new_zeros(rows, self.count + added, size)
        self.states[:, 1 : self.count] = before
        self.of_found, self.of_past = weight.split(size)
        self.scores = torch.tanh(self.states) @ self.of_past
        self.k = k
        self.row = torch.arange(rows, device=before.device)[:, None]

    def store(self, h: Tensor) -> None:
        self.states[:, self.count] = h
        self.scores[:, self.count] = torch.tanh(h) @ self.of_past
        self.count += 1

    def read(self, found: Tensor) -> Read:
        """As :func:`engram.nn._sab.sparse_weights`: what ``found`` gives to all scores alike decides nothing there."""
        if self.count <= self.k:
            places = torch.arange(self.count, device=found.device).expand(len(found), -1)
            return Read(places, self.scores[:, : self.count] + (torch.tanh(found) @ self.of_found)[:, None], None)
        best = self.scores[:, : self.count].topk(self.k, 1)
        rest = F.relu(best.values - best.values[:, -1:] - EPSILON)
        total = rest.sum(1, keepdim=True) + EPSILON
        return Read(best.indices, rest / total, total)

    def at(self, places: Tensor) -> Tensor:
        """The states at these places, ``(B, K, H)``."""
        return self.states[self.row, places]


class SparseLoop(torch.autograd.Function):
    """``(output, *state)`` of a drive ``(T, B, 4H)``, two weights and the fields of a state."""

    @staticmethod
    def forward(ctx: Any, cell: Any, drive: Tensor, weight_hh: Tensor, weight_score: Tensor, *state: Tensor) -> Any:
        h, c, _, past, stored, time = state
        first = int(time[0]) + 1
        times = torch.arange(first, first + len(drive), device=drive.device)
        new = times % cell.attn_every == 0
        memory = Memory(past[:, stored[0]], int(new.sum()), weight_score, cell.k)
        keep = any(ctx.needs_input_grad)
        gates, cells = torch.empty_like(drive[: len(drive) if keep else 1]), drive.new_empty(len(drive), *h.shape)
        output = drive.new_empty(len(drive), len(h), 2 * h.shape[1])
        reads = []
        for t, is_stored in enumerate(new.tolist()):
            i, f, g, o = gates[t if keep else 0].chunk(4, -1)
            sums = torch.addmm(drive[t], h, weight_hh.mT).chunk(4, -1)
            for gate, function, value in zip((i, f, g, o), GATES, sums, strict=True):
                function(value, out=gate)
            c = torch.mul(f, c, out=cells[t]).addcmul_(i, g)
            found = o * torch.tanh(c)
            read = memory.read(found)
            h, context = output[t].chunk(2, -1)
            context.copy_((read.weights[:, None] @ memory.at(read.places))[:, 0])
            torch.add(found, context, out=h)
            if is_stored:
                memory.store(h)
            if keep:
                reads.append(read)
        if keep:
            ctx.cell, ctx.first, ctx.memory, ctx.reads, ctx.new = cell, first, memory, reads, new.tolist()
            ctx.save_for_backward(drive, weight_hh, weight_score, *state, gates, cells, output)
        ctx.set_materialize_grads(False)
        final = [
            h.clone(),
            c.clone(),
            context.clone(),
            torch.cat([past, output[..., : h.shape[1]].transpose(0, 1)], 1),
            torch.cat([stored, new.expand(len(h), -1)], 1),
            time + len(drive),
        ]
        ctx.mark_non_differentiable(*final[-2:])
        return output, *final

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        drive, weight_hh, weight_score, *rest = ctx.saved_tensors
        state, (gates, cells, output) = rest[:6], rest[6:]
        if torch.is_grad_enabled():  # a second derivative
            return None, *_plain_gradients(ctx, grads, drive, weight_hh, weight_score, *state)
        return None, *_gradients(ctx, grads, weight_hh, weight_score, state, gates, cells, output)


def _gradients(
    ctx: Any,
    grads: tuple[Tensor | None, ...],
    weight_hh: Tensor,
    weight_score: Tensor,
    state: list[Tensor],
    gates: Tensor,
    cells: Tensor,
    output: Tensor,
) -> list[Tensor | None]:
    """Of the drive, the two weights, and the fields h, c, context, past, stored, time."""
    start_h, start_c, _, past, stored, _ = state
    memory: Memory = ctx.memory
    size, trunc, steps = start_h.shape[1], ctx.cell.trunc, len(output)
    grad_output, last_h, last_c, last_context, grad_past = grads[:5]
    grad_output = torch.zeros_like(output) if grad_output is None else grad_output.clone()
    for part, given in ((slice(size), last_h), (slice(size, None), last_context)):
        if given is not None:
            grad_output[-1, :, part] += given
    if grad_past is not None:
        grad_output[..., :size] += grad_past[:, past.shape[1] :].transpose(0, 1)
    grad_h, grad_c = torch.zeros_like(start_h), torch.zeros_like(start_c) if last_c is None else last_c.clone()
    grad_states, grad_scores = torch.zeros_like(memory.states), torch.zeros_like(memory.scores)
    grad_sums = torch.empty_like(gates)
    of_found = torch.zeros_like(memory.of_found)
    slot = memory.count
    for t in range(steps - 1, -1, -1):
        i, f, g, o = gates[t].chunk(4, -1)
        shown = torch.tanh(cells[t])
        grad_h = grad_h + grad_output[t, :, :size]
        if ctx.new[t]:
            slot -= 1
            grad_h += grad_states[:, slot] + grad_scores[:, slot, None] * memory.of_past * _slope(output[t, :, :size])
        grad_found = _read_backwards(
            memory, ctx.reads[t], grad_h + grad_output[t, :, size:], o * shown, grad_states, grad_scores, of_found
        )
        grad_found += grad_h
        grad_c = grad_c + grad_found * o * (1 - shown * shown)
        before = start_c if t == 0 else cells[t - 1]
        i_, f_, g_, o_ = grad_sums[t].chunk(4, -1)
        torch.mul(grad_c * g, i * (1 - i), out=i_)
        torch.mul(grad_c * before, f * (1 - f), out=f_)
        torch.mul(grad_c * i, 1 - g * g, out=g_)
        torch.mul(grad_found * shown, o * (1 - o), out=o_)
        grad_h, grad_c = grad_sums[t] @ weight_hh, grad_c * f
        if trunc and (ctx.first + t) % trunc == 0:
            grad_h, grad_c = torch.zeros_like(grad_h), torch.zeros_like(grad_c)
    previous = torch.cat([start_h[None], output[:-1, :, :size]])
    grad_hh = grad_sums.flatten(0, 1).mT @ previous.flatten(0, 1)
    shown = torch.tanh(memory.states)
    of_past = (grad_scores[..., None] * shown).sum((0, 1))
    grad_states += grad_scores[..., None] * memory.of_past * (1 - shown * shown)
    given = torch.zeros_like(past) if grad_past is None else grad_past[:, : past.shape[1]].clone()
    given[:, stored[0]] += grad_states[:, 1 : 1 + int(stored[0].sum())]
    return [grad_sums, grad_hh, torch.cat([of_found, of_past]), grad_h, grad_c, None, given, None, None]


def _slope(h: Tensor) -> Tensor:
    """The derivative of tanh."""
    return 1 - torch.tanh(h) ** 2


def _read_backwards(
    memory: Memory,
    read: Read,
    grad: Tensor,
    found: Tensor,
    grad_states: Tensor,
    grad_scores: Tensor,
    of_found: Tensor,
) -> Tensor:
    """From the gradient of a context: adds to those of the memory and of the weight, and returns that of ``found``."""
    places, weights, total = read
    grad_weights = (memory.at(places) @ grad[..., None])[..., 0]
    grad_states.index_put_((memory.row, places), weights[..., None] * grad[:, None], accumulate=True)
    if total is None:
        grad_scores.scatter_add_(1, places, grad_weights)
        each, shown = grad_weights.sum(1, keepdim=True), torch.tanh(found)
        of_found += (each * shown).sum(0)
        return each * memory.of_found * (1 - shown * shown)
    grad_rest = (grad_weights - (grad_weights * weights).sum(1, keepdim=True)) / total * (weights > 0)
    grad_rest[:, -1] -= grad_rest.sum(1)  # the k-th largest score is taken from all of them
    grad_scores.scatter_add_(1, places, grad_rest)
    return torch.zeros_like(grad)


def _plain_gradients(ctx: Any, grads: tuple[Tensor | None, ...], *tensors: Tensor) -> list[Tensor | None]:
    """The same gradients by the plain loop, which can be differentiated again."""
    drive, weight_hh, weight_score, *state = tensors
    weights = {"weight_hh": weight_hh, "weight_score": weight_score}
    cell = with_tensors(ctx.cell, {**tensors_of(ctx.cell), **weights})
    start = type(cell.fields())(*state)
    output, final = scan(cell.step, drive, start, None, False, cell.output, cell.fields())
    made = [(o, g) for o, g in zip((output, *parts(final)), grads, strict=True) if g is not None]
    wanted = [tensor for tensor, needs in zip(tensors, ctx.needs_input_grad[1:], strict=True) if needs]
    outputs, given = zip(*made, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, given, create_graph=True, allow_unused=True))
    return [next(found) if needs else None for needs in ctx.needs_input_grad[1:]]


GATES = (torch.sigmoid, torch.sigmoid, torch.tanh, torch.sigmoid)
"""Of the blocks i, f, g, o."""

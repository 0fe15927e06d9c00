"""Attention in the recurrence, one sequence at a time with Python lists: the truth that the layers must equal.

Written from the equations (Kerg et al. 2020, section 3 and Algorithm 1 as the authors' program reads it), without any
code of the layers: only their weights are taken.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from torch import Tensor


@dataclass
class Found:
    """What one sequence gives: outputs, weights by the step that made the state, and the sets at every step."""

    outputs: list[Tensor] = field(default_factory=list)
    weights: list[dict[int, Tensor]] = field(default_factory=list)
    buffers: list[list[int]] = field(default_factory=list)
    relevant: list[list[int | None]] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)
    s: Any = None


def rnn_step(cell: Any) -> Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]:
    act = {"tanh": torch.tanh, "relu": torch.relu, "identity": lambda v: v}[cell.activation]
    return lambda x, s, _: (act(cell.weight_hh @ s + cell.weight_ih @ x + cell.bias), None)


def lstm_step(cell: Any) -> Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]:
    def step(x: Tensor, s: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
        i, f, g, o = (cell.weight_ih @ x + cell.bias_ih + cell.weight_hh @ s + cell.bias_hh).chunk(4)
        old = torch.zeros_like(i) if c is None else c
        new = torch.sigmoid(f) * old + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(new), new

    return step


def aligned(cell: Any, s: Tensor, m: Tensor) -> Tensor:
    """a(s, m) of each head."""
    n, heads = len(s), cell.heads
    if cell.align == "uniform":
        return s.new_zeros(heads)
    q, k = cell.weight_query @ s, cell.weight_key @ m
    terms = q * k / sqrt(n / heads) if cell.align == "dot" else cell.weight_align * torch.tanh(q + k)
    return torch.stack([part.sum() for part in terms.chunk(heads)])


def attended(cell: Any, s: Tensor, states: list[Tensor], extra: list[Tensor | None]) -> tuple[Tensor, Tensor]:
    """The context, and the weights ``(states, heads)``."""
    e = torch.stack([aligned(cell, s, m) + (0 if b is None else b) for m, b in zip(states, extra, strict=True)])
    alpha = e.softmax(0)
    parts = [
        sum(alpha[i, head] * m.chunk(cell.heads)[head] for i, m in enumerate(states)) for head in range(cell.heads)
    ]
    return torch.cat(parts), alpha


def combined(cell: Any, h: Tensor, c: Tensor) -> Tensor:
    if cell.combine == "concat":
        return cell.weight_combine @ torch.cat([h, c])
    return h + c if cell.combine == "sum" else 0.5 * (h + c)


def relevant(cell: Any, inner: Any, x: Tensor, score: Callable[[Tensor, Tensor, int], Tensor] | None = None) -> Found:
    """One sequence ``(T, D)`` with a short-term buffer and a relevant set.

    ``score(beta, h, i)``: of the state that leaves; default: beta.
    """
    found, s, own = Found(), cell.weight_hh.new_zeros(cell.width), None
    states: dict[int, Tensor] = {}
    beta: dict[int, Tensor] = {}
    buffer: list[int] = []
    chosen: list[tuple[int, Tensor]] = []  # (step, score) by place
    for t in range(1, len(x) + 1):
        h, own = inner(x[t - 1], s, own)
        states[t] = h
        if t > cell.nu:
            i = buffer.pop(0)
            mine = beta[i] if score is None else score(beta[i], states[i], i)
            if len(chosen) < cell.rho:
                chosen.append((i, mine))
            elif cell.rho:
                j = min(range(cell.rho), key=lambda place: float(chosen[place][1].detach()))
                if float(mine.detach()) > float(chosen[j][1].detach()):
                    chosen[j] = (i, mine)
        buffer.append(t)
        beta[t] = h.new_zeros(())
        who = [*buffer, *(i for i, _ in chosen)]
        learned = cell.weight_screen is not None
        extra = [None] * len(buffer) + [value if learned else None for _, value in chosen]
        c, alpha = attended(cell, s, [states[i] for i in who], extra)
        for i, weight in zip(buffer, alpha, strict=False):
            share = len(who) / (cell.nu + cell.rho) if cell.screen.beta_norm else 1
            beta[i] = beta[i] + weight.detach().mean() * share
        s = combined(cell, h, c)
        found.outputs.append(h if cell.readout == "h" else s)
        found.weights.append(dict(zip(who, alpha.detach(), strict=True)))
        found.buffers.append(list(buffer))
        found.relevant.append([i for i, _ in chosen])
        found.scores.append([float(value.detach()) for _, value in chosen])
    found.s = s
    return found


def all_past(cell: Any, inner: Any, x: Tensor) -> Found:
    """One sequence ``(T, D)`` with all past states."""
    found, s, own = Found(), cell.weight_hh.new_zeros(cell.width), None
    states: list[Tensor] = []
    for x_t in x:
        h, own = inner(x_t, s, own)
        states.append(h)
        c, alpha = attended(cell, s, states, [None] * len(states))
        s = combined(cell, h, c)
        found.outputs.append(h if cell.readout == "h" else s)
        found.weights.append(dict(enumerate(alpha.detach(), start=1)))
    found.s = s
    return found

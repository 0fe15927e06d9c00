"""The factored bilinear recurrence: the tensor of a bilinear one is a sum of R products, and is never built.

    h_t = act(z_t),   z_t = W_ih x_t + b + V h_{t-1} + C (g_t p_t),   g_t = B^T x_t,   p_t = A^T h_{t-1}

    dL/dq_t = C^* dL/dz_t  (q_t = g_t p_t),   dL/dg_t = p_t^* dL/dq_t,   dL/dp_t = g_t^* dL/dq_t
    dL/dh_{t-1} = V^* dL/dz_t + conj(A) dL/dp_t
    dL/dC = sum_t dL/dz_t q_t^*,   dL/dA = sum_t conj(h_{t-1}) dL/dp_t^T,   dL/dV = sum_t dL/dz_t h_{t-1}^*
    dL/dB = sum_t conj(x_t) dL/dg_t^T,   dL/dW_ih = sum_t dL/dz_t x_t^*,   dL/dx_t = B^* dL/dg_t + W_ih^* dL/dz_t

[[A,B,C]] x_1 h x_2 x = C ((A^T h) (B^T x)) (spec/depth.md, Eq. 5). A step is two products: V and A^T are one matrix.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_choice
from engram.kernels._activations import PLAIN, activate, check_activation_dtype
from engram.kernels._chunks import cut, previous_states
from engram.kernels._eager import backward_steps, forward_steps
from engram.kernels._operator import operator
from engram.kernels._products import Multiplier, affine_, matmul
from engram.kernels._reference import scan
from engram.kernels._steps import previous_rows, split
from engram.kernels._workspace import borrow


def factored_reference(
    input: Tensor,
    factor_x: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor | None,
    factor_h: Tensor,
    factor_out: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """The plain loop. Arguments as in :func:`factored`."""
    hidden, rank = factor_h.shape
    gate = input @ factor_x
    drive = gate.new_zeros(*gate.shape[:-1], hidden) if weight_ih is None else F.linear(input, weight_ih)
    drive = drive if bias is None else drive + bias

    def step(both: Tensor, state: Tensor) -> Tensor:
        g, c = both.split([rank, hidden], -1)
        z = c + (g * (state @ factor_h)) @ factor_out.mT
        return activate(activation, z if weight_hh is None else z + state @ weight_hh.mT)

    return scan(step, torch.cat([gate, drive], -1), start, sizes, reverse)


def _both(weight_hh: Tensor | None, factor_h: Tensor) -> Tensor:
    """[V; A^T], ``(n + R, n)``, or A^T alone."""
    return factor_h.t().contiguous() if weight_hh is None else torch.cat([weight_hh, factor_h.t()])


def _forward(
    input: Tensor,
    factor_x: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor | None,
    factor_h: Tensor,
    factor_out: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    hidden, rank = factor_h.shape
    states = affine_(input.new_empty(*input.shape[:-1], hidden), input, weight_ih, bias)
    times_both, times_out = Multiplier(_both(weight_hh, factor_h).t()), Multiplier(factor_out.t())
    with borrow((*input.shape[:-1], rank), like=states) as gate:
        gates = split(affine_(gate, input, factor_x.t(), None), sizes)

        def merge(t: int, h: Tensor, before: Tensor) -> None:
            both = times_both(before)
            if weight_hh is not None:
                h += both[:, :hidden]
            times_out(both[:, -rank:].mul_(gates[t]), h, add=True)

        return states, forward_steps(states, start, None, sizes, activation, reverse, merge)


def _backward(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    input: Tensor,
    factor_x: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor | None,
    factor_h: Tensor,
    factor_out: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    states: Tensor,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, ...]:
    hidden, rank = factor_h.shape
    times_both = Multiplier(_both(weight_hh, factor_h).conj_physical())
    times_out = Multiplier(factor_out.conj_physical())

    def zeros(weight: Tensor | None) -> Tensor:
        return states.new_zeros(0 if weight is None else weight.shape)

    grad_x, grad_ih, grad_hh = zeros(factor_x), zeros(weight_ih), zeros(weight_hh)
    grad_h, grad_out = zeros(factor_h), zeros(factor_out)
    grad_input = states.new_empty(input.shape)
    rows, inputs = states.view(-1, hidden), input.reshape(-1, input.shape[-1])
    sources = previous_rows(sizes, reverse, states.device)
    with borrow(states.shape, states) as dz, borrow((*input.shape[:-1], rank), states) as gate:
        gates = split(affine_(gate, input, factor_x.t(), None), sizes)

        def pull(t: int, first: int, rows: Tensor, add: Tensor | None, out_rows: Tensor) -> None:
            through = times_out(rows) * gates[t][first : first + len(rows)].conj_physical()
            through = through if weight_hh is None else torch.cat([rows, through], 1)
            if add is not None:
                out_rows.copy_(add)
            times_both(through, out_rows, add=add is not None)

        grad_start, dz_sum, _ = backward_steps(
            grad_states, grad_final, states, None, sizes, activation, reverse, dz, pull
        )
        dz_rows, gate_rows, grad_rows = dz.view(-1, hidden), gate.view(-1, rank), grad_input.view(inputs.shape)
        for chunk in cut(states, sizes, reverse, backwards=True, width=max(hidden, rank)):
            for part, previous, _ in previous_states(rows, start, chunk, sources, reverse):
                where = slice(chunk.begin + part.start, chunk.begin + part.stop)
                d, g, p, x = dz_rows[where], gate_rows[where], matmul(previous, factor_h), inputs[where].conj_physical()
                through = times_out(d)
                dg = through * p.conj_physical()
                matmul(x.t(), dg, grad_x, add=True)
                matmul(dg, factor_x.t().conj_physical(), grad_rows[where])
                matmul(d.t(), (g * p).conj_physical(), grad_out, add=True)
                matmul(previous.conj_physical().t(), through * g.conj_physical(), grad_h, add=True)
                if weight_hh is not None:
                    matmul(d.t(), previous.conj_physical(), grad_hh, add=True)
                if weight_ih is not None:
                    matmul(d.t(), x, grad_ih, add=True)
                    matmul(d, weight_ih.conj_physical(), grad_rows[where], add=True)
    grad_bias = zeros(None) if bias is None else dz_sum
    return grad_input, grad_x, grad_ih, grad_bias, grad_hh, grad_h, grad_out, grad_start


_factored = operator(
    "factored",
    "Tensor input, Tensor factor_x, Tensor? weight_ih, Tensor? bias, Tensor? weight_hh, Tensor factor_h, "
    "Tensor factor_out, Tensor start",
    "str activation, bool reverse",
    factored_reference,
    _forward,
    _backward,
)


def factored(
    input: Tensor,
    factor_x: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor | None,
    factor_h: Tensor,
    factor_out: Tensor,
    start: Tensor,
    sizes: Tensor | None = None,
    activation: str = "identity",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run h_t = act(C ((A^T h_{t-1}) (B^T x_t)) + V h_{t-1} + W_ih x_t + b) over a whole sequence.

    Args:
        input: ``(T, B, D)``; or ``(rows, D)`` with ``sizes``, the data of a PackedSequence.
        factor_x: B ``(D, R)``.
        weight_ih: ``(n, D)``, and bias ``(n)``; None for zero.
        weight_hh: V ``(n, n)``; None for zero.
        factor_h, factor_out: A and C, ``(n, R)``.
        start: ``(B, n)``, the state before the first step.
        sizes, activation, reverse: as in :func:`engram.kernels.additive`.

    Returns:
        the states ``(T, B, n)`` or ``(rows, n)``, and the last state ``(B, n)``.
    """
    check_activation_dtype(check_choice("activation", activation, PLAIN), factor_h.dtype)
    return _factored(
        input, factor_x, weight_ih, bias, weight_hh, factor_h, factor_out, start, sizes, activation, reverse
    )

"""The multiplicative recurrence: input and state meet in a product, unit by unit.

    h_t = act(z_t),   z_t = g_t p_t + c_t,   p_t = W h_{t-1},   g_t = W_g x_t + b_g,   c_t = W_c x_t + b_c

    dL/dz_t = act'(z_t) (dL/dh_t + W^* (g_{t+1}^* dL/dz_{t+1})),   dL/dg_t = p_t^* dL/dz_t
    dL/dW = sum_t (g_t^* dL/dz_t) h_{t-1}^*,   dL/dW_g = sum_t dL/dg_t x_t^*,   dL/dW_c = sum_t dL/dz_t x_t^*
    dL/dx_t = W_g^* dL/dg_t + W_c^* dL/dz_t

(spec/arithmetic-circuits.md 1.1; Wu et al. 2016.) Two arrays of the size of the sequence are kept, the states and p,
which the loop writes over the gates it has used; the backward pass makes the gates again, one product a chunk of steps.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_choice
from engram.kernels._activations import PLAIN, activate, check_activation_dtype
from engram.kernels._chunks import cut, previous_states
from engram.kernels._loops import loops
from engram.kernels._operator import operator
from engram.kernels._products import affine_, column_sums, matmul
from engram.kernels._reference import scan
from engram.kernels._steps import previous_rows
from engram.kernels._workspace import borrow


def multiplicative_reference(
    input: Tensor,
    weight_gate: Tensor,
    bias_gate: Tensor | None,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    product: bool,
) -> tuple[Tensor, Tensor]:
    """The plain loop over the pair (h, p = W h). Arguments as in :func:`multiplicative`."""

    def step(inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        g, c = inputs.chunk(2, -1)
        h = activate(activation, g * state[1] + c)
        return h, h @ weight_hh.mT

    gate = F.linear(input, weight_gate, bias_gate)
    drive = torch.zeros_like(gate) if weight_ih is None else F.linear(input, weight_ih)
    inputs = torch.cat([gate, drive if bias is None else drive + bias], -1)
    first = start if product else start @ weight_hh.mT
    states, (final, _) = scan(step, inputs, (start, first), sizes, reverse, lambda state: state[0])
    return states, final


def _forward(
    input: Tensor,
    weight_gate: Tensor,
    bias_gate: Tensor | None,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    product: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (*input.shape[:-1], start.shape[-1])
    states = affine_(input.new_empty(shape), input, weight_ih, bias)
    gate = affine_(input.new_empty(shape), input, weight_gate, bias_gate)
    final = loops(states).forward_loop(
        states, weight_hh, start, None, sizes, activation, reverse, gate, 0 if product else None
    )
    return states, final, gate  # which now holds p


def _backward(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    input: Tensor,
    weight_gate: Tensor,
    bias_gate: Tensor | None,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    states: Tensor,
    products: Tensor,
    activation: str,
    reverse: bool,
    product: bool,
) -> tuple[Tensor, ...]:
    hidden = states.shape[-1]
    rows, inputs = states.view(-1, hidden), input.reshape(-1, input.shape[-1])
    above = None if grad_states is None else grad_states.reshape(-1, hidden)
    sources = previous_rows(sizes, reverse, states.device)

    def zeros(weight: Tensor | None) -> Tensor:
        return states.new_zeros(0 if weight is None else weight.shape)

    grad_input = states.new_empty(inputs.shape)
    grad_gate, grad_gate_bias, grad_ih, grad_bias = map(zeros, (weight_gate, bias_gate, weight_ih, bias))
    grad_hh = zeros(weight_hh)
    carried = states.new_zeros(start.shape)
    if grad_final is not None:
        carried.copy_(grad_final)
    for chunk in cut(states, sizes, reverse, backwards=True):
        where, shape = slice(chunk.begin, chunk.end), (chunk.end - chunk.begin, hidden)
        timed = shape if sizes is not None else (-1, start.shape[0], hidden)
        with borrow(shape, states) as dz, borrow(shape, states) as gate, borrow(shape, states) as dg:
            affine_(gate, inputs[where], weight_gate, bias_gate)
            entered, chunk_bias, _ = loops(states).backward_loop(
                None if above is None else above[where].view(timed),
                carried[: chunk.alive],
                rows[where].view(timed),
                weight_hh,
                None,
                chunk.sizes,
                activation,
                reverse,
                dz.view(timed),
                gate.view(timed),
                chunk.entering if product else None,
            )
            carried[: chunk.alive] = entered
            through = gate.conj_physical() * dz if gate.is_complex() else gate.mul_(dz)
            for part, previous, fresh in previous_states(rows, start, chunk, sources, reverse):
                to_weight = through[part]
                if product and fresh is not None:  # these rows were given p itself: no weight had a part in it
                    to_weight = to_weight.masked_fill(fresh, 0)
                matmul(to_weight.t(), previous.conj_physical(), grad_hh, add=True)
            torch.mul(dz, products.view(-1, hidden)[where].conj_physical(), out=dg)
            seen = inputs[where].conj_physical()
            matmul(dg.t(), seen, grad_gate, add=True)
            matmul(dg, weight_gate.conj_physical(), grad_input[where])
            if bias_gate is not None:
                grad_gate_bias += column_sums(dg)
            if weight_ih is not None:
                matmul(dz.t(), seen, grad_ih, add=True)
                matmul(dz, weight_ih.conj_physical(), grad_input[where], add=True)
            if bias is not None:
                grad_bias += chunk_bias
    weights = grad_gate, grad_gate_bias, grad_ih, grad_bias, grad_hh
    return grad_input.view(input.shape), *weights, carried


_multiplicative = operator(
    "multiplicative",
    "Tensor input, Tensor weight_gate, Tensor? bias_gate, Tensor? weight_ih, Tensor? bias, Tensor weight_hh, "
    "Tensor start",
    "str activation, bool reverse, bool product",
    multiplicative_reference,
    _forward,
    _backward,
    kept=1,
)


def multiplicative(
    input: Tensor,
    weight_gate: Tensor,
    bias_gate: Tensor | None,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    weight_hh: Tensor,
    start: Tensor,
    sizes: Tensor | None = None,
    activation: str = "identity",
    reverse: bool = False,
    product: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run h_t = act((W_g x_t + b_g) (W h_{t-1}) + W_c x_t + b_c) over a whole sequence.

    Args:
        input: ``(T, B, D)``; or ``(rows, D)`` with ``sizes``, the data of a PackedSequence.
        weight_gate: W_g ``(H, D)``; its bias b_g ``(H)`` or None.
        weight_ih: W_c ``(H, D)``, or None for zero; its bias b_c ``(H)`` or None.
        weight_hh: W ``(H, H)``.
        start: ``(B, H)``, the state h_0 before the first step.
        sizes: ``(T)``, int64 on the CPU: how many rows are alive at each step of a packed sequence.
        activation: one of ``identity, tanh, relu, sigmoid``.
        reverse: from the last step to the first.
        product: ``start`` is W h_0 rather than h_0, which then need not exist.

    Returns:
        the states ``(T, B, H)`` or ``(rows, H)``, and the last state ``(B, H)``.
    """
    check_activation_dtype(check_choice("activation", activation, PLAIN), weight_hh.dtype)
    return _multiplicative(
        input, weight_gate, bias_gate, weight_ih, bias, weight_hh, start, sizes, activation, reverse, product
    )

"""The bilinear recurrence: every pair of a unit of the state and a number of the input has its weights.

    h_t = act(z_t),   z_t,k = sum_ij A_ijk h_{t-1,i} x_t,j + (W_ih x_t + b)_k

    dL/dA_ijk = sum_t h_{t-1,i} x_t,j dL/dz_t,k,   dL/dW_ih = sum_t dL/dz_t x_t^*
    dL/dh_{t-1,i} = sum_jk A_ijk x_t,j dL/dz_t,k
    dL/dx_t,j = sum_ik A_ijk h_{t-1,i} dL/dz_t,k + (W_ih^* dL/dz_t)_j

(spec/depth.md section 1, einsum ``ijk,bi,bj->bk``.) A linear term V h is the same with a number of the input that is
always 1. A step is one product of the pairs ``(B, n*m)`` with A as a matrix.
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


def bilinear_reference(
    input: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    tensor: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """The plain loop. Arguments as in :func:`bilinear`."""
    hidden, features, _ = tensor.shape
    drive = input.new_zeros(*input.shape[:-1], hidden) if weight_ih is None else F.linear(input, weight_ih)
    drive = drive if bias is None else drive + bias

    def step(both: Tensor, state: Tensor) -> Tensor:
        x, c = both.split([features, hidden], -1)
        return activate(activation, torch.einsum("ijk,bi,bj->bk", tensor, state, x) + c)

    return scan(step, torch.cat([input, drive], -1), start, sizes, reverse)


def _pairs(state: Tensor, input: Tensor) -> Tensor:
    """``(B, n)`` and ``(B, m)`` to ``(B, n*m)``."""
    return (state[:, :, None] * input[:, None]).flatten(1)


def _forward(
    input: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    tensor: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    states = affine_(input.new_empty(*input.shape[:-1], start.shape[-1]), input, weight_ih, bias)
    times, inputs = Multiplier(tensor.flatten(0, 1)), split(input, sizes)

    def merge(t: int, h: Tensor, before: Tensor) -> None:
        times(_pairs(before, inputs[t]), h, add=True)

    return states, forward_steps(states, start, None, sizes, activation, reverse, merge)


def _backward(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    input: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    tensor: Tensor,
    start: Tensor,
    sizes: Tensor | None,
    states: Tensor,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, ...]:
    hidden, features, _ = tensor.shape
    matrix, inputs = tensor.flatten(0, 1).conj_physical(), split(input, sizes)
    times = Multiplier(matrix.t())

    def to_pairs(rows: Tensor) -> Tensor:
        """dL/d(h_i x_j) of some rows ``(rows, n, m)``, from their dL/dz."""
        return times(rows).view(-1, hidden, features)

    def pull(t: int, first: int, rows: Tensor, add: Tensor | None, out: Tensor) -> None:
        x = inputs[t][first : first + len(rows)].conj_physical()
        torch.sum(to_pairs(rows) * x[:, None], 2, out=out)
        if add is not None:
            out += add

    grad_matrix = states.new_zeros(matrix.shape)
    grad_input = states.new_empty(input.shape)
    rows, input_rows = states.view(-1, hidden), input.reshape(-1, features)
    sources = previous_rows(sizes, reverse, states.device)
    with borrow(states.shape, like=states) as dz:
        grad_start, dz_sum, _ = backward_steps(
            grad_states, grad_final, states, None, sizes, activation, reverse, dz, pull
        )
        dz_rows = dz.view(-1, hidden)
        for chunk in cut(states, sizes, reverse, backwards=True, width=hidden * features):
            for part, previous, _ in previous_states(rows, start, chunk, sources, reverse):
                where = slice(chunk.begin + part.start, chunk.begin + part.stop)
                previous = previous.conj_physical()
                pairs = _pairs(previous, input_rows[where].conj_physical())
                matmul(pairs.t(), dz_rows[where], grad_matrix, add=True)
                through = to_pairs(dz_rows[where]) * previous[:, :, None]
                torch.sum(through, 1, out=grad_input.view(-1, features)[where])
        if weight_ih is None:
            grad_ih = states.new_empty(0)
        else:
            grad_ih = matmul(dz_rows.t(), input_rows.conj_physical(), states.new_empty(weight_ih.shape))
            matmul(dz_rows, weight_ih.conj_physical(), grad_input.view(-1, features), add=True)
    grad_bias = states.new_empty(0) if bias is None else dz_sum
    return grad_input, grad_ih, grad_bias, grad_matrix.view(tensor.shape), grad_start


_bilinear = operator(
    "bilinear",
    "Tensor input, Tensor? weight_ih, Tensor? bias, Tensor tensor, Tensor start",
    "str activation, bool reverse",
    bilinear_reference,
    _forward,
    _backward,
)


def bilinear(
    input: Tensor,
    weight_ih: Tensor | None,
    bias: Tensor | None,
    tensor: Tensor,
    start: Tensor,
    sizes: Tensor | None = None,
    activation: str = "identity",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run h_t = act(A x_1 h_{t-1} x_2 x_t + W_ih x_t + b) over a whole sequence.

    Args:
        input: x ``(T, B, m)``; or ``(rows, m)`` with ``sizes``, the data of a PackedSequence.
        weight_ih: ``(n, m)``, and bias ``(n)``; None for zero.
        tensor: A ``(n, m, n)``: old state, input, new state.
        start: ``(B, n)``, the state before the first step.
        sizes, activation, reverse: as in :func:`engram.kernels.additive`.

    Returns:
        the states ``(T, B, n)`` or ``(rows, n)``, and the last state ``(B, n)``.
    """
    check_activation_dtype(check_choice("activation", activation, PLAIN), tensor.dtype)
    return _bilinear(input, weight_ih, bias, tensor, start, sizes, activation, reverse)

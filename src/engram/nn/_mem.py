"""Attention over all past states: memory and time of a step grow with the sequence."""

from typing import Any

import torch
from torch import Tensor

from engram import loops
from engram.maps import observed
from engram.nn._attentive import AttentiveCell
from engram.nn._lstm import LSTMCell
from engram.nn._mem_loop import run_all_past
from engram.nn._rnn import RNNCell
from engram.state import Field, State


class MemCell(AttentiveCell):
    r"""Attends to all states so far, the present one included.

    .. math::
        s_t = f(h_t, \textstyle\sum_{i=1}^t \alpha_{i,t} h_i), \quad
        \alpha_{\cdot,t} = \mathrm{softmax}(a(s_{t-1}, h_1), \ldots, a(s_{t-1}, h_t))

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        align (str): ``additive``, :math:`v^\top \tanh(W_q s + W_k m)`; ``dot``, :math:`(W_q s)^\top W_k m / \sqrt{n}`;
            or ``uniform``, all states alike. Default: ``additive``.
        heads (int): attend in this many parts of the units, each with weights of its own. Default: 1.
        combine (str): f: ``sum``, h + c; ``mean``, (h + c) / 2; ``concat``, :math:`W_c [h; c]`. Default: ``sum``.
        readout (str): what the layer shows: ``h`` or ``s``. Default: ``h``.
        options: those of the cell.

    State: h ``(n)``, s ``(n)``, other fields of the cell; memory ``(steps, n)``, all states; keys ``(steps, n)``,
        :math:`W_k h` of each; made ``(steps)``, the step at which each was made, 0 where a packed row had ended; t.
    """

    state_name = "MemState"
    own_run = "torch operations on memory that is allocated once, whose steps run again in the backward pass"

    def memory_fields(self) -> dict[str, Field]:
        keys = {} if self.align == "uniform" else {"keys": Field(self.width, grows=True)}
        made = Field(dtype=torch.int64, grows=True)
        return {"memory": Field(self.width, grows=True), **keys, "made": made, "t": Field(dtype=torch.int64)}

    def attentive_step(self, drive: Any, state: State) -> tuple[State, Tensor]:
        h, others = self.inner_step(drive, state)
        t = state.t + 1
        new: dict[str, Any] = {"memory": h, "keys": self.keys(h), "made": t}
        lists = ("memory", "made") if self.align == "uniform" else ("memory", "keys", "made")
        grown = {name: torch.cat([getattr(state, name), new[name][:, None]], 1) for name in lists}
        s, weights = self.attend(state.s, h, grown)
        return type(state)(h, s, *others, *grown.values(), t), weights

    def attend(self, s: Tensor, h: Tensor, seen: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The new s, and the weights, of the memory, keys and steps that are seen."""
        weights = self.weights(s, seen.get("keys"), seen["made"] > 0)
        return self.combined(h, self.context(weights, seen["memory"])), weights

    def run(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        """All steps, in memory that grows with T, not with its square.

        Packed rows run in the plain loop, and so does all that torch follows or transforms.
        """
        if sizes is not None or observed() or loops.needs_plain(state.s):
            return super().run(input, state, sizes, reverse)
        cell = self.with_built_weights()
        with loops.without_autocast(input):
            return run_all_past(cell, cell.drive(input), state, reverse)


class MemRNNCell(MemCell, RNNCell):
    r"""One layer of :class:`MemRNN`: an :class:`RNNCell` that attends to all states so far.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        align (str): ``additive``, :math:`v^\top \tanh(W_q s + W_k m)`; ``dot``, :math:`(W_q s)^\top W_k m / \sqrt{n}`;
            or ``uniform``, all states alike. Default: ``additive``.
        heads (int): attend in this many parts of the units, each with weights of its own. Default: 1.
        combine (str): f: ``sum``, h + c; ``mean``, (h + c) / 2; ``concat``, :math:`W_c [h; c]`. Default: ``sum``.
        readout (str): what the layer shows: ``h`` or ``s``. Default: ``h``.
        options: ``activation``, ``activation_in``, ``output``, ``bias``, ``map``, ``initial_state``, ``laws``,
            ``device`` and ``dtype``, as in :class:`RNNCell`.

    Parameters: those of :class:`RNNCell` and of :class:`AttentiveCell`. State: as in :class:`MemCell`.
    """

    equation = (
        "h_t = act(W_hh s_{t-1} + W_ih x_t + b), s_t = f(h_t, sum_i a_i h_i), "
        "a = softmax of v' tanh(W_q s_{t-1} + W_k h_i) over all states so far"
    )
    count = "3N^2 + N"
    step_cost = "O(N^2 + T N)"


class MemLSTMCell(MemCell, LSTMCell):
    r"""One layer of :class:`MemLSTM`: an :class:`LSTMCell` that attends to all states so far.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        align (str): ``additive``, :math:`v^\top \tanh(W_q s + W_k m)`; ``dot``, :math:`(W_q s)^\top W_k m / \sqrt{n}`;
            or ``uniform``, all states alike. Default: ``additive``.
        heads (int): attend in this many parts of the units, each with weights of its own. Default: 1.
        combine (str): f: ``sum``, h + c; ``mean``, (h + c) / 2; ``concat``, :math:`W_c [h; c]`. Default: ``sum``.
        readout (str): what the layer shows: ``h`` or ``s``. Default: ``h``.
        options: ``proj_size``, ``bias``, ``layer_norm``, ``chrono``, ``initial_state``, ``laws``, ``device`` and
            ``dtype``, as in :class:`LSTMCell`.

    Parameters: those of :class:`LSTMCell` and of :class:`AttentiveCell`. State: as in :class:`MemCell`; the memory of
        the LSTM is its field ``cell``.
    """

    equation = (
        "h_t, cell_t = LSTM(x_t, s_{t-1}, cell_{t-1}), s_t = f(h_t, sum_i a_i h_i), a = softmax of "
        "v' tanh(W_q s_{t-1} + W_k h_i) over all states so far"
    )
    count = "6N^2 + N"
    step_cost = "O(N^2 + T N)"
    renamed = {"c": "cell"}  # noqa: RUF012

"""Sparse attentive backtracking: an LSTM that reads a few of the states it has stored."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_size
from engram.nn._lstm import LSTMCell, LSTMState
from engram.nn._options import CellOptions
from engram.nn._recurrent import Recurrent
from engram.nn._sab_loop import EPSILON, can_run_sparse, run_sparse
from engram.nn.laws import Law, Normal
from engram.state import Field


class SABState(NamedTuple):
    """h and c ``(B, H)``; the context that was added to h ``(B, H)``; past, the h of every past step
    ``(B, steps, H)``; stored, whether it is stored ``(B, steps)``; time, the number of steps so far ``(B)``."""

    h: Any
    c: Any
    context: Any
    past: Any
    stored: Any
    time: Any


class SABCell(LSTMCell):
    """One layer of :class:`SAB`: an LSTM with sparse attention to stored states.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        k (int): how many scores are compared, at least 1; k - 1 states are read. Default: 10.
        attn_every (int): store every n-th state. Default: 2.
        trunc (int): steps after which the gradient of h and c is cut; 0 for never. Default: 10.
        chrono (int or None): T_max, the longest time to be remembered, in steps. Default: None, torch's distribution of
            biases.
        bias (bool): learn an additive bias b. Default: True.
        initial_state (str): ``zero``, or ``trained``, the parameters start_h and start_c. Default: ``zero``.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Parameters: those of :class:`LSTMCell`, and weight_score ``(2H)``, initially N(0, 0.01^2).
    State: a :class:`SABState`, whose memory grows by every step. Output: h and context side by side, 2H features.
    """

    equation = (
        "hat, c' = LSTM(x, h, c), a_i = w^T tanh([hat; m_i]) of stored m_i, a_k the k-th largest, "
        "r_i = max(0, a_i - a_k), context = sum_i r_i m_i / sum_i r_i, h' = hat + context, output [h'; context]"
    )
    step_cost = "O(N^2 + T / attn_every)"
    own_run = "torch operations on memory that is allocated once"

    weight_score: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        k: int = 10,
        attn_every: int = 2,
        trunc: int = 10,
        chrono: int | None = None,
        bias: bool = True,
        initial_state: str = "zero",
        laws: Mapping[str, Law] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.k = check_size("k", k)
        self.attn_every = check_size("attn_every", attn_every)
        self.trunc = check_size("trunc", trunc, least=0)
        super().__init__(
            input_size,
            hidden_size,
            bias=bias,
            chrono=chrono,
            initial_state=initial_state,
            laws=laws,
            device=device,
            dtype=dtype,
        )
        self.declare("weight_score", 2 * hidden_size, law=Normal(0.01))

    def fields(self) -> Any:
        h, c = super().fields()
        size = self.hidden_size
        return SABState(
            h, c, Field(size), Field(size, grows=True), Field(dtype=torch.bool, grows=True), Field(dtype=torch.int64)
        )

    def output(self, state: SABState) -> Tensor:
        """[h; context], what the source's read-out sees."""
        return torch.cat([state.h, state.context], -1)

    @property
    def output_size(self) -> int:
        return 2 * self.hidden_size

    def step(self, drive: Tensor, state: Any) -> Any:
        time = state.time + 1
        h, c = state.h, state.c
        if self.trunc:
            cut = (time % self.trunc == 0)[:, None]
            h, c = torch.where(cut, h.detach(), h), torch.where(cut, c.detach(), c)
        found, c = super().step(drive, LSTMState(h, c))
        past = torch.cat([torch.zeros_like(found)[:, None], state.past], 1)  # a zero vector is stored from the start
        stored = torch.cat([torch.ones_like(time, dtype=torch.bool)[:, None], state.stored], 1)
        weights = sparse_weights(self._scores(found, past), stored, self.k)
        context = (weights[..., None] * past).sum(1)
        h = found + context
        is_stored = time % self.attn_every == 0
        return SABState(
            h,
            c,
            context,
            torch.cat([state.past, h[:, None]], 1),
            torch.cat([state.stored, is_stored[:, None]], 1),
            time,
        )

    def _scores(self, found: Tensor, past: Tensor) -> Tensor:
        """w^T tanh([hat; m_i]), ``(B, steps)``: a sum of what hat gives and of what m_i gives."""
        of_found, of_past = self.weight_score.split(self.hidden_size)
        return (torch.tanh(found) @ of_found)[:, None] + torch.tanh(past) @ of_past

    def run(self, input: Tensor, state: SABState, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, SABState]:
        """All steps in torch operations, with a memory that is allocated once. Where rows have stored different steps
        (packed sequences) and within torch's transforms the plain loop runs, which copies the memory at every step."""
        if sizes is not None or not can_run_sparse(state, input):
            return super().run(input, state, sizes, reverse)
        return run_sparse(self, input, state, reverse)

    def extra_repr(self) -> str:
        return super().extra_repr() + f", k={self.k}, attn_every={self.attn_every}, trunc={self.trunc}"


def sparse_weights(scores: Tensor, stored: Tensor, k: int) -> Tensor:
    """The weight of each state ``(B, steps)``, 0 for those that are not stored.

    With more than k stored states: :math:`r_i / (\\sum_j r_j + \\epsilon)`, :math:`r_i = \\max(0, a_i - a_{(k)} -
    \\epsilon)` with the k-th largest score, so that at most k - 1 states have a weight. Else the scores as they are.
    """
    as_they_are = torch.where(stored, scores, 0.0)
    if scores.shape[1] <= k:
        return as_they_are
    many = stored.sum(1, keepdim=True) > k
    low = torch.where(stored, scores, -torch.inf).topk(k, 1).values[:, -1:]
    rest = torch.where(stored & many, F.relu(scores - torch.where(many, low, 0.0) - EPSILON), 0.0)
    return torch.where(many, rest / (rest.sum(1, keepdim=True) + EPSILON), as_they_are)


class SAB(Recurrent):
    r"""Sparse attentive backtracking: an LSTM that stores some of its states, and adds the few that fit best.

    .. math::
        \hat h_t, c_t = \mathrm{LSTM}(x_t, h_{t-1}, c_{t-1}), \quad a_i = w^T \tanh([\hat h_t; m_i]), \\
        r_i = \max(0, a_i - a_{(k)} - \epsilon), \quad u_t = \sum_i \frac{r_i}{\sum_j r_j + \epsilon} m_i, \quad
        h_t = \hat h_t + u_t

    where :math:`m_i` are the stored states: a zero vector, and h of every ``attn_every``-th step; :math:`a_{(k)}` is
    the k-th largest score, :math:`\epsilon = 10^{-7}`, so that at most k - 1 states have a weight. While there are at
    most k stored states, the weights are the scores as they are. The output is :math:`[h_t; u_t]`, so that a linear
    read-out is the source's.

    h and c are constants to the gradient at every ``trunc``-th step (truncated backpropagation); the gradient still
    goes through the stored states that were read, however far back.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        k (int): how many scores are compared, at least 1; k - 1 states are read. One above the number of stored states
            reads all of them. Default: 10.
        attn_every (int): store every n-th state. Default: 2.
        trunc (int): steps after which the gradient of h and c is cut; 0 for never. Default: 10.
        chrono (int or None): T_max, the longest time to be remembered, in steps (Tallec and Ollivier 2018). Default:
            None, torch's distribution of biases.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, the parameters start_h and start_c. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*2H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, state_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        state_0: a :class:`SABState`, as a call returns it. Default: nothing stored but the zero vector.

    Outputs: output, state_n
        output: ``(T, B, directions*2H)``, h and context side by side, in the form of the input.
        state_n: a :class:`SABState` whose memory has grown by T steps: this layer's memory is not bounded.

    Attributes:
        weight_ih_l[k]: ``(4H, D)``, above the first layer ``(4H, directions*2H)``; blocks i, f, g, o.
        weight_hh_l[k]: ``(4H, H)``; bias_ih_l[k], bias_hh_l[k]: ``(4H)``.
        weight_score_l[k]: ``(2H)``, w, initially N(0, 0.01^2); the others U(-1/sqrt(H), 1/sqrt(H)), as torch.nn.LSTM.

    The score of a stored state is a sum of what :math:`\hat h_t` and of what :math:`m_i` gives, so the latter is
    computed once, when a state is stored: a step costs one number per stored state and k - 1 vectors. Packed
    sequences and torch's transforms run a plain loop, which copies the memory at every step.

    Source: Ke et al. 2018 (sparse attentive backtracking), and their program.

    Example::

        >>> output, state = SAB(10, 20)(torch.randn(5, 3, 10))
        >>> output.shape, state.past.shape, state.stored.sum()
        (torch.Size([5, 3, 40]), torch.Size([1, 3, 5, 20]), tensor(6))
    """

    cell = SABCell
    source = "Ke et al. 2018 (SAB)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        k: int = 10,
        attn_every: int = 2,
        trunc: int = 10,
        chrono: int | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, k=k, attn_every=attn_every, trunc=trunc, chrono=chrono, **options
        )

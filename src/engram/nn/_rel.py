"""Attention over a short-term buffer and a relevant set: as many states at step 1,000,000 as at step 20."""

from math import inf
from typing import Any

import torch
from torch import Tensor

from engram.errors import check_size
from engram.nn._attentive import AttentiveCell
from engram.nn._lstm import LSTMCell
from engram.nn._rnn import RNNCell
from engram.nn._screen import Screen, ScreenLike, make_screen
from engram.state import Field, State


class RelCell(AttentiveCell):
    r"""Attends to the last nu states and to rho earlier ones, chosen by relevancy screening.

    At step t, after :math:`h_t = \phi(s_{t-1}, x_t)`:

    1. if t > nu, the oldest state of the buffer leaves. It takes the place of the state with the lowest score in the
       relevant set if its own is higher (:class:`Screen`; by default :math:`\beta(i) = \sum_{j=i}^{i+\nu-1}
       \alpha_{i,j}`, the attention it received in the buffer). The first rho states find an empty place.
    2. :math:`h_t` takes its slot, with :math:`\beta(t) = 0`.
    3. :math:`\alpha = \mathrm{softmax}(a(s_{t-1}, m))` over the states m in buffer and set; beta of those in the buffer
       grows by alpha, without a gradient.
    4. :math:`s_t = f(h_t, \sum_m \alpha_m m)`.

    No gradient goes through the screening: neither through beta nor through the choice.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        nu (int): the size of the short-term buffer. Default: 10.
        rho (int): the size of the relevant set; 0 for none. Default: 10.
        screen (str, Screen or callable): how states are chosen, see :class:`Screen`. Default: ``relevance``.
        options: ``align``, ``heads``, ``combine`` and ``readout``, as in :class:`AttentiveCell`, and those of the cell.

    State: h ``(n)``, s ``(n)``, other fields of the cell; memory ``(nu + rho, n)``, the buffer as a ring, then the
        relevant set; keys ``(nu + rho, n)``, :math:`W_k m` of each; score ``(nu + rho)``, beta so far, and the score in
        the set, -inf if empty, in float32 at least; made ``(nu + rho)``, the step at which each state was made, 0 if
        empty; t, the number of steps so far. A state goes on in a layer of the same nu only: its ring has nu places.
    """

    state_name = "RelState"
    weight_screen: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        nu: int = 10,
        rho: int = 10,
        screen: ScreenLike = "relevance",
        **options: Any,
    ) -> None:
        self.nu, self.rho = check_size("nu", nu), check_size("rho", rho, least=0)
        self.screen = make_screen(screen)
        super().__init__(input_size, hidden_size, **options)
        self._declare_if(self.screen.learns and rho > 0, "weight_screen", self.width)

    @property
    def slots(self) -> int:
        """The number of states that are attended to at most."""
        return self.nu + self.rho

    @property
    def score_dtype(self) -> torch.dtype:
        """Of scores: sums of small weights, random numbers and numbers of steps need more than 16 bits."""
        dtype = self.reference_weight.dtype
        return torch.float32 if torch.finfo(dtype).bits < 32 else dtype

    def memory_fields(self) -> dict[str, Field]:
        keys = {} if self.align == "uniform" else {"keys": Field(self.slots, self.width)}
        has_more_bits = self.score_dtype != self.reference_weight.dtype
        return {
            "memory": Field(self.slots, self.width),
            **keys,
            "score": Field(self.slots, dtype=self.score_dtype if has_more_bits else None, initial=-inf),
            "made": Field(self.slots, dtype=torch.int64),
            "t": Field(dtype=torch.int64),
        }

    def drive(self, input: Tensor) -> Any:
        drive = super().drive(input)  # type: ignore[safe-super]
        if not (self.screen.samples and self.rho):
            return drive
        noise = torch.rand(*input.shape[:-1], 1, dtype=self.score_dtype, device=input.device)
        return (*drive, noise) if isinstance(drive, tuple) else (drive, noise)

    def attentive_step(self, drive: Any, state: State) -> tuple[State, Tensor]:
        noise = None
        if self.screen.samples and self.rho:
            *drive, noise = drive
            drive = tuple(drive) if len(drive) > 1 else drive[0]
        h, others = self.inner_step(drive, state)
        buffers = {"memory": state.memory, "score": state.score, "made": state.made}
        if self.align != "uniform":
            buffers["keys"] = state.keys
        slot = (state.t % self.nu)[:, None]
        if self.rho:
            buffers = self._screened(buffers, slot, state.t[:, None], noise)
        new: dict[str, Any] = {"memory": h, "keys": self.keys(h), "score": torch.zeros_like(buffers["score"][:, :1])}
        new["made"] = state.t[:, None] + 1
        buffers = {name: put(buffer, slot, new[name]) for name, buffer in buffers.items()}

        valid = buffers["made"] > 0
        weights = self.weights(state.s, buffers.get("keys"), valid, self._bias(buffers["score"], valid))
        buffers["score"] = buffers["score"] + self._received(weights, valid)
        s = self.combined(h, self.context(weights, buffers["memory"]))
        keys = (buffers["keys"],) if "keys" in buffers else ()
        memory = (buffers["memory"], *keys, buffers["score"], buffers["made"], state.t + 1)
        return type(state)(h, s, *others, *memory), weights

    def _screened(self, buffers: dict[str, Tensor], slot: Tensor, t: Tensor, noise: Tensor | None) -> dict[str, Tensor]:
        """The buffers once the state in ``slot`` has left for the relevant set, if it is relevant."""
        leaving = {name: take(buffer, slot) for name, buffer in buffers.items()}
        weight = None if self.weight_screen is None else self.weight_screen[:, None]
        leaving["score"] = self.screen.score(leaving["score"], leaving["memory"], leaving["made"], noise, weight)
        place = buffers["score"][:, self.nu :].detach().argmin(1, keepdim=True) + self.nu
        staying = {name: take(buffer, place) for name, buffer in buffers.items()}
        wins = (t >= self.nu) & (leaving["score"].detach() > staying["score"].detach())
        return {
            name: put(buffer, place, torch.where(wins, leaving[name], staying[name]))
            for name, buffer in buffers.items()
        }

    def _bias(self, score: Tensor, valid: Tensor) -> Tensor | None:
        """The learned score of the states in the relevant set, which its weight is trained by."""
        if self.weight_screen is None:
            return None
        relevant = torch.arange(self.slots, device=score.device) >= self.nu
        return torch.where(valid & relevant, score, 0.0).to(self.reference_weight.dtype)

    def _received(self, weights: Tensor, valid: Tensor) -> Tensor:
        """What beta grows by: the mean weight of the heads, for states in the buffer."""
        short = torch.arange(self.slots, device=weights.device) < self.nu
        received = weights.detach().to(self.score_dtype).mean(1) * short.to(self.score_dtype)
        if self.screen.beta_norm:
            received = received * (valid.to(self.score_dtype).sum(-1, keepdim=True) / self.slots)
        return received

    def extra_repr(self) -> str:
        shown = [super().extra_repr(), f"nu={self.nu}", f"rho={self.rho}"]
        return ", ".join(shown if self.screen == Screen() else [*shown, f"screen={self.screen.words}"])


def take(buffer: Tensor, slot: Tensor) -> Tensor:
    """What is in a slot ``(B, 1)`` of a buffer ``(B, K, n)`` or ``(B, K)``: ``(B, n)`` or ``(B, 1)``."""
    if buffer.dim() == 2:
        return buffer.gather(1, slot)
    return buffer.gather(1, slot[:, :, None].expand(-1, 1, buffer.shape[2]))[:, 0]


def put(buffer: Tensor, slot: Tensor, value: Tensor) -> Tensor:
    """The buffer with another value in a slot."""
    if buffer.dim() == 2:
        return buffer.scatter(1, slot, value)
    return buffer.scatter(1, slot[:, :, None].expand(-1, 1, buffer.shape[2]), value[:, None])


class RelRNNCell(RelCell, RNNCell):
    """One layer of :class:`RelRNN`: an :class:`RNNCell` that attends to recent and to relevant states.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        nu (int): the size of the short-term buffer. Default: 10.
        rho (int): the size of the relevant set; 0 for none. Default: 10.
        screen (str, Screen or callable): how states are chosen, see :class:`Screen`. Default: ``relevance``.
        options: ``align``, ``heads``, ``combine`` and ``readout``, as in :class:`AttentiveCell`;
            ``activation``, ``activation_in``, ``output``, ``bias``, ``map``, ``initial_state``,
            ``laws``, ``device`` and ``dtype``, as in :class:`RNNCell`.

    Parameters: those of :class:`RNNCell` and of :class:`AttentiveCell`. State: as in :class:`RelCell`.
    """

    equation = (
        "h_t = act(W_hh s_{t-1} + W_ih x_t + b), s_t = f(h_t, sum_m a_m m), "
        "a = softmax of v' tanh(W_q s_{t-1} + W_k m) over the last nu states and rho relevant ones"
    )
    count = "3N^2 + N"
    step_cost = "O(N^2 + (nu + rho) N)"


class RelLSTMCell(RelCell, LSTMCell):
    """One layer of :class:`RelLSTM`: an :class:`LSTMCell` that attends to recent and to relevant states.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        nu (int): the size of the short-term buffer. Default: 10.
        rho (int): the size of the relevant set; 0 for none. Default: 10.
        screen (str, Screen or callable): how states are chosen, see :class:`Screen`. Default: ``relevance``.
        options: ``align``, ``heads``, ``combine`` and ``readout``, as in :class:`AttentiveCell`;
            ``proj_size``, ``bias``, ``layer_norm``, ``chrono``, ``initial_state``, ``laws``, ``device`` and
            ``dtype``, as in :class:`LSTMCell`.

    Parameters: those of :class:`LSTMCell` and of :class:`AttentiveCell`. State: as in :class:`RelCell`; the memory of
        the LSTM is its field ``cell``.
    """

    equation = (
        "h_t, cell_t = LSTM(x_t, s_{t-1}, cell_{t-1}), s_t = f(h_t, sum_m a_m m), a = softmax of "
        "v' tanh(W_q s_{t-1} + W_k m) over the last nu states and rho relevant ones"
    )
    count = "6N^2 + N"
    step_cost = "O(N^2 + (nu + rho) N)"
    renamed = {"c": "cell"}  # noqa: RUF012

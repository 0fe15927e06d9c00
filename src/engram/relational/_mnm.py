"""The metalearned neural memory: a small network is the memory, and writing is one step of learning."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.nn.laws import Uniform
from engram.relational._controller import ControllerCell
from engram.relational._sequence import check_sequence, check_sizes
from engram.state import Field

LAYERS = 3


class MNMState(NamedTuple):
    """LSTM output and cell ``(B, H)``, what was read ``(B, M)``, the sum of the errors so far ``(B, 1)``, and what was
    written: inputs and changes of the three layers at every step, ``(B, 3, T + 1, M)`` each."""

    h: Any
    c: Any
    read: Any
    error: Any
    inputs: Any
    changes: Any


class MNMCell(ControllerCell):
    """One step of :class:`MNM`; what comes in is a code, and which of the T + 1 steps this is (1 there, else 0).

    The memory's matrices W_l = initial_l - sum_s change_s input_s^T are not stored. A product with one is the product
    with the initial matrix, which all rows share, and takes O(M T) more operations.

    Parameters besides the LSTM's, all with biases: weight_heads ``(4M, H)``, weight_rate ``(1, M)``, weight_targets
    ``(3M, M)``. Buffer: initial ``(3, M, M)``, random, not trained.
    """

    equation = (
        "h, c = LSTM([z; read]), k, v, q = tanh(W h), W_l -= rate (W_l a_{l-1} - target_l(v)) a_{l-1}^T, read = net(q)"
    )
    initial: Tensor

    def __init__(self, input_size: int, hidden_size: int, steps: int, memory_size: int) -> None:
        self.steps, self.size = steps, memory_size
        super().__init__(input_size + steps, hidden_size)
        law, of_memory = Uniform(), Uniform(1 / math.sqrt(memory_size))
        self.declare_controller(input_size + memory_size, law, law)
        self.declare_layer("heads", 4 * memory_size, hidden_size, law, law)
        self.declare_layer("rate", 1, memory_size, of_memory, of_memory)
        self.declare_layer("targets", LAYERS * memory_size, memory_size, of_memory, of_memory)
        initial = torch.empty(LAYERS, memory_size, memory_size)
        self.register_buffer("initial", initial.uniform_(-1 / math.sqrt(memory_size), 1 / math.sqrt(memory_size)))

    def fields(self) -> Any:
        hidden, written = Field(self.hidden_size), Field(LAYERS, self.steps, self.size)
        return MNMState(hidden, hidden, Field(self.size), Field(1), written, written)

    def drive(self, input: Tensor) -> Any:
        code, slot = input[..., : -self.steps], input[..., -self.steps :]
        return code @ self.weight_ih[:, : -self.size].mT + self.bias_ih + self.bias_hh, slot

    def step(self, drive: Any, state: MNMState) -> MNMState:
        sensed, slot = drive
        h, c = self.controlled(sensed + state.read @ self.weight_ih[:, -self.size :].mT, state.h, state.c)
        rated, key, value, query = torch.tanh(self.layer("heads", h)).chunk(4, -1)
        rate = torch.sigmoid(self.layer("rate", rated))
        found = self.remembered(key, state.inputs, state.changes)
        targets = self.layer("targets", value).chunk(LAYERS, -1)
        inputs = torch.stack([rate * each for each in (key, *found[:-1])], 1)
        changes = torch.stack([2 / self.size * (a - b) for a, b in zip(found, targets, strict=True)], 1)
        at = slot[:, None, :, None] > 0
        inputs = torch.where(at, inputs[:, :, None], state.inputs)
        changes = torch.where(at, changes[:, :, None], state.changes)
        missed = self.remembered(key, inputs, changes)[-1] - value
        error = state.error + missed.square().mean(-1, keepdim=True)
        return MNMState(h, c, self.remembered(query, inputs, changes)[-1], error, inputs, changes)

    def remembered(self, key: Tensor, inputs: Tensor, changes: Tensor) -> list[Tensor]:
        """What each layer of the memory makes of a key, ``(B, M)`` each; the last is what it remembers."""
        found = []
        for layer in range(LAYERS):
            overlap = (inputs[:, layer] * key[:, None]).sum(-1)
            key = key @ self.initial[layer].mT - (overlap[:, :, None] * changes[:, layer]).sum(1)
            key = torch.tanh(key) if layer < LAYERS - 1 else key
            found.append(key)
        return found


class MNM(nn.Module):
    r"""The metalearned neural memory (MNM), the variant that learns its own targets.

    The memory of a sequence is a network of three layers without biases, :math:`a_0 = k`, :math:`a_1 = \tanh(W_1 a_0)`,
    :math:`a_2 = \tanh(W_2 a_1)`, :math:`a_3 = W_3 a_2`, which starts random and is not trained by the optimiser. For
    t = 1, ..., T + 1, with :math:`z_{T+1} = 0`:

    .. math::
        h_t = \mathrm{LSTM}([z_t; r_{t-1}]), \quad b, k, v, q = \tanh(W_h h_t + b_h), \quad
        \beta = \sigma(w_\beta^\top b + b_\beta), \\
        W_l \leftarrow W_l - \frac{2}{M} (a_l - \tau_l(v)) (\beta a_{l-1})^\top, \quad r_t = a_3(q), \quad
        y = W_y (W_o [h_{T+1}; r_{T+1}] + b_o) + b_y

    where the targets tau are linear in v and the a_l of the write are those of k before it. The loss has
    :math:`\frac{1}{T} \sum_t \mathrm{mean} (a_3(k_t) - v_t)^2` of the memory after each write (:meth:`penalty`).
    Source: Munkhdalai et al. 2019; sizes and initial distributions, the program of Webb et al. 2021 without its two
    layers that are never used (33,920 parameters).

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        steps: T, the objects of a sequence.
        hidden_size: H, the units of the LSTM. Default: 128.
        memory_size: M, the width of the memory. Default: 128.

    Inputs: codes ``(T, B, F)``. Outputs: ``(B, C)``.
    """

    equation = MNMCell.equation
    source = "Munkhdalai et al. 2019 (MNM); Webb et al. 2021"
    count = "4N (N + D + M + 2) + 4M (N + 1) + 3M (M + 1) + M + 1 + N (N + M + 1) + C (N + 1), M = 128"
    step_cost = "O(N^2 + M N + 9 M (M + T))"
    penalty_depends_on_call = True
    """The penalty depends on the last call: where several runs train as one, it is taken within that call."""

    def __init__(
        self, input_size: int, output_size: int, steps: int, hidden_size: int = 128, *, memory_size: int = 128
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, output_size=output_size, steps=steps, memory_size=memory_size)
        self.input_size, self.steps = input_size, steps
        self.cell = MNMCell(input_size, hidden_size, steps + 1, memory_size)
        self.merge = nn.Linear(hidden_size + memory_size, hidden_size)
        self.answer = nn.Linear(hidden_size, output_size)
        self._error: Tensor | None = None

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes, self.steps)
        batch = codes.shape[1]
        slots = torch.eye(self.steps + 1, dtype=codes.dtype, device=codes.device)[:, None].expand(-1, batch, -1)
        inputs = torch.cat([F.pad(codes, (0, 0, 0, 0, 0, 1)), slots], -1)
        _, state = self.cell.run(inputs, self.cell.initial_state(batch), None, False)
        self._error = state.error.mean() / self.steps if self.training else None
        answers: Tensor = self.answer(self.merge(torch.cat([state.h, state.read], -1)))
        return answers

    def penalty(self) -> Tensor:
        """How badly the memory held what was written, in the last call in training; 0 if there was none."""
        error, self._error = self._error, None  # nothing of a step outlives it
        return self.answer.bias.new_zeros(()) if error is None else error

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_error": None}  # a tensor with a history cannot be copied

    def extra_repr(self) -> str:
        return f"{self.input_size}, steps={self.steps}"

"""The emergent symbol binding network: keys that a controller writes, retrieved by the similarity of what is seen."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from engram.errors import check_choice, check_flag
from engram.nn import BareCell
from engram.relational._controller import ControllerCell, KaimingNormal, XavierNormal
from engram.relational._decoder import linear_layer
from engram.relational._sequence import check_sequence, check_sizes
from engram.state import Field


class ESBNState(NamedTuple):
    """LSTM output and cell ``(B, H)``, what was read last ``(B, K + 1)``, the keys written so far ``(B, T, K)``."""

    h: Any
    c: Any
    read: Any
    keys: Any


class ESBNCell(ControllerCell):
    """One step of :class:`ESBN`.

    Its input are 2T + 1 numbers: the weights of the T slots, the confidence, and which slot is written (1 there, else
    0); with ``sensory`` the F numbers of the code follow.

    Parameters besides the LSTM's: weight_key ``(K, H)``, weight_gate ``(1, H)``, and their biases.
    """

    equation = "h, c = LSTM(read), key_t = relu(W_k h), read = sigmoid(w_g h) sum_j softmax_j(z_t . z_j) [key_j; c_j]"

    def __init__(self, steps: int, hidden_size: int, key_size: int, sensory_size: int) -> None:
        self.steps, self.key_size, self.sensory_size = steps, key_size, sensory_size
        super().__init__(2 * steps + 1 + sensory_size, hidden_size)
        self.declare_controller(key_size + 1 + sensory_size)
        self.declare_layer("key", key_size, hidden_size, KaimingNormal())
        self.declare_layer("gate", 1, hidden_size, XavierNormal())

    run = BareCell.run  # in C: most of its time are products with few rows, whose gradients C takes together

    def fields(self) -> Any:
        hidden = Field(self.hidden_size)
        return ESBNState(hidden, hidden, Field(self.key_size + 1), Field(self.steps, self.key_size))

    def drive(self, input: Tensor) -> Any:
        weights, confidence, slot = input[..., : 2 * self.steps + 1].split([self.steps, 1, self.steps], -1)
        if not self.sensory_size:
            return weights, confidence, slot
        return weights, confidence, slot, input[..., 2 * self.steps + 1 :] @ self.weight_ih[:, self.key_size + 1 :].mT

    def step(self, drive: Any, state: ESBNState) -> ESBNState:
        weights, confidence, slot, *sensed = drive
        inputs = state.read @ self.weight_ih[:, : self.key_size + 1].mT + (self.bias_ih + self.bias_hh)
        h, c = self.controlled(sensed[0] + inputs if sensed else inputs, state.h, state.c)
        found = (weights[:, :, None] * state.keys).sum(1)
        read = torch.sigmoid(self.layer("gate", h)) * torch.cat([found, confidence], -1)
        key = torch.relu(self.layer("key", h))
        keys = torch.where(slot[:, :, None] > 0, key[:, None], state.keys)
        return ESBNState(h, c, read, keys)


class ESBN(nn.Module):
    r"""ESBN: codes decide where to look, keys are what is seen there.

    For t = 1, ..., T + 1, with :math:`r_0 = 0` and :math:`z_{T+1} = 0`:

    .. math::
        h_t, c_t = \mathrm{LSTM}(r_{t-1}), \quad k_t = \mathrm{relu}(W_k h_t + b_k), \quad
        g_t = \sigma(w_g^\top h_t + b_g), \\
        u_{tj} = z_t^\top z_j, \quad
        r_t = g_t \sum_{j < t} \mathrm{softmax}_j(u_{tj}) \, [k_j; \sigma(a u_{tj} + b)], \quad
        y = W_y h_{T+1} + b_y

    The sum over nothing, at t = 1, is 0. The last step lets the LSTM see what was read at the end. The LSTM never sees
    a code. Weights and confidences depend on the codes alone, so that they are computed before the loop; what is left
    is a recurrence of :mod:`engram.loops`. Source: Webb et al. 2021, and their program; asymmetric and sensory
    variants, Kerg (2022), Section 5.6.

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        steps: T, the objects of a sequence.
        hidden_size: H, the units of the LSTM. Default: 512.
        key_size: K, the features of a key. Default: 256.
        similarity: ``symmetric``, or ``asymmetric``: u = (W_1 z_t) . (W_2 z_j). Default: ``symmetric``.
        sensory: the LSTM sees the code too, [r_{t-1}; z_t]. Default: False.

    Inputs: codes ``(T, B, F)``. Outputs: ``(B, C)``.
    """

    equation = ESBNCell.equation
    source = "Webb et al. 2021 (ESBN)"
    count = "4N (N + K + 3) + K (N + 1) + N + 3 + C (N + 1), K = 256"
    step_cost = "O(N^2 + K N + T D)"

    def __init__(
        self,
        input_size: int,
        output_size: int,
        steps: int,
        hidden_size: int = 512,
        *,
        key_size: int = 256,
        similarity: Literal["symmetric", "asymmetric"] = "symmetric",
        sensory: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, output_size=output_size, steps=steps, key_size=key_size)
        self.input_size, self.steps = input_size, steps
        self.kind, self.sensory = check_choice("similarity", similarity, ("symmetric", "asymmetric")), sensory
        sensed = input_size if check_flag("sensory", sensory) else 0
        self.cell = ESBNCell(steps, hidden_size, key_size, sensed)
        self.confidence_gain, self.confidence_bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
        if similarity == "asymmetric":
            self.first = linear_layer(input_size, input_size, bias=False)
            self.second = linear_layer(input_size, input_size, bias=False)
        self.answer = linear_layer(hidden_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes, self.steps)
        outputs, _ = self.cell.run(self.lookups(codes), self.cell.initial_state(codes.shape[1]), None, False)
        answers: Tensor = self.answer(outputs[-1])
        return answers

    def lookups(self, codes: Tensor) -> Tensor:
        """The inputs of the cell at its T + 1 steps, ``(T + 1, B, 2T + 1)``, or F more with ``sensory``."""
        rows = codes.transpose(0, 1)
        stored = rows if self.kind == "symmetric" else self.second(rows)
        asked = rows if self.kind == "symmetric" else self.first(rows)
        past = torch.ones(self.steps, self.steps, dtype=torch.bool, device=codes.device).tril(-1)
        scores = (asked @ stored.mT)[:, 1:]  # the first step has nothing to look at
        weights = scores.masked_fill(~past[1:], -torch.inf).softmax(-1)
        confidences = torch.sigmoid(scores * self.confidence_gain + self.confidence_bias)
        confidence = (weights * confidences).sum(-1, keepdim=True)
        slots = torch.eye(self.steps, dtype=codes.dtype, device=codes.device).expand(len(rows), -1, -1)
        seen = [torch.nn.functional.pad(torch.cat([weights, confidence], -1), (0, 0, 1, 0)), slots]
        if self.sensory:
            seen.append(rows)
        return torch.nn.functional.pad(torch.cat(seen, -1), (0, 0, 0, 1)).transpose(0, 1)  # z_(T+1) = 0 reads nothing

    def extra_repr(self) -> str:
        return f"{self.input_size}, steps={self.steps}, similarity={self.kind!r}, sensory={self.sensory}"

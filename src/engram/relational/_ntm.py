"""The neural Turing machine, with one head that reads and one that writes."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.nn import BareCell
from engram.relational._controller import ControllerCell
from engram.relational._decoder import linear_layer
from engram.relational._sequence import check_sequence, check_sizes
from engram.state import Field

EPSILON = 1e-8


class NTMState(NamedTuple):
    """LSTM output and cell ``(B, H)``, what was read ``(B, M)``, the weights w of the slots of the two heads
    ``(B, 2, S)``, first the one that reads, and the memory ``(B, S, M)``."""

    h: Any
    c: Any
    read: Any
    addresses: Any
    memory: Any


class NTMCell(ControllerCell):
    """One step of :class:`NTM`.

    Its input are F + 2 numbers: a code, and for the head that reads and the head that writes a 1 as long as it has no
    weights from a step before (else 0).

    Parameters besides the LSTM's, with biases: weight_heads ``(4M, H)``, rows key to read, key to write, erase, add;
    weight_shape ``(12, H)``, six rows for each head: strength, gate, sharpening, three shifts.
    """

    equation = (
        "h, c = LSTM([z; read]), w = sharpen(shift(g softmax(b cos(k, M)) + (1 - g) w)), read = w M, "
        "M' = M (1 - w e) + w a"
    )
    run = BareCell.run  # in C: most of its time are products with few rows, whose gradients C takes together

    def __init__(self, input_size: int, hidden_size: int, slots: int, slot_size: int) -> None:
        self.slots, self.slot_size = slots, slot_size
        super().__init__(input_size + 2, hidden_size)
        self.declare_controller(input_size + slot_size)
        self.declare_layer("heads", 4 * slot_size, hidden_size, HeadRows())
        self.declare_layer("shape", 12, hidden_size, ShapeRows())

    def fields(self) -> Any:
        hidden, addresses = Field(self.hidden_size), Field(2, self.slots)
        return NTMState(hidden, hidden, Field(self.slot_size), addresses, Field(self.slots, self.slot_size))

    def drive(self, input: Tensor) -> Any:
        sensed = input[..., :-2] @ self.weight_ih[:, : -self.slot_size].mT + self.bias_ih + self.bias_hh
        return sensed, input[..., -2:]

    def step(self, drive: Any, state: NTMState) -> NTMState:
        sensed, fresh = drive
        h, c = self.controlled(sensed + state.read @ self.weight_ih[:, -self.slot_size :].mT, state.h, state.c)
        heads = self.layer("heads", h).unflatten(-1, (4, -1))
        addresses = self.addressed(torch.tanh(heads[:, :2]), self.layer("shape", h), state, fresh[:, :, None])
        read = (addresses[:, 0, :, None] * state.memory).sum(1) * (1 - fresh[:, 1:])  # the first step reads nothing
        at, erase, add = addresses[:, 1, :, None], torch.sigmoid(heads[:, 2]), torch.tanh(heads[:, 3])
        memory = state.memory * (1 - at * erase[:, None]) + at * add[:, None]
        return NTMState(h, c, read, addresses, memory)

    def addressed(self, keys: Tensor, shape: Tensor, state: NTMState, fresh: Tensor) -> Tensor:
        """The new weights of the slots, ``(B, 2, S)``, from keys ``(B, 2, M)`` and the 12 numbers of ``shape``."""
        strength, gate, sharpening, shifts = shape.unflatten(-1, (2, 6)).split([1, 1, 1, 3], -1)
        likeness = cosines(keys, state.memory)
        gate = fresh + (1 - fresh) * torch.sigmoid(gate)
        mixed = gate * (F.softplus(strength) * likeness).softmax(-1) + (1 - gate) * state.addresses
        back, stay, ahead = shifts.softmax(-1).split(1, -1)
        left = torch.cat([mixed[..., 1:], mixed[..., :1]], -1)
        right = torch.cat([mixed[..., -1:], mixed[..., :-1]], -1)
        shifted = back * left + stay * mixed + ahead * right
        shifted = shifted.clamp_min(torch.finfo(shifted.dtype).tiny)  # of 0, log has no gradient
        return ((F.softplus(sharpening) + 1) * shifted.log()).softmax(-1)  # w^s / sum w^s


def cosines(keys: Tensor, memory: Tensor) -> Tensor:
    """cos(key, slot) of keys ``(B, K, M)`` and slots ``(B, S, M)``: ``(B, K, S)``; 0 with gradient 0 where one is 0.

    Keys are 0 where all that came in is 0, as two equal objects are after context normalisation; a root there would
    have an infinite gradient, and a quotient by a small number one that Adam does not forget for thousands of steps.
    """
    squares = keys.square().sum(-1)[..., None] * memory.square().sum(-1)[:, None]
    known = squares > EPSILON**2
    return torch.where(known, keys @ memory.mT / torch.where(known, squares, 1.0).sqrt(), 0.0)


class HeadRows:
    """Blocks of M rows: two keys and what is added Xavier normal with gain 5/3, since a tanh follows; erase without."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        for block, gain in zip(weight.chunk(4), (5 / 3, 5 / 3, 1.0, 5 / 3), strict=True):
            nn.init.xavier_normal_(block, gain)


class ShapeRows:
    """Strength and sharpening Kaiming normal, the gate Xavier normal, the three shifts Xavier normal together."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        for block in weight.chunk(2):
            nn.init.kaiming_normal_(block[0:1], nonlinearity="relu")
            nn.init.xavier_normal_(block[1:2])
            nn.init.kaiming_normal_(block[2:3], nonlinearity="relu")
            nn.init.xavier_normal_(block[3:6])


class NTM(nn.Module):
    r"""The neural Turing machine (NTM): an LSTM that reads and writes a memory of S slots.

    For t = 1, ..., T + 1, with :math:`z_{T+1} = 0`, and per head with its own weights:

    .. math::
        h_t = \mathrm{LSTM}([z_t; r_{t-1}]), \quad
        a = \mathrm{softmax}_s\big(\mathrm{softplus}(\beta) \cos(\tanh(W_k h_t), M_s)\big), \\
        a \leftarrow \sigma(g) a + (1 - \sigma(g)) w_{t-1}, \quad
        a_s \leftarrow p_{-1} a_{s+1} + p_0 a_s + p_1 a_{s-1}, \quad
        w_{t, s} = a_s^\gamma / \textstyle\sum_s a_s^\gamma, \\
        r_t = \textstyle\sum_s w^{read}_{t,s} M_s, \quad
        M_s \leftarrow M_s \odot (1 - w^{write}_{t,s} e) + w^{write}_{t,s} v, \quad y = W_y h_{T+1} + b_y

    where beta, g, gamma - 1 (softplus) and the logits of the shifts p (softmax) are linear in :math:`h_t`, e is a
    sigmoid and v a tanh of such; slots are on a circle. Nothing is read at the first step, and a head that has not
    looked before takes a without the old weights. The initial memory is learned. Source: Graves et al. 2014; sizes and
    initial distributions, the program of Webb et al. 2021.

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        hidden_size: H, the units of the LSTM. Default: 512.
        slots: S. Default: 10.
        slot_size: M, the features of a slot. Default: 256.

    Inputs: codes ``(T, B, F)``, any T. Outputs: ``(B, C)``.
    """

    equation = NTMCell.equation
    source = "Graves et al. 2014 (NTM); Webb et al. 2021"
    count = "4N (N + D + M + 2) + 4M (N + 1) + 12 (N + 1) + S M + C (N + 1), S = 10, M = 256"
    step_cost = "O(N^2 + M N + S M)"

    def __init__(
        self, input_size: int, output_size: int, hidden_size: int = 512, *, slots: int = 10, slot_size: int = 256
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, output_size=output_size, slots=slots, slot_size=slot_size)
        self.input_size = input_size
        self.cell = NTMCell(input_size, hidden_size, slots, slot_size)
        self.memory = nn.Parameter(torch.empty(slots, slot_size))
        nn.init.xavier_normal_(self.memory)
        self.answer = linear_layer(hidden_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes)
        steps, batch, _ = codes.shape
        number = torch.arange(steps + 1, device=codes.device)
        fresh = torch.stack([number < 2, number < 1], -1).to(codes.dtype)[:, None].expand(-1, batch, -1)
        inputs = torch.cat([F.pad(codes, (0, 0, 0, 0, 0, 1)), fresh], -1)
        start = self.cell.initial_state(batch)._replace(memory=self.memory.expand(batch, -1, -1))
        outputs, _ = self.cell.run(inputs, start, None, False)
        answers: Tensor = self.answer(outputs[-1])
        return answers

    def extra_repr(self) -> str:
        return f"{self.input_size}"

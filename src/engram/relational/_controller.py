"""The LSTM that drives a memory, as one step within a larger one."""

from abc import ABC
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engram.loops import scan
from engram.nn import BareCell
from engram.nn.laws import Constant
from engram.state import State


@dataclass(frozen=True)
class XavierNormal:
    """N(0, 2 gain^2 / (a + b)) of a matrix (a, b), as torch.nn.init.xavier_normal_."""

    gain: float = 1.0

    def __call__(self, weight: Tensor, cell: Any) -> None:
        nn.init.xavier_normal_(weight, self.gain)


@dataclass(frozen=True)
class KaimingNormal:
    """N(0, 2 / b) of a matrix (a, b), which a ReLU or softplus follows, as torch.nn.init.kaiming_normal_."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        nn.init.kaiming_normal_(weight, nonlinearity="relu")


@dataclass(frozen=True)
class GateBlocks:
    """Blocks i, f, g, o of H rows: i and f together and o alone are Xavier normal, g too with gain 5/3."""

    def __call__(self, weight: Tensor, cell: Any) -> None:
        size = cell.hidden_size
        nn.init.xavier_normal_(weight[: 2 * size])
        nn.init.xavier_normal_(weight[2 * size : 3 * size], 5 / 3)
        nn.init.xavier_normal_(weight[3 * size :])


class ControllerCell(BareCell, ABC):
    """A recurrence around an LSTM whose input is ``controlled_size`` numbers; weights as in ``torch.nn.LSTM``.

    Parameters: weight_ih ``(4H, controlled_size)``, weight_hh ``(4H, H)`` in blocks i, f, g, o; bias_ih, bias_hh
    ``(4H)``, 0 at the start. Initial distributions: the program of Webb et al. 2021, or ``law``.
    """

    own_run = "the plain Python loop, for a few steps of a large memory gain nothing as generated C"

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    def declare_controller(self, controlled_size: int, law: Any = None, bias_law: Any = None) -> None:
        """Add the weights of the LSTM."""
        rows = 4 * self.hidden_size
        self.declare("weight_ih", rows, controlled_size, law=law or GateBlocks())
        self.declare("weight_hh", rows, self.hidden_size, law=law or GateBlocks())
        self.declare("bias_ih", rows, law=bias_law or Constant(0.0))
        self.declare("bias_hh", rows, law=bias_law or Constant(0.0))

    def declare_layer(self, name: str, outputs: int, inputs: int, law: Any, bias_law: Any = None) -> None:
        """Add ``weight_NAME`` and ``bias_NAME`` of a linear layer, by default without an initial bias."""
        self.declare(f"weight_{name}", outputs, inputs, law=law)
        self.declare(f"bias_{name}", outputs, law=bias_law or Constant(0.0))

    def controlled(self, inputs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The next h and c of the LSTM, given W_ih x of a row."""
        i, f, g, o = (inputs + h @ self.weight_hh.mT).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def run(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        """The plain loop: a few steps of a large memory gain nothing as generated C, which takes long to compile."""
        return scan(self.step, self.drive(input), state, sizes, reverse, self.output)

    def layer(self, name: str, inputs: Tensor) -> Tensor:
        """A linear layer that was declared by this name."""
        found: Tensor = inputs @ getattr(self, f"weight_{name}").mT + getattr(self, f"bias_{name}")
        return found

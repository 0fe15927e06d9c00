"""The minimal GRU and LSTM: gates that do not see the state, so that all steps can run side by side."""

from abc import abstractmethod
from typing import Any, ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import check_flag
from engram.nn._bare_cell import BareCell
from engram.nn._decay_scan import decay_scan
from engram.nn._gates import check_real
from engram.nn._options import CellOptions
from engram.nn._recurrent import Recurrent
from engram.nn.laws import Uniform


class MinimalCell(BareCell):
    """h_t = a_t h_{t-1} + b_t, where a and b come from the input alone.

    Parameters: weight_ih ``(G*H, D)``, bias ``(G*H)``, both U(-1/sqrt(D), 1/sqrt(D)) at the start, as torch.nn.Linear.
    """

    gates: ClassVar[int]
    step_cost = "O(N D)"

    weight_ih: Tensor
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        positive: bool = False,
        parallel: bool | None = None,
        **options: Any,
    ) -> None:
        check_real(type(self).__name__, options.get("dtype"))
        super().__init__(input_size, hidden_size, **options)
        self.positive = check_flag("positive", positive)
        self.parallel = parallel if parallel is None else check_flag("parallel", parallel)
        law = Uniform(self.input_size**-0.5)
        self.declare("weight_ih", self.gates * hidden_size, input_size, law=law)
        if bias:
            self.declare("bias", self.gates * hidden_size, law=law)
        else:
            self.register_parameter("bias", None)

    @abstractmethod
    def mixed(self, *blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is kept of the state, what is taken of the candidate, and the candidate, of the G blocks."""

    def drive(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """a and b of all steps."""
        blocks = F.linear(input, self.weight_ih, self.bias).chunk(self.gates, -1)
        keep, take, candidate = self.mixed(*blocks)
        if self.positive:
            candidate = torch.where(candidate >= 0, candidate + 0.5, torch.sigmoid(candidate))
        return keep, take * candidate

    def step(self, drive: tuple[Tensor, Tensor], state: Tensor) -> Tensor:
        keep, added = drive
        return keep * state + added

    def run(self, input: Tensor, state: Tensor, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        """Step by step, or in blocks of time side by side; the same numbers.

        How many blocks there are depends on the length: torch.compile and torch.export, which are to follow the layer
        once for all lengths, are given the loop.
        """
        if torch.compiler.is_compiling() or not self._in_blocks(len(input) if sizes is None else len(sizes), state):
            return super().run(input, state, sizes, reverse)
        return decay_scan(*self.drive(input), state, sizes, reverse)

    def _in_blocks(self, steps: int, state: Tensor) -> bool:
        return blocks_are_faster(steps, state) if self.parallel is None else self.parallel

    def extra_repr(self) -> str:
        return super().extra_repr() + (", positive=True" if self.positive else "")


def blocks_are_faster(steps: int, state: Tensor) -> bool:
    """Whether blocks are faster than a loop over the steps: for at least 32 steps, few rows and few units.

    Measured forward and backward on one thread, time of blocks over time of the loop: at B*H = 16, 256 and 1024 it was
    0.68, 0.76, 0.87 for T = 32, and 0.10, 0.32, 0.90 for T = 1024; at B*H = 4096 1.1 to 2.8, and more above. At T = 8
    and 16 the two are about equal.
    """
    return steps >= 32 and state.numel() <= 1024


class MinGRUCell(MinimalCell):
    """One layer of :class:`MinGRU`: one gate, which depends on the input alone.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        positive (bool): make the candidate positive. Default: False.
        parallel (bool or None): True computes in blocks of time side by side, False step by step. Default: None,
            whichever was faster when measured at the size of the input.
        options: ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters: weight_ih ``(2H, D)`` and bias ``(2H)``, blocks z, h.
    """

    equation = "z_t = sigmoid(W_z x_t + b_z), h_t = (1 - z_t) h_{t-1} + z_t (W_h x_t + b_h)"
    count = "2ND"
    gates = 2

    def mixed(self, *blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, candidate = blocks
        return torch.sigmoid(-z), torch.sigmoid(z), candidate


class MinLSTMCell(MinimalCell):
    """One layer of :class:`MinLSTM`: two gates, which depend on the input alone.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): learn an additive bias b. Default: True.
        positive (bool): make the candidate positive. Default: False.
        parallel (bool or None): True computes in blocks of time side by side, False step by step. Default: None,
            whichever was faster when measured at the size of the input.
        options: ``initial_state``, ``laws``, ``device`` and ``dtype``, as in :class:`BareCell`.

    Parameters: weight_ih ``(3H, D)`` and bias ``(3H)``, blocks f, i, h.
    """

    equation = (
        "f_t = sigmoid(W_f x_t + b_f), i_t = sigmoid(W_i x_t + b_i), "
        "h_t = (f_t h_{t-1} + i_t (W_h x_t + b_h)) / (f_t + i_t)"
    )
    count = "3ND"
    gates = 3

    def mixed(self, *blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f / (f + i) = sigmoid(log f - log i), which does not divide by a sum of two tiny gates."""
        f, i, candidate = blocks
        apart = F.logsigmoid(f) - F.logsigmoid(i)
        return torch.sigmoid(apart), torch.sigmoid(-apart), candidate


class MinGRU(Recurrent):
    r"""The minimal GRU: one gate, which does not see the state.

    .. math::
        z_t = \sigma(W_z x_t + b_z), \quad \tilde h_t = W_h x_t + b_h, \quad
        h_t = (1 - z_t) \odot h_{t-1} + z_t \odot \tilde h_t

    where z is the update gate and :math:`\tilde h` the candidate. With ``positive`` the candidate is
    :math:`g(W_h x_t + b_h)`, g(u) = u + 1/2 for :math:`u \ge 0` and :math:`\sigma(u)` below, as in the source's
    log-space form. All steps can be computed side by side; both ways give the same numbers.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        positive (bool): make the candidate positive. Default: False.
        parallel (bool or None): True computes in blocks of time side by side, False step by step. Default: None,
            whichever was faster when measured at the size of the input.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, a parameter. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched), of any sign. Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state of the last step.

    Attributes:
        weight_ih_l[k]: ``(2H, D)``, W_z above W_h; bias_l[k]: ``(2H)``. Both start in U(-1/sqrt(D), 1/sqrt(D)).

    Source: Feng et al. 2024; ``positive``, their log-space form.

    Example::

        >>> output, h = MinGRU(10, 20)(torch.randn(5, 3, 10))
        >>> output.shape, h.shape
        (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]))
    """

    cell = MinGRUCell
    source = "Feng et al. 2024 (minGRU)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        positive: bool = False,
        parallel: bool | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, positive=positive, parallel=parallel, **options)


class MinLSTM(Recurrent):
    r"""The minimal LSTM: two gates that do not see the state, scaled to a sum of 1.

    .. math::
        f_t = \sigma(W_f x_t + b_f), \quad i_t = \sigma(W_i x_t + b_i), \quad \tilde h_t = W_h x_t + b_h, \\
        h_t = \frac{f_t}{f_t + i_t} \odot h_{t-1} + \frac{i_t}{f_t + i_t} \odot \tilde h_t

    where f is the forget gate, i the input gate and :math:`\tilde h` the candidate. With ``positive`` the candidate is
    :math:`g(W_h x_t + b_h)`, g(u) = u + 1/2 for :math:`u \ge 0` and :math:`\sigma(u)` below, as in the source's
    log-space form. All steps can be computed side by side; both ways give the same numbers.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        positive (bool): make the candidate positive. Default: False.
        parallel (bool or None): True computes in blocks of time side by side, False step by step. Default: None,
            whichever was faster when measured at the size of the input.
        bias (bool): learn an additive bias b. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        initial_state (str): ``zero``, or ``trained``, a parameter. Default: ``zero``.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, h_0
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        h_0: ``(L*directions, B, H)`` (no B if unbatched), of any sign. Default: the initial state.

    Outputs: output, h_n
        output: ``(T, B, directions*H)``, in the form of the input; h_n: the state of the last step.

    Attributes:
        weight_ih_l[k]: ``(3H, D)``, W_f, W_i, W_h; bias_l[k]: ``(3H)``. Both start in U(-1/sqrt(D), 1/sqrt(D)).

    Source: Feng et al. 2024; ``positive``, their log-space form.

    Example::

        >>> output, h = MinLSTM(10, 20)(torch.randn(5, 3, 10))
        >>> output.shape, h.shape
        (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]))
    """

    cell = MinLSTMCell
    source = "Feng et al. 2024 (minLSTM)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        positive: bool = False,
        parallel: bool | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, positive=positive, parallel=parallel, **options)

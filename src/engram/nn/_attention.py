"""Layers with attention in the recurrence, and what their attention was, as data."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from engram import loops
from engram.errors import DTypeError
from engram.nn._attentive import AttentiveCell
from engram.nn._recurrent import Recurrent
from engram.state import State


class Attention(NamedTuple):
    """What a layer attended to, at each step and in each of its cells (C = L*directions); without a gradient.

    weights: ``(C, B, T, heads, K)`` of the K slots; of :class:`MemRNN` and :class:`MemLSTM` the slots are the steps,
        and the weights a lower triangle.
    ages: ``(C, B, T, K)``, how many steps ago the state in a slot was made, 0 for the present one; -1 for a slot that
        is empty, and for steps after the end of a packed row.

    The backward direction of a bidirectional layer counts its own steps: step 0 is the last input. An unbatched input
    gives no axis B.
    """

    weights: Tensor
    ages: Tensor

    def over_time(self) -> Tensor:
        """``(C, B, heads, T, T)``: row t has the weights of step t by the step that made a state.

        States that were there before the first of these steps are left out.
        """
        steps = self.ages.shape[-2]
        now = torch.arange(steps, device=self.ages.device)[:, None]
        made = now - self.ages
        seen = (self.ages >= 0) & (made >= 0)
        weights = self.weights.movedim(-2, -3)  # the heads before time
        empty = weights.new_zeros(*weights.shape[:-1], steps)
        places = torch.where(seen, made, 0).unsqueeze(-3).expand(weights.shape)
        return empty.scatter_add(-1, places, weights * seen.unsqueeze(-3))


class Attentive(Recurrent):
    """A stack of cells with attention in their recurrence: a :class:`Recurrent` that can show its attention.

    For a cell of your own::

        class LeakyRelCell(engram.nn.RelCell, LeakyCell):
            equation = "as LeakyCell, with attention over nu + rho states"

        class LeakyRelRNN(engram.nn.Attentive):
            cell = LeakyRelCell

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        bias (bool): whether the cells have a bias. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.
        options: further arguments of the cell.
    """

    without = ("output",)  # of complex states, and attention is real

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not issubclass(cell := cls.cell, AttentiveCell):
            raise DTypeError(
                f"{cls.__name__} shows attention, and its cell {cell.__name__} has none: give it a memory, class "
                f"Attentive{cell.__name__}(engram.nn.RelCell, {cell.__name__})"
            )

    def forward(
        self, input: Tensor | PackedSequence, hx: State = None, *, return_attention: bool = False
    ) -> tuple[Any, ...]:
        """As any layer; with ``return_attention`` the third thing returned is the :class:`Attention`.

        The steps then run one by one in Python: for looking at a network, not for training it.
        """
        if not return_attention:
            return super().forward(input, hx)
        shown: list[Attention] = []
        self.__dict__["_shown"] = shown
        try:
            output, state = super().forward(input, hx)
        finally:
            del self.__dict__["_shown"]
        weights, ages = (torch.stack([a[k] for a in shown]) for k in range(2))
        back = input.unsorted_indices if isinstance(input, PackedSequence) else None
        if back is not None:
            weights, ages = weights.index_select(1, back), ages.index_select(1, back)
        if isinstance(input, Tensor) and input.dim() == 2:
            weights, ages = weights[:, 0], ages[:, 0]
        return output, state, Attention(weights, ages)

    def _run(
        self, cell: Any, data: Tensor, start: State, sizes: Tensor | None, reverse: bool, keep: bool
    ) -> tuple[Any, State]:
        shown = self.__dict__.get("_shown")
        if shown is None:
            return super()._run(cell, data, start, sizes, reverse, keep)
        output, final, attention = run_showing(cell.with_built_weights(), data, start, sizes, reverse)
        shown.append(attention)
        return output, final


def run_showing(
    cell: AttentiveCell, data: Tensor, start: State, sizes: Tensor | None, reverse: bool
) -> tuple[Tensor, State, Attention]:
    """The plain loop, with the attention of every step."""
    weights: list[Tensor] = []
    ages: list[Tensor] = []

    def step(drive: Any, state: State) -> State:
        new, found = cell.attentive_step(drive, state)
        weights.append(found.detach())
        ages.append(torch.where(new.made > 0, new.t[:, None] - new.made, -1))
        return new

    with loops.without_autocast(data):
        output, final = loops.scan(step, cell.drive(data), start, sizes, reverse, cell.output, cell.fields())
    rows, slots = len(start.t), ages[-1].shape[1]
    seen = Attention(
        torch.stack([_filled(w, rows, slots, 0.0) for w in weights], 1),
        torch.stack([_filled(a, rows, slots, -1) for a in ages], 1),
    )
    return output, final, seen


def _filled(found: Tensor, rows: int, slots: int, value: float) -> Tensor:
    """For rows that have ended, and slots of a memory that was still to grow."""
    whole = found.new_full((rows, *found.shape[1:-1], slots), value)
    whole[: len(found), ..., : found.shape[-1]] = found
    return whole

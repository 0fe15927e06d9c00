"""Depth, direction, dropout, packing, unbatched input and state passing, written once for every recurrence."""

import copy
import inspect
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import PackedSequence

from engram.errors import check_size, unknown
from engram.kernels import State, map_state, without_autocast
from engram.maps import Map, transformed
from engram.nn._cell import Cell
from engram.nn._inputs import Rows, check_dropout, check_dtype, check_finite, check_state, rows_of
from engram.nn._parametrized import bake, with_built_weights
from engram.nn._segments import run_in_segments

_TORCH_NAME = re.compile(r"(\w+)_l(\d+)(_reverse)?")


def _signature(kind: type) -> list[inspect.Parameter]:
    return list(inspect.signature(kind.__init__).parameters.values())  # type: ignore[misc]


def cell_options(cell: type[Cell]) -> set[str]:
    """The names of all keyword arguments that a cell takes, its base classes' included."""
    names: set[str] = set()
    for kind in cell.__mro__:
        if issubclass(kind, Cell) and "__init__" in vars(kind):
            names |= {p.name for p in _signature(kind) if p.kind is p.KEYWORD_ONLY}
    return names - {"bias", "device", "dtype"}


class Recurrent(nn.Module):
    """A stack of cells with the calling convention of ``torch.nn.LSTM``. Subclasses name their ``cell``.

    Args:
        input_size: D, the number of features of the input.
        hidden_size: H, the number of features of the state.
        num_layers: L, layers on top of each other.
        bias: whether the cells have one.
        batch_first: input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``. States are not affected.
        dropout: the chance to drop a unit between layers, while training.
        bidirectional: a second cell a layer reads backwards; outputs are concatenated.
        output_all_layers: return the outputs of every layer, a tuple of L, in place of the last layer's.
        return_sequence: False returns only the last step of the last layer, ``(B, directions*H)``, where each
            direction gives the step it ended with.
        checkpoint_every: k recomputes the states between every k-th step in the backward pass: T = 100,000 steps in
            the memory of k + T/k (with ``return_sequence=False``; a returned sequence needs its own memory). Inside
            torch.func transforms, which cannot recompute, it has no effect.
        check_finite: refuse NaN and infinity in the input (costs a pass over it).
        options: what the cell takes.

    Inputs: input, hx
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        hx: the state before the first step, ``(L*directions, B, H)`` (no B if unbatched), or a NamedTuple of such;
            default: the initial state of the layer, :meth:`initial_state`.

    Outputs: output, state
        output: ``(T, B, directions*H)``, in the form of the input.
        state: after the last step, in the form of the state given.

    Under autocast the layer computes in the dtype of its weights: a promise such as \\|W h\\| = \\|h\\| does not
    survive the 8 bits of bfloat16, a thousand times over.
    """

    cell: ClassVar[type[Cell]]
    matrix: ClassVar[type[Map] | None] = None
    """The map of the recurrent matrix, if the layer stands for one."""
    source: ClassVar[str] = ""
    cells: Any  # an nn.ModuleList: one cell a layer and direction, forward before backward

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        output_all_layers: bool = False,
        return_sequence: bool = True,
        checkpoint_every: int | None = None,
        check_finite: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        self.num_layers = check_size("num_layers", num_layers)
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.dropout = check_dropout(dropout)
        self.output_all_layers, self.return_sequence = output_all_layers, return_sequence
        self.checkpoint_every = None if checkpoint_every is None else check_size("checkpoint_every", checkpoint_every)
        self.check_finite = check_finite
        known = cell_options(self.cell)
        for name in options:
            if name not in known:
                common = {p.name for p in _signature(Recurrent) if p.kind is p.KEYWORD_ONLY}
                raise unknown(f"option of {type(self).__name__}", name, known | common)
        self.cells = nn.ModuleList()
        features = input_size
        for _ in range(num_layers):
            for _ in range(self.directions):
                self.cells.append(self.cell(features, hidden_size, bias=bias, device=device, dtype=dtype, **options))
            features = self.cells[-1].output_size * self.directions
        for cell in self.cells:
            self._begin(cell)

    def _begin(self, cell: Any) -> None:
        """The start of a cell's weights, where it is not the cell's own; for subclasses."""

    def reset_parameters(self) -> None:
        """Draw all weights anew, as at the start."""
        for cell in self.cells:
            cell.reset_parameters()
            self._begin(cell)

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def forward(self, input: Tensor | PackedSequence, hx: State = None) -> tuple[Any, State]:
        rows = rows_of(input, self.input_size, self.batch_first)
        data = check_dtype(rows.data, self.cells[0].like)  # before anything is computed
        if self.check_finite:
            check_finite(data)
        starts = self._starts(rows, hx, unbatched=isinstance(input, Tensor) and input.dim() == 2)
        with without_autocast(data):
            layers, finals = self._layers(data, starts, rows.sizes)

        state = map_state(lambda *s: rows.leave(torch.stack(s)), *finals)
        if self.output_all_layers:
            return tuple(map(rows.restore, layers)), state
        return rows.restore(layers[-1]) if self.return_sequence else rows.leave(layers[-1]), state

    def _layers(self, data: Tensor, starts: list[State], sizes: Tensor | None) -> tuple[list[Tensor], list[State]]:
        """The output of every layer (of the last one, only the last step if that is all that is asked for), and the
        last state of every cell."""
        layers: list[Tensor] = []
        finals: list[State] = []
        cells = list(self.cells)
        for layer in range(self.num_layers):
            if layer and self.dropout:
                data = data * F.dropout(torch.ones_like(data.real), self.dropout, self.training)  # a real mask
            data = check_dtype(data, cells[layer * self.directions].like)  # real output, complex weights
            keep = self.return_sequence or self.output_all_layers or layer < self.num_layers - 1
            outputs = []
            for k in range(layer * self.directions, (layer + 1) * self.directions):
                output, final = self._run(cells[k], data, starts[k], sizes, k % self.directions == 1, keep)
                outputs.append(output if keep else cells[k].output(final))
                finals.append(final)
            data = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
            layers.append(data)
        return layers, finals

    def initial_state(self, batch: int) -> State:
        """The state from which a batch of so many sequences starts; ``layer(x, hx=layer.initial_state(B))`` is
        ``layer(x)``.

        ``(L*directions, B, H)``, or a NamedTuple of such; ``(L*directions, B, H + H*N)`` for S4 and S4D.
        """
        check_size("batch", batch, least=0)
        return map_state(lambda *s: torch.stack(s), *(cell.initial_state(batch) for cell in self.cells))

    def _starts(self, rows: Rows, state: State, unbatched: bool) -> list[State]:
        """One state a cell: cut out of the one given, or the cells' own."""
        if state is None:
            return [cell.initial_state(rows.batch) for cell in self.cells]
        shape = (len(self.cells), *(() if unbatched else (rows.batch,)), self.cells[0].state_width)
        state = check_state(state, shape, self.cell.State, self.cells[0].like)
        state = map_state(rows.enter, state)
        return [map_state(lambda s: s[k], state) for k in range(len(self.cells))]  # noqa: B023 - called at once

    def _run(
        self, cell: Any, data: Tensor, start: State, sizes: Tensor | None, reverse: bool, keep: bool
    ) -> tuple[Any, State]:
        cell = with_built_weights(cell)
        if self.checkpoint_every is None or transformed():
            output, final = cell.run(data, start, sizes, reverse)
            return output, final
        return run_in_segments(cell, data, start, sizes, reverse, self.checkpoint_every, keep)

    def named_cells(self) -> Iterator[tuple[str, Any]]:
        """Every cell with the suffix that torch gives to its weights: ``_l0``, ``_l0_reverse``, ``_l1``, ..."""
        for k, cell in enumerate(self.cells):
            layer, back = divmod(k, self.directions)
            yield f"_l{layer}" + ("_reverse" if back else ""), cell

    def _weight(self, name: str) -> tuple[Any, str] | None:
        """The cell and its attribute that torch calls ``weight_hh_l1_reverse``."""
        match = _TORCH_NAME.fullmatch(name)
        if match and "cells" in self._modules:
            for suffix, cell in self.named_cells():
                weights = {*cell._parameters, *getattr(cell, "parametrizations", ())}
                if name == match[1] + suffix and match[1] in weights:
                    return cell, match[1]
        return None

    def __getattr__(self, name: str) -> Any:
        """``layer.weight_hh_l1_reverse`` reads the weight of a cell by the name it has in torch."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            found = self._weight(name)
            if found is None:
                raise
            return getattr(*found)

    def __setattr__(self, name: str, value: Any) -> None:
        """``layer.weight_hh_l0 = matrix`` sets the weight of that cell; under a map, moves it to that matrix."""
        found = self._weight(name)
        if found:
            setattr(*found, value)
        else:
            super().__setattr__(name, value)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights are never copied into one block. Here because programs for torch.nn call it."""

    def penalty(self) -> Tensor:
        """The sum of the cells' penalties, to be added to a training loss."""
        return torch.stack([cell.penalty() for cell in self.cells]).sum()

    def fold(self) -> Self:
        """A plain copy for inference: every matrix under a map is baked in, nothing is trained."""
        plain = copy.deepcopy(self)
        for module in plain.modules():
            if parametrize.is_parametrized(module):
                bake(module)
        return plain.eval().requires_grad_(False)

    def extra_repr(self) -> str:
        options = ("batch_first", "dropout", "bidirectional", "output_all_layers", "checkpoint_every", "check_finite")
        shown = [f"{name}={getattr(self, name)}" for name in options if getattr(self, name)]
        if not self.return_sequence:
            shown.append("return_sequence=False")
        return ", ".join([f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}", *shown])

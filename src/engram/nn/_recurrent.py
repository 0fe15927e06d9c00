"""Depth, direction, dropout, packing, unbatched input and state passing, written once for every recurrence."""

import copy
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import PackedSequence

from engram.errors import OptionError, check_flag, check_size, unknown
from engram.loops import without_autocast
from engram.maps import transformed
from engram.nn._inputs import Rows, check_dropout, check_dtype, check_finite, rows_of
from engram.nn._made import Made
from engram.nn._one_step import one_step
from engram.nn._parametrized import bake, with_built_weights
from engram.nn._segments import run_in_segments
from engram.nn.laws import Law
from engram.state import State, checked, each, stack, unstack

FIRST = ("weight_ih", "weight_hh", "bias")


class Recurrent(Made):
    """A stack of cells with the calling convention of ``torch.nn.LSTM``. Subclasses name their ``cell``.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        num_layers (int): L, the number of stacked layers. Default: 1.
        bias (bool): whether the cells have a bias. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        output_all_layers (bool): return the outputs of all layers, a tuple of L, in place of the last layer's.
            Default: False.
        return_sequence (bool): False returns only the last step of the last layer, ``(B, directions*H)``, where each
            direction gives the step it ended with. Default: True.
        checkpoint_every (int or None): keep every k-th state and compute the others again in the backward pass:
            T = 100,000 steps in the memory of k + T/k (with ``return_sequence=False``; a returned sequence needs its
            own memory). Inside torch.func transforms, which cannot recompute, it has no effect. Default: None.
        check_finite (bool): refuse NaN and infinity in the input, which costs a pass over it. Default: False.
        laws (dict or None): initial distributions by parameter name, in place of the layer's own: see
            :mod:`engram.nn.laws`. Default: None.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.
        options: further arguments of the cell.

    Inputs: input, hx
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        hx: the state before the first step, ``(L*directions, B, H)`` (no B if unbatched), or a NamedTuple of such.
            Default: the initial state of the layer, :meth:`initial_state`.

    Outputs: output, state
        output: ``(T, B, directions*H)``, in the form of the input.
        state: after the last step, in the form of the state given.

    Under autocast the layer computes in the dtype of its weights: in the 8 bits of bfloat16 an orthogonal matrix would
    not keep the length of a state over a thousand steps.
    """

    source: ClassVar[str] = ""
    laws: ClassVar[dict[str, Law]] = {}
    """Initial distributions of weights by name, in place of the cell's own."""
    proj_size: int = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
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
        self.bias, self.batch_first = check_flag("bias", bias), check_flag("batch_first", batch_first)
        self.bidirectional = check_flag("bidirectional", bidirectional)
        self.dropout = check_dropout(dropout)
        self.output_all_layers = check_flag("output_all_layers", output_all_layers)
        self.return_sequence = check_flag("return_sequence", return_sequence)
        self.checkpoint_every = None if checkpoint_every is None else check_size("checkpoint_every", checkpoint_every)
        self.check_finite = check_flag("check_finite", check_finite)
        self.check_names(options)
        given_laws = dict(options.get("laws") or {})
        options |= {"laws": {**self._laws(), **given_laws}, "device": device, "dtype": dtype}
        if "bias" in self.cell_parameters():
            options["bias"] = bias
        elif not bias:
            raise OptionError(f"{type(self).__name__} has no bias that could be left out, got bias={bias}")
        self.cells = nn.ModuleList()
        features = input_size
        for _ in range(num_layers):
            for _ in range(self.directions):
                self.cells.append(self.cell(features, hidden_size, **options))
            features = self.cells[-1].output_size * self.directions
        self._check_laws(given_laws)
        self._tie()

    def _check_laws(self, laws: dict[str, Law]) -> None:
        """Refuse laws of what is no parameter, or is sampled by its map."""
        cell = self.cells[0]
        for name in laws:
            if name not in cell.declared:
                raise unknown(f"parameter of {type(self).__name__} in laws", name, cell.declared)
            if parametrize.is_parametrized(cell, name):
                raise OptionError(
                    f"laws has one for {name}, which is sampled by its map: {cell.parametrizations[name][0]!r}"
                )

    def _laws(self) -> dict[str, Law]:
        """Hook for subclasses: the initial distributions of weights, by name."""
        return self.laws

    def reset_parameters(self) -> None:
        """Sample all weights again, from their initial distributions."""
        for cell in self.cells:
            cell.reset_parameters()

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def forward(self, input: Tensor | PackedSequence, hx: State = None) -> tuple[Any, State]:
        if not torch.is_grad_enabled() and (found := one_step(self, input, hx)) is not None:
            return found
        rows = rows_of(input, self.input_size, self.batch_first)
        data = check_dtype(rows.data, self.cells[0].reference_weight)  # before anything is computed
        if self.check_finite:
            check_finite(data)
        starts = self._starts(rows, hx, unbatched=isinstance(input, Tensor) and input.dim() == 2)
        with without_autocast(data):
            layers, finals = self._layers(data, starts, rows.sizes)

        state = each(rows.leave, stack(finals))
        if self.output_all_layers:
            return tuple(map(rows.restore, layers)), state
        return rows.restore(layers[-1]) if self.return_sequence else rows.leave_last(layers[-1]), state

    def _layers(self, data: Tensor, starts: list[State], sizes: Tensor | None) -> tuple[list[Tensor], list[State]]:
        """The output of every layer (of the last one, only the last step if that is all that is asked for), and the
        last state of every cell."""
        layers: list[Tensor] = []
        finals: list[State] = []
        cells = self._run_cells()
        for layer in range(self.num_layers):
            if layer and self.dropout:
                data = data * F.dropout(torch.ones_like(data.real), self.dropout, self.training)  # a real mask
            data = check_dtype(data, cells[layer * self.directions].reference_weight)  # real output, complex weights
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
        """The state from which a batch of this many sequences starts; ``layer(x, hx=layer.initial_state(B))`` is
        ``layer(x)``.

        ``(L*directions, B, H)``, or a NamedTuple of such.
        """
        check_size("batch", batch, least=0)
        return stack([cell.initial_state(batch) for cell in self.cells])

    def carry(self, state: State) -> State:
        """What of a state goes on into the next window of truncated training: see :meth:`BareCell.carry`."""
        return stack([cell.carry(part) for cell, part in zip(self.cells, unstack(state), strict=True)])

    def _starts(self, rows: Rows, state: State, unbatched: bool) -> list[State]:
        """One state per cell: cut out of the one given, or the cells' own."""
        if state is None:
            return [cell.initial_state(rows.batch) for cell in self.cells]
        first = self.cells[0]
        state = checked(
            state, first.known_fields, len(self.cells), None if unbatched else rows.batch, first.reference_weight
        )
        return unstack(each(rows.enter, state))

    def _run(
        self, cell: Any, data: Tensor, start: State, sizes: Tensor | None, reverse: bool, keep: bool
    ) -> tuple[Any, State]:
        cell = with_built_weights(cell)
        if self.checkpoint_every is None or transformed() or torch.compiler.is_exporting():
            output, final = cell.run(data, start, sizes, reverse)
            return output, final
        return run_in_segments(cell, data, start, sizes, reverse, self.checkpoint_every, keep)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each cell in torch's order, with one bias in place of two."""
        found = []
        for suffix, cell in self.named_cells():
            names = [n for n in FIRST if n in cell.declared] + [n for n in cell.declared if n not in FIRST]
            found.append([getattr(self, name + suffix) for name in names] or list(cell.parameters()))
        return found

    @property
    def nonlinearity(self) -> str:
        """torch's name of the activation."""
        return str(self.cells[0].activation)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights are never copied into one block. Here because programs for torch.nn call it."""

    def penalty(self) -> Tensor:
        """The sum of the cells' penalties, to be added to a training loss."""
        return torch.stack([cell.penalty() for cell in self.cells]).sum()

    def fold(self) -> Self:
        """A copy for inference without maps: every matrix under a map becomes a parameter, and nothing is trained."""
        folded = copy.deepcopy(self)
        for module in folded.modules():
            if parametrize.is_parametrized(module):
                bake(module)
        folded._tie()
        if "map" in type(self).__signature__.parameters:
            folded.made_with["map"] = "free"
        return folded.eval().requires_grad_(False)

    def extra_repr(self) -> str:
        options = ("batch_first", "dropout", "bidirectional", "output_all_layers", "checkpoint_every", "check_finite")
        shown = [f"{name}={getattr(self, name)}" for name in options if getattr(self, name)]
        if not self.return_sequence:
            shown.append("return_sequence=False")
        return ", ".join([f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}", *shown])

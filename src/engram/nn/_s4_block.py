"""The block around a state space system, and the layers made of such blocks: S4 and S4D."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import DTypeError, OptionError, check_choice
from engram.loops import chosen, exporting, scan, scan_steps
from engram.nn._bare_cell import BareCell
from engram.nn._convolved import convolved, convolved_operator
from engram.nn._inputs import Rows, check_dropout
from engram.nn._options import BlockOptions
from engram.nn._recurrent import Recurrent
from engram.nn._rows import TimeLine
from engram.nn._s4 import LowRankSpace
from engram.nn._s4d import DiagonalSpace
from engram.nn._state_space import DiscreteSystem, complex_of, wide
from engram.nn.laws import Law
from engram.state import Field, State

MODES = ("convolution", "recurrence")
NORMS: dict[str, Any] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": None}


class S4State(NamedTuple):
    """The last output ``(B, H)``, and the states of the systems ``(B, H, N/2, 2)``: real and imaginary part of N/2
    complex numbers, of each conjugate pair one."""

    output: Any
    memory: Any


class S4DCell(BareCell):
    """One block: norm, H systems, GELU, a linear map to 2H with GLU, and a residual connection around them all.

    Parts: encoder (a linear map from D to H, where they differ), norm, space (the weights of the systems), mix.
    """

    count = "H N + 2 N S"
    step_cost = "O(H N + H^2)"

    equation = "s_t = A s_{t-1} + B u_t, y_t = x_t + GLU(W GELU(2 Re(C s_t) + D u_t) + b), u = norm(x), A diagonal"
    space_type: ClassVar[type[DiagonalSpace] | type[LowRankSpace]] = DiagonalSpace
    default_discretization: ClassVar[str] = "zoh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        state_size: int = 64,
        n_ssm: int | None = None,
        init: str = "legs",
        discretization: str | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_transform: str = "exp",
        norm: str = "layer",
        prenorm: bool = True,
        block_dropout: float = 0.0,
        two_sided: bool = False,
        mode: str = "convolution",
        laws: Mapping[str, Law] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if (dtype or torch.get_default_dtype()).is_complex:
            raise DTypeError(f"an S4 block has real weights, got dtype={dtype}. Its complex states are kept as pairs")
        self.state_size = state_size
        super().__init__(input_size, hidden_size, laws=laws, device=device, dtype=dtype)
        self.prenorm, self.two_sided = prenorm, two_sided
        self.mode, self.norm_type = check_choice("mode", mode, MODES), check_choice("norm", norm, NORMS)
        self.block_dropout = check_dropout(block_dropout)
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.encoder = nn.Identity() if input_size == hidden_size else nn.Linear(input_size, hidden_size, bias, **kind)
        self.norm = None if norm == "none" else NORMS[norm](hidden_size, **kind)
        self.space = self.space_type(
            hidden_size,
            state_size,
            init=init,
            discretization=discretization or self.default_discretization,
            n_ssm=n_ssm,
            channels=2 if two_sided else 1,
            dt_min=dt_min,
            dt_max=dt_max,
            dt_transform=dt_transform,
            **kind,
        )
        self.mix = nn.Linear(hidden_size, 2 * hidden_size, bias, **kind)

    @property
    def reference_weight(self) -> Tensor:
        """A weight that has the dtype and the device of the cell."""
        return self.mix.weight

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        for part in (self.encoder, self.norm, self.space, self.mix):
            if part is not None and not isinstance(part, nn.Identity):
                part.reset_parameters()

    def fields(self) -> S4State:
        return S4State(Field(self.hidden_size), Field(self.hidden_size, self.state_size // 2, 2))

    def drive(self, input: Tensor) -> Tensor:
        return self.encoder(input)

    def step(self, drive: Tensor, state: S4State) -> S4State:
        if self.two_sided:
            raise OptionError("two_sided layers read ahead and cannot step: use mode='convolution', on whole sequences")
        system, input = self.space.discretize(), self._normed(drive, before=True)
        memory = system.step(wide(input), complex_of(state.memory))
        return _state(self._finish(drive, system.read(memory).to(input.dtype) + self.space.skip * input), memory)

    def run(self, input: Tensor, state: State, sizes: Tensor | None, reverse: bool) -> tuple[Tensor, S4State]:
        """All steps, by convolution; step by step with mode "recurrence" or under ``loops.use("plain")``.

        Only the systems look back in time: norm, GELU and GLU see all steps at once in both modes.
        """
        system, drive = self.space.discretize(), self.drive(input)
        line, normed = TimeLine(drive, sizes, reverse), self._normed(drive, before=True)
        if exporting():
            said, pairs = self._scanned(system, wide(normed), state, reverse)
            memory = complex_of(pairs)
        elif torch.compiler.is_compiling():
            before = None if state is None else complex_of(state.memory)
            said, memory = convolved_operator(system, wide(normed), before, reverse)
        elif not self.two_sided and (self.mode == "recurrence" or chosen() == "plain" or line.steps == 1):
            before = complex_of((self.initial_state(line.batch) if state is None else state).memory)
            said, memory = scan(system.step, wide(normed), before, sizes, reverse, system.read)
        else:
            before = None if state is None else complex_of(state.memory)
            said, memory = convolved(system, wide(normed), before, line)
        output = self._finish(drive, said.to(normed.dtype) + self.space.skip * normed)
        return output, _state(line.last(output), memory)

    def _scanned(self, system: DiscreteSystem, normed: Tensor, state: State, reverse: bool) -> tuple[Tensor, Tensor]:
        """What the systems say at all steps, and their last states as pairs: step by step, in real arithmetic."""
        step, read = system.in_pairs()
        start = (self.initial_state(normed.shape[1]) if state is None else state).memory.to(normed.dtype)
        said, memory = scan_steps(step, normed, start, reverse, lambda s: read(s, 0))
        if self.two_sided:  # the same from the other end: what is said of a step knows the steps after it only
            none = torch.zeros_like(normed[:1])
            after = torch.cat([none, normed[:-1]] if reverse else [normed[1:], none])
            said = said + scan_steps(step, after, torch.zeros_like(start), not reverse, lambda s: read(s, 1))[0]
        return said, memory

    def _normed(self, rows: Tensor, before: bool) -> Tensor:
        """The norm, where it stands before (or after) the systems."""
        if self.norm is None or before != self.prenorm:
            return rows
        return self.norm(rows.flatten(0, -2)).view(rows.shape)

    def _finish(self, drive: Tensor, said: Tensor) -> Tensor:
        """drop(GLU(W drop(GELU(drop(y))))) and the residual connection."""
        y = self._drop(F.gelu(self._drop(said)))
        return self._normed(drive + self._drop(F.glu(self.mix(y), -1)), before=False)

    def _drop(self, rows: Tensor) -> Tensor:
        return F.dropout(rows, self.block_dropout, self.training) if self.block_dropout else rows

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, norm={self.norm_type!r}, prenorm={self.prenorm}, mode={self.mode!r}"


def _state(output: Tensor, memory: Tensor) -> S4State:
    """(The gradient of view_as_real needs an even place in memory, so the parts are stacked.)"""
    return S4State(output, torch.stack([memory.real, memory.imag], -1).to(output.dtype))


class S4Cell(S4DCell):
    """The block of :class:`S4DCell` around systems that are diagonal plus low rank."""

    count = "H N + 3 N S"

    equation = (
        "s_t = A s_{t-1} + B u_t, y_t = x_t + GLU(W GELU(2 Re(C s_t) + D u_t) + b), u = norm(x), "
        "A from diag(lambda) - p p^* by the bilinear rule"
    )
    space_type = LowRankSpace
    default_discretization = "bilinear"


class S4D(Recurrent):
    r"""A stack of diagonal state space blocks, trained by convolution and run step by step.

    .. math::
        u = \mathrm{norm}(x), \quad s_t = \bar A s_{t-1} + \bar B u_t, \quad v_t = 2\,\mathrm{Re}(C s_t) + D u_t, \quad
        y_t = x_t + \mathrm{GLU}(W\, \mathrm{GELU}(v_t) + b)

    One system of state size N for each of the H features. Whole sequences are a convolution with the kernel
    :math:`K_k = 2\,\mathrm{Re}(C \bar A^k \bar B)`, by FFT; a state passed in adds what it would have said,
    :math:`2\,\mathrm{Re}(C \bar A^{t+1} s_0)`. One step costs O(N) a feature.

    Args:
        input_size: D. Where it is not H, a linear encoder stands before the block: before the first one, and before
            each of the others if the layer is bidirectional (they see 2H features).
        hidden_size: H, the features.
        num_layers: L blocks.
        state_size: N, even: states come in conjugate pairs.
        n_ssm: S copies of lambda and B, each shared by H/S features; None is a copy a feature.
        init: of lambda: ``legs``, ``lin``, ``inv`` or ``real``.
        discretization: ``zoh`` or ``bilinear``.
        dt_min, dt_max, dt_transform: Delta starts log-uniform between the two; it is the ``exp`` or the ``softplus`` of
            its weight.
        norm: ``layer``, ``batch`` (statistics over all steps and rows) or ``none``; prenorm: before the systems, on the
            branch, or after the residual sum.
        block_dropout: of what enters the GELU, what leaves it, and the branch as a whole. (``dropout``, as in torch, is
            between the blocks.)
        two_sided: a second kernel reads what is yet to come (as the source does on Long Range Arena): one more C, on
            whole sequences only. ``bidirectional``, as in torch, is a second stack of blocks and twice the features.
        mode: ``convolution`` or ``recurrence``, step by step; they give the same.
        others: as :class:`Recurrent`; ``bias`` is that of the linear maps.

    Inputs, outputs: as :class:`Recurrent`. The state is an :class:`S4State`: the last output ``(L*directions, B, H)``,
    and ``memory`` ``(L*directions, B, H, N/2, 2)``, of each system real and imaginary part of N/2 complex states.

    Cost: O(T B H (log T + N + H)) time, O(T B H) memory.

    Source: Gu et al. 2022.

    Example::

        >>> layer = S4D(10, 20, 2, state_size=8)
        >>> output, state = layer(torch.randn(5, 3, 10))
        >>> output.shape, state.memory.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20, 4, 2]))
    """

    cell = S4DCell
    source = "Gu et al. 2022 (S4D)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        state_size: int = 64,
        n_ssm: int | None = None,
        init: str = "legs",
        discretization: str | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_transform: str = "exp",
        norm: str = "layer",
        prenorm: bool = True,
        block_dropout: float = 0.0,
        two_sided: bool = False,
        mode: str = "convolution",
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            state_size=state_size,
            n_ssm=n_ssm,
            init=init,
            discretization=discretization,
            dt_min=dt_min,
            dt_max=dt_max,
            dt_transform=dt_transform,
            norm=norm,
            prenorm=prenorm,
            block_dropout=block_dropout,
            two_sided=two_sided,
            mode=mode,
            **options,
        )

    def _starts(self, rows: Rows, state: State, unbatched: bool) -> list[State]:
        if self.cells[0].two_sided and (state is not None or self.checkpoint_every is not None):
            raise OptionError("two_sided layers need the whole sequence at once: no state, no checkpoint_every")
        if state is None and self.checkpoint_every is None:
            return [None] * len(self.cells)  # zero, and known to be: it has nothing to say
        return super()._starts(rows, state, unbatched)

    def initial_state(self, batch: int) -> State:
        if self.cells[0].two_sided:
            raise OptionError("two_sided layers read the whole sequence at once and have no state to start from")
        return super().initial_state(batch)


class S4(S4D):
    r"""A stack of structured state space blocks: :class:`S4D` with a state matrix that is diagonal plus low rank.

    .. math:: A = \mathrm{diag}(\lambda) - p p^*

    starts as HiPPO-LegS, and is discretised by the bilinear rule. The kernel comes from its generating function at the
    roots of unity, a Cauchy sum in a form without the pole at -1. (``init`` is ``legs`` and ``discretization``
    ``bilinear``, both unless said otherwise and always.) Parameters of a block, the encoder left out:
    cHN + 3NS + 2H + (2H^2 + 2H) + 2H, c = 2 if ``two_sided``, else 1.

    Args, inputs, outputs: as :class:`S4D`.

    Cost: O(T B H (log T + N + H) + T H N + H N^3 log T) time.

    Source: Gu et al. 2022.
    """

    cell = S4Cell
    source = "Gu et al. 2022 (S4)"

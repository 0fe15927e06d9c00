"""The block around a state space system: norm, systems, GELU, GLU and a residual connection."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import DTypeError, OptionError, check_choice
from engram.loops import chosen, exporting, scan, scan_steps
from engram.nn._bare_cell import BareCell
from engram.nn._convolved import convolved, convolved_operator
from engram.nn._inputs import check_dropout
from engram.nn._rows import TimeLine
from engram.nn._s4 import LowRankSpace
from engram.nn._s4d import DiagonalSpace
from engram.nn._state_space import DiscreteSystem, complex_of, wide
from engram.nn.laws import Law
from engram.state import Field, State

MODES = ("convolution", "recurrence")
NORMS: dict[str, Any] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": None}


class S4State(NamedTuple):
    """The last output ``(B, H)``, and memory, the states of the systems ``(B, H, N/2, 2)``: real and imaginary part of
    N/2 complex numbers, of each conjugate pair one."""

    output: Any
    memory: Any


class S4DCell(BareCell):
    """One block of :class:`S4D`: norm, H systems, GELU, a linear map to 2H with GLU, and a residual connection.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): of the linear maps. Default: True.
        state_size (int): N, even: states come in conjugate pairs. Default: 64.
        n_ssm (int or None): S, the copies of lambda and B, each shared by H/S features. Default: None, one per feature.
        init (str): of lambda: ``legs``, ``lin``, ``inv`` or ``real``. Default: ``legs``.
        discretization (str or None): ``zoh`` or ``bilinear``. Default: None, which is ``zoh``.
        dt_min (float): Delta starts log-uniform between dt_min and dt_max. Default: 0.001.
        dt_max (float): see dt_min. Default: 0.1.
        dt_transform (str): Delta is the ``exp`` or the ``softplus`` of its weight. Default: ``exp``.
        norm (str): ``layer``, ``batch`` (statistics over all steps and rows) or ``none``. Default: ``layer``.
        prenorm (bool): normalise before the systems; False: after the residual sum. Default: True.
        block_dropout (float): probability of dropout before and after the GELU, and of the branch. Default: 0.0.
        two_sided (bool): a second kernel reads what is yet to come, on whole sequences only. Default: False.
        mode (str): ``convolution``, or ``recurrence``, step by step; both give the same. Default: ``convolution``.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Parts: encoder (a linear map from D to H, where they differ), norm, space (the weights of the systems), mix.
    State: an :class:`S4State`, the last output ``(H)`` and memory ``(H, N/2, 2)``.
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
        self.block_dropout = check_dropout(block_dropout, "block_dropout")
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
        """Sample the initial weights again."""
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
    """One block of :class:`S4`: that of :class:`S4DCell`, around systems that are diagonal plus low rank.

    Args:
        input_size (int): D, the number of input features per step.
        hidden_size (int): H, the number of hidden units.
        bias (bool): of the linear maps. Default: True.
        state_size (int): N, even: states come in conjugate pairs. Default: 64.
        n_ssm (int or None): S, the copies of lambda and B, each shared by H/S features. Default: None, one per feature.
        init (str): of lambda: ``legs``, the only one. Default: ``legs``.
        discretization (str or None): ``bilinear``, the only one. Default: None, which is ``bilinear``.
        dt_min (float): Delta starts log-uniform between dt_min and dt_max. Default: 0.001.
        dt_max (float): see dt_min. Default: 0.1.
        dt_transform (str): Delta is the ``exp`` or the ``softplus`` of its weight. Default: ``exp``.
        norm (str): ``layer``, ``batch`` (statistics over all steps and rows) or ``none``. Default: ``layer``.
        prenorm (bool): normalise before the systems; False: after the residual sum. Default: True.
        block_dropout (float): probability of dropout before and after the GELU, and of the branch. Default: 0.0.
        two_sided (bool): a second kernel reads what is yet to come, on whole sequences only. Default: False.
        mode (str): ``convolution``, or ``recurrence``, step by step; both give the same. Default: ``convolution``.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    State: an :class:`S4State`, the last output ``(H)`` and memory ``(H, N/2, 2)``.
    """

    count = "H N + 3 N S"

    equation = (
        "s_t = A s_{t-1} + B u_t, y_t = x_t + GLU(W GELU(2 Re(C s_t) + D u_t) + b), u = norm(x), "
        "A from diag(lambda) - p p^* by the bilinear rule"
    )
    space_type = LowRankSpace
    default_discretization = "bilinear"

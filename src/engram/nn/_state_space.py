"""Linear state space systems, one for each feature: what S4 and S4D have in common.

    s_k = A s_{k-1} + B u_k,   y_k = 2 Re(C s_k)  (+ D u_k),   K_k = 2 Re(C A^k B)

(Gu et al. 2022.) A, B, C are those of discrete time; of each conjugate pair of states one is kept.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import OptionError, check_between, check_choice, check_size

STEPS = ("exp", "softplus")


def wide(tensor: Tensor) -> Tensor:
    """In float32 if it has 16 bits: systems are complex, and no complex numbers are that small."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def complex_of(pairs: Tensor) -> Tensor:
    """``(..., 2)`` real to ``(...)`` complex. (A view would need an even place in memory.)"""
    pairs = wide(pairs)
    return torch.complex(pairs[..., 0], pairs[..., 1])


class Pairs(NamedTuple):
    """A system on real and imaginary parts, ``(B, H, N/2, 2)``."""

    step: Callable[[Tensor, Tensor], Tensor]
    """A s + B u for an input ``(B, H)``."""
    read: Callable[[Tensor, int], Tensor]
    """2 Re(C s) of a channel, ``(B, H)``."""


class DiscreteSystem(ABC):
    """The system in discrete time. States are complex ``(B, H, N/2)``; B may be anything that broadcasts."""

    c: Tensor
    """``(channels, H, N/2)``."""

    @abstractmethod
    def step(self, input: Tensor, state: Tensor) -> Tensor:
        """A s + B u for an input ``(B, H)``: O(N) per feature."""

    def read(self, state: Tensor) -> Tensor:
        """2 Re(C s), ``(B, H)``."""
        return 2 * (self.c[0] * state).sum(-1).real

    @abstractmethod
    def in_pairs(self) -> "Pairs":
        """The same system in real arithmetic, for programs in which there are no complex numbers."""

    @abstractmethod
    def kernel(self, length: int) -> Tensor:
        """K_0, ..., K_{length-1} of each channel: ``(channels, H, length)``."""

    @abstractmethod
    def collect(self, ages: Tensor) -> Tensor:
        """sum_a A^a B u_a, the state that inputs ``(T, B, H)`` of age 0, 1, ... have left."""

    @abstractmethod
    def response(self, state: Tensor, length: int) -> Tensor:
        """2 Re(C A^k s) for k = 1, ..., length: what a state says when nothing comes after it, ``(length, B, H)``."""

    @abstractmethod
    def later(self, state: Tensor, steps: Tensor, most: int) -> Tensor:
        """A^k s, k ``(B)`` of at most ``most``: a state when nothing has come for k steps."""


class StateSpace(nn.Module, ABC):
    """The weights of H systems of state size N, all real:

    log_decay, frequency ``(S, N/2)``: lambda = -exp(log_decay) - i frequency; S copies, shared by H/S features each;
    weight_b ``(S, N/2, 2)``, weight_c ``(channels, H, N/2, 2)``: complex numbers as pairs; C starts standard normal;
    log_step ``(H)``: Delta = exp or softplus of it, log Delta in U(log dt_min, log dt_max); skip ``(H)``: D in N(0, 1).
    """

    def __init__(
        self,
        features: int,
        state_size: int,
        *,
        n_ssm: int | None,
        channels: int,
        dt_min: float,
        dt_max: float,
        dt_transform: str,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        if check_size("state_size", state_size) % 2:
            raise OptionError(
                f"state_size must be even: states come in conjugate pairs, of which one is kept; got {state_size}. "
                f"Use {state_size + 1}"
            )
        copies = features if n_ssm is None else check_size("n_ssm", n_ssm)
        if features % copies:
            raise OptionError(
                f"n_ssm must divide hidden_size, because each copy serves the same number of features; got "
                f"{copies} for {features}. Use None for a copy per feature"
            )
        check_between("dt_max", dt_max, check_between("dt_min", dt_min, 0, math.inf), math.inf)
        self.features, self.pairs, self.copies = features, state_size // 2, copies
        self.dt_min, self.dt_max, self.dt_transform = dt_min, dt_max, check_choice("dt_transform", dt_transform, STEPS)

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self.log_decay, self.frequency = empty(copies, self.pairs), empty(copies, self.pairs)
        self.weight_b, self.weight_c = empty(copies, self.pairs, 2), empty(channels, features, self.pairs, 2)
        self.log_step, self.skip = empty(features), empty(features)

    def initialise(self, rates: Tensor, b: Tensor) -> None:
        """Sample the initial weights, lambda and B given."""
        with torch.no_grad():
            self.log_decay.copy_(torch.log(-rates.real))
            self.frequency.copy_(-rates.imag)
            self.weight_b.copy_(torch.view_as_real(b))
            self.weight_c.normal_(0, math.sqrt(0.5))  # a complex number of variance one
            self.skip.normal_()
            log_step = torch.empty_like(self.log_step).uniform_(math.log(self.dt_min), math.log(self.dt_max))
            if self.dt_transform == "softplus":
                log_step = torch.log(torch.expm1(torch.exp(log_step)))
            self.log_step.copy_(log_step)

    def shared(self, weight: Tensor) -> Tensor:
        """``(S, ...)`` to ``(H, ...)``."""
        return weight.repeat_interleave(self.features // self.copies, 0)

    @property
    def rates(self) -> Tensor:
        """lambda, ``(H, N/2)``."""
        return self.shared(torch.complex(-torch.exp(wide(self.log_decay)), -wide(self.frequency)))

    @property
    def step_sizes(self) -> Tensor:
        """Delta, ``(H, 1)``."""
        log_step = wide(self.log_step)
        return (torch.exp(log_step) if self.dt_transform == "exp" else F.softplus(log_step))[:, None]

    @abstractmethod
    def reset_parameters(self) -> None:
        """Sample the initial weights again."""

    @abstractmethod
    def discretize(self) -> Any:
        """The :class:`DiscreteSystem` of these weights."""

    def extra_repr(self) -> str:
        return f"{self.features}, state_size={2 * self.pairs}, n_ssm={self.copies}"

"""The attentive recurrence as a function of numbers of any kind: tensors with gradients, or exact dual numbers.

h_t = phi(V s_{t-1} + U x_t + b) and s_t = psi_t(h_1, ..., h_t, s_{t-1}), where psi_t attends to states with weights
alpha_i = softmax of e_i = a(s_{t-1}, h_i), c = sum_i alpha_i h_i, and s = f(h_t, c); s_0 = 0. Here h are the states, s
the macro-states (the source's word), which feed back.
Source: Kerg (2022), Section 4.4, Eqs. 4.4.1 and 4.4.2; Eqs. B.1.4, B.1.5, B.1.86, B.1.90.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Protocol

ALIGNMENTS, COMBINES = ("additive", "dot"), ("sum", "mean", "concat")
ACTIVATIONS, ATTENTIONS = ("tanh", "identity"), ("full", "sparse")


@dataclass(frozen=True)
class Variant:
    """One kind of attentive recurrence."""

    align: str
    """``additive``: v tanh(W s + U' h); ``dot``: (W s) (U' h) / sqrt n."""
    combine: str
    """``sum``: h + c; ``mean``: (h + c)/2; ``concat``: A h + B c."""
    activation: str
    """phi: ``tanh`` or ``identity``."""
    attention: str
    """``full``: to all states so far; ``sparse``: to the first two and the last two."""

    def attended(self, step: int) -> list[int]:
        """The states that a step attends to, counted from 1."""
        states = range(1, step + 1)
        return [i for i in states if self.attention == "full" or i <= 2 or i >= step - 1]


VARIANTS = tuple(Variant(*names) for names in product(ALIGNMENTS, COMBINES, ACTIVATIONS, ATTENTIONS))


class Weights(NamedTuple):
    """All numbers of a recurrence, of one kind; of some variants not all are used."""

    V: Any
    """``(n, n)``."""
    U: Any
    """``(n, m)``."""
    b: Any
    """``(n)``."""
    W_a: Any
    """W of the alignment, ``(n, n)``."""
    U_a: Any
    """U' of the alignment, ``(n, n)``."""
    v_a: Any
    """v of the additive alignment, ``(n)``."""
    A: Any
    """Of ``concat``, ``(n, n)``."""
    B: Any
    """Of ``concat``, ``(n, n)``."""
    scale: Any
    """1 / sqrt n of ``dot``, one number."""


class Functions(Protocol):
    """tanh and exp; the key says where in the recurrence: ("hidden", t), ("align", i, t) or ("weight", i, t)."""

    def tanh(self, x: Any, key: Hashable) -> Any: ...

    def exp(self, x: Any, key: Hashable) -> Any: ...


@dataclass(frozen=True)
class Attentive:
    """A recurrence with its weights, inputs and functions."""

    variant: Variant
    """The kind of recurrence."""
    weights: Weights
    """Its numbers, of the kind of the inputs."""
    inputs: Sequence[Any]
    """x_1, x_2, ..., ``(m)``."""
    functions: Functions
    """tanh and exp of such numbers."""

    def hidden(self, step: int, before: Any) -> Any:
        """h_t from s_{t-1}."""
        w = self.weights
        drive = w.V @ before + w.U @ self.inputs[step - 1] + w.b
        return drive if self.variant.activation == "identity" else self.functions.tanh(drive, ("hidden", step))

    def psi(self, step: int, states: Sequence[Any], before: Any) -> tuple[Any, dict[int, Any]]:
        """s_t ``(n)`` from h_1 ... h_t and s_{t-1}; also alpha_i of the states that are attended to, by i."""
        weights = {
            i: self.functions.exp(self._aligned(step, i, before, states[i - 1]), ("weight", i, step))
            for i in self.variant.attended(step)
        }
        total = added(weights.values())
        alpha = {i: weight / total for i, weight in weights.items()}
        return self._combined(states[step - 1], added(a * states[i - 1] for i, a in alpha.items())), alpha

    def _aligned(self, step: int, i: int, before: Any, state: Any) -> Any:
        """e_i, one number: how well h_i fits s_{t-1}."""
        w = self.weights
        query, key = w.W_a @ before, w.U_a @ state
        if self.variant.align == "dot":
            return query @ key * w.scale
        return w.v_a @ self.functions.tanh(query + key, ("align", i, step))

    def _combined(self, state: Any, context: Any) -> Any:
        """f(h_t, c), ``(n)``."""
        if self.variant.combine == "concat":
            return self.weights.A @ state + self.weights.B @ context
        return state + context if self.variant.combine == "sum" else (state + context) / 2

    def roll_out(self, zero: Any, state_shifts: Sequence[Any], macro_shifts: Sequence[Any]) -> "RollOut":
        """Run over all inputs.

        Args:
            zero: s_0.
            state_shifts: zeros that are added to h_1 ... h_T: the derivatives by them are dL/dh_t.
            macro_shifts: zeros that are added to s_1 ... s_T, likewise.
        """
        states, macros, alphas = [], [zero], []
        for step, (shift, macro_shift) in enumerate(zip(state_shifts, macro_shifts, strict=True), 1):
            states.append(self.hidden(step, macros[-1]) + shift)
            macro, alpha = self.psi(step, states, macros[-1])
            macros.append(macro + macro_shift)
            alphas.append(alpha)
        return RollOut(states, macros, alphas)


class RollOut(NamedTuple):
    """All states of a run."""

    states: list[Any]
    """h_1 ... h_T."""
    macros: list[Any]
    """s_0 ... s_T."""
    alphas: list[dict[int, Any]]
    """alpha_{i,t} of t = 1 ... T, for the states attended to."""


def added(numbers: Any) -> Any:
    """Their sum, without a zero to begin with."""
    first, *others = numbers
    for other in others:
        first = first + other
    return first

"""All derivatives of an attentive recurrence by differentiating the program, in float64 or in exact numbers."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from engram.exact import Dual, Symbols, variables
from engram.theory._attentive import Attentive, Functions, RollOut, Variant, Weights

Array = Any


class Differentiation(Functions, Protocol):
    """A way to differentiate."""

    values: dict[Hashable, Array]
    """Of tanh and exp, by their keys."""

    def variables(self, values: Sequence[Array]) -> list[Any]:
        """Arrays as variables."""

    def value(self, number: Any) -> Array:
        """The array without its derivatives."""

    def jacobian(self, vector: Any, by: Sequence[Any]) -> Array:
        """Of a vector of n numbers by all K numbers of the variables, ``(n, K)``."""


class Autograd:
    """torch's automatic differentiation, in float64."""

    def __init__(self) -> None:
        self.values: dict[Hashable, Array] = {}

    def variables(self, values: Sequence[Array]) -> list[Tensor]:
        return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]

    def value(self, number: Tensor) -> Array:
        return number.detach().numpy()

    def _kept(self, number: Tensor, key: Hashable) -> Tensor:
        self.values[key] = self.value(number)
        return number

    def tanh(self, x: Tensor, key: Hashable) -> Tensor:
        return self._kept(x.tanh(), key)

    def exp(self, x: Tensor, key: Hashable) -> Tensor:
        return self._kept(x.exp(), key)

    def jacobian(self, vector: Tensor, by: Sequence[Tensor]) -> Array:
        rows = []
        for number in vector:
            grads = torch.autograd.grad(number, by, retain_graph=True, allow_unused=True, materialize_grads=True)
            rows.append(torch.cat([grad.reshape(-1) for grad in grads]))
        return torch.stack(rows).numpy()


class DualNumbers(Symbols):
    """Dual numbers modulo a prime, with symbols for the values of tanh and exp (:class:`engram.exact.Dual`).

    Args:
        prime: p.
        seed: random seed of the values.
        purpose: of the first value (:func:`engram.exact.sample`); each further one takes the next.
    """

    def variables(self, values: Sequence[Array]) -> list[Dual]:
        return variables(values)

    def value(self, number: Dual) -> Array:
        return number.value

    def jacobian(self, vector: Dual, by: Sequence[Dual]) -> Array:
        return vector.slope


class Columns:
    """The columns of a Jacobian that belong to one of the variables."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.shapes = [array.shape for array in arrays]
        self.ends = np.cumsum([array.size for array in arrays])

    def of(self, jacobian: Array, place: int) -> Array:
        """``(n, *shape of the variable)``."""
        first = self.ends[place] - int(np.prod(self.shapes[place]))
        return jacobian[:, first : self.ends[place]].reshape(-1, *self.shapes[place])


@dataclass(frozen=True)
class Derivatives:
    """What differentiating a run gives."""

    run: RollOut
    """Its values, as arrays."""
    total: dict[tuple[int, int], Array]
    """ds_tau/dh_t of every t <= tau, ``(n, n)``, by (t, tau)."""
    partial: dict[tuple[int, int], Array]
    """The same with the other arguments of psi held fixed: E."""
    jumps: dict[tuple[int, int], Array]
    """F of every tau > sigma >= 1, ``(n, n)``, by (tau, sigma)."""
    by_state: Array
    """dL/dh_t, ``(T, n)``, of L = sum_t r_t s_t."""
    by_macro: Array
    """dL/ds_t, ``(T, n)``."""
    by_weight: dict[str, Array]
    """dL/dV and so on, by the names of :class:`engram.theory.Weights`."""


class Problem(NamedTuple):
    """Numbers of one kind, float64 or exact, that make up a run and a loss."""

    weights: Weights
    """Of the recurrence."""
    inputs: Array
    """x_1 ... x_T, ``(T, m)``."""
    readout: Array
    """r, ``(T, n)``, of the loss sum_t r_t s_t."""


def differentiate(variant: Variant, problem: Problem, how: Differentiation) -> Derivatives:
    """All derivatives of a run, by differentiating it as it is and psi by itself.

    Args:
        variant: the kind of recurrence.
        problem: its weights and inputs, and the readout of the loss.
        how: :class:`Autograd` or :class:`DualNumbers`.
    """
    steps = len(problem.readout)
    zero = problem.readout[0] * 0
    arrays = [*problem.weights, *problem.inputs, *[zero] * (2 * steps + 1)]
    by, columns = how.variables(arrays), Columns(arrays)
    weights, inputs, shifts = by[:9], by[9 : 9 + steps], by[9 + steps :]
    model = Attentive(variant, Weights(*weights), inputs, how)
    ran = model.roll_out(shifts[0], shifts[1 : steps + 1], shifts[steps + 1 :])
    jacobians = [how.jacobian(macro, by) for macro in ran.macros[1:]]
    loss = sum(row @ jacobian for row, jacobian in zip(problem.readout, jacobians, strict=True))[None]
    run = RollOut(
        [how.value(h) for h in ran.states],
        [how.value(s) for s in ran.macros],
        [{i: how.value(a)[()] for i, a in alpha.items()} for alpha in ran.alphas],
    )
    first, second = 9 + steps + 1, 9 + 2 * steps + 1
    pairs = [(t, tau) for tau in range(1, steps + 1) for t in range(1, tau + 1)]
    partial, jumps = _partials(variant, problem, run, how)
    return Derivatives(
        run=run,
        total={(t, tau): columns.of(jacobians[tau - 1], first + t - 1) for t, tau in pairs},
        partial=partial,
        jumps=jumps,
        by_state=np.stack([columns.of(loss, first + t)[0] for t in range(steps)]),
        by_macro=np.stack([columns.of(loss, second + t)[0] for t in range(steps)]),
        by_weight={name: columns.of(loss, place)[0] for place, name in enumerate(Weights._fields)},
    )


def _partials(
    variant: Variant, problem: Problem, run: RollOut, how: Differentiation
) -> tuple[dict[tuple[int, int], Array], dict[tuple[int, int], Array]]:
    """E and F, from the derivatives of psi and of h_{t+1} as functions of their arguments."""
    partial: dict[tuple[int, int], Array] = {}
    jumps: dict[tuple[int, int], Array] = {}
    J: dict[int, Array] = {}  # dh_{t+1}/ds_t
    for tau, s in enumerate(run.macros[1:], 1):
        arrays = [*run.states[:tau], run.macros[tau - 1]]
        by, columns = how.variables(arrays), Columns(arrays)
        width = int(columns.ends[-1])
        model = Attentive(variant, Weights(*_constants(problem.weights, by, width)), [], how)
        jacobian = how.jacobian(model.psi(tau, by[:-1], by[-1])[0], by)
        for t in range(1, tau + 1):
            partial[t, tau] = columns.of(jacobian, t - 1)
        for sigma in range(1, tau):
            jumps[tau, sigma] = partial[sigma + 1, tau] @ J[sigma]
        if tau > 1:
            jumps[tau, tau - 1] = jumps[tau, tau - 1] + columns.of(jacobian, tau)
        if tau < len(run.states):
            by = how.variables([s])
            constants = _constants([*problem.weights, *problem.inputs], by, s.size)
            model = Attentive(variant, Weights(*constants[:9]), constants[9:], how)
            J[tau] = how.jacobian(model.hidden(tau + 1, by[0]), by)
    return partial, jumps


def _constants(arrays: Sequence[Array], by: Sequence[Any], width: int) -> list[Any]:
    """Numbers of the kind of the variables that do not change with them."""
    if isinstance(by[0], Tensor):
        return [torch.tensor(array, dtype=torch.float64) for array in arrays]
    return [Dual(array, np.zeros((*array.shape, width), dtype=object)) for array in arrays]

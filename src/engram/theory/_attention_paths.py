"""The paths of a gradient through an attentive recurrence: closed forms of their steps, and the sum over all paths.

ds_{t+k}/dh_t = sum over 0 <= i_1 < ... < i_s < k of F_{k,i_s} ... F_{i_2,i_1} E_{i_1}: a path leaves h_t by attention
or by the recurrence, visits some states, and arrives at s_{t+k}. Written once, for float64 and for exact numbers.
Source: Kerg (2022), Proposition 4.4.1 = B.1.7, Lemmas B.1.9, B.1.10, B.1.15, B.1.16, Proposition B.1.12.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from engram.theory._attentive import RollOut, Variant, Weights, added

Array = Any
"""A numpy array of float64 or of exact numbers."""


@dataclass(frozen=True)
class ClosedForms:
    """Derivatives of a recurrence by the formulas of the thesis, from the values of a run alone.

    With tau = t + k, E(t, tau) = ds_tau/dh_t and F(tau, sigma) = ds_tau/dh_{sigma+1} J_sigma, plus ds_tau/ds_sigma if
    tau = sigma + 1; all other arguments of psi are held fixed.
    """

    variant: Variant
    """The kind of recurrence."""
    weights: Weights
    """Its numbers, float64 or exact."""
    inputs: Array
    """x_1 ... x_T, ``(T, m)``."""
    run: RollOut
    """Its values as arrays."""
    values: Mapping[Hashable, Array]
    """Those of tanh, by the keys of :class:`engram.theory.Functions`."""

    def alpha(self, i: int, tau: int) -> Any:
        """alpha_i of the attention at tau; 0 if h_i is not attended to."""
        return self.run.alphas[tau - 1].get(i, 0)

    def phi_slope(self, t: int) -> Array:
        """phi' at the drive of h_t, ``(n)``."""
        h = self.run.states[t - 1]
        return h * 0 + 1 if self.variant.activation == "identity" else 1 - h * h

    def J(self, t: int) -> Array:
        """dh_{t+1}/ds_t = diag(phi') V."""
        return self.phi_slope(t + 1)[:, None] * self.weights.V

    def f_slopes(self) -> tuple[Array, Array]:
        """The derivatives of f by h and by c, ``(n, n)`` each."""
        if self.variant.combine == "concat":
            return self.weights.A, self.weights.B
        same = self.eye if self.variant.combine == "sum" else self.eye / 2
        return same, same

    @property
    def eye(self) -> Array:
        """I, of the kind of all other numbers: the int 1 divided by 2 would be a float."""
        V = self.weights.V
        return np.eye(len(V), dtype=V.dtype) * (V[0, 0] * 0 + 1)

    def e_slopes(self, i: int, tau: int) -> tuple[Array, Array]:
        """de/dh_i and de/ds_{tau-1}, ``(n)`` each (Eqs. B.1.91, B.1.92)."""
        w, s, h = self.weights, self.run.macros[tau - 1], self.run.states[i - 1]
        if self.variant.align == "dot":
            return w.scale * ((w.W_a @ s) @ w.U_a), w.scale * ((w.U_a @ h) @ w.W_a)
        row = w.v_a * self._bend(i, tau)
        return row @ w.U_a, row @ w.W_a

    def _bend(self, i: int, tau: int) -> Array:
        """1 - tanh^2 in the additive alignment."""
        g = self.values["align", i, tau]
        return 1 - g * g

    def context(self, tau: int) -> Array:
        """c, of the attention at tau."""
        return added(a * self.run.states[i - 1] for i, a in self.run.alphas[tau - 1].items())

    def X(self, j: int, tau: int) -> Array:
        """(h_j - c) de_j/dh_j, ``(n, n)``: how attention to h_j itself changes with h_j."""
        return np.outer(self.run.states[j - 1] - self.context(tau), self.e_slopes(j, tau)[0])

    def Y(self, i: int, tau: int) -> Array:
        """h_i (de_i/ds - sum_j alpha_j de_j/ds), ``(n, n)``, s the query s_{tau-1}: dc/ds is sum_i alpha_i Y_i."""
        mean = added(a * self.e_slopes(j, tau)[1] for j, a in self.run.alphas[tau - 1].items())
        return np.outer(self.run.states[i - 1], self.e_slopes(i, tau)[1] - mean)

    def seen(self, j: int, tau: int) -> Array:
        """alpha_j df/dc (I + X_j): how s_tau changes with h_j by attention; a zero matrix if it is not attended to."""
        if j not in self.run.alphas[tau - 1]:
            return self.weights.V * 0
        return self.alpha(j, tau) * (self.f_slopes()[1] @ (self.eye + self.X(j, tau)))

    def E(self, t: int, tau: int) -> Array:
        """ds_tau/dh_t with all other arguments of psi held fixed, ``(n, n)`` (Eqs. B.1.80, B.1.84 and B.1.85)."""
        return self.seen(t, tau) + self.f_slopes()[0] if t == tau else self.seen(t, tau)

    def F(self, tau: int, sigma: int) -> Array:
        """From s_sigma to s_tau in one jump, ``(n, n)``; sigma < tau (Eqs. B.1.81 to B.1.83)."""
        by_attention = self.seen(sigma + 1, tau) @ self.J(sigma)
        if tau > sigma + 1:
            return by_attention
        by_h, by_c = self.f_slopes()
        asked = added(a * self.Y(i, tau) for i, a in self.run.alphas[tau - 1].items())
        return by_attention + by_h @ self.J(sigma) + by_c @ asked

    def alignment_gradients(self, by_macro: Array) -> dict[str, Array]:
        """dL/dtheta of the weights of the alignment from dL/ds_1 ... dL/ds_T, ``(T, n)`` (Lemma B.1.15)."""
        found: dict[str, Array] = {}
        for tau, alphas in enumerate(self.run.alphas, 1):
            slopes = {i: self._theta_slopes(i, tau) for i in alphas}
            for j, a in alphas.items():
                share = a * (by_macro[tau - 1] @ self.f_slopes()[1] @ self.run.states[j - 1])
                for name in slopes[j]:
                    mean = added(alphas[i] * slopes[i][name] for i in alphas)
                    part = share * (slopes[j][name] - mean)
                    found[name] = found[name] + part if name in found else part
        return found

    def _theta_slopes(self, i: int, tau: int) -> dict[str, Array]:
        """de_i/dtheta of the weights of the alignment, each in the shape of its weight."""
        w, s, h = self.weights, self.run.macros[tau - 1], self.run.states[i - 1]
        if self.variant.align == "dot":
            return {"W_a": w.scale * np.outer(w.U_a @ h, s), "U_a": w.scale * np.outer(w.W_a @ s, h)}
        row = w.v_a * self._bend(i, tau)
        return {"W_a": np.outer(row, s), "U_a": np.outer(row, h), "v_a": self.values["align", i, tau]}

    def recurrent_gradients(self, by_state: Array) -> dict[str, Array]:
        """dL/dV, dL/dU, dL/db from dL/dh_1 ... dL/dh_T, ``(T, n)`` (Lemma B.1.16, phi' at the drive of h_t)."""
        rows = [row * self.phi_slope(t) for t, row in enumerate(by_state, 1)]
        return {
            "V": added(np.outer(row, s) for row, s in zip(rows, self.run.macros, strict=False)),
            "U": added(np.outer(row, x) for row, x in zip(rows, self.inputs, strict=True)),
            "b": added(rows),
        }


Step = Callable[[int, int], Array]


def sum_over_paths(E: Step, F: Step, t: int, end: int) -> Array:
    """ds_end/dh_t as the sum over all 2^(end - t) paths (Proposition B.1.7).

    Args:
        E: E(t, tau), what leaves h_t and arrives at s_tau (:meth:`ClosedForms.E`).
        F: F(tau, sigma), one jump from s_sigma to s_tau (:meth:`ClosedForms.F`).
        t: the step of h_t.
        end: the step of s_end.
    """
    total = E(t, end)
    for length in range(1, end - t + 1):
        for visited in combinations(range(t, end), length):
            path = E(t, visited[0])
            for before, after in zip(visited, [*visited[1:], end], strict=True):
                path = F(after, before) @ path
            total = total + path
    return total


def by_recursion(E: Step, F: Step, t: int, end: int) -> list[Array]:
    """ds_t/dh_t ... ds_end/dh_t by C_tau = E(t, tau) + sum_{t <= sigma < tau} F(tau, sigma) C_sigma.

    Args:
        E: E(t, tau), what leaves h_t and arrives at s_tau (:meth:`ClosedForms.E`).
        F: F(tau, sigma), one jump from s_sigma to s_tau (:meth:`ClosedForms.F`).
        t: the step of h_t.
        end: the step of s_end.
    """
    found: list[Array] = []
    for tau in range(t, end + 1):
        found.append(added([E(t, tau), *(F(tau, sigma) @ C for sigma, C in enumerate(found, t))]))
    return found

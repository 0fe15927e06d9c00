"""Gradients under sparse attention: chains of relays, and random patterns of bounded dependency depth.

Step tau attends to a set A_tau of kappa states with equal weights, s_tau = h_tau + (sum of h_i, i in A_tau)/kappa and
h_{tau+1} = V s_tau. In the direction of an eigenvalue lambda of a normal V the gradient ds_{t+k}/dh_t is a number,
p_k(lambda) = sum_s chi_k(s) lambda^s; no chi_k(s) is negative.
Source: Kerg (2022), Appendix B.1.4, Eqs. B.1.271 to B.1.278, Theorem 4.4.3 = B.1.39.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engram.errors import check_size
from engram.exact import PRIME, sample


@dataclass(frozen=True)
class Pattern:
    """Which states each step attends to."""

    step: int
    """t, the step whose state is changed."""
    attended: tuple[frozenset[int], ...]
    """A_t, A_{t+1}, ..., each of numbers from 1 to the step's own."""

    def responses(self, eigenvalue: Any) -> Iterator[Any]:
        """p_0, p_1, ...: the change of s_t, s_{t+1}, ... per change of h_t (:func:`engram.theory.responses`)."""
        h = {self.step: eigenvalue**0}  # the changes of h_t, h_{t+1}, ...; earlier states do not change
        for tau, attended in enumerate(self.attended, self.step):
            seen = [h[i] for i in attended if i >= self.step]
            s = h[tau] + sum(seen[1:], seen[0]) / len(attended) if seen else h[tau]
            yield s
            h[tau + 1] = eigenvalue * s

    def depths(self) -> list[int | None]:
        """For every step the least number of relays between it and h_t, by attention alone; None if it cannot be seen.

        A relay is a state h_i that one step attends to, made from s_{i-1}, which attended to the relay before.
        """
        found: list[int | None] = []
        for attended in self.attended:
            seen = [0] if self.step in attended else []
            before = (found[i - 1 - self.step] for i in attended if i > self.step)
            found.append(min([*seen, *(depth + 1 for depth in before if depth is not None)], default=None))
        return found


def relay_chain(attended: int, depth: int, gap: int) -> Pattern:
    """A chain of ``depth`` relays: the last step sees h_t through all of them, or through the recurrence alone.

    A relay reads the one before (the first reads h_t) ``gap`` steps after it was made; all else that is attended to
    came before t. So the last p is (1/kappa + lambda^gap) (lambda (1/kappa + lambda^gap))^depth, of which the relays
    alone are (lambda/kappa)^depth / kappa.
    """
    check_size("attended", attended)
    check_size("depth", depth, least=0)
    check_size("gap", gap)
    step = attended + 1
    others = frozenset(range(1, attended + 1))
    sets = []
    target = step
    for _ in range(depth + 1):
        sets += [others] * gap + [others - {attended} | {target}]
        target = step + len(sets)  # the state made by the step that has just read
    return Pattern(step, tuple(sets))


def random_pattern(attended: int, depth: int, steps: int, seed: int, purpose: int = 0) -> Pattern:
    """Random sets of ``attended`` states, one of each such that at most ``depth`` relays lead to h_t; t = ``attended``.

    Args:
        attended: kappa.
        depth: the largest dependency depth.
        steps: steps from t on.
        seed: random seed of the sets.
        purpose: another one gives other sets (:func:`engram.exact.sample`).
    """
    step = check_size("attended", attended)
    check_size("depth", depth, least=0)
    numbers = sample(PRIME, seed, purpose, check_size("steps", steps), attended + 1).tolist()
    depths: list[int] = []
    sets: list[frozenset[int]] = []
    for k, row in enumerate(numbers):
        leads = [step, *(step + j + 1 for j in range(k) if depths[j] < depth)]
        through = leads[row[0] % len(leads)]
        others = [i for i in range(1, step + k + 1) if i != through]
        chosen = {through, *(others.pop(number % len(others)) for number in row[2:])}
        sets.append(frozenset(chosen))
        depths.append(min([0] if step in chosen else [depths[i - 1 - step] + 1 for i in chosen if i > step]))
    return Pattern(step, tuple(sets))

"""Gradient reach: how much the output now depends on the inputs and states before."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.errors import check_size
from engram.probe._decay import LEFT, Decay, fit_decay, foreseen_horizon, horizon
from engram.probe._plain import plain
from engram.probe._subject import Subject

EXACT = 64
"""Up to so many outputs, the Jacobian is computed whole."""
PROBES = 32
"""Random vectors otherwise."""

Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class GradientReach:
    """What :func:`gradient_reach` found; index k is the lag.

    norms: the norm of d y_T / d x_{T-k}, k = 0 .. T-1. states: the norm of dL / d h_{T-k}, k = 1 .. T-1 (at 0: None),
    or why there are none. exact: whether the Jacobian is whole, or sampled. decay: the law of ``norms``. horizon: the
    first lag from which on less than 1 % of the largest norm is left, None if it is further than measured; foreseen:
    where the law then puts it.
    """

    norms: list[float]
    states: list[float | None] | str
    exact: bool
    decay: Decay
    horizon: int | None
    foreseen: float | None

    @property
    def verdict(self) -> str:
        """explodes: it grows tenfold or more; vanishes: 1 % is left within the lags measured; else keeps."""
        law = self.decay
        if not np.isfinite(self.norms).all() or (law.kind in ("exponential", "polynomial") and law.change > 10):
            return "explodes"
        return "keeps" if self.horizon is None else "vanishes"

    def words(self) -> str:
        law, last = self.decay, len(self.norms) - 1
        how = {
            "exponential": f"exponentially, by a factor of {np.exp(law.rate):.4g} a step",
            "polynomial": f"as a power of the lag, (1 + k)^{law.rate:.2f}",
            "flat": "little (flat)",
            "irregular": "by no simple law",
            "none": "by no law: fewer than three lags reach the output",
        }[law.kind]
        if not max(self.norms):
            return "Gradient reach: no gradient reaches any input, it is zero everywhere."
        head = f"Gradient reach{'' if self.exact else f' (sampled by {PROBES} random vectors)'}: the gradient"
        if self.verdict == "explodes":
            lost = np.flatnonzero(~np.isfinite(self.norms))
            end = (
                f"from lag {lost[0]} on it is too large to count"
                if len(lost)
                else f"over {last} steps {law.change:.3g} times"
            )
            return f"{head} explodes. It grows {how}; {end}."
        if self.verdict == "vanishes":
            return f"{head} vanishes. From {self.horizon} steps on less than 1 % is left; it changes {how}."
        further = "" if self.foreseen is None else f"; by that law 1 % is left at {self.foreseen:,.0f}"
        return f"{head} reaches over all {last} steps measured. It changes {how}{further}."

    def to_dict(self) -> dict[str, Any]:
        return plain(asdict(self) | {"verdict": self.verdict})

    def draw(self, axes: Any) -> None:
        curves = {"input": (self.norms, "#0b5fa5", 1.6)}
        if not isinstance(self.states, str):
            curves["state"] = ([norm or 0.0 for norm in self.states], "#d98c3f", 1.0)
        for label, (norms, color, width) in curves.items():
            lags = [lag for lag, norm in enumerate(norms) if norm > 0]
            axes.plot(lags, [norms[lag] for lag in lags], color=color, linewidth=width, label=label)
        if max(self.norms) > 0:
            axes.set_yscale("log")
            axes.axhline(LEFT * max(self.norms), color="#bbbbbb", linewidth=0.8, linestyle=":")
            axes.legend(frameon=False, fontsize=8)
        if self.horizon is not None:
            axes.axvline(self.horizon, color="#bbbbbb", linewidth=0.8, linestyle=":")
        axes.set(xlabel="lag", ylabel="norm of the gradient")
        axes.set_title(f"Gradient reach: {self.verdict} ({self.decay.kind})", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)


def gradient_reach(
    model: nn.Module | Subject,
    *,
    length: int = 200,
    inputs: Tensor | None = None,
    loss: Loss | None = None,
    batch: int = 4,
    seed: int = 0,
    probes: int = PROBES,
) -> GradientReach:
    r"""The Frobenius norms of :math:`\partial y_T / \partial x_{T-k}` and of :math:`\partial L / \partial h_{T-k}`.

    Norms are root mean squares over the sequences. Up to 64 outputs the Jacobian is computed row by row and is exact;
    above, ``E |J^T v|^2 = |J|^2`` for v in N(0, I) is averaged over ``probes`` random vectors (Hutchinson).

    The gradient of the states needs a model whose state can be handed in. h_t is the state handed on after step t.

    A closed-form case: for h_t = c Q h_{t-1} + u x_t, Q orthogonal and y = h, the norm at lag k is c^k |u|.
    Source: spec/spectral.md 1 and 5.7.

    Args:
        model: a module, or a :class:`Subject`.
        length: T, of the inputs drawn.
        inputs: ``(T, B, D)`` in place of drawn ones.
        loss: L of the outputs ``(S, B, C)``; half the squared last output, summed over the batch, unless given.
        batch, seed: of the inputs drawn.
        probes: random vectors for a model of many outputs.
    """
    subject = Subject.of(model)
    generator = torch.Generator().manual_seed(seed)
    if inputs is None:
        inputs = subject.draw(check_size("length", length), check_size("batch", batch), generator)
    with subject, torch.enable_grad():
        x = inputs.detach().clone().requires_grad_()
        last = subject.outputs(x)[-1]  # (B, C)
        exact = subject.output_size <= EXACT
        squares = torch.zeros(x.shape[:2], dtype=torch.float64)
        count = subject.output_size if exact else check_size("probes", probes)
        for k in range(count):
            if exact:
                weights = torch.zeros_like(last)
                weights[:, k] = 1
            else:
                weights = torch.randn(last.shape, generator=generator, dtype=torch.float64).to(last)
            if last.requires_grad:  # else it depends on no input
                (gradient,) = torch.autograd.grad(last, x, weights, retain_graph=k + 1 < count)
                squares += gradient.double().square().sum(-1).cpu()
        norms = (squares if exact else squares / count).mean(1).sqrt().flip(0).numpy()
        states = _state_gradients(subject, inputs, loss) if subject.can_step else subject.no_state
    law, end = fit_decay(norms), horizon(norms)
    foreseen = foreseen_horizon(norms, law) if end is None else None
    return GradientReach(norms.tolist(), states, exact, law, end, foreseen)


def _state_gradients(subject: Subject, inputs: Tensor, loss: Loss | None) -> list[float | None]:
    """Step by step with every state kept; entry k is the norm of dL/dh_{T-k}, entry 0 is None."""
    state, states, outputs = None, [], []
    for x in inputs.detach():
        output, after = subject.advance(state, x[None])
        state = after if after.requires_grad else after.detach().requires_grad_()  # the first: nothing came before
        states.append(state)
        outputs.append(output[-1])
    total = 0.5 * outputs[-1].square().sum() if loss is None else loss(torch.stack(outputs))
    gradients = torch.autograd.grad(total, states[:-1], allow_unused=True)
    norms = [0.0 if g is None else float(g.double().square().sum(-1).mean().sqrt()) for g in gradients]
    return [None, *reversed(norms)]

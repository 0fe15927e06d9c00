"""Gradient reach: how much the last output depends on earlier inputs and states."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.errors import check_size
from engram.figures import BLUE, MUTED, ORANGE
from engram.probe._cost import Cost
from engram.probe._decay import LEFT, Decay, expected_horizon, fit_decay, horizon
from engram.probe._json import as_json
from engram.probe._part import Part
from engram.probe._setup import Loss, Setup
from engram.probe._subject import Subject

EXACT = 64
"""Up to this many outputs the whole Jacobian is computed."""
PROBES = 32
"""Random vectors for a model of more outputs."""


@dataclass(frozen=True)
class GradientReach(Part):
    """What :func:`gradient_reach` found; index k is the lag.

    norms: the norm of d y_T / d x_{T-k}, k = 0 .. T-1. states: the norm of dL / d h_{T-k}, k = 1 .. T-1 (at 0: None),
    or the reason why there are none. exact: whether the whole Jacobian was computed, or sampled. decay: the law of
    ``norms``. horizon: the first lag from which on less than 1 % of the largest norm is left, None if that is further
    back than was measured. expected: the lag where the law then reaches 1 %.
    """

    name = "gradient_reach"
    title = "Gradient reach"
    question = "How much does the last output depend on earlier inputs?"

    norms: list[float]
    states: list[float | None] | str
    exact: bool
    decay: Decay
    horizon: int | None
    expected: float | None

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        """One backward pass per output or random vector; step by step once, for the states."""
        outputs, steps = setup.subject.output_size, setup.length if setup.subject.can_step else 0
        passes = outputs if outputs <= EXACT else PROBES
        seconds = passes * setup.timings.backward + 6 * steps * setup.timings.step
        return Cost(1 + passes, 2 * steps, seconds)

    @classmethod
    def measure(cls, setup: Setup) -> "GradientReach":
        return gradient_reach(setup.subject, inputs=setup.inputs, loss=setup.loss, seed=setup.seed)

    @property
    def verdict(self) -> str:
        """explodes: it grows tenfold or more; vanishes: less than 1 % is left at the end; else keeps."""
        law = self.decay
        if not np.isfinite(self.norms).all() or (law.kind in ("exponential", "polynomial") and law.change > 10):
            return "explodes"
        return "keeps" if self.horizon is None else "vanishes"

    def headline(self) -> str:
        if not max(self.norms):
            return "no gradient reaches any input, it is zero everywhere."
        if self.verdict == "explodes":
            return "the gradient explodes."
        if self.verdict == "vanishes":
            steps = "1 step" if self.horizon == 1 else f"{self.horizon} steps"
            return f"the gradient vanishes, from {steps} back on less than 1 % of it is left."
        return f"the gradient reaches back over all {len(self.norms) - 1} steps measured."

    def details(self) -> str:
        law = self.decay
        if not max(self.norms):
            return ""
        changes = "grows" if law.rate > 0 else "decays"
        how = {
            "exponential": f"It {changes} exponentially, by a factor of {np.exp(law.rate):.4g} per step",
            "polynomial": f"It {changes} as a power of the lag k, (1 + k)^{law.rate:.2f}",
            "flat": "It hardly changes with the lag",
            "irregular": "It has no clear decay pattern",
            "none": "It has no decay pattern, for fewer than three lags reach the output",
        }[law.kind]
        too_large = np.flatnonzero(~np.isfinite(self.norms))
        if len(too_large):
            how += f"; from lag {too_large[0]} on it is too large for floating point numbers"
        elif self.verdict == "explodes":
            how += f", {law.change:.3g} times over {len(self.norms) - 1} steps"
        elif self.expected is not None:
            how += f", which would reach 1 % at {self.expected:,.0f} steps"
        return f"{how}." + ("" if self.exact else f" Sampled with {PROBES} random vectors.")

    def brief(self) -> str:
        return (
            f"{self.verdict}, past {len(self.norms) - 1}"
            if self.horizon is None
            else f"{self.verdict} at {self.horizon}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**as_json(self), "verdict": self.verdict}

    def plot(self, axes: Any) -> None:
        """The norms over the lags, of inputs and states; dotted lines at 1 % and at the horizon."""
        curves = {"input": (self.norms, BLUE, 1.6)}
        if not isinstance(self.states, str):
            curves["state"] = ([norm or 0.0 for norm in self.states], ORANGE, 1.0)
        for kind, (norms, color, width) in curves.items():
            lags = [lag for lag, norm in enumerate(norms) if norm > 0]
            axes.plot(lags, [norms[lag] for lag in lags], color=color, linewidth=width, label=kind)
        if max(self.norms) > 0:
            axes.set_yscale("log")
            axes.axhline(LEFT * max(self.norms), color=MUTED, linewidth=0.8, linestyle=":")
            axes.legend()
        if self.horizon is not None:
            axes.axvline(self.horizon, color=MUTED, linewidth=0.8, linestyle=":")
        title = f"Gradient reach: {self.verdict} ({self.decay.kind})"
        axes.set(title=title, xlabel="lag", ylabel="norm of the gradient")


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

    Norms are root mean squares over the sequences. Up to 64 outputs the Jacobian is computed row by row; above, ``E
    |J^T v|^2 = |J|^2`` for v in N(0, I) is averaged over random vectors (Hutchinson). h_t is the state after step t;
    its gradient needs a model whose state can be passed in.

    A case in closed form: for h_t = c Q h_{t-1} + u x_t, Q orthogonal and y = h, the norm at lag k is c^k |u|. Source:
    Kerg (2022), Section 2.2.2 (back-propagation through time) and Appendix A.6, Fig. 3 (gradients of states).

    Args:
        model: a module, or a :class:`Subject`.
        length: T, the steps of the sampled inputs.
        inputs: ``(T, B, D)``, in place of sampled ones.
        loss: L of the outputs ``(S, B, C)``. Default: half the squared last output, summed over the batch.
        batch: B, the sampled sequences.
        seed: random seed of inputs and random vectors.
        probes: random vectors for a model of more than 64 outputs.
    """
    subject = Subject.of(model)
    generator = torch.Generator().manual_seed(seed)
    if inputs is None:
        inputs = subject.sample(check_size("length", length), check_size("batch", batch), generator)
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
    return GradientReach(norms.tolist(), states, exact, law, end, expected_horizon(law) if end is None else None)


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

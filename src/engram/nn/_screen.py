"""Which states that leave the short-term buffer go on into the relevant set: a score, and the highest scores stay."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from engram.errors import DTypeError, OptionError, ShapeError, check_flag, unknown

RULES = ("relevance", "first", "recency", "reservoir", "learned")
NORMED = "beta_norm"
NAMES = (*RULES, NORMED)


class Screen(NamedTuple):
    r"""A rule of screening: the score of a state when it leaves the buffer. The rho highest scores so far stay.

    A new state takes the place of the lowest score in the set if its own is higher; on a tie the old state stays.

    ============  ==================================================================================================
    rule          score of the state that leaves
    ============  ==================================================================================================
    relevance     beta, the attention it received while it was in the buffer (the paper's rule)
    first         the same for all, so that the first rho states stay for ever
    recency       the number of its step: the last nu + rho states are attended, and no other
    reservoir     a random number, sampled before the loop: the set is a uniform random sample of the past
    learned       :math:`w^\top h`, which is also added to the alignment of the states in the set, and so trained
    a function    ``screen(beta, h)``, of beta ``(B,)`` and the state ``(B, H)``, without history: scores ``(B,)``
    ============  ==================================================================================================

    Args:
        rule (str or callable): a name of the table, or a function. Default: ``relevance``.
        beta_norm (bool): count an attention weight as alpha |M| / (nu + rho), |M| the number of states attended to.
            Without it the first states, which had few competitors, have the highest beta. Default: False.

    A function is run when the layer is traced: numbers of Python that it reads keep their value, tensors may change.
    NaN and -inf count as the lowest finite score. The parameters of a module that is given as a function are not among
    those of the layer.

    A layer also takes the names alone, and ``beta_norm`` for ``Screen("relevance", beta_norm=True)``.
    """

    rule: str | Callable[[Tensor, Tensor], Tensor] = "relevance"
    beta_norm: bool = False

    @property
    def words(self) -> str:
        """As a layer takes it, for its ``repr``."""
        if callable(self.rule):
            name = getattr(self.rule, "__name__", type(self.rule).__name__)
            return f"Screen({name}, beta_norm=True)" if self.beta_norm else name
        return repr(NORMED if self.beta_norm else self.rule)

    @property
    def samples(self) -> bool:
        """Whether it needs a random number per row and step."""
        return self.rule == "reservoir"

    @property
    def learns(self) -> bool:
        """Whether its score has a weight."""
        return self.rule == "learned"

    def score(self, beta: Tensor, h: Tensor, step: Tensor, noise: Tensor | None, weight: Tensor | None) -> Tensor:
        """The score ``(B, 1)`` of the states h ``(B, H)`` that leave the buffer.

        Args:
            beta: ``(B, 1)``, the attention that they received.
            h: the states.
            step: ``(B, 1)``, the number of the step at which they were made.
            noise: ``(B, 1)``, uniform in [0, 1); of a rule that samples.
            weight: ``(H, 1)``, of a rule that learns.
        """
        if callable(self.rule):
            return _checked(self.rule(beta[:, 0].detach(), h.detach()), beta)[:, None]
        if weight is not None:
            return (h @ weight).to(beta.dtype)
        if noise is not None:
            return noise
        if self.rule == "relevance":
            return beta
        return torch.zeros_like(beta) if self.rule == "first" else step.to(beta.dtype)


ScreenLike = str | Screen | Callable[[Tensor, Tensor], Tensor]


def make_screen(screen: ScreenLike) -> Screen:
    """A screen by its name, by its function, or as it is."""
    if not isinstance(screen, Screen):
        screen = Screen(beta_norm=True) if screen == NORMED else Screen(screen)
    if not callable(screen.rule) and screen.rule not in RULES:
        raise unknown("screen", screen.rule, NAMES)
    check_flag("beta_norm", screen.beta_norm)
    if screen.beta_norm and not (screen.rule == "relevance" or callable(screen.rule)):
        raise OptionError(f"beta_norm changes how beta is counted, which the rule {screen.rule!r} does not read")
    return screen


def _checked(scores: Tensor, beta: Tensor) -> Tensor:
    """What a function of a person's own returns."""
    rows = "one score per row of the batch"
    if not isinstance(scores, Tensor):
        raise DTypeError(f"screen(beta, h) must return a tensor, {rows}; got {type(scores).__name__}")
    if scores.shape != beta[:, 0].shape:
        raise ShapeError(
            f"screen(beta, h) must return {rows}, of the shape of beta, {tuple(beta[:, 0].shape)}; got "
            f"{tuple(scores.shape)}. Sum over the units of h, or drop the axis of 1"
        )
    if not scores.is_floating_point():
        raise DTypeError(f"screen(beta, h) must return real numbers; got {scores.dtype}. Use scores.to(beta.dtype)")
    scores, lowest = scores.detach().to(beta.dtype), torch.finfo(beta.dtype).min
    return torch.where(scores > lowest, scores, lowest)  # NaN too: only an empty place is at -inf

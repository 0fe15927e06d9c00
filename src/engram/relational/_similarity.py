"""How the objects of a sequence relate to each other, pair by pair: the one part that relational networks differ in."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import check_choice, check_flag
from engram.relational._decoder import linear_layer
from engram.relational._sequence import check_sequence, check_sizes

SIMILARITIES = ("symmetric", "asymmetric", "diff", "mix")
ENTRIES = ("tril", "causal", "full")
Similarities = Literal["symmetric", "asymmetric", "diff", "mix"]
Entries = Literal["auto", "tril", "causal", "full"]
KEY = 32
"""The size of the signature of a rule, for ``mix``."""


class Similarity(nn.Module):
    r"""The matrix of relations between all pairs of steps.

    .. math::
        S_{ij} &= z_i^\top z_j && \text{symmetric} \\
        S_{ij} &= (W_1 z_i)^\top (W_2 z_j) && \text{asymmetric} \\
        D_{ij} &= w^\top z_i - w^\top z_j && \text{diff} \\
        M &= \textstyle\sum_r a_r M_r, \quad a = \mathrm{gumbel\,softmax}_r(k_r^\top W_q [z_1; \dots; z_T]),
        \quad M_r \in \{R, D\} && \text{mix}

    and of S the softmax of each row, :math:`R_{i \cdot} = \mathrm{softmax}_j S_{i \cdot}`. There is no factor
    :math:`1/\sqrt F`. S is symmetric, R is not: every row has a normaliser of its own. In ``mix`` one rule wins:
    in training a sample at temperature 1, straight through, in evaluation the larger. Source: Kerg (2022), Sections
    5.5, 5.6, 7.2 and 7.3; the sizes of ``mix`` are ours.

    ``entries`` says what is left of a matrix: ``full`` all of it; ``tril`` the lower triangle with the diagonal, of
    rows normalised over all steps; ``causal`` the same of rows normalised over the steps up to their own. The text of
    the source has the full matrix, its Table C.3 the counts of the triangle.

    Args:
        input_size: F, the features of a code.
        steps: T.
        similarity: ``symmetric``, ``asymmetric``, ``diff`` or ``mix``. Default: ``symmetric``.
        softmax: normalise the rows of S; D never is. Default: True.
        entries: ``tril``, ``causal`` or ``full``. Default: ``auto``, which is ``tril``, and ``full`` for ``diff``
            and ``mix``.

    Inputs: codes ``(T, B, F)``. Outputs: relations ``(B, T, T)``, 0 where there is no entry; ``flat`` gives the entries
    alone, ``(B, entry_count)``.
    """

    lower: Tensor
    places: Tensor

    def __init__(
        self,
        input_size: int,
        steps: int,
        similarity: Similarities = "symmetric",
        *,
        softmax: bool = True,
        entries: Entries = "auto",
    ) -> None:
        super().__init__()
        self.kind = check_choice("similarity", similarity, SIMILARITIES)
        check_sizes(input_size=input_size, steps=steps)
        self.input_size, self.steps, self.softmax = input_size, steps, check_flag("softmax", softmax)
        default = "full" if similarity in ("diff", "mix") else "tril"
        self.entries = default if entries == "auto" else check_choice("entries", entries, ENTRIES)
        if similarity == "asymmetric":
            self.first = linear_layer(input_size, input_size, bias=False)
            self.second = linear_layer(input_size, input_size, bias=False)
        if similarity in ("diff", "mix"):
            self.scalar = linear_layer(input_size, 1, bias=False)
        if similarity == "mix":
            self.query = linear_layer(steps * input_size, KEY, bias=False)
            self.signatures = nn.Parameter(torch.randn(2, KEY) / math.sqrt(KEY))
        lower = torch.ones(steps, steps, dtype=torch.bool).tril()
        seen = torch.ones_like(lower) if self.entries == "full" else lower
        self.register_buffer("lower", lower, persistent=False)
        self.register_buffer("places", seen.flatten().nonzero()[:, 0], persistent=False)

    @property
    def entry_count(self) -> int:
        """T^2 or T (T + 1) / 2."""
        return len(self.places)

    def forward(self, codes: Tensor) -> Tensor:
        relations = self.relations(codes)
        return relations if self.entries == "full" else relations.masked_fill(~self.lower, 0.0)

    def flat(self, codes: Tensor) -> Tensor:
        """The entries of each sequence, row by row: ``(B, entry_count)``."""
        return self.relations(codes).flatten(1)[:, self.places]

    def relations(self, codes: Tensor) -> Tensor:
        """``(B, T, T)``, with all entries."""
        codes = check_sequence(self, codes, self.steps)
        if self.kind == "diff":
            return self.differences(codes)
        if self.kind != "mix":
            return self.normalised(self.scores(codes))
        chosen = self.choice(codes)[..., None, None]
        return chosen[:, 0] * self.normalised(self.scores(codes)) + chosen[:, 1] * self.differences(codes)

    def scores(self, codes: Tensor) -> Tensor:
        """S, ``(B, T, T)``."""
        rows = codes.transpose(0, 1)
        if self.kind == "asymmetric":
            return self.first(rows) @ self.second(rows).mT
        return rows @ rows.mT

    def differences(self, codes: Tensor) -> Tensor:
        """D, ``(B, T, T)``."""
        numbers = self.scalar(codes.transpose(0, 1))
        return numbers - numbers.mT

    def normalised(self, scores: Tensor) -> Tensor:
        """R, or S itself without softmax."""
        if not self.softmax:
            return scores
        return (scores.masked_fill(~self.lower, -math.inf) if self.entries == "causal" else scores).softmax(-1)

    def choice(self, codes: Tensor) -> Tensor:
        """The weights of the rules of ``mix``, ``(B, 2)``: 1 for the one that wins, R or D, and 0 for the other."""
        logits = self.query(codes.transpose(0, 1).flatten(1)) @ self.signatures.mT
        if self.training:
            return F.gumbel_softmax(logits, tau=1.0, hard=True)
        return F.one_hot(logits.argmax(-1), 2).to(logits.dtype)

    def extra_repr(self) -> str:
        return f"{self.steps}, {self.kind}, softmax={self.softmax}, entries={self.entries!r}"

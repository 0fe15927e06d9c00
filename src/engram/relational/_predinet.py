"""PrediNet: pairs of objects chosen by attention, compared along learned directions."""

import torch
from torch import Tensor, nn

from engram.relational._decoder import Decoder, linear_layer, tagged
from engram.relational._sequence import check_sequence, check_sizes


class PrediNet(nn.Module):
    r"""PrediNet: each head picks two objects and takes their difference.

    .. math::
        x_t = [z_t; t], \quad K_t = W_k x_t, \quad Q^{(1)}, Q^{(2)} = W_1 [x_1; \dots; x_T], W_2 [x_1; \dots; x_T], \\
        E^{(s)}_h = \sum_t \mathrm{softmax}_t(Q^{(s)}_h \cdot K_t) \, x_t, \quad
        D_h = [W_s E^{(1)}_h - W_s E^{(2)}_h; \ t(E^{(1)}_h); \ t(E^{(2)}_h)], \\
        y = W_4 \, \mathrm{relu}(W_3 [D_1; \dots; D_H] + b_3) + b_4

    where t(E) is the last feature of E, the mean position that the head looks at. Positions count from 0. Keys, queries
    and W_s have no bias. Source: Shanahan et al. 2020; sizes and initial distributions, the program of Webb et al.
    2021.

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        steps: T, the objects of a sequence.
        hidden_size: the units of the decoder. Default: 8.
        heads: H. Default: 32.
        key_size: the features of keys and queries. Default: 16.
        relations: the directions that a head compares along. Default: 16.

    Inputs: codes ``(T, B, F)``. Outputs: ``(B, C)``.
    """

    equation = "E1, E2 = two objects by attention per head, y = MLP([W_s E1 - W_s E2; t1; t2] of all heads)"
    source = "Shanahan et al. 2020 (PrediNet)"
    count = "1024 T (D + 1) + 32 (D + 1) + 576 N + N + C (N + 1)"
    step_cost = "O(1024 D)"

    def __init__(
        self,
        input_size: int,
        output_size: int,
        steps: int,
        hidden_size: int = 8,
        *,
        heads: int = 32,
        key_size: int = 16,
        relations: int = 16,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, steps=steps, heads=heads, key_size=key_size, relations=relations)
        self.input_size, self.steps, self.heads = input_size, steps, heads
        size = input_size + 1
        self.key = linear_layer(size, key_size, bias=False)
        self.queries = nn.ModuleList(linear_layer(steps * size, heads * key_size, bias=False) for _ in range(2))
        self.directions = linear_layer(size, relations, bias=False)
        self.decoder = Decoder(heads * (relations + 2), hidden_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes, self.steps)
        rows = tagged(codes).transpose(0, 1)
        keys = self.key(rows)
        first, second = (self.chosen(query, rows, keys) for query in self.queries)
        compared = self.directions(first) - self.directions(second)
        heads = torch.cat([compared, first[..., -1:], second[..., -1:]], -1)
        answers: Tensor = self.decoder(heads.flatten(-2))
        return answers

    def chosen(self, query: nn.Module, rows: Tensor, keys: Tensor) -> Tensor:
        """What each head looks at, ``(B, H, F + 1)``."""
        queries = query(rows.flatten(-2)).unflatten(-1, (self.heads, -1))
        return (queries @ keys.mT).softmax(-1) @ rows

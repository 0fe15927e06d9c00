"""CoRelNet with a transformer in place of its perceptron: a row of similarities is a token."""

import torch
from torch import Tensor, nn

from engram.errors import check_flag, check_size
from engram.relational._attention import EncoderLayer
from engram.relational._decoder import Decoder, linear_layer
from engram.relational._sequence import check_sequence, check_sizes
from engram.relational._similarity import Entries, Similarities, Similarity


class CoRelNetT(nn.Module):
    r"""CoRelNet-T: rows of the similarities through one layer of a transformer.

    .. math::
        x_i = W_x [R_i; p_i] + b_x, \quad x \leftarrow \mathrm{EncoderLayer}(x), \quad
        y = W_2 \, \mathrm{relu}\Big(W_1 \frac{1}{T} \sum_i x_i + b_1\Big) + b_2

    where R are the similarities of :class:`Similarity` and :math:`p_i` a learned vector per position. The source gives
    8 heads, a dimension of 512, queries of 8 and positions of 8, and no equation; we read them as tokens of 8 x 8
    features with a feed-forward part of 512. Source: Kerg (2022), Section 5.5 and Appendix C.1.

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        steps: T, the objects of a sequence.
        hidden_size: the units of the decoder. Default: 256.
        heads: of the attention. Default: 8.
        head_size: the features of a query. Default: 8.
        position_size: the features of a position. Default: 8.
        feedforward: the units of the feed-forward part. Default: 512.
        similarity: ``symmetric``, ``asymmetric``, ``diff`` or ``mix``. Default: ``symmetric``.
        softmax: normalise the rows of the similarities. Default: True.
        entries: what of a row a token has, ``full``, ``tril`` or ``causal``; the rest is 0. Default: ``full``.
        sensory: a token has the code too, [R_i; z_i; p_i]. Default: False.

    Inputs: codes ``(T, B, F)``. Outputs: ``(B, C)``.
    """

    equation = "y = MLP(mean_i EncoderLayer([R_i; p_i])), R = softmax(S), S_ij = z_i . z_j"
    source = "Kerg et al. 2022 (CoRelNet-T)"
    count = "N (8H + 1) + C (N + 1) + 8H (T + 32H + 1042) + 8T + 512, H heads"
    step_cost = "O(T D + 512 H)"

    def __init__(
        self,
        input_size: int,
        output_size: int,
        steps: int,
        hidden_size: int = 256,
        *,
        heads: int = 8,
        head_size: int = 8,
        position_size: int = 8,
        feedforward: int = 512,
        similarity: Similarities = "symmetric",
        softmax: bool = True,
        entries: Entries = "full",
        sensory: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, output_size=output_size, steps=steps)
        self.input_size, self.steps, self.sensory = input_size, steps, check_flag("sensory", sensory)
        self.similarity = Similarity(input_size, steps, similarity, softmax=softmax, entries=entries)
        self.positions = nn.Parameter(torch.randn(steps, check_size("position_size", position_size)))
        size = check_size("heads", heads) * check_size("head_size", head_size)
        self.token = linear_layer(steps + (input_size if sensory else 0) + position_size, size)
        self.layer = EncoderLayer(size, heads, check_size("feedforward", feedforward))
        self.decoder = Decoder(size, hidden_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes, self.steps)
        parts = [self.similarity(codes)]
        if self.sensory:
            parts.append(codes.transpose(0, 1))
        parts.append(self.positions.expand(codes.shape[1], -1, -1))
        tokens = self.layer(self.token(torch.cat(parts, -1)))
        answers: Tensor = self.decoder(tokens.mean(-2))
        return answers

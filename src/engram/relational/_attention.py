"""One encoder layer of a transformer, with the choice that keys are queries."""

import torch
from torch import Tensor, nn

from engram.errors import OptionError, check_flag, check_size
from engram.relational._decoder import linear_layer, relu_layer


class EncoderLayer(nn.Module):
    r"""Self-attention and a feed-forward part, each with a sum and a normalisation after it; no dropout.

    .. math::
        A_h = \mathrm{softmax}_j \frac{(Q_h x_i)^\top (K_h x_j)}{\sqrt{F / H}}, \quad
        x_i \leftarrow \mathrm{LN}(x_i + W_o [A_h V_h x]_h), \quad
        x_i \leftarrow \mathrm{LN}(x_i + W_2 \, \mathrm{relu}(W_1 x_i))

    with biases everywhere: ``torch.nn.TransformerEncoderLayer`` in its default order. With ``symmetric`` the keys use
    the matrix of the queries, :math:`K_h = Q_h`. Attention weights and the feed-forward part start Xavier and Kaiming
    normal, biases at 0 (Webb et al. 2021).

    Args:
        size: F, the features of a token.
        heads: H, which divides F.
        feedforward: the units of the feed-forward part.
        symmetric: keys are queries. Default: False.

    Inputs: tokens ``(B, T, F)``. Outputs: the same shape.
    """

    def __init__(self, size: int, heads: int, feedforward: int, symmetric: bool = False) -> None:
        super().__init__()
        if check_size("size", size) % check_size("heads", heads):
            raise OptionError(
                f"the features of a token are divided among the heads: {size} is no multiple of heads={heads}"
            )
        self.heads, self.symmetric = heads, check_flag("symmetric", symmetric)
        self.projections = linear_layer(size, (2 if symmetric else 3) * size)
        self.merge = linear_layer(size, size)
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.widen, self.narrow = relu_layer(size, feedforward), relu_layer(feedforward, size)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.first(tokens + self.attended(tokens))
        found: Tensor = self.second(tokens + self.narrow(torch.relu(self.widen(tokens))))
        return found

    def attended(self, tokens: Tensor) -> Tensor:
        """W_o of all heads, ``(B, T, F)``."""
        parts = [self._by_head(part) for part in self.projections(tokens).chunk(2 if self.symmetric else 3, -1)]
        queries, keys, values = (parts[0], *parts) if self.symmetric else parts
        weights = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1)
        merged: Tensor = self.merge((weights @ values).transpose(-3, -2).flatten(-2))
        return merged

    def _by_head(self, part: Tensor) -> Tensor:
        """``(B, T, F)`` to ``(B, H, T, F / H)``."""
        return part.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

"""A transformer of one layer, as the relational papers compare with."""

import torch.nn.functional as F
from torch import Tensor, nn

from engram.relational._attention import EncoderLayer
from engram.relational._decoder import Decoder, sinusoids
from engram.relational._sequence import check_sequence, check_sizes


class Transformer(nn.Module):
    r"""A transformer over the codes, averaged over the sequence.

    .. math::
        x_t = z_t + p_t, \quad x \leftarrow \mathrm{EncoderLayer}(x) \ \text{(num\_layers times)}, \quad
        y = W_2 \, \mathrm{relu}\Big(W_1 \frac{1}{T} \sum_t \mathrm{LN}(x_t) + b_1\Big) + b_2

    with sinusoidal positions p. Source: Vaswani et al. 2017; sizes and initial distributions, the program of Webb et
    al. 2021; the symmetric variant, whose keys use the matrix of the queries, Kerg (2022), Appendix C.8.

    Args:
        input_size: F, the features of a code; filled up with zeros to a multiple of ``heads``.
        output_size: C, the classes.
        num_layers: the encoder layers. Default: 1.
        hidden_size: the units of the decoder. Default: 256.
        heads: of the attention. Default: 8.
        feedforward: the units of the feed-forward part. Default: 512.
        symmetric: keys are queries. Default: False.

    Inputs: codes ``(T, B, F)``. Outputs: ``(B, C)``.
    """

    equation = "y = MLP(mean_t LN(EncoderLayer(z_t + p_t)))"
    source = "Vaswani et al. 2017; Webb et al. 2021"
    count = "N (D + 1) + C (N + 1) + 4D^2 + 1035 D + 512"
    step_cost = "O(D^2 + T D)"

    def __init__(
        self,
        input_size: int,
        output_size: int,
        num_layers: int = 1,
        hidden_size: int = 256,
        *,
        heads: int = 8,
        feedforward: int = 512,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, num_layers=num_layers, heads=heads, feedforward=feedforward)
        self.input_size, self.size = input_size, -(-input_size // heads) * heads
        layers = [EncoderLayer(self.size, heads, feedforward, symmetric) for _ in range(num_layers)]
        self.layers, self.norm = nn.Sequential(*layers), nn.LayerNorm(self.size)
        self.decoder = Decoder(self.size, hidden_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes)
        codes = F.pad(codes, (0, self.size - self.input_size))
        positions = sinusoids(len(codes), self.size).to(codes)
        tokens = self.norm(self.layers((codes + positions[:, None]).transpose(0, 1)))
        answers: Tensor = self.decoder(tokens.mean(-2))
        return answers

    def extra_repr(self) -> str:
        return f"{self.input_size}"

"""The relation network: one perceptron for every pair of objects, and a sum."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.relational._decoder import Decoder, relu_layer, tagged
from engram.relational._sequence import check_sequence, check_sizes


class RelationNetwork(nn.Module):
    r"""The relation network (RN): all ordered pairs, an object with itself too.

    .. math::
        x_t = [z_t; t], \quad
        g(x_i, x_j) = \mathrm{relu}(W_2 \, \mathrm{relu}(W_1 [x_i; x_j] + b_1) + b_2), \quad
        y = W_4 \, \mathrm{relu}\Big(W_3 \sum_{i, j} g(x_i, x_j) + b_3\Big) + b_4

    Positions count from 0. W_1 [x_i; x_j] is computed as a sum of two parts, each once per object and not once per
    pair. Source: Santoro et al. 2017; sizes and initial distributions, the program of Webb et al. 2021.

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        hidden_size: the units of the first layer of g. Default: 512.
        pair_size: the units of the second layer of g, and of the decoder. Default: 256.

    Inputs: codes ``(T, B, F)``, any T. Outputs: ``(B, C)``.
    """

    equation = "y = MLP(sum_ij g([z_i; i; z_j; j])), g a perceptron of two layers"
    source = "Santoro et al. 2017 (RN)"
    count = "N (2D + 259) + 257 C + 66048"
    step_cost = "O(T N 256)"

    def __init__(self, input_size: int, output_size: int, hidden_size: int = 512, *, pair_size: int = 256) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden_size=hidden_size, pair_size=pair_size)
        self.input_size = input_size
        self.first = relu_layer(2 * (input_size + 1), hidden_size)
        self.second = relu_layer(hidden_size, pair_size)
        self.decoder = Decoder(pair_size, pair_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes)
        objects = tagged(codes)
        left, right = self.first.weight.chunk(2, -1)
        ahead, behind = F.linear(objects, left, self.first.bias), F.linear(objects, right)
        pairs = torch.relu(self.second(torch.relu(ahead[:, None] + behind)))
        answers: Tensor = self.decoder(pairs.sum((0, 1)))
        return answers

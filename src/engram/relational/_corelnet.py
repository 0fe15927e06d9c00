"""The compositional relational network: similarities, and nothing else, to an answer."""

import torch
from torch import Tensor, nn

from engram.errors import check_flag
from engram.relational._decoder import Decoder
from engram.relational._sequence import check_sequence, check_sizes
from engram.relational._similarity import Entries, Similarities, Similarity


class CoRelNet(nn.Module):
    r"""CoRelNet: the decoder sees how similar the objects are, never the objects.

    .. math::
        S_{ij} = z_i^\top z_j, \quad R_{i \cdot} = \mathrm{softmax}_j S_{i \cdot}, \quad
        y = W_2 \, \mathrm{relu}(W_1 \, \mathrm{flat}(R) + b_1) + b_2

    With the symmetric similarity y does not change when all codes are multiplied by one orthogonal matrix.

    Args:
        input_size: F, the features of a code.
        output_size: C, the classes.
        steps: T, the objects of a sequence.
        hidden_size: the units of the decoder; CoRelNet-nhid of the source is this network with another number of them.
            Default: 256.
        similarity: ``symmetric``, ``asymmetric``, ``diff`` or ``mix``, see :class:`Similarity`. Default: ``symmetric``.
        softmax: normalise the rows of the similarities. Default: True.
        entries: what of the matrix the decoder sees, ``tril``, ``causal`` or ``full``. Default: ``auto``, which is
            ``tril``, and ``full`` for ``diff`` and ``mix``.
        sensory: give the codes to the decoder too, [flat(R); z_1; ...; z_T]. Default: False.

    Inputs: codes ``(T, B, F)``. Outputs: ``(B, C)``.

    Attributes:
        decoder.hidden.weight: ``(hidden_size, T (T + 1) / 2)``, or T^2 columns with ``full``, or T F more with
            ``sensory``.
        decoder.answer.weight: ``(C, hidden_size)``.

    With codes of 128 numbers, the encoder of images and context normalisation it has 198624 + 256 + 128 T (T + 1) +
    256 + 257 C parameters, as in Table C.3 of the source. Source: Kerg (2022), Section 5.5.

    Example::

        >>> CoRelNet(128, 4, 9)(torch.randn(9, 32, 128)).shape
        torch.Size([32, 4])
    """

    equation = "y = MLP(flat(softmax(S))), S_ij = z_i . z_j"
    source = "Kerg et al. 2022 (CoRelNet)"
    count = "N (T(T+1)/2 + 1) + C (N + 1)"
    step_cost = "O(T D + T N)"

    def __init__(
        self,
        input_size: int,
        output_size: int,
        steps: int,
        hidden_size: int = 256,
        *,
        similarity: Similarities = "symmetric",
        softmax: bool = True,
        entries: Entries = "auto",
        sensory: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, output_size=output_size, steps=steps)
        self.input_size, self.steps, self.sensory = input_size, steps, check_flag("sensory", sensory)
        self.similarity = Similarity(input_size, steps, similarity, softmax=softmax, entries=entries)
        seen = self.similarity.entry_count + (steps * input_size if sensory else 0)
        self.decoder = Decoder(seen, hidden_size, output_size)

    def forward(self, codes: Tensor) -> Tensor:
        codes = check_sequence(self, codes, self.steps)
        seen = self.similarity.flat(codes)
        if self.sensory:
            seen = torch.cat([seen, codes.transpose(0, 1).flatten(1)], -1)
        answers: Tensor = self.decoder(seen)
        return answers

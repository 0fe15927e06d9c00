"""The layers of state space blocks: S4D, with a diagonal state matrix, and S4, with a diagonal one plus low rank."""

from typing import Unpack

from engram.errors import OptionError
from engram.nn._inputs import Rows
from engram.nn._options import BlockOptions
from engram.nn._recurrent import Recurrent
from engram.nn._s4_cell import S4Cell, S4DCell
from engram.state import State


class S4D(Recurrent):
    r"""A stack of diagonal state space blocks, trained by convolution and run step by step.

    .. math::
        u = \mathrm{norm}(x), \quad s_t = \bar A s_{t-1} + \bar B u_t, \quad v_t = 2\,\mathrm{Re}(C s_t) + D u_t, \quad
        y_t = x_t + \mathrm{GLU}(W\, \mathrm{GELU}(v_t) + b)

    One system of state size N for each of the H features. Whole sequences are a convolution with the kernel
    :math:`K_k = 2\,\mathrm{Re}(C \bar A^k \bar B)`, by FFT; a state passed in adds what it would have said,
    :math:`2\,\mathrm{Re}(C \bar A^{t+1} s_0)`. One step costs O(N) per feature.

    Args:
        input_size (int): D. Where it differs from H, a linear encoder stands before the first block, and with
            ``bidirectional`` before every block (they see 2H features).
        hidden_size (int): H, the number of features.
        num_layers (int): L, the number of blocks. Default: 1.
        state_size (int): N, even: states come in conjugate pairs. Default: 64.
        n_ssm (int or None): S, the copies of lambda and B, each shared by H/S features. Default: None, a copy per
            feature.
        init (str): of lambda: ``legs``, ``lin``, ``inv`` or ``real``. Default: ``legs``.
        discretization (str or None): ``zoh`` or ``bilinear``. Default: None, which is ``zoh``.
        dt_min (float): Delta starts log-uniform between dt_min and dt_max. Default: 0.001.
        dt_max (float): see dt_min. Default: 0.1.
        dt_transform (str): Delta is the ``exp`` or the ``softplus`` of its weight. Default: ``exp``.
        norm (str): ``layer``, ``batch`` (statistics over all steps and rows) or ``none``. Default: ``layer``.
        prenorm (bool): normalise before the systems, on the branch; False: after the residual sum. Default: True.
        block_dropout (float): probability of dropout before the GELU, after it, and of the branch as a whole;
            ``dropout``, as in torch, acts between blocks. Default: 0.0.
        two_sided (bool): a second kernel, one more C, reads what is yet to come (as the source does on Long Range
            Arena),
            on whole sequences only; ``bidirectional``, as in torch, is a second stack of blocks. Default: False.
        mode (str): ``convolution``, or ``recurrence``, step by step; both give the same. Default: ``convolution``.
        bias (bool): of the linear maps. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, state
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        state: an :class:`S4State`, the last output ``(L*directions, B, H)`` and ``memory``
            ``(L*directions, B, H, N/2, 2)``, real and imaginary parts (no B if unbatched). Default: zeros.

    Outputs: output, state
        output: ``(T, B, directions*H)``, in the form of the input; state: an :class:`S4State` of the last step.

    Cost: O(T B H (log T + N + H)) time, O(T B H) memory.

    Source: Gu et al. 2022.

    Example::

        >>> layer = S4D(10, 20, 2, state_size=8)
        >>> output, state = layer(torch.randn(5, 3, 10))
        >>> output.shape, state.memory.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20, 4, 2]))
    """

    cell = S4DCell
    source = "Gu et al. 2022 (S4D)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        state_size: int = 64,
        n_ssm: int | None = None,
        init: str = "legs",
        discretization: str | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_transform: str = "exp",
        norm: str = "layer",
        prenorm: bool = True,
        block_dropout: float = 0.0,
        two_sided: bool = False,
        mode: str = "convolution",
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            state_size=state_size,
            n_ssm=n_ssm,
            init=init,
            discretization=discretization,
            dt_min=dt_min,
            dt_max=dt_max,
            dt_transform=dt_transform,
            norm=norm,
            prenorm=prenorm,
            block_dropout=block_dropout,
            two_sided=two_sided,
            mode=mode,
            **options,
        )

    def _starts(self, rows: Rows, state: State, unbatched: bool) -> list[State]:
        if self.cells[0].two_sided and (state is not None or self.checkpoint_every is not None):
            raise OptionError("two_sided layers need the whole sequence at once: no state, no checkpoint_every")
        if state is None and self.checkpoint_every is None:
            return [None] * len(self.cells)  # zero, and known to be: it has nothing to say
        return super()._starts(rows, state, unbatched)

    def initial_state(self, batch: int) -> State:
        if self.cells[0].two_sided:
            raise OptionError("two_sided layers read the whole sequence at once and have no state to start from")
        return super().initial_state(batch)


class S4(S4D):
    r"""A stack of structured state space blocks: :class:`S4D` with a state matrix that is diagonal plus low rank.

    .. math:: A = \mathrm{diag}(\lambda) - p p^*

    starts as HiPPO-LegS, and is discretised by the bilinear rule. The kernel comes from its generating function at the
    roots of unity, a Cauchy sum in a form without the pole at -1. Parameters of a block without its encoder:
    cHN + 3NS + 2H + (2H^2 + 2H) + 2H, c = 2 if ``two_sided``, else 1.

    Args:
        input_size (int): D. Where it differs from H, a linear encoder stands before the first block, and with
            ``bidirectional`` before every block (they see 2H features).
        hidden_size (int): H, the number of features.
        num_layers (int): L, the number of blocks. Default: 1.
        state_size (int): N, even: states come in conjugate pairs. Default: 64.
        n_ssm (int or None): S, the copies of lambda and B, each shared by H/S features. Default: None, a copy per
            feature.
        init (str): of lambda: ``legs``, the only one. Default: ``legs``.
        discretization (str or None): ``bilinear``, the only one. Default: None, which is ``bilinear``.
        dt_min (float): Delta starts log-uniform between dt_min and dt_max. Default: 0.001.
        dt_max (float): see dt_min. Default: 0.1.
        dt_transform (str): Delta is the ``exp`` or the ``softplus`` of its weight. Default: ``exp``.
        norm (str): ``layer``, ``batch`` (statistics over all steps and rows) or ``none``. Default: ``layer``.
        prenorm (bool): normalise before the systems, on the branch; False: after the residual sum. Default: True.
        block_dropout (float): probability of dropout before the GELU, after it, and of the branch as a whole;
            ``dropout``, as in torch, acts between blocks. Default: 0.0.
        two_sided (bool): a second kernel, one more C, reads what is yet to come (as the source does on Long Range
            Arena),
            on whole sequences only; ``bidirectional``, as in torch, is a second stack of blocks. Default: False.
        mode (str): ``convolution``, or ``recurrence``, step by step; both give the same. Default: ``convolution``.
        bias (bool): of the linear maps. Default: True.
        batch_first (bool): input and output are ``(B, T, ...)`` in place of ``(T, B, ...)``; states are not affected.
            Default: False.
        dropout (float): probability with which a unit between two layers is dropped in training. Default: 0.0.
        bidirectional (bool): a second cell per layer reads backwards, and outputs are concatenated. Default: False.
        output_all_layers (bool): return the outputs of all layers, a tuple of L. Default: False.
        return_sequence (bool): False returns the last step only, ``(B, directions*H)``. Default: True.
        checkpoint_every (int or None): keep every n-th state and compute the others again in the backward pass,
            which saves memory. Default: None.
        check_finite (bool): refuse NaN and infinity in the input. Default: False.
        laws (dict or None): initial distributions by parameter name, see :mod:`engram.nn.laws`. Default: None, those of
            this layer.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights, real. Default: None, torch's default.

    Inputs: input, state
        input: ``(T, B, D)``; ``(B, T, D)`` with ``batch_first``; ``(T, D)`` unbatched; or a PackedSequence.
        state: an :class:`S4State`, the last output ``(L*directions, B, H)`` and ``memory``
            ``(L*directions, B, H, N/2, 2)``, real and imaginary parts (no B if unbatched). Default: zeros.

    Outputs: output, state
        output: ``(T, B, directions*H)``, in the form of the input; state: an :class:`S4State` of the last step.

    Cost: O(T B H (log T + N + H) + T H N + H N^3 log T) time.

    Source: Gu et al. 2022.
    """

    cell = S4Cell
    source = "Gu et al. 2022 (S4)"

"""How many parameters a network of given sizes has."""


def rnn_parameters(hidden: int, depth: int, inputs: int = 1) -> int:
    """Of L layers of n units with d inputs and one bias per layer, without readout: (2L - 1) n^2 + (L + d) n.

    Source: Lizaire et al. (2026), Appendix A.5.

    Args:
        hidden: n, the units of a layer.
        depth: L, the layers.
        inputs: d, the numbers of an input.

    >>> rnn_parameters(10, 8, 5)
    1630
    """
    return (2 * depth - 1) * hidden**2 + (depth + inputs) * hidden


def rac_parameters(modes: int, channels: int, depth: int, outputs: int) -> int:
    """Of a recurrent arithmetic circuit, R M + (L - 1) R^2 + L R^2 + C R: input weights, recurrent weights, readout.

    Source: the shapes of Ziv (2019), Section 1.1.1.

    Args:
        modes: M, the numbers of an input.
        channels: R, the units of a layer.
        depth: L, the layers.
        outputs: C, the numbers of an output.

    >>> rac_parameters(3, 3, 2, 1)
    39
    """
    return channels * modes + (2 * depth - 1) * channels**2 + outputs * channels

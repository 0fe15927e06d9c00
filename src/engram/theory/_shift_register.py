"""A linear RNN that copies its input p steps later, exactly: shift registers, one after the other."""

import torch
from torch import nn

from engram.errors import OptionError, check_size
from engram.nn import LinearRNN
from engram.theory._size import largest_lag


@torch.no_grad()
def shift_register(
    hidden: int, lag: int, channels: int = 1, *, depth: int | None = None, inputs: int | None = None
) -> tuple[LinearRNN, nn.Linear]:
    """A linear RNN and a readout that give y_t = x_{t-p}, exactly, and 0 for t <= p.

    Every layer has one shift register per channel: the input enters at its last unit, each step moves all numbers on by
    one unit, and the layer above reads the first unit. A register of k + 1 units delays by k steps. The p d delays are
    shared out among the layers, n - d in each.

    Args:
        hidden: n, the units of a layer.
        lag: p, the steps between an input and its copy.
        channels: d, how many inputs are copied, the first ones.
        depth: L, the layers; default: the fewest that are enough.
        inputs: the size of the input; default: ``channels``.

    Returns: a float64 layer with inputs ``(T, B, inputs)``, and a readout to ``(T, B, d)``.

    Source: Lizaire et al. (2026), Appendix A.3, Lemma 2, for d = 1. Its readout (the first unit) is right only where
    n - 1 divides p; here the registers have the lengths that are needed.
    """
    check_size("lag", lag, least=0)
    if depth is not None:
        check_size("depth", depth)
    room = hidden - channels
    least = max(1, -(-lag * channels // room)) if room > 0 else 1
    most = largest_lag(hidden, depth or least, channels)
    check_lag(lag, most, hidden, depth, channels)
    wide = check_size("inputs", channels if inputs is None else inputs, channels)
    layer = LinearRNN(wide, hidden, depth or least, bias=False, dtype=torch.float64)
    readout = nn.Linear(hidden, channels, bias=False, dtype=torch.float64)
    left = [lag] * channels
    sources = list(range(channels))  # the unit of the layer below that gives each channel
    for cell in layer.cells:
        cell.weight_ih.zero_()
        cell.weight_hh.zero_()
        free, first = room, 0
        for channel in range(channels):
            delay = min(free, left[channel])
            free, left[channel] = free - delay, left[channel] - delay
            cell.weight_ih[first + delay, sources[channel]] = 1
            for unit in range(first, first + delay):
                cell.weight_hh[unit, unit + 1] = 1
            sources[channel] = first
            first += delay + 1
    readout.weight.zero_()[range(channels), sources] = 1
    return layer, readout


def check_lag(lag: int, most: int, hidden: int, depth: int | None, channels: int) -> None:
    """Refuse a lag above ``most``, the largest at these sizes, and say what would help.

    Args:
        lag: p, the steps between an input and its copy.
        most: the largest lag.
        hidden: n, the units of a layer.
        depth: L, the layers; None: any number of them.
        channels: d, the numbers that are copied.
    """
    if lag <= most:
        return
    layers = "any number of layers" if depth is None else f"{depth} layer{'s' * (depth != 1)}"
    raise OptionError(
        f"{layers} of {hidden} unit{'s' * (hidden != 1)} can copy {channels} channel{'s' * (channels != 1)} with a lag "
        f"of at most {most}, got lag {lag}: use more units" + (", or more layers" if hidden > channels else "")
    )

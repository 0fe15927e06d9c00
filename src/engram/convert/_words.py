"""Words as inputs of a network: lists of symbols 0, 1, ..., read one-hot."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from engram.errors import OptionError
from engram.nn import Recurrent

Words = Sequence[Sequence[int]]


@torch.no_grad()
def word_values(layer: Recurrent, readout: nn.Linear, words: Words) -> Tensor:
    """readout(h_T) after every word, ``(words, outputs)``; all words are one batch.

    Args:
        layer: reads symbols one-hot, time first, and returns all steps.
        readout: of the state after the last symbol; for the empty word, of the initial state.
        words: lists of symbols 0, 1, ...
    """
    check_words(words, layer.input_size)
    if not len(words):
        return readout.weight.new_zeros(0, readout.out_features)
    lengths = torch.tensor([len(word) for word in words])
    inputs = torch.zeros(max(1, int(lengths.max())), len(words), layer.input_size, dtype=readout.weight.dtype)
    places = [(t, k, symbol) for k, word in enumerate(words) for t, symbol in enumerate(word)]
    if places:
        inputs[torch.tensor(places).unbind(1)] = 1.0
    initial: Tensor = layer.cells[-1].initial_state(len(words))
    states = torch.cat([initial[None], layer(inputs)[0]])
    values: Tensor = readout(states[lengths, torch.arange(len(words))])
    return values


def check_words(words: Words, symbols: int) -> None:
    """Raise an error for a symbol outside 0 .. symbols - 1."""
    for word in words:
        for symbol in word:
            if symbol not in range(symbols):
                raise OptionError(f"a word must have the symbols 0 to {symbols - 1}, got {symbol!r}")

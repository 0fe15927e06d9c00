"""Weighted automata and bilinear networks of symbols: one function, two ways to write it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.convert._automaton_file import read_weights, write_weights
from engram.convert._hankel import exact_minimal, numerical_minimal
from engram.errors import DataError, DTypeError, EngramError, NonFiniteError, OptionError, ShapeError
from engram.nn import BilinearCell, BilinearRNN, Recurrent

Array = npt.NDArray[Any]
Words = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class WeightedAutomaton:
    """A function of words: f(s_1 ... s_T) = initial A(s_1) ... A(s_T) final.

    ``initial`` ``(n)``, ``transitions`` ``(symbols, n, n)`` (from a row to a column), ``final`` ``(n)``, or
    ``(n, C)`` where the value of a word is C numbers. Either float64, or exact: arrays of ``fractions.Fraction`` or
    whole numbers (dtype object). A probabilistic automaton is one whose values are the probabilities of words.

    >>> coin = WeightedAutomaton(np.ones(1), np.full((2, 1, 1), 0.25), np.array([0.5]))
    >>> float(coin.value([0, 1]))
    0.03125
    """

    initial: Array
    transitions: Array
    final: Array

    def __post_init__(self) -> None:
        parts = [np.asarray(part) for part in (self.initial, self.transitions, self.final)]
        exact = any(part.dtype == object for part in parts)
        for name, part in zip(("initial", "transitions", "final"), parts, strict=True):
            if part.dtype.kind not in "fiuO" or (part.dtype == object and not all(map(_is_ratio, part.flat))):
                raise DTypeError(f"the weights of an automaton are real numbers or Fractions; {name} is not")
            if part.dtype != object and not np.isfinite(part).all():
                raise NonFiniteError("the weights of an automaton must be finite")
            object.__setattr__(self, name, _rational(part) if exact else part.astype(np.float64))
        n, (symbols, *sides), (ends, *outputs) = self.initial.size, *(part.shape or (0,) for part in parts[1:])
        fits = self.initial.shape == (n,) and sides == [n, n] and ends == n and len(outputs) < 2
        if not fits or 0 in (n, symbols, *outputs):
            raise ShapeError(
                f"an automaton of n states has initial (n), transitions (symbols, n, n) and final (n) or (n, outputs), "
                f"none of them 0; got {', '.join(str(part.shape) for part in parts)}"
            )

    @property
    def states(self) -> int:
        return len(self.initial)

    @property
    def symbols(self) -> int:
        return len(self.transitions)

    @property
    def exact(self) -> bool:
        """Whether the weights are rational numbers."""
        return bool(self.initial.dtype == object)

    def value(self, word: Sequence[int]) -> Any:
        """f(word), by the definition: in rational numbers if the weights are."""
        _check_words([word], self.symbols)
        state = self.initial
        for symbol in word:
            state = state @ self.transitions[symbol]
        return state @ self.final

    def rounded(self) -> Self:
        """With weights in float64."""
        try:
            return type(self)(*(part.astype(np.float64) for part in (self.initial, self.transitions, self.final)))
        except OverflowError:
            raise NonFiniteError("these exact weights are too large for float64: write them to .json") from None

    def minimise(self, tolerance: float | None = None) -> Self:
        """The same function with the fewest states: as many as the rank of the Hankel matrix f(uv), u and v words.

        Args:
            tolerance: None is exact, for exact weights only. Else singular values of the Hankel matrix up to
                ``tolerance`` times the largest count as zero: nearly the same function, in float64.

        A function that is zero keeps one state.
        """
        final = self.final.reshape(self.states, -1)
        if tolerance is None and not self.exact:
            raise OptionError("weights in float64 are minimised up to a tolerance, such as 1e-10; exact ones without")
        if tolerance is None:
            initial, transitions, final = exact_minimal(self.initial, self.transitions, final)
        else:
            plain = self.rounded()
            weights = plain.initial, plain.transitions, plain.final.reshape(self.states, -1)
            initial, transitions, final = numerical_minimal(*weights, tolerance)
        return type(self)(initial, transitions, final.reshape(-1, *self.final.shape[1:]))

    @torch.no_grad()
    def to_network(self) -> tuple[BilinearRNN, nn.Linear]:
        """A layer in float64 that reads one-hot symbols, and its read-out: ``word_values`` gives f.

        A_iak = transitions[a, i, k], h_0 = initial, read-out final^T.
        """
        plain = self.rounded()
        initial, transitions, final = map(torch.from_numpy, (plain.initial, plain.transitions, plain.final))
        layer = BilinearRNN(self.symbols, self.states, initial_state="trained", dtype=torch.float64)
        layer.cells[0].tensor.copy_(transitions.transpose(0, 1))
        layer.cells[0].start.copy_(initial)
        final = final.reshape(self.states, -1)
        readout = nn.Linear(self.states, final.shape[1], bias=False, dtype=torch.float64)
        readout.weight.copy_(final.mT)
        return layer, readout

    @classmethod
    @torch.no_grad()
    def from_network(cls, layer: Recurrent, readout: nn.Linear, embedding: Tensor | None = None) -> Self:
        """The automaton of readout(h_T) for a layer whose step is linear in the state.

        Args:
            layer: a BilinearRNN, SecondOrderRNN, CPRNN or CPBIRNN of one layer with activation "identity".
            readout: its bias, and what a step adds without the state, go through one state more, which is always 1.
            embedding: ``(symbols, D)``, what the layer gets for a symbol; one-hot unless given.
        """
        cell = _linear_cell(layer)
        weights = torch.eye(layer.input_size) if embedding is None else embedding
        if weights.dim() != 2 or weights.shape[1] != layer.input_size:
            raise ShapeError(f"embedding must be (symbols, {layer.input_size}), got {tuple(weights.shape)}")
        drive, n = cell.drive(weights.double()), layer.hidden_size
        rows = F.pad(torch.eye(n, dtype=torch.float64), (0, 0, 0, 1))  # the states of a basis, and zero
        steps = torch.stack(
            [cell.step(tuple(r.expand(n + 1, -1) for r in row), rows) for row in zip(*drive, strict=True)]
        )
        moves, added = steps[:, :n] - steps[:, n:], steps[:, n]
        bias = torch.zeros(readout.out_features) if readout.bias is None else readout.bias
        final = readout.weight.double().mT
        initial = cell.initial_state(1)[0]
        if bool(added.any() or bias.any()):
            last = F.pad(added, (0, 1), value=1.0)[:, None]  # the row of the state that is always 1
            moves = torch.cat([F.pad(moves, (0, 1)), last], 1)
            final = torch.cat([final, bias.double()[None]])
            initial = F.pad(initial, (0, 1), value=1.0)
        return cls(initial.numpy(), moves.numpy(), (final[:, 0] if final.shape[1] == 1 else final).numpy())

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Of a PAutomaC model file (plain or .gz; exact decimals), or of a file of :meth:`write`."""
        weights = read_weights(Path(path))
        try:
            return cls(*weights)
        except EngramError as error:
            raise DataError(f"{path}: {error}") from None

    def write(self, path: Path | str) -> None:
        """``.json``: the weights, rational ones as texts such as "1/3"; ``.safetensors``: those of the network."""
        write_weights(Path(path), self.initial, self.transitions, self.final)


@torch.no_grad()
def word_values(layer: Recurrent, readout: nn.Linear, words: Words) -> Tensor:
    """readout(h_T) of every word, read one-hot by a layer that runs over all of them at once: ``(words, outputs)``.

    The layer takes time first and gives all steps. The empty word is read out from the initial state.
    """
    _check_words(words, layer.input_size)
    if not len(words):
        return readout.weight.new_zeros(0, readout.out_features)
    lengths = torch.tensor([len(word) for word in words])
    inputs = torch.zeros(max(1, int(lengths.max())), len(words), layer.input_size, dtype=readout.weight.dtype)
    places = [(t, k, symbol) for k, word in enumerate(words) for t, symbol in enumerate(word)]
    if places:
        inputs[torch.tensor(places).unbind(1)] = 1.0
    begin: Tensor = layer.cells[-1].initial_state(len(words))
    states = torch.cat([begin[None], layer(inputs)[0]])
    values: Tensor = readout(states[lengths, torch.arange(len(words))])
    return values


def _rational(part: Array) -> Array:
    """Numbers beside exact ones are taken as the ratios they are."""
    return part if part.dtype == object else np.vectorize(Fraction, otypes=[object])(part)


def _is_ratio(number: object) -> bool:
    return isinstance(number, Rational | np.integer)


def _check_words(words: Words, symbols: int) -> None:
    for word in words:
        for symbol in word:
            if symbol not in range(symbols):
                raise OptionError(f"a word is made of the symbols 0 to {symbols - 1}, got {symbol!r}")


def _linear_cell(layer: Recurrent) -> BilinearCell:
    """Its cell, in float64, if a step is linear in the state."""
    cell = layer.cells[0] if isinstance(layer, Recurrent) else None
    if not isinstance(cell, BilinearCell):
        raise DTypeError(
            f"an automaton is a BilinearRNN, SecondOrderRNN, CPRNN or CPBIRNN; got {type(layer).__name__}, "
            "whose matrix is the same for all symbols"
        )
    if cell.activation != "identity":
        raise OptionError(f"activation={cell.activation!r} is no automaton: a step must be linear, with 'identity'")
    if layer.num_layers != 1 or layer.bidirectional:
        directions = "two directions" if layer.bidirectional else "one direction"
        raise OptionError(
            f"an automaton is one layer in one direction; got {layer.num_layers} layers in {directions}: "
            "a second layer multiplies states with each other"
        )
    if cell.reference_weight.is_complex():
        raise DTypeError(f"the weights of an automaton are real, got {cell.reference_weight.dtype}")
    return copy.deepcopy(cell).double()

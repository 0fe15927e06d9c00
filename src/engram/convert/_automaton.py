"""Weighted automata and the linear second-order networks that compute the same function of words.

Source of the networks: Lizaire et al. (2026), Section 2, Definition 2 (BIRNN, 2RNN) and Definition 4 (CPRNN).
"""

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
from engram.convert._words import check_words
from engram.errors import DataError, DTypeError, EngramError, NonFiniteError, OptionError, ShapeError
from engram.nn import BilinearCell, BilinearRNN, Recurrent

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class WeightedAutomaton:
    """A function of words: f(s_1 ... s_T) = initial A(s_1) ... A(s_T) final.

    A probabilistic automaton is one whose values are the probabilities of words. The weights are float64, or exact:
    arrays of dtype object with ``fractions.Fraction`` or whole numbers.

    Args:
        initial: ``(n)``, the weights of the n states before the first symbol.
        transitions: A, ``(symbols, n, n)``, from the state of the row to that of the column.
        final: ``(n)``, or ``(n, C)`` if the value of a word is C numbers.

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
                raise DTypeError(f"the weights of an automaton must be real numbers or Fractions; {name} has others")
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
        """Whether the weights are exact (rational numbers)."""
        return bool(self.initial.dtype == object)

    def value(self, word: Sequence[int]) -> Any:
        """f(word), computed by the definition; exact if the weights are."""
        check_words([word], self.symbols)
        state = self.initial
        for symbol in word:
            state = state @ self.transitions[symbol]
        return state @ self.final

    def rounded(self) -> Self:
        """The same automaton with weights in float64."""
        try:
            return type(self)(*(part.astype(np.float64) for part in (self.initial, self.transitions, self.final)))
        except OverflowError:
            raise NonFiniteError("these exact weights are too large for float64: write them to a .json file") from None

    def minimise(self, tolerance: float | None = None) -> Self:
        """The automaton of the same function with the fewest states: the rank of the Hankel matrix f(uv), u, v words.

        The function that is 0 for all words keeps one state.

        Args:
            tolerance: singular values of the Hankel matrix up to ``tolerance`` times the largest one count as zero; the
                result is nearly the same function, in float64. Values are compared with those of words of the same
                length, so that the scale of the weights does not matter. Default: none, for exact weights only; the
                result is exact.
        """
        final = self.final.reshape(self.states, -1)
        if tolerance is None and not self.exact:
            raise OptionError("weights in float64 need a tolerance, such as 1e-10, to be minimised; exact ones do not")
        if tolerance is None:
            initial, transitions, final = exact_minimal(self.initial, self.transitions, final)
        else:
            floats = self.rounded()
            weights = floats.initial, floats.transitions, floats.final.reshape(self.states, -1)
            initial, transitions, final = numerical_minimal(*weights, tolerance)
        return type(self)(initial, transitions, final.reshape(-1, *self.final.shape[1:]))

    @torch.no_grad()
    def to_network(self) -> tuple[BilinearRNN, nn.Linear]:
        """A float64 layer that reads symbols one-hot, and a readout: :func:`engram.convert.word_values` of both is f.

        The tensor of the layer is A_iak = transitions[a, i, k], its initial state is initial, the readout is final^T.
        """
        floats = self.rounded()
        initial, transitions, final = map(torch.from_numpy, (floats.initial, floats.transitions, floats.final))
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
        """The automaton that computes readout(h_T) of a layer whose step is linear in the state.

        If the readout has a bias, or a step adds a constant, the automaton has one state more, whose value is always 1.

        Args:
            layer: a BilinearRNN, SecondOrderRNN, CPRNN or CPBIRNN of one layer with activation "identity".
            readout: of the last state.
            embedding: ``(symbols, D)``, the input of the layer for each symbol; default: one-hot.
        """
        cell = _linear_cell(layer)
        weights = torch.eye(layer.input_size) if embedding is None else embedding
        if weights.dim() != 2 or weights.shape[1] != layer.input_size:
            raise ShapeError(f"embedding must be (symbols, {layer.input_size}), got {tuple(weights.shape)}")
        drive, n = cell.drive(weights.double()), layer.hidden_size
        rows = F.pad(torch.eye(n, dtype=torch.float64), (0, 0, 0, 1))  # the basis vectors as states, and the state zero
        steps = torch.stack(
            [cell.step(tuple(r.expand(n + 1, -1) for r in row), rows) for row in zip(*drive, strict=True)]
        )
        moves, added = steps[:, :n] - steps[:, n:], steps[:, n]
        bias = torch.zeros(readout.out_features) if readout.bias is None else readout.bias
        final = readout.weight.double().mT
        initial = cell.initial_state(1)[0]
        if bool(added.any() or bias.any()):
            last = F.pad(added, (0, 1), value=1.0)[:, None]  # from the state that is always 1
            moves = torch.cat([F.pad(moves, (0, 1)), last], 1)
            final = torch.cat([final, bias.double()[None]])
            initial = F.pad(initial, (0, 1), value=1.0)
        return cls(initial.numpy(), moves.numpy(), (final[:, 0] if final.shape[1] == 1 else final).numpy())

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a file of :meth:`write`, or a PAutomaC model file (text or .gz), whose decimals are taken exactly."""
        weights = read_weights(Path(path))
        try:
            return cls(*weights)
        except EngramError as error:
            raise DataError(f"{path}: {error}") from None

    def write(self, path: Path | str) -> None:
        """Write the weights to ``.json`` (exact ones as texts such as "1/3"), or the network to ``.safetensors``."""
        write_weights(Path(path), self.initial, self.transitions, self.final)


def _rational(part: Array) -> Array:
    """Floats as the Fractions that they are exactly."""
    return part if part.dtype == object else np.vectorize(Fraction, otypes=[object])(part)


def _is_ratio(number: object) -> bool:
    return isinstance(number, Rational | np.integer)


def _linear_cell(layer: Recurrent) -> BilinearCell:
    """A float64 copy of its cell, if a step is linear in the state."""
    cell = layer.cells[0] if isinstance(layer, Recurrent) else None
    if not isinstance(cell, BilinearCell):
        raise DTypeError(
            "the layer of an automaton must be a BilinearRNN, SecondOrderRNN, CPRNN or CPBIRNN; got "
            f"{type(layer).__name__}, whose matrix is the same for all symbols"
        )
    if cell.activation != "identity":
        raise OptionError(f"activation={cell.activation!r} is not linear in the state: an automaton needs 'identity'")
    if layer.num_layers != 1 or layer.bidirectional:
        directions = "two directions" if layer.bidirectional else "one direction"
        raise OptionError(
            f"an automaton must be one layer in one direction; got {layer.num_layers} layers in {directions}: "
            "a second layer multiplies states with each other"
        )
    if cell.reference_weight.is_complex():
        raise DTypeError(f"the weights of an automaton must be real, got {cell.reference_weight.dtype}")
    return copy.deepcopy(cell).double()

"""Conversions: a network in, another network out that computes the same function."""

from engram.convert._automaton import WeightedAutomaton
from engram.convert._circuit import circuit_to_train, mps_to_train, train_to_circuit, train_to_mps
from engram.convert._dilation import dilation
from engram.convert._linear import deepen, flat_weights, flatten
from engram.convert._onnx import sample_input, to_onnx
from engram.convert._unitary import Conversion, to_orthogonal
from engram.convert._words import word_values

__all__ = [
    "Conversion",
    "WeightedAutomaton",
    "circuit_to_train",
    "deepen",
    "dilation",
    "flat_weights",
    "flatten",
    "mps_to_train",
    "sample_input",
    "to_onnx",
    "to_orthogonal",
    "train_to_circuit",
    "train_to_mps",
    "word_values",
]

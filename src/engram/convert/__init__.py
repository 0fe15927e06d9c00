"""Constructive proofs as programs: a network becomes another one that computes the same."""

from engram.convert._automaton import WeightedAutomaton, word_values
from engram.convert._circuit import circuit_to_train, mps_to_train, train_to_circuit, train_to_mps
from engram.convert._dilation import dilation
from engram.convert._linear import deepen, flat_weights, flatten
from engram.convert._memoryless import Candidate, Found, search_memoryless
from engram.convert._onnx import sample_input, to_onnx
from engram.convert._sigmoid import Forgetting, forgetting
from engram.convert._tightness import DimensionCount, count_dimensions, memoryless_twin
from engram.convert._unitary import Conversion, to_orthogonal

__all__ = [
    "Candidate",
    "Conversion",
    "DimensionCount",
    "Forgetting",
    "Found",
    "WeightedAutomaton",
    "circuit_to_train",
    "count_dimensions",
    "deepen",
    "dilation",
    "flat_weights",
    "flatten",
    "forgetting",
    "memoryless_twin",
    "mps_to_train",
    "sample_input",
    "search_memoryless",
    "to_onnx",
    "to_orthogonal",
    "train_to_circuit",
    "train_to_mps",
    "word_values",
]

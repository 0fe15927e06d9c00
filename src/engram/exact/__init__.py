"""Exact arithmetic: matrices modulo a prime and their ranks, and networks in integers, residues or polynomials."""

from engram.exact._circuit import FieldCircuit, conjecture_circuit, constructed_circuit, random_circuit
from engram.exact._dual import Dual, Symbols, variables
from engram.exact._field import (
    PRIME,
    FieldMatrix,
    Residues,
    check_prime,
    check_seed,
    product,
    rank,
    sample,
    times,
)
from engram.exact._network import (
    Exact,
    ExactLayer,
    ExactNetwork,
    bilinear_network,
    delta,
    integers,
    random_linear_rnn,
    random_linear_weights,
    residues,
    same,
)
from engram.exact._polynomial import degree_of
from engram.exact._tensor_train import FieldTrain, constructed_train, random_train

__all__ = [
    "PRIME",
    "Dual",
    "Exact",
    "ExactLayer",
    "ExactNetwork",
    "FieldCircuit",
    "FieldMatrix",
    "FieldTrain",
    "Residues",
    "Symbols",
    "bilinear_network",
    "check_prime",
    "check_seed",
    "conjecture_circuit",
    "constructed_circuit",
    "constructed_train",
    "degree_of",
    "delta",
    "integers",
    "product",
    "random_circuit",
    "random_linear_rnn",
    "random_linear_weights",
    "random_train",
    "rank",
    "residues",
    "same",
    "sample",
    "times",
    "variables",
]

"""What theorems say about concrete networks: bounds, sizes, explicit solutions, and proofs followed in numbers.

Nothing here is a claim: :mod:`engram.certify` proves, and this room has the formulas and networks it compares with.
"""

from engram.theory import bounds
from engram.theory._attention_decay import NegativeEigenvalue
from engram.theory._attention_paths import ClosedForms, by_recursion, sum_over_paths
from engram.theory._attention_reach import gradient_norms
from engram.theory._attentive import VARIANTS, Attentive, RollOut, Variant, Weights
from engram.theory._derivatives import Autograd, Derivatives, Differentiation, DualNumbers, Problem, differentiate
from engram.theory._forgetting import Forgetting, forgetting
from engram.theory._memoryless import Candidate, SearchResult, search_memoryless
from engram.theory._parameters import rac_parameters, rnn_parameters
from engram.theory._parity import DepthOnlyParity, tanh_parity
from engram.theory._shift_register import check_lag, shift_register
from engram.theory._size import Sizing, largest_lag, least_hidden, sizings
from engram.theory._sparse_attention import Pattern, random_pattern, relay_chain
from engram.theory._tightness import DimensionCount, count_dimensions, memoryless_twin
from engram.theory._uniform_attention import (
    EIGENVALUES,
    EIGENVALUES_OF_MEANS,
    chi,
    chi_bounds,
    decay_exponent,
    measured_exponents,
    omega,
    responses,
    theta,
    theta_bounds,
)
from engram.theory._unrolled import Chain, unroll

__all__ = [
    "EIGENVALUES",
    "EIGENVALUES_OF_MEANS",
    "VARIANTS",
    "Attentive",
    "Autograd",
    "Candidate",
    "Chain",
    "ClosedForms",
    "DepthOnlyParity",
    "Derivatives",
    "Differentiation",
    "DimensionCount",
    "DualNumbers",
    "Forgetting",
    "NegativeEigenvalue",
    "Pattern",
    "Problem",
    "RollOut",
    "SearchResult",
    "Sizing",
    "Variant",
    "Weights",
    "bounds",
    "by_recursion",
    "check_lag",
    "chi",
    "chi_bounds",
    "count_dimensions",
    "decay_exponent",
    "differentiate",
    "forgetting",
    "gradient_norms",
    "largest_lag",
    "least_hidden",
    "measured_exponents",
    "memoryless_twin",
    "omega",
    "rac_parameters",
    "random_pattern",
    "relay_chain",
    "responses",
    "rnn_parameters",
    "search_memoryless",
    "shift_register",
    "sizings",
    "sum_over_paths",
    "tanh_parity",
    "theta",
    "theta_bounds",
    "unroll",
]

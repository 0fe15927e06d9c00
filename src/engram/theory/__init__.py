"""What theorems say about concrete networks: bounds, sizes, explicit solutions, and proofs followed in numbers.

Nothing here is a claim: :mod:`engram.certify` proves, and this room has the formulas and networks it compares with.
"""

from engram.theory import bounds
from engram.theory._forgetting import Forgetting, forgetting
from engram.theory._memoryless import Candidate, SearchResult, search_memoryless
from engram.theory._parameters import rac_parameters, rnn_parameters
from engram.theory._parity import DepthOnlyParity, tanh_parity
from engram.theory._shift_register import check_lag, shift_register
from engram.theory._size import Sizing, largest_lag, least_hidden, sizings
from engram.theory._tightness import DimensionCount, count_dimensions, memoryless_twin
from engram.theory._unrolled import Chain, unroll

__all__ = [
    "Candidate",
    "Chain",
    "DepthOnlyParity",
    "DimensionCount",
    "Forgetting",
    "SearchResult",
    "Sizing",
    "bounds",
    "check_lag",
    "count_dimensions",
    "forgetting",
    "largest_lag",
    "least_hidden",
    "memoryless_twin",
    "rac_parameters",
    "rnn_parameters",
    "search_memoryless",
    "shift_register",
    "sizings",
    "tanh_parity",
    "unroll",
]

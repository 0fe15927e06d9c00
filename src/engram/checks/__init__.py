"""Questions about a layer or a model, answered in words: is it compiled, does it train, does it behave like torch's?

- :func:`doctor`: where gradients are, whether every weight moves, whether each matrix is still what it should be.
- :func:`explain`: which loop a layer runs (generated C, torch operations or Python), and why.
- :func:`check_contract`: compatibility tests for a layer class of your own.
"""

from engram.checks._contract import ContractError, check_contract
from engram.checks._doctor import Diagnosis, doctor
from engram.checks._explain import CellLoop, Explanation, explain

__all__ = ["CellLoop", "ContractError", "Diagnosis", "Explanation", "check_contract", "doctor", "explain"]

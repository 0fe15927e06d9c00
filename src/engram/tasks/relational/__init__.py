"""Tasks about the relations of objects: trained on some objects (and relations), tested on others."""

from engram.tasks.relational._comparison import Comparison, TransitiveComparison
from engram.tasks.relational._distribution import Distribution3, DistributionN
from engram.tasks.relational._game import RelationalGame
from engram.tasks.relational._identity_rules import IdentityRules, IdentityRules4
from engram.tasks.relational._relational import OneAnswer, RelationalTask
from engram.tasks.relational._rmts import RelationalMatch, RelationalMatch3
from engram.tasks.relational._same_different import SameDifferent, Separated
from engram.tasks.relational._triplets import SameDifferent6

__all__ = [
    "Comparison",
    "Distribution3",
    "DistributionN",
    "IdentityRules",
    "IdentityRules4",
    "OneAnswer",
    "RelationalGame",
    "RelationalMatch",
    "RelationalMatch3",
    "RelationalTask",
    "SameDifferent",
    "SameDifferent6",
    "Separated",
    "TransitiveComparison",
]

"""Claims about networks of concrete sizes, decided by exact arithmetic and written as files that anyone can check."""

from engram.certify._attention_decay import AttentionDecayClaim
from engram.certify._attention_paths import AttentionPathsClaim
from engram.certify._attention_sparse import AttentionSparseClaim
from engram.certify._automaton import AutomatonClaim
from engram.certify._certificate import Certificate, certify
from engram.certify._claim import Claim, Found, RankClaim
from engram.certify._cost import DAY, Cost, check_large, duration, rounded
from engram.certify._cp_rank import CPRankClaim
from engram.certify._deepen import DeepenClaim
from engram.certify._degree import DegreeClaim
from engram.certify._delay import DelayClaim
from engram.certify._flat import FlatClaim
from engram.certify._homogeneous import HomogeneousClaim
from engram.certify._invariance import InvarianceClaim
from engram.certify._pair_order import PairOrderClaim
from engram.certify._params import ParamsClaim
from engram.certify._rac import RACConjectureClaim, RACDeepClaim, RACShallowClaim, RACUpperClaim, rac_claim
from engram.certify._registry import CLAIMS
from engram.certify._state_tracking import StateTrackingClaim
from engram.certify._tt import TTDifferentCoresClaim, TTEqualCoresClaim
from engram.certify._verify import verify
from engram.exact import PRIME

__all__ = [
    "CLAIMS",
    "DAY",
    "PRIME",
    "AttentionDecayClaim",
    "AttentionPathsClaim",
    "AttentionSparseClaim",
    "AutomatonClaim",
    "CPRankClaim",
    "Certificate",
    "Claim",
    "Cost",
    "DeepenClaim",
    "DegreeClaim",
    "DelayClaim",
    "FlatClaim",
    "Found",
    "HomogeneousClaim",
    "InvarianceClaim",
    "PairOrderClaim",
    "ParamsClaim",
    "RACConjectureClaim",
    "RACDeepClaim",
    "RACShallowClaim",
    "RACUpperClaim",
    "RankClaim",
    "StateTrackingClaim",
    "TTDifferentCoresClaim",
    "TTEqualCoresClaim",
    "certify",
    "check_large",
    "duration",
    "rac_claim",
    "rounded",
    "verify",
]

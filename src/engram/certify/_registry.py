"""All claims, by name. A new claim is added here."""

from engram.certify._attention_decay import AttentionDecayClaim
from engram.certify._attention_paths import AttentionPathsClaim
from engram.certify._attention_sparse import AttentionSparseClaim
from engram.certify._automaton import AutomatonClaim
from engram.certify._claim import Claim
from engram.certify._cp_rank import CPRankClaim
from engram.certify._deepen import DeepenClaim
from engram.certify._degree import DegreeClaim
from engram.certify._delay import DelayClaim
from engram.certify._flat import FlatClaim
from engram.certify._homogeneous import HomogeneousClaim
from engram.certify._invariance import InvarianceClaim
from engram.certify._pair_order import PairOrderClaim
from engram.certify._params import ParamsClaim
from engram.certify._rac import RACConjectureClaim, RACDeepClaim, RACShallowClaim, RACUpperClaim
from engram.certify._state_tracking import StateTrackingClaim
from engram.certify._tt import TTDifferentCoresClaim, TTEqualCoresClaim

CLAIMS: dict[str, type[Claim]] = {
    claim.name: claim
    for claim in (
        TTEqualCoresClaim,
        TTDifferentCoresClaim,
        RACShallowClaim,
        RACDeepClaim,
        RACConjectureClaim,
        RACUpperClaim,
        DelayClaim,
        FlatClaim,
        DeepenClaim,
        ParamsClaim,
        DegreeClaim,
        HomogeneousClaim,
        CPRankClaim,
        StateTrackingClaim,
        AutomatonClaim,
        AttentionPathsClaim,
        AttentionDecayClaim,
        AttentionSparseClaim,
        InvarianceClaim,
        PairOrderClaim,
    )
}

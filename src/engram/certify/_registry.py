"""All claims, by name."""

from engram.certify._automaton import Automaton
from engram.certify._claim import Claim
from engram.certify._claims import RACConjecture, RACDeep, RACShallow, RACUpper, TTDifferentCores, TTEqualCores
from engram.certify._cp_rank import CPRank
from engram.certify._degree import Degree
from engram.certify._delay import Delay
from engram.certify._flat import Deepen, Flat
from engram.certify._homogeneous import Homogeneous
from engram.certify._params import Params
from engram.certify._state_tracking import StateTracking

CLAIMS: dict[str, type[Claim]] = {
    claim.name: claim
    for claim in (
        TTEqualCores, TTDifferentCores, RACShallow, RACDeep, RACConjecture, RACUpper,
        Delay, Flat, Deepen, Params, Degree, Homogeneous, CPRank, StateTracking, Automaton,
    )
}  # fmt: skip

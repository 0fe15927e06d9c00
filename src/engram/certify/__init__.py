"""Exact arithmetic: a claim at concrete sizes becomes a certificate file that anyone can check again."""

from engram.certify._atlas import Range, atlas
from engram.certify._automaton import Automaton
from engram.certify._bounds import multiset
from engram.certify._by_depth import enough_templates, rac_claim
from engram.certify._certificate import Certificate, certify, verify
from engram.certify._claim import Claim, RankClaim
from engram.certify._claims import RACConjecture, RACDeep, RACShallow, RACUpper, TTDifferentCores, TTEqualCores
from engram.certify._cp_rank import CPRank
from engram.certify._degree import Degree
from engram.certify._delay import Delay, delay_line, largest_lag
from engram.certify._field import PRIME
from engram.certify._flat import Deepen, Flat
from engram.certify._homogeneous import Homogeneous
from engram.certify._min_width import min_width, parameters
from engram.certify._params import Params, Sizing, least_hidden, rnn_parameters, sizings
from engram.certify._parity import DepthOnlyParity, tanh_parity
from engram.certify._registry import CLAIMS
from engram.certify._state_tracking import StateTracking
from engram.certify._unrolled import Chain, unroll

__all__ = [
    "CLAIMS",
    "PRIME",
    "Automaton",
    "CPRank",
    "Certificate",
    "Chain",
    "Claim",
    "Deepen",
    "Degree",
    "Delay",
    "DepthOnlyParity",
    "Flat",
    "Homogeneous",
    "Params",
    "RACConjecture",
    "RACDeep",
    "RACShallow",
    "RACUpper",
    "Range",
    "RankClaim",
    "Sizing",
    "StateTracking",
    "TTDifferentCores",
    "TTEqualCores",
    "atlas",
    "certify",
    "delay_line",
    "enough_templates",
    "largest_lag",
    "least_hidden",
    "min_width",
    "multiset",
    "parameters",
    "rac_claim",
    "rnn_parameters",
    "sizings",
    "tanh_parity",
    "unroll",
    "verify",
]

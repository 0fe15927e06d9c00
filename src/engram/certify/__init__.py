"""Exact arithmetic: a claim at concrete sizes becomes a certificate file that anyone can check again."""

from engram.certify._bounds import multiset
from engram.certify._certificate import Certificate, certify, verify
from engram.certify._claims import (
    CLAIMS,
    Claim,
    RACConjecture,
    RACDeep,
    RACShallow,
    RACUpper,
    TTDifferentCores,
    TTEqualCores,
)
from engram.certify._field import PRIME

__all__ = [
    "CLAIMS",
    "PRIME",
    "Certificate",
    "Claim",
    "RACConjecture",
    "RACDeep",
    "RACShallow",
    "RACUpper",
    "TTDifferentCores",
    "TTEqualCores",
    "certify",
    "multiset",
    "verify",
]

"""Relational networks: encoder, context normalisation, similarities, CoRelNet, and what it is compared with."""

from engram.relational._attention import EncoderLayer
from engram.relational._context import ContextNorm
from engram.relational._corelnet import CoRelNet
from engram.relational._corelnet_t import CoRelNetT
from engram.relational._encoder import CODE, PixelCNN
from engram.relational._esbn import ESBN
from engram.relational._mnm import MNM
from engram.relational._ntm import NTM
from engram.relational._predinet import PrediNet
from engram.relational._rn import RelationNetwork
from engram.relational._safe_globals import safe_globals
from engram.relational._similarity import ENTRIES, SIMILARITIES, Similarity
from engram.relational._sparse import Sparse
from engram.relational._transformer import Transformer

__all__ = [
    "CODE",
    "ENTRIES",
    "ESBN",
    "MNM",
    "NTM",
    "SIMILARITIES",
    "CoRelNet",
    "CoRelNetT",
    "ContextNorm",
    "EncoderLayer",
    "PixelCNN",
    "PrediNet",
    "RelationNetwork",
    "Similarity",
    "Sparse",
    "Transformer",
    "safe_globals",
]

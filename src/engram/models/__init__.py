"""The models by name, and the network of a model on a task: encoder -> core -> head."""

from engram.models._cores import make_core
from engram.models._encoders import Embedding, Encoder, Identity, OneHot, OwnEncoder, make_encoder
from engram.models._heads import EveryStep, Head, LastStep, MeanOverTime, OwnAnswer, make_head
from engram.models._make import context_of, embedding_of, encoder_name_of, make_network, objects_of
from engram.models._model import Model, decisive
from engram.models._network import Network
from engram.models._options import Option, default_hidden, options_of
from engram.models._registry import MODELS, Entry, model_class
from engram.relational import PixelCNN

__all__ = [
    "MODELS",
    "Embedding",
    "Encoder",
    "Entry",
    "EveryStep",
    "Head",
    "Identity",
    "LastStep",
    "MeanOverTime",
    "Model",
    "Network",
    "OneHot",
    "Option",
    "OwnAnswer",
    "OwnEncoder",
    "PixelCNN",
    "context_of",
    "decisive",
    "default_hidden",
    "embedding_of",
    "encoder_name_of",
    "make_core",
    "make_encoder",
    "make_head",
    "make_network",
    "model_class",
    "objects_of",
    "options_of",
]

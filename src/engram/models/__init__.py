"""Which network is trained: its name, its sizes and its options."""

from engram.models._model import Model
from engram.models._options import Option, options_of
from engram.models._registry import model_class

__all__ = ["Model", "Option", "model_class", "options_of"]

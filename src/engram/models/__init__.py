"""Which network is trained: its name, its sizes and its options."""

from engram.models._model import Model

__all__ = ["Model"]

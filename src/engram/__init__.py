"""Recurrent networks whose memory you can measure, prove and train fast."""

from importlib.metadata import version

from engram import kernels, maps, nn
from engram.errors import EngramError

__version__ = version("engram")
__all__ = ["EngramError", "__version__", "kernels", "maps", "nn"]

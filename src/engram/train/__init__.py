"""A run: settings, a loop, and a directory that survives being stopped at any instant."""

from engram.train._denormals import without_denormals
from engram.train._directory import RunDirectory
from engram.train._fabric import make_fabric
from engram.train._network import make_network
from engram.train._optimizer import Optimizers
from engram.train._plan import plan
from engram.train._run import resume, train
from engram.train._settings import Settings, read_options
from engram.train._trained import evaluate, load_network
from engram.train._worker import Worker

__all__ = [
    "Optimizers",
    "RunDirectory",
    "Settings",
    "Worker",
    "evaluate",
    "load_network",
    "make_fabric",
    "make_network",
    "plan",
    "read_options",
    "resume",
    "train",
    "without_denormals",
]

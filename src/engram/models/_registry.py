"""The class of a model by its name."""

from torch import nn

from engram.errors import unknown
from engram.nn import MODELS, NETWORKS


def model_class(name: str) -> type[nn.Module]:
    """The class of a model.

    >>> model_class("gru")
    <class 'torch.nn.modules.rnn.GRU'>
    """
    known: dict[str, type[nn.Module]] = {**MODELS, **NETWORKS}
    if name not in known:
        raise unknown("model", name, known)
    return known[name]

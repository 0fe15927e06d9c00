"""What ``torch.load(weights_only=True)`` must know to read a whole relational network."""

import sys
from typing import Any

from torch import nn

from engram.nn import safe_globals as of_layers

ROOM = "engram.relational."
TORCH = (nn.Conv2d, nn.Flatten, nn.ReLU, nn.Sequential)
"""torch's own modules that relational networks use, besides those of engram.nn."""


def safe_globals() -> list[Any]:
    """The classes that a saved layer or relational network is made of, for ``torch.load`` to allow::

        torch.save(network, "network.pt")
        with torch.serialization.safe_globals(engram.safe_globals()):
            network = torch.load("network.pt", weights_only=True)

    Those of ``engram.nn.safe_globals()``, every relational network, its parts and states, and the modules of torch in
    them. None of them runs code out of a file, imports a module or touches a file.
    """
    rooms = [module for name, module in list(sys.modules.items()) if name.startswith(ROOM)]
    found = {thing for room in rooms for thing in vars(room).values() if isinstance(thing, type)}
    own = [kind for kind in found if kind.__module__.startswith(ROOM)]
    layers = of_layers()
    known = {*own, *TORCH} - {*layers}
    return [*layers, *sorted(known, key=lambda kind: (kind.__module__, kind.__qualname__))]

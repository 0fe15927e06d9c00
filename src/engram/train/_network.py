"""The network of a run."""

from engram.models import Network
from engram.models import make_network as network_of
from engram.train._memory import check_batches
from engram.train._settings import Settings


def make_network(settings: Settings) -> Network:
    """The network of these settings, its weights sampled from the global generator: the same in every precision."""
    check_batches(settings)
    network = network_of(settings.task, settings.model)
    return network.double() if settings.machine.precision == "64-true" else network

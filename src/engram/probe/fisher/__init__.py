"""Fisher memory: how much the state tells about past signals when every unit is noisy."""

from engram.probe.fisher._memory import FisherMemory, fisher_memory
from engram.probe.fisher._sampled import sampled_fisher_memory

__all__ = ["FisherMemory", "fisher_memory", "sampled_fisher_memory"]

"""Measure a model's memory, ours or anyone's: how far back it reaches, how much it holds, where it loses it."""

from engram.probe._capacity import MemoryCapacity, memory_capacity
from engram.probe._cost import Cost
from engram.probe._decay import Decay, fit_decay
from engram.probe._gradient import GradientReach, gradient_reach
from engram.probe._linear import linearise
from engram.probe._lyapunov import Lyapunov, lyapunov
from engram.probe._part import NotMeasured, Part
from engram.probe._parts import PARTS
from engram.probe._profile import Profile, profile
from engram.probe._run import profile_run
from engram.probe._separation import SeparationRank, separation_rank
from engram.probe._setup import Setup
from engram.probe._spectrum import Spectrum, spectrum
from engram.probe._structure import Structure, learned_structure
from engram.probe._subject import Subject
from engram.probe._untouched import untouched
from engram.probe._watch import watch
from engram.probe.fisher import FisherMemory, fisher_memory, sampled_fisher_memory

__all__ = [
    "PARTS",
    "Cost",
    "Decay",
    "FisherMemory",
    "GradientReach",
    "Lyapunov",
    "MemoryCapacity",
    "NotMeasured",
    "Part",
    "Profile",
    "SeparationRank",
    "Setup",
    "Spectrum",
    "Structure",
    "Subject",
    "fisher_memory",
    "fit_decay",
    "gradient_reach",
    "learned_structure",
    "linearise",
    "lyapunov",
    "memory_capacity",
    "profile",
    "profile_run",
    "sampled_fisher_memory",
    "separation_rank",
    "spectrum",
    "untouched",
    "watch",
]

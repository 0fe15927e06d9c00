"""The parts of a profile, the first one the most telling."""

from engram.probe._capacity import MemoryCapacity
from engram.probe._gradient import GradientReach
from engram.probe._lyapunov import Lyapunov
from engram.probe._part import Part
from engram.probe._separation import SeparationRank
from engram.probe._spectrum import Spectrum
from engram.probe._structure import Structure
from engram.probe.fisher import FisherMemory

BUILT_IN: tuple[type[Part], ...] = (
    GradientReach,
    FisherMemory,
    MemoryCapacity,
    Spectrum,
    Lyapunov,
    SeparationRank,
    Structure,
)

PARTS: dict[str, type[Part]] = {part.name: part for part in BUILT_IN}
"""The built-in parts by name."""

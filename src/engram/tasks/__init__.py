"""Seeded generators and data sets; each states its chance level and its memoryless baseline."""

from engram.tasks._adding import Adding
from engram.tasks._batches import Batches
from engram.tasks._contractive import ContractiveSystem
from engram.tasks._copy import Copy
from engram.tasks._copying_memory import CopyingMemory
from engram.tasks._denoise import Denoise
from engram.tasks._lag_copy import LagCopy
from engram.tasks._parity import Parity
from engram.tasks._patches import MNISTPatches
from engram.tasks._pautomac import PAutomaC
from engram.tasks._pixels import PermutedMNIST, PixelMNIST
from engram.tasks._seeds import seed_of, seeded
from engram.tasks._shakespeare import TinyShakespeare
from engram.tasks._sinus import CopySinus, Sinus
from engram.tasks._start_end import StartEnd
from engram.tasks._task import Batch, Task
from engram.tasks._tasks import TASKS, make_task, task_class, task_name
from engram.tasks._text import PennTreebank
from engram.tasks._transfer_copy import TransferCopy
from engram.tasks.relational import (
    Comparison,
    Distribution3,
    DistributionN,
    IdentityRules,
    IdentityRules4,
    RelationalGame,
    RelationalMatch,
    RelationalMatch3,
    RelationalTask,
    SameDifferent,
    SameDifferent6,
    Separated,
    TransitiveComparison,
)

__all__ = [
    "TASKS",
    "Adding",
    "Batch",
    "Batches",
    "Comparison",
    "ContractiveSystem",
    "Copy",
    "CopySinus",
    "CopyingMemory",
    "Denoise",
    "Distribution3",
    "DistributionN",
    "IdentityRules",
    "IdentityRules4",
    "LagCopy",
    "MNISTPatches",
    "PAutomaC",
    "Parity",
    "PennTreebank",
    "PermutedMNIST",
    "PixelMNIST",
    "RelationalGame",
    "RelationalMatch",
    "RelationalMatch3",
    "RelationalTask",
    "SameDifferent",
    "SameDifferent6",
    "Separated",
    "Sinus",
    "StartEnd",
    "Task",
    "TinyShakespeare",
    "TransferCopy",
    "TransitiveComparison",
    "make_task",
    "seed_of",
    "seeded",
    "task_class",
    "task_name",
]

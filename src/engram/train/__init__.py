"""A run: settings, a loop, and a directory that survives being stopped at any instant."""

from engram.run_files import FILES as RUN_FILES
from engram.train._denormals import without_denormals
from engram.train._directory import RunDirectory, versions
from engram.train._fabric import make_fabric
from engram.train._files import allowing
from engram.train._find_lr import RULE, RateTest, find_lr
from engram.train._flat import settings_from_flat
from engram.train._interrupt import Asked
from engram.train._loop import Loop
from engram.train._members import together_steps
from engram.train._network import make_network
from engram.train._objective import Objective, Step, Supervised, score_names
from engram.train._optimizer import Optimizers
from engram.train._plan import plan
from engram.train._run import resume, train
from engram.train._scores import Score
from engram.train._settings import FLAT, GROUPS, Settings, groups_of
from engram.train._settings_budget import Budget
from engram.train._settings_machine import Machine
from engram.train._settings_optimiser import Group, Optimiser
from engram.train._together import train_together
from engram.train._toml import to_toml
from engram.train._trained import evaluate, load_network, steps_trained
from engram.train._why_not_together import keeps_bits, why_not_together
from engram.train._worker import Worker

__all__ = [
    "FLAT",
    "GROUPS",
    "RULE",
    "RUN_FILES",
    "Asked",
    "Budget",
    "Group",
    "Loop",
    "Machine",
    "Objective",
    "Optimiser",
    "Optimizers",
    "RateTest",
    "RunDirectory",
    "Score",
    "Settings",
    "Step",
    "Supervised",
    "Worker",
    "allowing",
    "evaluate",
    "find_lr",
    "groups_of",
    "keeps_bits",
    "load_network",
    "make_fabric",
    "make_network",
    "plan",
    "resume",
    "score_names",
    "settings_from_flat",
    "steps_trained",
    "to_toml",
    "together_steps",
    "train",
    "train_together",
    "versions",
    "why_not_together",
    "without_denormals",
]

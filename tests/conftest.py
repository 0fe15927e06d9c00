"""What every test stands on: one thread, a fixed seed, a patient hypothesis."""

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # xdist already fills the cores

settings.register_profile("local", deadline=None, max_examples=25)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)

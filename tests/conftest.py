"""What every test stands on: one thread, a fixed seed, a patient hypothesis, data sets that are always there."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from engram.tasks._data import find
from engram.tasks._data_files import FILES

sys.path.insert(0, str(Path(__file__).parent))
import stand_ins
from prepared import Prepared

torch.set_num_threads(1)  # xdist already fills the cores

settings.register_profile("local", deadline=None, max_examples=25)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


def pytest_collection_finish() -> None:
    """The tests themselves live to the end: to look through all of them again takes the collector 0.6 s each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.default_generator.manual_seed(0)  # not torch.manual_seed: it notes a traceback for each device, 1 ms per test


@pytest.fixture(scope="session", autouse=True)
def data_sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """From here on every data set is its stand-in; gives the line that a program a test starts must begin with."""
    folder = tmp_path_factory.mktemp("data")
    stand_ins.write(folder)
    stand_ins.use(folder)
    yield stand_ins.PROGRAM
    stand_ins.put_away()


@pytest.fixture(scope="session")
def prepared() -> Iterator[Prepared]:
    """Starts programs in processes of their own, in which torch and engram are there already."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    server = Prepared()
    yield server
    server.end()


@pytest.fixture
def real_data(data_sets: str) -> Iterator[None]:
    """For one test the published files; it is skipped where they are not all on this machine."""
    made = os.environ["ENGRAM_DATA"]
    stand_ins.put_away()
    try:
        missing = [folder for folder, files in FILES.items() if not all(find(f"{folder}/{file}") for file in files)]
        if missing:
            pytest.skip(f"the published files of {', '.join(missing)} are not on this machine")
        yield
    finally:
        stand_ins.use(made)

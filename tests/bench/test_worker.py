"""The second process of a race: it runs what it is told to, with the engram and the variables it was given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import engram
from engram.bench._size import Size
from engram.bench._worker import SecondProcess
from engram.errors import OptionError

SIZE = Size(T=5, B=3, H=4, D=2)


@pytest.fixture(scope="module")
def worker() -> Iterator[SecondProcess]:
    with SecondProcess() as started:
        yield started


def test_it_times_a_step_itself(worker: SecondProcess) -> None:
    assert Path(worker.engram["path"]) == Path(engram.__file__)
    calls = worker.contestants(SIZE, 1, {"a": ("engram.nn:RNN", {"activation": "modrelu"}), "b": ("torch.nn:GRU", {})})
    assert calls.keys() == {"a", "b"}
    for call in calls.values():
        took = call()
        assert isinstance(took, float)
        assert 0 < took < 60
    assert worker.contestants(SIZE, 1, {}) == {}
    with pytest.raises(RuntimeError, match="KeyError: 'a'"):
        calls["a"]()  # the layers of the size before are forgotten


def test_variables_reach_it() -> None:
    """An executor that does not exist is refused where engram.loops is first imported: in the worker."""
    with SecondProcess(ENGRAM_LOOP="nonsense") as worker, pytest.raises(RuntimeError, match="unknown executor"):
        worker.contestants(SIZE, 1, {"a": ("engram.nn:RNN", {})})


def test_an_error_in_the_worker_is_told(worker: SecondProcess) -> None:
    with pytest.raises(RuntimeError, match="has no attribute 'Nobody'"):
        worker.contestants(SIZE, 1, {"a": ("engram.nn:Nobody", {})})


def test_a_worker_that_ended_is_told() -> None:
    with SecondProcess() as worker:
        worker._process.kill()
        with pytest.raises(RuntimeError, match="ended"):
            worker.contestants(SIZE, 1, {})


def test_a_folder_without_engram(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="must hold the package engram"):
        SecondProcess(tmp_path)

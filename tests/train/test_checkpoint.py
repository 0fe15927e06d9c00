"""A checkpoint is whole at every instant, whatever happens to its files, and reading one runs no code."""

import builtins
import itertools
import json
import os
import pickle
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engram.errors import RunError
from engram.files import parse_json, sealed, sha256, unseal
from engram.train import _checkpoint, evaluate, load_network, resume, train
from engram.train._checkpoint import (
    FILES,
    OLD_TENSORS,
    OLD_VALUES,
    TENSORS,
    VALUES,
    Checkpoint,
    load,
    pack,
    save,
    unpack,
)
from tiers import slow, slow_but


def sealed_values(folder: Path) -> dict[str, Any]:
    return unseal(parse_json((folder / VALUES).read_bytes(), finite=False))


def checkpoint(step: int) -> Checkpoint:
    """Step and tensor belong together."""
    return Checkpoint({"w": torch.full((3,), float(step)), "z": torch.tensor([1 + 2j * step])}, {"step": step})


def loaded_step(folder: Path) -> int:
    """The step of what is loaded; fails if tensors and values are not of the same checkpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors, values = load(folder)
    step = values["step"]
    assert tensors["w"].equal(torch.full((3,), float(step)))
    assert tensors["z"].equal(torch.tensor([1 + 2j * step]))
    return int(step)


# Round trips


def test_save_and_load(tmp_path: Path) -> None:
    """Every dtype, complex ones too, shapes without elements or dimensions, strides; bit for bit."""
    tensors = {
        "float": torch.tensor([0.1, -0.0, 1e-45, float("inf")]),
        "double": torch.randn(2, 3, dtype=torch.float64).t(),
        "bfloat": torch.randn(3).bfloat16(),
        "long": torch.tensor(7),
        "bool": torch.tensor([True, False]),
        "complex": torch.randn(2, 2, dtype=torch.complex64),
        "complex128": torch.randn(2, dtype=torch.complex128),
        "empty": torch.zeros(0, 4),
        "empty complex": torch.zeros(0, 4, dtype=torch.complex64),
    }
    save(tmp_path, Checkpoint(tensors, {"step": 3, "best": {"loss": float("inf")}, "name": "é"}))
    got = load(tmp_path)
    assert got.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert got.tensors[name].dtype == tensor.dtype
        assert got.tensors[name].shape == tensor.shape
        assert got.tensors[name].equal(tensor)
    assert str(got.tensors["float"]) == str(tensors["float"])  # -0.0 too
    assert (got.values["step"], got.values["best"], got.values["name"]) == (3, {"loss": float("inf")}, "é")


def test_tensors_that_share_memory_are_saved_apart(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    save(tmp_path, Checkpoint({"a": whole, "b": whole[:3], "c": whole}, {"step": 1}))
    assert load(tmp_path).tensors["b"].equal(whole[:3])


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
STATES = st.recursive(
    LEAVES | st.lists(st.floats(-9, 9, width=32), max_size=3).map(torch.tensor),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def alike(one: Any, two: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(two, Tensor) and one.equal(two)
    if isinstance(one, dict):
        return isinstance(two, dict) and list(one) == list(two) and all(alike(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(alike, one, two))
    return type(one) is type(two) and one == two


@given(STATES)
def test_pack_and_unpack(state: Any) -> None:
    """Also through JSON, where a dict with the keys 1 and "1", or a tuple, would not survive as such."""
    tensors: dict[str, Tensor] = {}
    packed = json.loads(json.dumps(pack("state", state, tensors)))
    assert alike(unpack(packed, tensors), state)


def test_pack_keeps_tensors_of_alike_paths_apart() -> None:
    """{"a.b": t} and {"a": {"b": u}} have the same path; so have the keys 1 and "1"."""
    for state in ({"a.b": torch.tensor(1), "a": {"b": torch.tensor(2)}}, {1: torch.tensor(1), "1": torch.tensor(2)}):
        tensors: dict[str, Tensor] = {}
        assert alike(unpack(pack("s", state, tensors), tensors), state)


@given(st.dictionaries(st.text(), st.recursive(LEAVES, lambda x: st.lists(x) | st.dictionaries(st.text(), x))))
def test_seal(values: dict[str, Any]) -> None:
    values.pop("seal", None)
    assert unseal(parse_json(sealed(values), finite=False)) == values


def test_seal_finds_any_changed_byte() -> None:
    content = sealed({"step": 3, "lr": 0.1, "name": "ab"})
    wrong = []
    for place, byte in itertools.product(range(len(content)), (1, 2, 16)):
        changed = bytearray(content)
        changed[place] ^= byte
        try:
            if unseal(parse_json(bytes(changed))) != unseal(parse_json(content)):
                wrong.append(place)
        except ValueError:
            pass  # found
    assert not wrong


# A kill at every instant of a save


class Killed(BaseException):
    """What no code of the program catches."""


@contextmanager
def killed_at(k: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """The k-th operation on files from here on (and every one after it) does not take place."""
    done = itertools.count(1)
    last = 0

    def guarded(operation: Callable[..., Any], half: bool = False) -> Callable[..., Any]:
        def instead(*args: Any, **options: Any) -> Any:
            nonlocal last
            last = next(done)
            if last >= k:
                if half and last == k:  # a write that was cut off
                    self, content = args
                    operation(self, content[: len(content) // 2])
                raise Killed
            return operation(*args, **options)

        return instead

    def opened(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        file = builtins.open(self, mode, *rest, **options)  # noqa: SIM115, PTH123
        return Slow(file, guarded) if "x" in mode else file

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", guarded(os.fsync))
        patch.setattr(Path, "replace", guarded(Path.replace))
        patch.setattr(Path, "unlink", guarded(Path.unlink))
        patch.setattr(Path, "open", opened)
        yield lambda: last


class Slow:
    """A file whose writes can be cut off half way."""

    def __init__(self, file: Any, guarded: Callable[..., Any]) -> None:
        self.file = file
        self.write = lambda content: guarded(type(self)._write, half=True)(self, content)

    def _write(self, content: bytes) -> None:
        self.file.write(content)
        self.file.flush()

    def __enter__(self) -> "Slow":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def operations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many operations a save has, in a folder of two checkpoints."""
    save(folder, checkpoint(1))
    save(folder, checkpoint(2))
    with killed_at(10**9, monkeypatch) as count:
        save(folder, checkpoint(3))
    return count()


def test_what_is_written_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files are synced before the first rename, and the folder after the last: for a loss of power."""
    save(tmp_path, checkpoint(1))
    events: list[str] = []
    real = Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda file: events.append("folder" if os.fstat(file).st_mode & 0o40000 else "file")
    )
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append("rename"), real(self, to))[1])
    save(tmp_path, checkpoint(2))
    assert events[:3] == ["file", "file", "rename"]
    assert events[-2:] == ["rename", "folder"]
    assert events[2:].count("rename") == 4
    assert "folder" in events[4:6]  # the old pair has its names before the new one comes


def test_a_kill_at_any_instant_leaves_a_whole_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one or the new one; and the saves after it work."""
    count = operations(tmp_path, monkeypatch)
    assert count >= 10  # two writes, five or more syncs, four renames
    seen = []
    for k in range(1, count + 2):
        folder = tmp_path / str(k)
        folder.mkdir()
        save(folder, checkpoint(1))
        save(folder, checkpoint(2))
        try:
            with killed_at(k, monkeypatch):
                save(folder, checkpoint(3))
        except Killed:
            pass
        seen.append(loaded_step(folder))
        save(folder, checkpoint(4))
        assert loaded_step(folder) == 4
    assert set(seen) == {2, 3}
    assert seen == sorted(seen)  # once it is the new one, it stays so


def test_any_two_kills_leave_a_whole_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in a save, resumed, killed in the next save: what the first kill left over must not do harm."""
    (tmp_path / "count").mkdir()
    count = operations(tmp_path / "count", monkeypatch)
    for first, second in itertools.product(range(1, count + 1), repeat=2):
        folder = tmp_path / f"{first}-{second}"
        folder.mkdir()
        save(folder, checkpoint(1))
        save(folder, checkpoint(2))
        for step, k in ((3, first), (4, second)):
            before = loaded_step(folder)
            try:
                with killed_at(k, monkeypatch):
                    save(folder, checkpoint(step))
            except Killed:
                pass
            assert loaded_step(folder) in (before, step), (first, second)
        shutil.rmtree(folder)


def test_a_kill_in_the_first_save_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Any, metrics: Any
) -> None:
    """There is no old one to go back to: a resume must begin at step 0, not refuse."""
    whole = metrics(train(small(steps=3), tmp_path, "whole"))
    (tmp_path / "count").mkdir()
    with killed_at(10**9, monkeypatch) as count:
        save(tmp_path / "count", checkpoint(1))
    killed = train(small(steps=3), tmp_path, "killed").folder
    for k in range(1, count() + 1):
        for name in FILES:
            (killed / name).unlink(missing_ok=True)
        facts = json.loads((killed / "run.json").read_bytes()) | {"status": "running"}
        (killed / "run.json").write_text(json.dumps(facts))
        with pytest.raises(Killed), killed_at(k, monkeypatch):
            save(killed, checkpoint(1))
        assert (killed / VALUES).exists() == (k == count())
        if k < count():
            assert metrics(resume(killed)) == whole, k


def test_a_save_under_way_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads a run while it is saved, or after it was killed then, gets the last whole one and no warning."""
    (tmp_path / "count").mkdir()
    for k in range(1, operations(tmp_path / "count", monkeypatch) + 1):
        folder = tmp_path / str(k)
        folder.mkdir()
        save(folder, checkpoint(1))
        save(folder, checkpoint(2))
        with pytest.raises(Killed), killed_at(k, monkeypatch):
            save(folder, checkpoint(3))
        assert load(folder).values["step"] in (2, 3)  # warnings are errors here


@pytest.mark.parametrize("saves", [1, 2, 3])
@pytest.mark.parametrize("reads", [1, 2, 3])
def test_saves_between_two_reads_are_no_damage(
    reads: int, saves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process trains: the values read may be of one save, and all tensors there of later ones."""
    save(tmp_path, checkpoint(1))
    save(tmp_path, checkpoint(2))
    steps, before = iter(range(3, 100)), _checkpoint.read_bounded
    count = 0

    def read_later(path: Path, limit: int) -> bytes:
        nonlocal count
        count += 1
        if count == reads:
            for _ in range(saves):
                save(tmp_path, checkpoint(next(steps)))
        return before(path, limit)

    monkeypatch.setattr(_checkpoint, "read_bounded", read_later)
    monkeypatch.setattr(_checkpoint, "read_json", lambda path, limit, **_: parse_json(read_later(path, limit)))
    tensors, values = load(tmp_path)  # warnings are errors here
    assert tensors["w"].equal(torch.full((3,), float(values["step"])))
    assert values["step"] in (2, 2 + saves)
    assert (count >= reads) == (next(steps) > 3)


def test_a_reader_beside_a_process_that_saves_all_the_time(tmp_path: Path) -> None:
    """Each checkpoint that is read is whole, none is older than the one before, and nothing is called damaged."""
    save(tmp_path, checkpoint(0))
    ended = threading.Event()

    def save_all_the_time() -> None:
        for step in itertools.count(1):
            if ended.is_set():
                return
            save(tmp_path, checkpoint(step))

    saver = threading.Thread(target=save_all_the_time)
    saver.start()
    try:
        found = []
        for _ in range(100):
            tensors, values = load(tmp_path)  # warnings are errors here
            assert tensors["w"].equal(torch.full((3,), float(values["step"])))
            found.append(values["step"])
    finally:
        ended.set()
        saver.join()
    assert found == sorted(found)
    assert found[-1] > found[0]


# Damage


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


DAMAGES = (truncated, flipped, emptied, missing, a_folder, nested)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [TENSORS, VALUES])
def test_a_damaged_checkpoint_falls_back(name: str, damage: Callable[[Path], None], tmp_path: Path) -> None:
    """To the one before, with a warning that names the file and the step."""
    save(tmp_path, checkpoint(1))
    save(tmp_path, checkpoint(2))
    damage(tmp_path / name)
    with pytest.warns(UserWarning, match=rf"damaged \({name}: .*\); going on from the one before, step 1"):
        got = load(tmp_path)
    assert got.values["step"] == 1
    assert got.tensors["w"].equal(torch.full((3,), 1.0))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [OLD_TENSORS, OLD_VALUES])
def test_damage_of_the_one_before_does_not_matter(name: str, damage: Callable[[Path], None], tmp_path: Path) -> None:
    save(tmp_path, checkpoint(1))
    save(tmp_path, checkpoint(2))
    damage(tmp_path / name)
    assert load(tmp_path).values["step"] == 2  # and no warning: warnings are errors here


@pytest.mark.parametrize("names", list(itertools.combinations(FILES, 2)), ids=" ".join)
def test_swapped_files_are_never_mixed(names: tuple[str, str], tmp_path: Path) -> None:
    """Tensors of one step never go with the values of another."""
    save(tmp_path, checkpoint(1))
    save(tmp_path, checkpoint(2))
    one, two = (tmp_path / name for name in names)
    one.rename(tmp_path / "third")
    two.rename(one)
    (tmp_path / "third").rename(two)
    same_kind = one.suffix == two.suffix
    if same_kind:
        assert loaded_step(tmp_path) in (1, 2)
    else:
        try:
            loaded_step(tmp_path)
        except RunError as error:
            assert "no checkpoint that can be read" in str(error)  # noqa: PT017


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_damaged(damage: Callable[[Path], None], tmp_path: Path) -> None:
    save(tmp_path, checkpoint(1))
    save(tmp_path, checkpoint(2))
    damage(tmp_path / VALUES)
    damage(tmp_path / OLD_VALUES)
    with pytest.raises(RunError, match=r"no checkpoint that can be read \(checkpoint.json: .*start the run again"):
        load(tmp_path)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no checkpoint that can be read"):
        load(tmp_path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_of_another_version(version: object, tmp_path: Path) -> None:
    """A later format is not a damage: nothing must be thrown away."""
    save(tmp_path, checkpoint(1))
    save(tmp_path, checkpoint(2))
    values = sealed_values(tmp_path) | {"version": version}
    (tmp_path / VALUES).write_bytes(sealed(values))
    with pytest.raises(RunError, match=rf"checkpoint.json is of version {version}, this engram reads 1"):
        load(tmp_path)


HURT = [*itertools.product([TENSORS, VALUES], [truncated, flipped, emptied, missing, nested])]


@pytest.mark.parametrize(("name", "damage"), slow_but(HURT, HURT[::3]))
def test_a_run_goes_on_from_the_one_before_and_ends_alike(
    name: str, damage: Callable[[Path], None], tmp_path: Path, small: Any, metrics: Any
) -> None:
    """The same lines and weights as without the damage; the warning is given, and stands in stdout.log."""
    whole = train(small(steps=4), tmp_path, "whole")
    hurt = train(small(steps=4), tmp_path, "hurt").folder
    damage(hurt / name)
    with pytest.warns(UserWarning, match="is damaged"):
        run = resume(hurt, steps=4)
    assert metrics(run) == metrics(whole)
    assert (hurt / TENSORS).read_bytes() == (whole.folder / TENSORS).read_bytes()
    assert f"warning: the last checkpoint of {hurt} is damaged ({name}" in (hurt / "stdout.log").read_text()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the dead close no files
@pytest.mark.parametrize("name", [slow(TENSORS), VALUES])
def test_damage_and_then_a_kill(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Any) -> None:
    """The save after a fall-back must not put the damaged checkpoint in place of the good one."""
    train(small(steps=4), tmp_path, "first")
    with killed_at(10**9, monkeypatch) as operation:
        resume(tmp_path / "first", steps=5)
    for k in range(1, operation() + 1):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "first", tmp_path / "run")
        flipped(tmp_path / "run" / name)
        with pytest.raises(Killed), killed_at(k, monkeypatch), pytest.warns(UserWarning, match="is damaged"):
            resume(tmp_path / "run", steps=6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(tmp_path / "run")


# Strangers


class Payload:
    """Unpickled, it would make a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.marker),))


def as_pickle(path: Path, marker: Path) -> None:
    path.write_bytes(pickle.dumps({"network.w": Payload(marker)}))


def as_torch_zip(path: Path, marker: Path) -> None:
    torch.save({"network.w": Payload(marker)}, path)


def as_old_torch(path: Path, marker: Path) -> None:
    torch.save({"network.w": Payload(marker)}, path, _use_new_zipfile_serialization=False)


STRANGERS = (as_pickle, as_torch_zip, as_old_torch)


@pytest.mark.parametrize("write", STRANGERS)
def test_the_malicious_file_is_one(write: Callable[[Path, Path], None], tmp_path: Path) -> None:
    """Else the next test would prove nothing."""
    write(tmp_path / "file", tmp_path / "marker")
    if write is as_pickle:
        pickle.loads((tmp_path / "file").read_bytes())
    else:
        torch.load(tmp_path / "file", weights_only=False)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("write", STRANGERS)
@pytest.mark.parametrize("name", [TENSORS, VALUES, "run.json", "metrics.jsonl"])
def test_a_stranger_runs_no_code(write: Callable[[Path, Path], None], name: str, tmp_path: Path, small: Any) -> None:
    """Put in place of any file of a run, with a matching hash: whoever reads the run refuses it, and nothing runs."""
    run, marker = train(small(steps=2), tmp_path, "run").folder, tmp_path / "marker"
    for old in (OLD_TENSORS, OLD_VALUES):
        (run / old).unlink()
    write(run / name, marker)
    if name == TENSORS:
        values = sealed_values(run) | {"tensors": sha256((run / TENSORS).read_bytes())}
        (run / VALUES).write_bytes(sealed(values))
    readers = [lambda: resume(run, steps=3)]
    if name != "metrics.jsonl":
        readers += [lambda: load_network(run), lambda: evaluate(run)]
    else:
        (run / name).write_bytes((run / name).read_bytes() + b"\n" * 999)  # not shorter than the checkpoint says
        readers = [lambda: resume(run, steps=3).metrics()]
    for read in readers:
        with pytest.raises(RunError):
            read()
    assert not marker.exists()


def set_values(run: Path, **changes: Any) -> None:
    values = sealed_values(run)
    values |= changes
    (run / VALUES).write_bytes(sealed({name: value for name, value in values.items() if value is not ...}))


FORGED = {
    "no step": {"step": ...},
    "no hash": {"tensors": ...},
    "no names": {"complex": ...},
    "names of what is not complex": {"complex": ["network.head.weight"]},
    "no optimisers": {"optimizers": []},
    "other optimisers": {"optimizers": [{"value": 3}]},
    "optimisers of a stranger": {"optimizers": [{"tensor": "no such"}]},
    "no metrics": {"metrics": ...},
    "metrics of a wrong type": {"metrics": "3"},
    "metrics negative": {"metrics": -5},
    "names that are a number": {"complex": 3},
    "a step that is negative": {"step": -1},
    "a step that is no whole number": {"step": 1.5},
    "a step that is text": {"step": "2"},
    "a step without end": {"step": 10**400},
    "a validation to come": {"validated": 3},
    "seconds that are text": {"seconds": "2"},
    "seconds that are NaN": {"seconds": float("nan")},
    "a best without loss": {"best": {"step": 0}},
    "a best loss that is text": {"best": {"step": 0, "loss": "low"}},
    "a best of a step to come": {"best": {"step": 3, "loss": 1.0}},
    "no patience": {"stale": None},
    "a plateau that is text": {"stale_rate": "2"},
    "a rate that fell by half a step": {"falls": 0.5},
    "a rate that rose": {"falls": -1},
}


def changed(packed: Any, name: str, value: Any) -> Any:
    """A packed state in which every entry of this name has another value."""
    if isinstance(packed, list):
        if len(packed) == 2 and packed[0] == name:
            return [name, {"value": value}]
        return [changed(each, name, value) for each in packed]
    return {key: changed(each, name, value) for key, each in packed.items()} if isinstance(packed, dict) else packed


OPTIMIZERS = {
    "a rate that is text": ("lr", "fast"),
    "a rate that is NaN": ("lr", float("nan")),
    "a rate that grew": ("lr", 1e30),
    "other options": ("betas", [0.1]),
    "options that are missing": ("param_groups", []),
    "moments that are text": ("exp_avg", "x"),
    "a negative step": ("step", -1),
    "half a step": ("step", 0.5),
}


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_forged_optimisers_are_refused(case: str, tmp_path: Path, small: Any) -> None:
    """They would be met in the middle of a step, if they were not looked at before."""
    run = train(small(steps=2), tmp_path, "run").folder
    for old in (OLD_TENSORS, OLD_VALUES):
        (run / old).unlink()
    values = sealed_values(run)
    assert changed(values["optimizers"], *OPTIMIZERS[case]) != values["optimizers"]
    set_values(run, optimizers=changed(values["optimizers"], *OPTIMIZERS[case]))
    with pytest.raises(RunError, match="does not fit its settings"):
        resume(run, steps=3)


@pytest.mark.parametrize("case", FORGED)
def test_forged_values_are_refused(case: str, tmp_path: Path, small: Any) -> None:
    """Well sealed, but not what this program writes: a clear refusal, not a traceback."""
    run = train(small(steps=2), tmp_path, "run").folder
    for old in (OLD_TENSORS, OLD_VALUES):
        (run / old).unlink()
    set_values(run, **FORGED[case])
    with pytest.raises(RunError):
        resume(run, steps=3)


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, small: Any) -> None:
    """By resume as by evaluate: the settings were changed by hand, or the file is of another run."""
    run = train(small(steps=2), tmp_path, "run").folder
    content = safetensors.torch.save({"network.head.weight": torch.zeros(2, 2)})
    (run / TENSORS).write_bytes(content)
    set_values(run, tensors=sha256(content))
    for read in (lambda: resume(run, steps=3), lambda: evaluate(run)):
        with pytest.raises(RunError, match="does not fit its settings"):
            read()

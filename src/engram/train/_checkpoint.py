"""The state of a run as two files, checkpoint.safetensors and checkpoint.json, and the two before.

Nothing is unpickled: tensors are read by safetensors, the rest is JSON, so a file from a stranger cannot run code.
checkpoint.json holds the hash of its tensors. At every instant of a save, one JSON file on disk has its tensors beside
it under one of the two names; the reader looks for such a pair, the newest first.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from engram.errors import RunError
from engram.files import beside, prepare, publish, read_bounded, read_json, sealed, sha256, sync_folder, unseal
from engram.places import free_memory
from engram.run_files import CHECKPOINTS as FILES

TENSORS, VALUES, OLD_TENSORS, OLD_VALUES = FILES
VERSION = 1
MOST_VALUES = 2**26
"""Bytes of a JSON file that are read at most."""
LOOKS = 100
"""How often a folder that changes under the reader is looked at."""


class Checkpoint(NamedTuple):
    """Tensors by name, and values that JSON can hold."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Put a checkpoint in place of the last one, which becomes the one before."""
    complex_names = [name for name, tensor in checkpoint.tensors.items() if tensor.is_complex()]
    plain = {
        name: (torch.view_as_real(t) if t.is_complex() else t).detach().cpu().contiguous().clone()
        for name, t in checkpoint.tensors.items()
    }
    content = safetensors.torch.save(plain)
    values = {"version": VERSION, "tensors": sha256(content), "complex": complex_names, **checkpoint.values}
    prepare(folder / TENSORS, content)
    prepare(folder / VALUES, sealed(values))
    if (folder / VALUES).exists():  # else TENSORS, if there, are those of a save that was cut off: not worth keeping
        for name, old in ((TENSORS, OLD_TENSORS), (VALUES, OLD_VALUES)):
            if (folder / name).exists():
                (folder / name).replace(folder / old)
        sync_folder(folder)
    publish(folder / TENSORS)
    publish(folder / VALUES)


def load(folder: Path) -> Checkpoint:
    """The newest checkpoint that is whole; a warning says so if that is not the last one."""
    return _find(folder)[0]


def load_for_resume(folder: Path) -> Checkpoint:
    """As :func:`load`, and what is damaged is taken away, so that no save puts it in place of what is whole."""
    checkpoint, *used = _find(folder)
    if used != [TENSORS, VALUES]:
        for name, old in ((TENSORS, OLD_TENSORS), (VALUES, OLD_VALUES)):
            if name in used:
                (folder / name).replace(folder / old)
            else:
                (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
    return checkpoint


def _find(folder: Path) -> tuple[Checkpoint, str, str]:
    """A checkpoint, and the files of its tensors and values.

    Whoever reads while another process trains may find the values of one save and the tensors of the next: only what
    is missing while all files stay as they are is damaged.
    """
    for _ in range(LOOKS):
        before = _stamps(folder)
        found, faults, is_last = _look(folder)
        if is_last or _stamps(folder) == before:
            break
    if found is None:
        raise RunError(f"{folder} has no checkpoint that can be read ({'; '.join(faults)}): start the run again")
    if not is_last:
        warnings.warn(
            f"the last checkpoint of {folder} is damaged ({faults[0]}); "
            f"going on from the one before, step {found[0].values.get('step')}",
            stacklevel=3,
        )
    return found


def _look(folder: Path) -> tuple[tuple[Checkpoint, str, str] | None, list[str], bool]:
    """The newest pair, the faults of newer files, and whether it is the last checkpoint that was saved."""
    faults: list[str] = []
    saving = beside(folder / VALUES).exists()
    cut_off = False  # a save is under way or was killed: the one before is then the last, and nothing is damaged
    for values_name in (VALUES, OLD_VALUES):
        try:
            values = unseal(read_json(folder / values_name, MOST_VALUES, finite=False))
        except (OSError, ValueError) as error:
            faults.append(f"{values_name}: {error}")
            cut_off |= saving and isinstance(error, FileNotFoundError)
            continue
        if values.get("version") != VERSION:
            raise RunError(f"{folder / values_name} is of version {values.get('version')}, this engram reads {VERSION}")
        for tensors_name in (TENSORS, OLD_TENSORS):
            tensors = _read(folder / tensors_name, values, faults)
            if tensors is not None:
                return (
                    (Checkpoint(tensors, values), tensors_name, values_name),
                    faults,
                    values_name == VALUES or cut_off,
                )
    return None, faults, False


def _stamps(folder: Path) -> list[tuple[int, int] | None]:
    """Which files have the names that a save writes to: they change with every save."""
    stamps: list[tuple[int, int] | None] = []
    for path in [folder / name for name in FILES] + [beside(folder / name) for name in (TENSORS, VALUES)]:
        try:
            found = path.lstat()
            stamps.append((found.st_ino, found.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return stamps


def _read(path: Path, values: dict[str, Any], faults: list[str]) -> dict[str, Tensor] | None:
    """The tensors of a file, if they are the ones these values belong to."""
    try:
        content = read_bounded(path, int(free_memory() * 1e6))
        if sha256(content) != values["tensors"]:
            raise ValueError("its content does not match its hash in the JSON file")
        tensors = safetensors.torch.load(content)
        for name in values["complex"]:
            tensors[name] = torch.view_as_complex(tensors[name])
        return tensors
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        faults.append(f"{path.name}: {error}")
        return None


def pack(prefix: str, state: Any, tensors: dict[str, Tensor]) -> Any:
    """A nested state_dict as JSON, its tensors moved to ``tensors`` under their path."""
    if isinstance(state, Tensor):
        while prefix in tensors:  # the keys 1 and "1" have the same path
            prefix += "_"
        tensors[prefix] = state
        return {"tensor": prefix}
    if isinstance(state, dict):
        return {"dict": [[key, pack(f"{prefix}.{key}", value, tensors)] for key, value in state.items()]}
    if isinstance(state, list | tuple):
        return {type(state).__name__: [pack(f"{prefix}.{k}", value, tensors) for k, value in enumerate(state)]}
    return {"value": state}


def unpack(packed: Any, tensors: dict[str, Tensor]) -> Any:
    """What :func:`pack` was given."""
    ((kind, content),) = packed.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: unpack(value, tensors) for key, value in content}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(unpack(value, tensors) for value in content)
    return content


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

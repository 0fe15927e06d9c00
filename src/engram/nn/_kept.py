"""A matrix under a map, kept from one call to the next while the numbers it was built from stay the same.

Text is generated one step at a time, and each step would build every matrix anew: O(N^3) for O(N^2) of work. So in
evaluation, where no gradient of it is asked for, the matrix is kept together with a copy of all that the map reads: its
free parameters, its buffers (but for constants, which no state_dict holds) and its attributes. It is given out again if
these are equal, number by number. Comparing costs as much as reading W once, and sees every way to change a weight:
optimiser steps, ``load_state_dict``, assignment, ``.to()``, edits under ``.data`` (which raise no version counter) and
those of another process in shared memory.

Not seen: what a map of one's own reads elsewhere (a global, the inside of a list), or random numbers that it samples
in evaluation.
"""

from operator import is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from engram.maps import Map, observed


class Kept(NamedTuple):
    """A matrix and what it was built from."""

    maps: list[nn.Module]
    """The maps of the entry, with their parts."""
    parts: list[object]
    """All that entry and maps hold: the same objects, or the matrix is built anew."""
    numbers: list[tuple[Tensor, Any, bytearray | Tensor, memoryview | Tensor]]
    """Of each tensor among the parts: itself, its place, a copy of its numbers, and the numbers as they are now."""
    matrix: Tensor


_kept: WeakKeyDictionary[nn.Module, Kept] = WeakKeyDictionary()  # not in the module: nothing to pickle or to copy


def matrix_of(entry: nn.Module) -> Tensor:
    """The matrix of one parametrized weight (an entry of ``module.parametrizations``), built or kept."""
    if observed():
        return _built(entry)
    if entry.training or (torch.is_grad_enabled() and any(p.requires_grad for p in entry.parameters())):
        _kept.pop(entry, None)
        return _built(entry)
    kept = _kept.get(entry)
    if kept is not None and _unchanged(entry, kept):
        return kept.matrix
    _, *maps = entry.modules()
    parts = _parts(entry, maps)
    constants = [id(m._buffers[name]) for m in maps for name in m._non_persistent_buffers_set]
    tensors = [part for part in parts if isinstance(part, Tensor) and id(part) not in constants]
    plain = all(type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta for tensor in tensors)
    if not plain or not all(isinstance(map, Map) for map in entry.children()):
        return _built(entry)
    with torch.inference_mode(False), torch.no_grad():  # else no call outside of inference mode could use it
        numbers = [(tensor, _place(tensor), *_copied(tensor)) for tensor in tensors]  # before: building may move one
        kept = _kept[entry] = Kept(maps, parts, numbers, _built(entry))
    return kept.matrix


def _built(entry: nn.Module) -> Tensor:
    matrix: Tensor = entry()
    return matrix


def _parts(entry: nn.Module, maps: list[nn.Module]) -> list[object]:
    """Attributes, parameters, buffers and submodules."""
    parts: list[object] = []
    for module in (entry, *maps):
        for held in (vars(module), module._parameters, module._buffers, module._modules):
            parts += held.values()
    return parts


def _unchanged(entry: nn.Module, kept: Kept) -> bool:
    parts = _parts(entry, kept.maps)
    return (
        len(parts) == len(kept.parts)
        and all(map(is_, parts, kept.parts))
        and all(place == _place(tensor) and _equal(copy, now) for tensor, place, copy, now in kept.numbers)
    )


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """Where its numbers are. What is looked at below holds on to that memory, so nothing else can come to lie there."""
    return tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.data_ptr()


def _copied(tensor: Tensor) -> tuple[bytearray | Tensor, memoryview | Tensor]:
    """A copy of the numbers, and a way to look at them; on the CPU as bytes, which compare ten times faster."""
    now = tensor.detach()
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        return now.clone(), now
    look: memoryview = (now.view(torch.int16) if now.dtype == torch.bfloat16 else now).numpy().data
    return bytearray(look), look


def _equal(copy: bytearray | Tensor, now: memoryview | Tensor) -> bool:
    return torch.equal(copy, now) if isinstance(copy, Tensor) and isinstance(now, Tensor) else copy == now

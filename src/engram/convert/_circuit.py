"""One function, three names: shallow arithmetic circuits, equal-core tensor trains, matrix product states."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, ShapeError
from engram.nn import RAC, TensorTrainNet

CLOSE = 1e-8
"""Relative distance up to which a core counts as that of a circuit."""


def circuit_to_train(circuit: RAC, readout: Tensor, steps: int) -> TensorTrainNet:
    """The tensor train of readout h_T after ``steps`` inputs, ``readout`` ``(Y, R)``.

    G_1 = W_I^T diag(a), G[k', d, k] = W_I[k, d] W_H[k, k'], G_d = G readout^T. The inputs are the features.
    """
    return TensorTrainNet.from_circuit(circuit, readout, steps)


@torch.no_grad()
def train_to_circuit(train: TensorTrainNet) -> tuple[RAC, Tensor]:
    """A circuit and a read-out ``(Y, R)`` with the scores of the train, where there is one.

    Its inputs are the features, ``train.encode(x)``. The slice G[:, :, k] must be the product of W_H[k] and W_I[k],
    and G_1[:, k] a multiple of W_I[k]. W_I[k] = G_1[:, k] is taken, so that a = 1; where that is zero, a_k = 0 and the
    direction of W_I[k] comes from the slice. Another train is refused with the distance that is left.
    """
    if not train.equal_cores or train.own_cores or train.steps < 3:
        kind = "cores of each class" if train.own_cores else "equal cores" if train.equal_cores else "different cores"
        raise OptionError(
            f"a circuit is a train with equal cores, shared by the classes, of at least 3 steps; "
            f"got one with {kind} of {train.steps} steps"
        )
    core, into = train.core(2)[0], train.first[0].mT.clone()  # (R, M, R) and (R, M)
    silent = ~into.any(1)
    into[silent] = torch.linalg.svd(core.permute(2, 0, 1)).Vh[silent, 0]
    hidden = torch.einsum("jdk,kd->kj", core, into) / into.square().sum(1, keepdim=True)
    _check_close("core", torch.einsum("kd,kj->jdk", into, hidden), core)
    rows, last = core.flatten(0, 1), train.last[0].flatten(0, 1)
    readout = torch.linalg.lstsq(rows, last, driver="gelsd").solution
    _check_close("last core", rows @ readout, last)
    start = "trained" if bool(silent.any()) else "ones"
    circuit = RAC(train.features, train.rank, initial_state=start, dtype=core.dtype)
    cell = circuit.cells[0]
    cell.weight_ih.copy_(into)
    cell.weight_hh.copy_(hidden)
    if cell.start_product is not None:
        cell.start_product.copy_(~silent)
    return circuit, readout.mT.contiguous()


def _check_close(what: str, nearest: Tensor, given: Tensor) -> None:
    distance, size = float((nearest - given).norm()), float(given.norm())
    if distance > CLOSE * size:
        raise OptionError(
            f"this train is not a circuit of its rank: its {what} is {distance:.3g} away from that of the nearest one, "
            f"at a norm of {size:.3g}"
        )


@torch.no_grad()
def train_to_mps(train: TensorTrainNet) -> list[Tensor]:
    """The cores ``(r, m, r')`` of a matrix product state, one an input, for the features of the train.

    The first bond is 1, the last is the class: W_y = the product of all cores, at [0, y]. Classes with cores of their
    own become the blocks of one state of Y times the rank.
    """
    first = torch.cat(list(train.first), -1)[None]  # (1, m, g r)
    inner = [_blocks(train.core(k)) for k in range(2, train.steps)]
    return [first, *inner, _blocks(train.last)]


def _blocks(core: Tensor) -> Tensor:
    """``(g, a, m, b)`` as the diagonal blocks of ``(g a, m, g b)``."""
    groups = torch.eye(len(core), dtype=core.dtype, device=core.device)
    return torch.einsum("gaib,gh->gaihb", core, groups).flatten(3, 4).flatten(0, 1)


@torch.no_grad()
def mps_to_train(cores: Sequence[Any]) -> TensorTrainNet:
    """The tensor-train network of a matrix product state: cores ``(r, m, r')`` of numpy or torch, first bond 1.

    The last bond is the classes. Bonds of different sizes are filled up with zeros to the largest. Inner cores that are
    all the same become the one core of a train with equal cores. The inputs are the features.
    """
    parts = [torch.from_numpy(core) if isinstance(core, np.ndarray) else core for core in cores]
    shapes = [tuple(part.shape) for part in parts]
    fits = len(parts) > 1 and all(len(shape) == 3 for shape in shapes)
    fits = fits and shapes[0][0] == 1 and len({shape[1] for shape in shapes}) == 1
    if not fits or any(a[2] != b[0] for a, b in pairwise(shapes)):
        raise ShapeError(
            "a matrix product state is two or more cores (r, m, r') of one m, each r' the next r, the first r 1; "
            f"got {shapes}"
        )
    rank, modes, inner = max(shape[0] for shape in shapes[1:]), shapes[0][1], parts[1:-1]
    equal = len(inner) > 0 and all(torch.equal(core, inner[0]) for core in inner)
    options: dict[str, Any] = {"features": 0, "equal_cores": equal, "device": parts[0].device, "dtype": parts[0].dtype}
    train = TensorTrainNet(modes, rank, shapes[-1][2], len(parts), **options)
    for weight in train.parameters():
        weight.zero_()
    train.first[0, :, : shapes[0][2]] = parts[0][0]
    for k, core in enumerate(inner[:1] if equal else inner):
        train.inner[0, k, : core.shape[0], :, : core.shape[2]] = core
    train.last[0, : shapes[-1][0]] = parts[-1]
    return train

"""Shallow recurrent arithmetic circuits, tensor trains and matrix product states, converted into each other.

Source: Ziv (2019), Section 1.3.4 and Appendix A.2 (a shallow circuit is a tensor train with equal cores).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engram.errors import OptionError, ShapeError
from engram.nn import RAC, TensorTrainNet

CLOSE = 1e-8
"""The relative distance up to which a core counts as that of a circuit."""


def circuit_to_train(circuit: RAC, readout: Tensor, steps: int) -> TensorTrainNet:
    """The tensor train that computes readout h_T of a circuit of one layer.

    G_1 = W_I^T diag(a) with a = W_H h_0, G[k', d, k] = W_I[k, d] W_H[k, k'], G_T = G readout^T. The features of the
    train are its inputs.

    Args:
        circuit: of one layer, M inputs and R channels.
        readout: ``(Y, R)``.
        steps: T, the length of the sequences.
    """
    return TensorTrainNet.from_circuit(circuit, readout, steps)


@torch.no_grad()
def train_to_circuit(train: TensorTrainNet) -> tuple[RAC, Tensor]:
    """A circuit and a readout ``(Y, R)`` that compute the scores of a train; an error if the train is not a circuit.

    The inputs of the circuit are the features, ``train.encode(x)``. The slice G[:, :, k] of the core must be the outer
    product of W_H[k] and W_I[k], and G_1[:, k] a multiple of W_I[k]. W_I[k] is set to G_1[:, k], so that a = 1; if that
    is zero, a_k = 0 and W_I[k] is found from the slice. The error of another train gives its distance to a circuit.

    Args:
        train: with equal cores, shared by the classes, of at least 3 steps.
    """
    if not train.equal_cores or train.own_cores or train.steps < 3:
        kind = "cores of each class" if train.own_cores else "equal cores" if train.equal_cores else "different cores"
        raise OptionError(
            "to be a circuit, a train must have equal cores, shared by the classes, and at least 3 steps; "
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
            f"this train is not a circuit of its rank: the distance of its {what} to the nearest circuit is "
            f"{distance:.3g}, at a norm of {size:.3g}"
        )


@torch.no_grad()
def train_to_mps(train: TensorTrainNet) -> list[Tensor]:
    """The cores ``(r, m, r')`` of a matrix product state, one per input, that contracts to the tensor of the train.

    The first bond has size 1, the last one is the class y: W_y is the product of all cores, at [0, y]. Classes with
    separate cores become blocks of one state whose rank is Y times that of the train.
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
    """The tensor-train network of a matrix product state.

    Smaller bonds are filled up with zeros to the largest one. Inner cores that are all the same become the one core of
    a train with equal cores. The features of the train are its inputs.

    Args:
        cores: numpy or torch arrays ``(r, m, r')``; the first r is 1, the last r' is the number of classes.
    """
    parts = [torch.from_numpy(core) if isinstance(core, np.ndarray) else core for core in cores]
    shapes = [tuple(part.shape) for part in parts]
    fits = len(parts) > 1 and all(len(shape) == 3 for shape in shapes)
    fits = fits and shapes[0][0] == 1 and len({shape[1] for shape in shapes}) == 1
    if not fits or any(a[2] != b[0] for a, b in pairwise(shapes)):
        raise ShapeError(
            "a matrix product state must have two or more cores (r, m, r') with equal m, each r' equal to the next r, "
            "the first r 1; "
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

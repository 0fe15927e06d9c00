"""What became of a recurrent matrix."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import engram
from engram.errors import OptionError
from engram.probe import learned_structure


@pytest.mark.parametrize("model", ["exprnn", "scornn", "householder", "eurnn", "urnn", "scurnn", "full-capacity"])
def test_orthogonal_ones_have_no_drift_and_no_triangle(model: str) -> None:
    (matrix,) = learned_structure(engram.models.make_core(model, 2, 8, dtype=torch.float64)).matrices
    assert matrix.drift < 1e-12
    assert matrix.triangle < 1e-7
    assert matrix.moduli == pytest.approx([1.0] * len(matrix.moduli))
    assert matrix.error is not None
    assert matrix.error < 1e-12


def test_drift(linear: Any) -> None:
    """|c^2 I - I| / sqrt(N) = |c^2 - 1|."""
    (matrix,) = learned_structure(linear(1.1 * torch.eye(5), torch.ones(5, 1))).matrices
    assert matrix.drift == pytest.approx(0.21, abs=1e-6)  # 1.1 and its square in float32: a few times 1.2e-7
    assert (matrix.map, matrix.error) == ("free", None)


def test_a_delay_line_is_all_triangle(delay_line: Any) -> None:
    (matrix,) = learned_structure(delay_line(6)).matrices
    assert matrix.triangle == pytest.approx(1)
    assert matrix.delay == pytest.approx([1.0, 0, 0, 0, 0])


@pytest.mark.parametrize("size", [6, 7])
def test_of_a_trained_nnrnn_its_parameters(size: int) -> None:
    """Angles modulo 2 pi, gamma, and T, of whose share and strength by distance the numbers are set here."""
    layer = engram.nn.NonNormalRNN(2, size, mask="block", dtype=torch.float64)
    parameters: Any = layer.cells[0].parametrizations.weight_hh
    theta = torch.linspace(0.2, 7.0, size // 2, dtype=torch.float64)
    with torch.no_grad():
        map = parameters[0]
        parameters.original1.copy_(torch.where(map.rows - map.columns == 2, 0.5, 0.0))
        parameters.original2.copy_(theta)
        parameters.original3.fill_(0.9)
    (matrix,) = learned_structure(layer).matrices
    assert matrix.name == "weight_hh_l0"
    assert matrix.angles == pytest.approx(theta.remainder(2 * math.pi).tolist())
    assert matrix.moduli == pytest.approx([0.9] * (size // 2))
    assert matrix.delay == pytest.approx([0.0, 0.5, *[0.0] * (size - 3)], abs=1e-12)
    below, whole = 0.25 * (size - 2), 0.25 * (size - 2) + size * 0.81
    assert matrix.triangle == pytest.approx(math.sqrt(below / whole))
    assert matrix.alignment == pytest.approx(abs(np.exp(1j * theta.numpy()).mean()))
    assert "% of the norm of its Schur form is below the diagonal" in matrix.words()


def test_a_block_by_hand(linear: Any) -> None:
    """[[0, -4], [1, 0]]: eigenvalues +-2i, of which the upper one is listed; the block is no rotation by 4 - 1 = 3."""
    (matrix,) = learned_structure(linear(torch.tensor([[0.0, -4.0], [1.0, 0.0]]), torch.ones(2, 1))).matrices
    assert matrix.angles == pytest.approx([math.pi / 2])
    assert matrix.moduli == pytest.approx([2.0])
    assert matrix.alignment == pytest.approx(1)
    assert matrix.triangle == pytest.approx(3 / math.sqrt(17))
    assert matrix.delay == pytest.approx([3.0])
    assert matrix.drift == pytest.approx(math.hypot(15, 0) / math.sqrt(2))  # V'V = diag(1, 16)


def test_every_layer_of_torch() -> None:
    found = learned_structure(nn.RNN(2, 4, 2, bidirectional=True))
    assert [matrix.name for matrix in found.matrices] == [
        "weight_hh_l0",
        "weight_hh_l0_reverse",
        "weight_hh_l1",
        "weight_hh_l1_reverse",
    ]


def test_gates_have_none() -> None:
    with pytest.raises(OptionError, match="LSTM has no square recurrent matrix"):
        learned_structure(nn.LSTM(2, 4))

"""The picture of a spectrum, and the commands that list and draw."""

import json
from pathlib import Path

import pytest
import torch

from engram.cli import main
from engram.errors import OptionError
from engram.maps import MAPS, haar
from engram.models import MODELS
from engram.report import plot_spectrum


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_is_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "new" / f"spectrum.{ending}"
    plot_spectrum(haar(6, complex=True), path, "six")
    assert path.stat().st_size > 5000


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.svg or \.png, got .*\.pdf"):
        plot_spectrum(torch.eye(3), tmp_path / "spectrum.pdf")


@pytest.mark.parametrize("model", ["nnrnn", "urnn", "goru"])
def test_plot_command(tmp_path: Path, model: str) -> None:
    path = tmp_path / "s.svg"
    assert main(["plot", "spectrum", "--model", model, "--hidden", "6", "-o", str(path)]) == 0
    assert path.read_text().startswith("<?xml")


def test_plot_command_refuses_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "spectrum", "--model", "nnrn"]) == 2
    assert "Did you mean 'nnrnn'" in capsys.readouterr().err


@pytest.mark.parametrize(("what", "known"), [("models", MODELS), ("maps", MAPS)])
def test_list_command(what: str, known: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(known)
    assert all(value for row in rows for value in row.values())
    assert main(["list", what, rows[0]["name"]]) == 0
    assert "source: " in capsys.readouterr().out


def test_each_network_shows_its_own_equation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "models", "--json"])
    equations = {row["name"]: row["equation"] for row in json.loads(capsys.readouterr().out)}
    assert "exp(A)" in equations["exprnn"]
    assert "P (Lambda + T) P^T" in equations["nnrnn"]
    assert "H_N" in equations["householder"]


@pytest.mark.parametrize("model", ["lstm", "gru", "torch-lstm", "lem", "min-gru"])
def test_gates_have_no_square_matrix(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "spectrum", "--model", model, "-o", str(tmp_path / "no.svg")]) == 2
    assert f"{model} has no square recurrent matrix whose spectrum could be plotted" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())

"""The C that goes into the wheel serves layers of any size."""

from pathlib import Path

import pytest

from engram import nn
from engram.loops import compiled_cell
from engram.nn import _ahead
from engram.state import parts

SIZES = ((1, 128), (64, 17), (5, 5))
ONES = ("BilinearRNN", "SecondOrderRNN")
"""They have an axis of the size of the input in the step, and an axis of 1 is part of the text."""
LAYERS = sorted({type(layer).__name__ for layer in _ahead.layers()}, key=nn.__all__.index)


def texts(layer: nn.Recurrent) -> set[str]:
    found = set()
    for cell in layer.cells:
        loop = compiled_cell(cell)
        if loop.traced is not None:
            for hoist in (True, False):
                loops = loop.variant(hoist=hoist, rebuild=True).loops
                assert loops is not None
                assert not loops.fault
                found.add(loops.source)
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_sizes_are_no_part_of_the_text(name: str) -> None:
    kind, shipped = getattr(nn, name), set(_sources().values())
    compiled = 0
    for features, hidden in SIZES[name in ONES :]:
        layer = kind(features, hidden)
        if next(layer.parameters()).is_complex() or not isinstance(layer.cells[0], nn.BareCell):
            return
        made = texts(layer)
        compiled += len(made)
        assert made <= shipped, (features, hidden)
    assert compiled or name in ("S4", "S4D") or any(field.grows for field in parts(layer.cells[0].fields()))


_kept: dict[str, str] = {}


def _sources() -> dict[str, str]:
    if not _kept:
        _kept.update(_ahead.sources())
    return _kept


def test_write(tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text("")
    _ahead.write(tmp_path)
    names = {file.stem for file in tmp_path.glob("*.c")}
    assert names == set(_sources())
    assert any(name.startswith("LSTMCell_") for name in names)

"""The C of the loops of all layers, written to files: ``python -m engram.nn._ahead FOLDER``.

Part of making a wheel (``make wheel``): the build hook compiles the files, so that a user without a compiler has them.
A file serves a layer of any size; of options, it has those that most people use.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from engram import nn
from engram.loops import ACTIVATIONS, FEW_INPUTS, compiled_cell
from engram.nn._bare_cell import BareCell

SIZES = (3, 5)
"""Of the layers that are traced; no size is part of the text, but an axis of 1 is."""
MANY = FEW_INPUTS + 1
"""Inputs of layers whose products of the input are kept and not computed again, which is another text."""


def layers() -> Iterator[nn.Recurrent]:
    """One layer of each kind, the RNN with each activation, and the options that drop-ins for torch.nn have."""
    for name in nn.__all__:
        kind = getattr(nn, name)
        if isinstance(kind, type) and issubclass(kind, nn.Recurrent) and kind not in (nn.Recurrent, nn.Attentive):
            yield kind(*SIZES)
            yield kind(MANY, SIZES[1])
    for activation in ACTIVATIONS:
        yield nn.RNN(*SIZES, activation=activation)
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        yield kind(*SIZES, bias=False)
    for attentive in (nn.RelRNN, nn.RelLSTM):  # which keep other values if a state is larger than the number of slots
        yield attentive(SIZES[0], 4 * MANY)
        yield attentive(MANY, 4 * MANY)
    yield nn.LSTM(*SIZES, layer_norm=True)
    yield nn.LSTM(*SIZES, proj_size=2)


def sources() -> dict[str, str]:
    """The C files by name, without ``.c``."""
    found = {}
    for layer in layers():
        for cell in layer.cells:
            loop = compiled_cell(cell) if isinstance(cell, BareCell) else None
            if loop is None or loop.traced is None:
                continue
            for hoist in (True, False):
                loops = loop.variant(hoist=hoist, rebuild=True).loops
                if loops is not None and not loops.fault:
                    found[loops.name] = loops.source
    return found


def write(folder: Path) -> None:
    """Fill a folder with the files, and take out what else of the kind is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.c"):
        old.unlink()
    for name, text in sources().items():
        (folder / f"{name}.c").write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

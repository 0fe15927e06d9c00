"""Stand-ins for the data sets: made here, in the formats of the originals, so that every checkout tests every task.

They hold as many images, characters and strings as the originals, since the splits of a task depend on these numbers,
but they repeat themselves: a few megabytes in all. What is true of the published files alone (their sums, counts and
entropies, the published probabilities) is tested with the fixture ``real_data``, all else with ``data_sets``.
"""

import gzip
import hashlib
import io
import json
import os
import random
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from engram.tasks import _images, _pautomac, _shakespeare, _text
from engram.tasks._data_files import FILES
from engram.tasks.relational import _shapes

PUBLISHED = dict(FILES)
BESIDE = Path(__file__).parents[2] / "shared" / "data"
NAMED = os.environ.get("ENGRAM_DATA") or (str(BESIDE) if BESIDE.is_dir() else "")
"""Where the published files are, if they are on this machine: the library itself looks there only if told so."""
TABLE = "table.json"
PROGRAM = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import stand_ins; stand_ins.use()\n"
"""First line of a program that a test starts: the environment alone does not change the table of sums."""


def write(folder: Path) -> None:
    """All files of the table, and the table of what they are."""
    made = {
        **_image_files("mnist", seed=1),
        **_image_files("fashion_mnist", seed=2),
        **_text_files(),
        **_automaton_files(),
        **_shape_files(),
    }
    table: dict[str, dict[str, tuple[int, str]]] = {}
    for name, content in made.items():
        path = folder / f"{name}.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(content, 1))
        table.setdefault(path.parent.name, {})[path.stem] = (len(content), hashlib.sha256(content).hexdigest())
    (folder / TABLE).write_text(json.dumps(table))


def use(folder: Path | str | None = None) -> None:
    """From now on the tasks read the stand-ins in this folder (default: the one that $ENGRAM_DATA names)."""
    os.environ["ENGRAM_DATA"] = str(folder or os.environ["ENGRAM_DATA"])
    table = json.loads(Path(os.environ["ENGRAM_DATA"], TABLE).read_text())
    FILES.update({name: {file: tuple(facts) for file, facts in files.items()} for name, files in table.items()})
    _forget()


def put_away() -> None:
    """From now on the tasks read the published files again."""
    os.environ["ENGRAM_DATA"] = NAMED
    FILES.update(PUBLISHED)
    _forget()


def _forget() -> None:
    for kept in (_images.labelled, _text.treebank, _shakespeare.shakespeare, _shakespeare.chunks):
        kept.cache_clear()
    for kept in (_pautomac.strings, _pautomac._baseline):
        kept.cache_clear()
    tables = (_shapes.plain_table, _shapes.coloured_table, _shapes.separated_table, _shapes.sized_table)
    for kept in (_shapes.published, *tables):
        kept.cache_clear()


def _image_files(folder: str, seed: int) -> dict[str, bytes]:
    """idx files: 20 images with an empty margin over and over, each with its own number in three of its pixels."""
    generator = np.random.default_rng(seed)
    shapes = np.zeros((20, 28, 28), np.uint8)  # 16 kB: gzip sees 32 kB back
    shapes[:, 4:24, 4:24] = generator.integers(256, size=(20, 20, 20)) * generator.integers(2, size=(20, 20, 20))
    classes = np.arange(20, dtype=np.uint8) % 10
    classes[0] = 1  # one class is more frequent than the others
    files = {}
    for part, count in (("train", _images.TRAIN), ("t10k", _images.TEST)):
        images = np.tile(shapes, (count // 20, 1, 1))
        images[:, 12, 12:15] = np.arange(count)[:, None] >> np.array([16, 8, 0]) & 255
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        files[f"{folder}/{part}-images-idx3-ubyte"] = header + images.tobytes()
        header = struct.pack(">II", 0x801, count)
        files[f"{folder}/{part}-labels-idx1-ubyte"] = header + np.tile(classes, count // 20).tobytes()
    return files


def _shape_files() -> dict[str, bytes]:
    """White images; the k-th has k + 1 dark pixels."""
    files = {}
    for number in range(100):
        image = np.full((32, 32), 255, np.uint8)
        image.flat[300 : 301 + number] = 40
        written = io.BytesIO()
        Image.fromarray(image).save(written, "png")
        files[f"esbn_shapes/{number}.png"] = written.getvalue()
    return files


def _text_files() -> dict[str, bytes]:
    """Independent characters, the k-th of the alphabet as often as 1/k; in the treebank's files a space after each."""
    files = {"tinyshakespeare/input.txt": _letters(PUBLISHED["tinyshakespeare"]["input.txt"][0], 65, seed=3).tobytes()}
    for seed, (name, (size, _)) in enumerate(PUBLISHED["ptb"].items(), 4):
        text = np.full((size // 2, 2), ord(" "), np.uint8)
        text[:, 0] = np.resize(_letters(10_000, 50, seed), size // 2)
        text[-1, 0] = ord("\n")
        files[f"ptb/{name}"] = text.tobytes()
    return files


def _letters(count: int, alphabet: int, seed: int) -> npt.NDArray[np.uint8]:
    share = 1 / np.arange(1, alphabet + 1)
    symbols = np.frombuffer(b"\n" + bytes(range(48, 47 + alphabet)), np.uint8)
    return np.random.default_rng(seed).choice(symbols, count, p=share / share.sum())


def _automaton_files() -> dict[str, bytes]:
    """A machine for every problem, 250 of its strings over and over, and their probabilities from its matrices."""
    files = {}
    for problem, symbols in _pautomac.SYMBOLS.items():
        start, stop, emit, move = machine = _machine(2 + problem % 4, symbols, problem)
        words = _words(machine, 250, problem)
        step = ((1 - stop)[:, None] * emit)[..., None] * move  # (q, a, r)
        values = []
        for word in words:
            state = start
            for symbol in word:
                state = state @ step[:, symbol]
            values.append(float(state @ stop))
        lines = [" ".join(map(str, (len(word), *word))) for word in words]
        name = f"pautomac/{problem}.pautomac"
        files[f"{name}.train"] = _lines([f"20000 {symbols}", *lines * 80])
        files[f"{name}.test"] = _lines([f"1000 {symbols}", *lines * 4])
        files[f"{name}_solution.txt"] = _lines(["1000", *[f"{value / sum(values) / 4:.12g}" for value in values] * 4])
        files[f"{name}_model.txt"] = _model(machine)
    return files


def _machine(states: int, symbols: int, seed: int) -> list[npt.NDArray[np.float64]]:
    """Start (q), stop (q), emit (q, a) and move (q, a, r), in 12 digits as the originals.

    The last two states are alike in all that follows: one state fewer has the same probabilities.
    """
    generator = np.random.default_rng(seed)
    start, emit = generator.dirichlet(np.ones(states)), generator.dirichlet(np.ones(symbols), states)
    stop, move = generator.uniform(0.1, 0.3, states), generator.dirichlet(np.ones(states), (states, symbols))
    for array in (stop, emit, move):
        array[-1] = array[-2]
    return [np.vectorize(lambda number: float(f"{number:.12g}"))(array) for array in (start, stop, emit, move)]


def _words(machine: list[npt.NDArray[np.float64]], count: int, seed: int) -> list[list[int]]:
    chance = random.Random(seed)
    start, stop, emit, move = (array.tolist() for array in machine)
    words = []
    for _ in range(count):
        (state,), word = chance.choices(range(len(start)), start), []
        while chance.random() >= stop[state]:
            word += chance.choices(range(len(emit[state])), emit[state])
            (state,) = chance.choices(range(len(start)), move[state][word[-1]])
        words.append(word)
    return words


def _model(machine: list[npt.NDArray[np.float64]]) -> bytes:
    lines = []
    heads = ("I: (state)", "F: (state)", "S: (state,symbol) ", "T: (state,symbol,state) ")
    for head, array in zip(heads, machine, strict=True):
        lines += [head, *(f"\t({','.join(map(str, place))}) {number}" for place, number in np.ndenumerate(array))]
    return _lines(lines)


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode()

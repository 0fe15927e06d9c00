"""Files of automata: models of the PAutomaC competition, JSON, and safetensors of their networks."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from engram.errors import DataError, FileError, OptionError
from engram.files import gunzip, parse_json, read_bounded, write_whole

Array = npt.NDArray[Any]
Weights = tuple[Array, Array, Array]
KIND = "weighted-automaton"
LARGEST = 1_000_000
"""The most weights in a text file: a model names only those that are not 0, so a short one could need any memory."""
LONGEST_TEXT, LONGEST_TENSORS = 32_000_000, 2_000_000_000
"""The most bytes of a file, unpacked."""
INDICES = {"I": 1, "F": 1, "S": 2, "T": 3}
"""The sections of a model file, with the number of indices of their entries."""
HEADING = re.compile(r"([A-Z]):\s*(?:\([\w, ]*\))?")
ENTRY = re.compile(r"\(\s*(\d{1,6}(?:\s*,\s*\d{1,6})*)\s*\)\s*(\S+)")
DECIMAL = re.compile(r"\d{1,1000}(?:\.\d{0,1000})?(?:[eE][+-]?\d{1,3})?")
RATIO = re.compile(r"-?\d{1,4000}(?:/(?=0*[1-9])\d{1,4000})?")

TENSORS = ("layer.start_l0", "layer.tensor_l0", "readout.weight")
"""The tensors of a network file: initial (n), transitions (n, symbols, n) and final (C, n)."""

Sections = dict[str, dict[tuple[int, ...], Fraction]]


def read_weights(path: Path) -> Weights:
    """Initial, transition and final weights of a file; exact if the file has decimals or ratios."""
    if path.suffix == ".safetensors":
        return _from_tensors(path)
    try:
        content = read_bounded(path, LONGEST_TEXT)
        content = gunzip(content, LONGEST_TEXT) if path.suffix == ".gz" else content
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (OSError, FileError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error})") from None
    try:
        return _from_json(content) if text.lstrip().startswith("{") else from_pautomac(text)
    except DataError as error:
        raise DataError(f"{path}, {error}") from None


def from_pautomac(text: str) -> Weights:
    """The weights of a PAutomaC model: probabilities of initial states I, stopping F, symbols S and moves T.

    P(s_1 ... s_n) = I A(s_1) ... A(s_n) F with A(a)[q, r] = (1 - F[q]) S[q, a] T[q, a, r], in exact decimals.

    >>> initial, transitions, final = from_pautomac("I:\\n(0) 1\\nF:\\n(0) 0.5\\nS:\\n(0,0) 1\\nT:\\n(0,0,0) 1")
    >>> transitions.tolist()
    [[[Fraction(1, 2)]]]
    """
    sections = _sections(text)
    states = 1 + max(
        state for name in "IFST" for key in sections[name] for state in (key[0], key[-1] if name == "T" else 0)
    )
    symbols = 1 + max((key[1] for name in "ST" for key in sections[name]), default=0)
    if symbols * states**2 > LARGEST:
        raise DataError(
            f"its {states:,} states and {symbols:,} symbols are too many: at most {LARGEST:,} weights are read"
        )
    initial, final = (np.full(states, Fraction(0), dtype=object) for _ in range(2))
    transitions = np.full((symbols, states, states), Fraction(0), dtype=object)
    for (state,), chance in sections["I"].items():
        initial[state] = chance
    for (state,), chance in sections["F"].items():
        final[state] = chance
    for (state, symbol, new), chance in sections["T"].items():
        transitions[symbol, state, new] = (1 - final[state]) * sections["S"].get((state, symbol), Fraction(0)) * chance
    return initial, transitions, final


def _sections(text: str) -> Sections:
    """The entries of a model file by section. Errors name the line."""
    sections: Sections = {}
    name = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if heading := HEADING.fullmatch(line.strip()):
            name = heading[1]
            if name not in INDICES or name in sections:
                raise DataError(
                    f"line {number}: a PAutomaC model has the sections I:, F:, S: and T: once each; "
                    f"got {line.strip()!r:.60}"
                )
            sections[name] = {}
            continue
        if not name:
            raise DataError(
                f"line {number}: a PAutomaC model must begin with a section such as I:, got {line.strip()!r:.60}"
            )
        _add(sections[name], name, number, line.strip())
    if missing := [name for name in INDICES if not sections.get(name)]:
        raise DataError(f"line {max(1, len(text.splitlines()))}: the file ends without entries of {', '.join(missing)}")
    return sections


def _add(entries: dict[tuple[int, ...], Fraction], name: str, number: int, line: str) -> None:
    entry = ENTRY.fullmatch(line)
    key = tuple(map(int, entry[1].split(","))) if entry else ()
    if entry is None or len(key) != INDICES[name]:
        form = "(" + ",".join(["state", "symbol", "state"][: INDICES[name]]) + ") probability"
        raise DataError(f"line {number}: an entry of {name} must be {form}, got {line!r:.60}")
    if not DECIMAL.fullmatch(entry[2]) or not 0 <= (chance := Fraction(entry[2])) <= 1:
        raise DataError(f"line {number}: a probability must be a decimal number from 0 to 1, got {entry[2]!r:.60}")
    if key in entries:
        raise DataError(f"line {number}: the entry ({entry[1]}) of {name} is there twice")
    entries[key] = chance


def write_weights(path: Path, initial: Array, transitions: Array, final: Array) -> None:
    """Write .json: numbers, or texts such as "1/3" if they are exact; or .safetensors: the network."""
    if path.suffix == ".safetensors":
        parts = initial, transitions.transpose(1, 0, 2), final.reshape(len(initial), -1).T
        tensors = {name: np.ascontiguousarray(part, np.float64) for name, part in zip(TENSORS, parts, strict=True)}
        write_whole(path, safetensors.numpy.save(tensors, {"kind": KIND}))
        return
    if path.suffix != ".json":
        raise OptionError(f"path must end in .json (the automaton) or .safetensors (its network); got {path}")
    exact = initial.dtype == object
    named = {"initial": initial, "transitions": transitions, "final": final}
    content: dict[str, Any] = {"kind": KIND, "states": len(initial), "symbols": len(transitions)}
    content |= {
        name: (np.vectorize(str, otypes=[object])(part) if exact else part).tolist() for name, part in named.items()
    }
    text = json.dumps(content).encode() + b"\n"
    if len(text) > LONGEST_TEXT:
        raise OptionError(
            f"{path} would have {len(text):,} bytes, and at most {LONGEST_TEXT:,} can be read again: write .safetensors"
        )
    write_whole(path, text)


def _from_tensors(path: Path) -> Weights:
    try:
        tensors = safetensors.numpy.load(read_bounded(path, LONGEST_TENSORS))
        start, moves, final = (tensors[name].astype(np.float64) for name in TENSORS)
        return start, moves.transpose(1, 0, 2), final[0] if len(final) == 1 else final.T
    except (OSError, SafetensorError, LookupError, ValueError, TypeError) as error:
        raise DataError(
            f"{path} is not the network of an automaton ({error}): it must have {', '.join(TENSORS)}"
        ) from None


def _from_json(text: bytes) -> Weights:
    try:
        content = parse_json(text)
        if content.get("kind") != KIND:
            raise ValueError(f'the JSON file of an automaton must have "kind": "{KIND}"')
        initial, transitions, final = (_array(content[name]) for name in ("initial", "transitions", "final"))
    except KeyError as error:
        raise DataError(f"it has no {error}") from None
    except (ValueError, OverflowError) as error:  # FileError is a ValueError
        raise DataError(str(error)) from None
    return initial, transitions, final


def _array(nested: Any) -> Array:
    """Nested lists of numbers as float64, of texts as Fractions."""
    array = np.array(nested, dtype=object)  # an array of texts would reserve the length of the longest for each
    if array.size > LARGEST:
        raise ValueError(f"it has {array.size:,} weights, and at most {LARGEST:,} are read")
    kinds = {type(weight) for weight in array.flat}
    if kinds <= {int, float}:
        return array.astype(np.float64)
    if kinds != {str} or not all(RATIO.fullmatch(text) for text in array.flat):
        raise ValueError('weights must be all numbers or all texts such as "1/3", in lists of equal length')
    return np.vectorize(Fraction, otypes=[object])(array)

"""Automata and bilinear networks: the published probabilities of PAutomaC, both directions, and fewest states."""

import gzip
import itertools
import json
import os
import tracemalloc
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

from engram.convert import WeightedAutomaton, word_values
from engram.convert._automaton_file import from_pautomac
from engram.errors import DataError, DTypeError, FileError, NonFiniteError, OptionError, ShapeError
from engram.nn import CPBIRNN, CPRNN, RNN, BilinearRNN, SecondOrderRNN
from engram.tasks._data import read
from engram.tasks._pautomac import SYMBOLS, solution
from tiers import slow_but

MODEL = """I: (state)
\t(0) 0.5
\t(1) 0.5
F: (state)
\t(1) 0.25
S: (state,symbol)
\t(0,0) 1.0
\t(1,0) 0.4
\t(1,1) 6e-1
T: (state,symbol,state)
\t(0,0,1) 1.0
\t(1,0,0) 0.5
\t(1,0,1) 0.5
\t(1,1,1) 1.0
"""
WORDS = [word for length in range(6) for word in itertools.product(range(2), repeat=length)]
HANKEL_RANK = {1: 63, 3: 25, 5: 9, 7: 12, 9: 38, 14: 7, 24: 5, 28: 20, 29: 36, 30: 9, 31: 12, 38: 13, 42: 6, 45: 2}
"""Over the rationals; 43, whose 67 states are all needed, takes ten seconds."""
SLOW = (1, 3, 28, 29, 38)
STAND_INS = (1, 7, 14, 24)  # of 3, 5, 4 and 2 states


def pautomac(problem: int) -> WeightedAutomaton:
    return WeightedAutomaton(*from_pautomac(read(f"pautomac/{problem}.pautomac_model.txt").decode()))


def check_probabilities(problem: int) -> None:
    """Of all 1000 test strings, by a bilinear layer; they are given scaled to sum to 1, in 12 digits."""
    automaton = pautomac(problem)
    assert automaton.symbols == SYMBOLS[problem]
    words, given = solution(problem)
    found = word_values(*automaton.to_network(), words)[:, 0].numpy()
    np.testing.assert_allclose(found / found.sum(), given, rtol=1e-8, err_msg=f"problem {problem}")


@pytest.mark.usefixtures("data_sets")
@pytest.mark.parametrize("problem", STAND_INS)
def test_the_given_probabilities(problem: int) -> None:
    check_probabilities(problem)


@pytest.mark.usefixtures("real_data")
def test_the_published_probabilities() -> None:
    for problem in SYMBOLS:
        check_probabilities(problem)


def check_fewest_states(problem: int, rank: int | None = None) -> None:
    """Exact and numerical rank agree, and so do the probabilities."""
    automaton = pautomac(problem)
    words = solution(problem)[0]
    exact, numerical = automaton.minimise(), automaton.minimise(1e-10)
    assert exact.states == numerical.states == (rank or automaton.states - 1)
    assert exact.exact
    assert exact.value(words[0]) == automaton.value(words[0])  # in rational numbers
    expected, found, near = (word_values(*each.to_network(), words) for each in (automaton, exact, numerical))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(near, expected, rtol=1e-8, atol=0)


@pytest.mark.usefixtures("data_sets")
@pytest.mark.parametrize("problem", STAND_INS)
def test_fewest_states_of_a_stand_in(problem: int) -> None:
    """Two of its states are alike."""
    check_fewest_states(problem)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("problem", [pytest.param(p, marks=pytest.mark.slow) if p in SLOW else p for p in HANKEL_RANK])
def test_fewest_states(problem: int) -> None:
    check_fewest_states(problem, HANKEL_RANK[problem])


def test_a_model_by_hand() -> None:
    """P() = 1/2 1/4; P(1) = 1/2 (3/4 3/5) 1/4; after 0 from state 0 there is 1, from state 1 each with a half."""
    automaton = WeightedAutomaton(*from_pautomac(MODEL))
    assert (automaton.states, automaton.symbols, automaton.exact) == (2, 2, True)
    assert automaton.value([]) == Fraction(1, 8)
    assert automaton.value([1]) == Fraction(1, 2) * Fraction(9, 20) * Fraction(1, 4)
    assert automaton.value([0]) == (Fraction(1, 2) + Fraction(1, 2) * Fraction(3, 10) * Fraction(1, 2)) / 4


def test_the_network_as_a_file(tmp_path: Path) -> None:
    automaton = WeightedAutomaton(*from_pautomac(MODEL))
    automaton.write(tmp_path / "net.safetensors")
    tensors = load_file(tmp_path / "net.safetensors")
    layer, readout = BilinearRNN(2, 2, initial_state="trained", dtype=torch.float64), torch.nn.Linear(2, 1, False)
    layer.load_state_dict({"tensor_l0": tensors["layer.tensor_l0"], "start_l0": tensors["layer.start_l0"]})
    readout.double().load_state_dict({"weight": tensors["readout.weight"]})
    expected = [[float(automaton.value(word))] for word in WORDS]
    # positive terms do not cancel: at most 6 sums of 2 products, some 20 roundings of 1.1e-16
    np.testing.assert_allclose(word_values(layer, readout, WORDS), expected, rtol=1e-14)
    again = WeightedAutomaton.read(tmp_path / "net.safetensors")
    np.testing.assert_allclose([[again.value(word)] for word in WORDS], expected, rtol=1e-14)


@pytest.mark.parametrize("content", [b"", b"no tensors", save({"weight": torch.zeros(3)})])
def test_other_tensors(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.safetensors is not the network of an automaton"):
        WeightedAutomaton.read(tmp_path / "a.safetensors")


@pytest.mark.parametrize("packed", [False, True])
def test_read_and_write(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("model.txt.gz" if packed else "model.txt")
    content = MODEL.replace("\n", "\r\n").encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    automaton = WeightedAutomaton.read(path)
    automaton.write(tmp_path / "exact.json")
    automaton.rounded().write(tmp_path / "rounded.json")
    exact, rounded = (WeightedAutomaton.read(tmp_path / name) for name in ("exact.json", "rounded.json"))
    assert [exact.value(word) for word in WORDS] == [automaton.value(word) for word in WORDS]
    assert (exact.exact, rounded.exact) == (True, False)
    assert [rounded.value(word) for word in WORDS] == [automaton.rounded().value(word) for word in WORDS]


MALFORMED = {
    "S: (state,symbol)": ("S: (state,symbol) x", "line 6: an entry of F must be"),
    "\t(1) 0.25": ("\t(1,2) 0.25", r"line 5: an entry of F must be \(state\) probability, got '\(1,2\) 0.25'"),
    "\t(0,0) 1.0": ("\t(0,0) one", "line 7: a probability must be a decimal number from 0 to 1, got 'one'"),
    "\t(1,0) 0.4": ("\t(1,0) 1.4", "line 8: a probability .* got '1.4'"),
    "\t(1,1) 6e-1": ("\t(0,0) 0.6", r"line 9: the entry \(0,0\) of S is there twice"),
    "T: (state,symbol,state)": ("U: (state)", "line 10: a PAutomaC model has the sections I:, F:, S: and T: once each"),
    "\t(0,0,1) 1.0": ("F:", "line 11: a PAutomaC model has the sections"),
    "\t(1,0,1) 0.5": ("\t(1,0,0) 0.5", r"line 13: the entry \(1,0,0\) of T is there twice"),
    "I: (state)": ("1000 5", "line 1: a PAutomaC model must begin with a section"),
    "\t(0) 0.5": ("\t(0) 1e999999999", "line 2: a probability"),
}


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_file(line: str, tmp_path: Path) -> None:
    wrong, words = MALFORMED[line]
    path = tmp_path / "model.txt"
    path.write_text(MODEL.replace(line + "\n", wrong + "\n", 1), encoding="utf-8")
    with pytest.raises(DataError, match=f"^{path}, {words}"):
        WeightedAutomaton.read(path)


def test_too_many_states(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(MODEL.replace("(1,1,1)", "(1,1,999999)"), encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.txt, its 1,000,000 states and 2 symbols are too many"):
        WeightedAutomaton.read(tmp_path / "a.txt")


def test_a_file_cut_short() -> None:
    with pytest.raises(DataError, match="line 9: the file ends without entries of T"):
        from_pautomac(MODEL[: MODEL.index("T:")])


WRONG_JSON = {
    "cut": ('{"kind":\n"weighted', "not JSON .* line 2 "),
    "kind": ('{"kind": "x"}', "weighted-automaton"),
    "missing": ('{"kind": "weighted-automaton", "initial": [1]}', "has no 'transitions'"),
    "ragged": ('{"kind": "weighted-automaton", "initial": [1, [2]]}', "lists of equal length"),
    "nan": ('{"kind": "weighted-automaton", "initial": [NaN]}', "NaN, which is not finite"),
    "too large": ('{"kind": "weighted-automaton", "initial": [1e999]}', "1e999, which is not finite"),
    "too many digits": (f'{{"kind": "weighted-automaton", "initial": [{10**400}]}}', "too large"),
    "too long a ratio": (f'{{"kind": "weighted-automaton", "initial": ["{"1" * 5000}"]}}', "all texts such as"),
    "truth": ('{"kind": "weighted-automaton", "initial": [true]}', "all numbers or all texts"),
    "mixed": ('{"kind": "weighted-automaton", "initial": [1, "1/2"]}', "all numbers or all texts"),
    "deep": ('{"kind": "weighted-automaton", "initial": ' + "[" * 3000 + "]" * 3000 + "}", "deep|not JSON"),
    "twice": ('{"kind": "weighted-automaton", "initial": [1], "initial": [1]}', "'initial' twice"),
    "text": ('{"kind": "weighted-automaton", "initial": ["one"]}', "all texts such as"),
    "zero": ('{"kind": "weighted-automaton", "initial": ["1/0"]}', "all texts such as"),
}


@pytest.mark.parametrize("case", WRONG_JSON)
def test_malformed_json(case: str, tmp_path: Path) -> None:
    content, words = WRONG_JSON[case]
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        WeightedAutomaton.read(tmp_path / "a.json")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        WeightedAutomaton.read(tmp_path / "none.txt")
    (tmp_path / "b.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read as text"):
        WeightedAutomaton.read(tmp_path / "b.gz")


def test_a_gzip_bomb(tmp_path: Path) -> None:
    """A kilobyte that unpacks to a gigabyte: no more than the limit is unpacked."""
    path = tmp_path / "bomb.gz"
    with path.open("wb") as file:
        packer = zlib.compressobj(9, wbits=31)
        for _ in range(64):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    tracemalloc.start()
    with pytest.raises(
        DataError, match=r"bomb\.gz cannot be read as text \(it unpacks to more than 32,000,000 bytes\)"
    ):
        WeightedAutomaton.read(path)
    assert tracemalloc.get_traced_memory()[1] < 2.5 * 32e6  # the content, and its copy while it grows
    tracemalloc.stop()


def test_a_number_of_many_digits(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_text(MODEL.replace("(0) 0.5", f"(0) 0.{'1' * 5000}", 1), encoding="utf-8")
    with pytest.raises(DataError, match="line 2: a probability must be a decimal number"):
        WeightedAutomaton.read(path)


def test_one_long_text_costs_its_own_length(tmp_path: Path) -> None:
    """numpy's array of texts would have room for the longest in every place: here 40 GB."""
    path = tmp_path / "a.json"
    texts = ["1"] * 10_000 + ["1" * 1_000_000]
    path.write_text(json.dumps({"kind": "weighted-automaton", "initial": texts}), encoding="utf-8")
    with pytest.raises(DataError, match="all texts such as"):
        WeightedAutomaton.read(path)


@pytest.mark.parametrize("suffix", [".txt", ".gz", ".json", ".safetensors"])
def test_what_is_no_plain_file(suffix: str, tmp_path: Path) -> None:
    """A pipe would be waited for, for ever; a link may lead anywhere."""
    os.mkfifo(pipe := tmp_path / f"pipe{suffix}")
    (tmp_path / "target").write_text(MODEL)
    (link := tmp_path / f"link{suffix}").symlink_to(tmp_path / "target")
    (large := tmp_path / f"large{suffix}").touch()
    os.truncate(large, 10**12)  # of holes
    for path, words in ((pipe, "it is a pipe"), (link, "it is a symbolic link"), (large, "1,000,000,000,000 bytes")):
        with pytest.raises(DataError, match=words):
            WeightedAutomaton.read(path)
    if suffix in (".json", ".safetensors"):
        for path in (pipe, link):
            with pytest.raises(FileError, match="could not be written: it is a"):
                WeightedAutomaton(np.ones(1), np.full((2, 1, 1), 0.25), np.array([0.5])).write(path)
        assert (tmp_path / "target").read_text() == MODEL


# networks

NETWORKS: dict[str, Any] = {
    "birnn": lambda: BilinearRNN(2, 4),
    "trained start": lambda: BilinearRNN(2, 4, initial_state="trained"),
    "birnn, float64": lambda: BilinearRNN(2, 4, dtype=torch.float64),
    "cpbirnn": lambda: CPBIRNN(2, 4, rank=3),
    "2rnn": lambda: SecondOrderRNN(2, 4, activation="identity"),
    "2rnn, no bias": lambda: SecondOrderRNN(2, 4, activation="identity", bias=False, initial_state="ones"),
    "cprnn": lambda: CPRNN(2, 4, rank=3, activation="identity"),
    "residual": lambda: BilinearRNN(2, 2, residual=True),
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", slow_but(NETWORKS, NETWORKS.keys() - {"2rnn, no bias", "residual"}))
def test_from_network(case: str, bias: bool) -> None:
    """On every word of up to 5 symbols; and the network of that automaton is the first one again."""
    torch.manual_seed(0)
    layer = NETWORKS[case]()
    readout = torch.nn.Linear(layer.hidden_size, 3, bias=bias).to(layer.cells[0].reference_weight.dtype)
    automaton = WeightedAutomaton.from_network(layer, readout)
    plain = "birnn" in case or case == "trained start"
    assert automaton.states == layer.hidden_size + (bias or not plain)
    expected = word_values(layer.double(), readout.double(), WORDS)
    found = np.stack([automaton.value(word) for word in WORDS])
    np.testing.assert_allclose(found, expected, atol=1e-12 * float(expected.abs().max()))
    again = word_values(*automaton.to_network(), WORDS)
    np.testing.assert_allclose(again, expected, atol=1e-12 * float(expected.abs().max()))


def test_the_network_given_is_left_alone() -> None:
    layer, readout = BilinearRNN(2, 3), torch.nn.Linear(3, 1)
    WeightedAutomaton.from_network(layer, readout)
    assert {p.dtype for p in (*layer.parameters(), *readout.parameters())} == {torch.float32}


def test_embedded_symbols() -> None:
    torch.manual_seed(0)
    layer, readout = BilinearRNN(3, 4, dtype=torch.float64), torch.nn.Linear(4, 1, dtype=torch.float64)
    embedding = torch.randn(2, 3, dtype=torch.float64)
    automaton = WeightedAutomaton.from_network(layer, readout, embedding)
    assert automaton.final.shape == (5,)
    for word in WORDS[1:]:
        expected = readout(layer(embedding[list(word)])[0][-1])
        assert automaton.value(word) == pytest.approx(expected.item(), rel=1e-12)


def test_there_and_back() -> None:
    """Weights that float64 holds come back exactly."""
    torch.manual_seed(0)
    automaton = WeightedAutomaton(*(torch.randn(shape).double().numpy() for shape in (3, (2, 3, 3), 3)))
    again = WeightedAutomaton.from_network(*automaton.to_network())
    for name in ("initial", "transitions", "final"):
        assert np.array_equal(getattr(again, name), getattr(automaton, name))


def test_numbers_beside_ratios() -> None:
    """0.5 is one half."""
    mixed = WeightedAutomaton(np.array([Fraction(1, 3)], dtype=object), np.full((1, 1, 1), 0.5), np.ones(1))
    assert mixed.value([0, 0]) == Fraction(1, 12)
    assert mixed.minimise().value([0, 0]) == Fraction(1, 12)


def test_the_empty_word_alone() -> None:
    automaton = WeightedAutomaton(*from_pautomac(MODEL))
    assert word_values(*automaton.to_network(), [()]).tolist() == [[0.125]]


# Hankel rank


def padded(automaton: WeightedAutomaton, seed: int) -> WeightedAutomaton:
    """The same function with two states more that are never reached or never read, in another basis."""
    generator = np.random.default_rng(seed)
    n, s = automaton.states, automaton.symbols
    moves = np.full((s, n + 2, n + 2), Fraction(0), dtype=object)
    moves[:, :n, :n] = automaton.transitions
    moves[:, :n, n] = generator.integers(-3, 4, (s, n))  # reached, not read
    moves[:, n + 1, :] = generator.integers(-3, 4, (s, n + 2))  # read, not reached
    initial, final = (np.concatenate([part, [Fraction(0)] * 2]) for part in (automaton.initial, automaton.final))
    final[n + 1] = Fraction(1)
    mix = np.eye(n + 2, dtype=object) + np.triu(generator.integers(-2, 3, (n + 2, n + 2)), 1).astype(object)
    back = np.eye(n + 2, dtype=object)
    step = mix - back
    power = -step
    for _ in range(n + 2):  # (I + N)^-1 = I - N + N^2 - ...
        back, power = back + power, -power @ step
    return WeightedAutomaton(initial @ mix, back @ moves @ mix, back @ final)


@pytest.mark.parametrize("seed", range(3))
def test_states_that_do_nothing_go(seed: int) -> None:
    automaton = WeightedAutomaton(*from_pautomac(MODEL))
    wide = padded(automaton, seed)
    assert [wide.value(word) for word in WORDS] == [automaton.value(word) for word in WORDS]
    minimal = wide.minimise()
    assert minimal.states == 2
    assert [minimal.value(word) for word in WORDS] == [automaton.value(word) for word in WORDS]
    assert wide.minimise(1e-10).states == 2


def test_the_rank_is_that_of_the_hankel_matrix() -> None:
    """Built from words, as the definition says."""
    torch.manual_seed(0)
    layer = CPBIRNN(2, 6, rank=2, dtype=torch.float64)  # states are sums of two vectors, after the first
    automaton = WeightedAutomaton.from_network(layer, torch.nn.Linear(6, 2, dtype=torch.float64))
    hankel = np.block([[automaton.value((*u, *v)) for v in WORDS] for u in WORDS])
    assert automaton.minimise(1e-10).states == np.linalg.matrix_rank(hankel, rtol=1e-10) == 4


@pytest.mark.parametrize("part", ["initial", "transitions", "final", "all"])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_growing_and_shrinking_values(scale: float, part: str) -> None:
    """The rank is that of the function, whatever the scale: 5 states of 6, the last of which is never reached."""
    torch.manual_seed(0)
    weights = {
        "initial": torch.randn(5).double().numpy(),
        "transitions": torch.randn(3, 5, 5).double().numpy(),
        "final": torch.randn(5, 2).double().numpy(),
    }
    word, scaled = (0, 1, 2, 2, 1, 0), {"initial", "transitions", "final"} if part == "all" else {part}
    expected = WeightedAutomaton(**weights).value(word) * scale ** sum(
        {"initial": 1, "transitions": len(word), "final": 1}[name] for name in scaled
    )
    wide = {
        "initial": np.append(weights["initial"], 0),
        "transitions": np.pad(weights["transitions"], ((0, 0), (0, 1), (0, 1))),
        "final": np.pad(weights["final"], ((0, 1), (0, 0))),
    }
    wide["transitions"][:, 5] = 0.3  # read, not reached
    automaton = WeightedAutomaton(**{name: weight * (scale if name in scaled else 1) for name, weight in wide.items()})
    minimal = automaton.minimise(1e-12)
    assert (automaton.states, minimal.states) == (6, 5)
    assert minimal.final.shape == (5, 2)
    np.testing.assert_allclose(minimal.value(word), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_values_that_end(scale: float) -> None:
    """Only words of up to two symbols have a value other than 0; one of four states is never reached."""
    chain = np.zeros((1, 4, 4))
    chain[0, 0, 1] = chain[0, 1, 2] = chain[0, 3, 2] = 1
    minimal = WeightedAutomaton(np.eye(4)[0], scale * chain, np.array([1.0, 1.0, 1.0, 0.0])).minimise(1e-12)
    assert minimal.states == 3
    for length in range(3):
        assert minimal.value([0] * length) == pytest.approx(scale**length, rel=1e-12)
    assert minimal.value([0] * 3) == pytest.approx(0, abs=1e-12 * scale**3)


@pytest.mark.parametrize("tolerance", [None, 1e-10])
def test_zero_keeps_one_state(tolerance: float | None) -> None:
    nothing = np.full(3, Fraction(0), dtype=object)
    automaton = WeightedAutomaton(nothing, np.full((2, 3, 3), Fraction(1), dtype=object), nothing)
    minimal = automaton.minimise(tolerance)
    assert (minimal.states, minimal.value([0, 1])) == (1, 0)


REFUSED: dict[str, Any] = {
    "symbol": (lambda: floats(1.0).value([0, 1]), OptionError, "symbols 0 to 0, got 1"),
    "half a symbol": (lambda: floats(1.0).value([0.5]), OptionError, "got 0.5"),  # type: ignore[list-item]
    "no symbols": (lambda: WeightedAutomaton(np.ones(1), np.ones((0, 1, 1)), np.ones(1)), ShapeError, "none of them 0"),
    "two outputs": (lambda: WeightedAutomaton(*map(np.ones, (1, (1, 1, 1), (1, 1, 1)))), ShapeError, r"\(1, 1, 1\)$"),
    "complex weight": (lambda: WeightedAutomaton(np.ones(1) * 1j, np.ones((1, 1, 1)), np.ones(1)), DTypeError, "real"),
    "text": (lambda: WeightedAutomaton(np.array(["1"], object), np.ones((1, 1, 1)), np.ones(1)), DTypeError, "initial"),
    "too large": (lambda: ratios(10**400).to_network(), NonFiniteError, "too large for float64"),
    "negative symbol": (lambda: word_values(*floats(1.0).to_network(), [[-1]]), OptionError, "got -1"),
    "tanh": (lambda: from_layer(BilinearRNN(2, 4, activation="tanh")), OptionError, "activation='tanh'"),
    "deep": (lambda: from_layer(BilinearRNN(2, 4, 2)), OptionError, "got 2 layers"),
    "both ways": (lambda: from_layer(BilinearRNN(2, 4, bidirectional=True)), OptionError, "two directions"),
    "additive": (lambda: from_layer(RNN(2, 4, activation="identity")), DTypeError, "got RNN"),
    "complex": (lambda: from_layer(BilinearRNN(2, 4, dtype=torch.complex64)), DTypeError, "real, got torch.complex64"),
    "embedding": (lambda: from_layer(BilinearRNN(2, 4), torch.ones(5, 3)), ShapeError, r"\(symbols, 2\), got \(5, 3\)"),
    "no tolerance": (lambda: floats(1.0).minimise(), OptionError, "need a tolerance, such as 1e-10"),
    "tolerance": (lambda: floats(1.0).minimise(2.0), OptionError, "tolerance must lie between 0 and 1"),
    "nan": (lambda: floats(float("nan")), NonFiniteError, "finite"),
    "shapes": (lambda: WeightedAutomaton(np.ones(2), np.ones((1, 3, 3)), np.ones(2)), ShapeError, r"\(1, 3, 3\)"),
}


def from_layer(layer: Any, embedding: torch.Tensor | None = None) -> WeightedAutomaton:
    return WeightedAutomaton.from_network(layer, torch.nn.Linear(4, 1), embedding)


def floats(weight: float) -> WeightedAutomaton:
    return WeightedAutomaton(np.array([weight]), np.ones((1, 1, 1)), np.ones(1))


def ratios(weight: int) -> WeightedAutomaton:
    return WeightedAutomaton(np.array([Fraction(weight)]), np.ones((1, 1, 1)), np.ones(1))


def test_no_words() -> None:
    assert word_values(*floats(1.0).to_network(), []).shape == (0, 1)


def test_a_file_of_wrong_shapes_is_named(tmp_path: Path) -> None:
    text = '{"kind": "weighted-automaton", "initial": [1], "transitions": [[[1, 2]]], "final": [1]}'
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json: .*\(1, 1, 2\)"):
        WeightedAutomaton.read(tmp_path / "a.json")


def test_an_empty_file_ends_at_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(DataError, match="line 1: the file ends"):
        WeightedAutomaton.read(tmp_path / "a.txt")


def test_nothing_is_rounded_where_no_state_falls_away() -> None:
    automaton = WeightedAutomaton(np.ones(2), np.array([[[0.5, 1e-4], [0.0, 0.25]]]), np.array([1e-4, 1.0]))
    minimal = automaton.minimise(1e-12)
    assert minimal.states == 2
    assert np.array_equal(minimal.transitions, automaton.transitions)


def test_the_largest_weights() -> None:
    """Their squares are beyond float64."""
    moves = 1e200 * np.stack([np.eye(2), np.ones((2, 2))])
    minimal = WeightedAutomaton(np.ones(2), moves, np.ones(2)).minimise(1e-10)
    assert minimal.states == 1
    assert minimal.value([0]) == pytest.approx(2e200, rel=1e-10)
    assert minimal.value([1]) == pytest.approx(4e200, rel=1e-10)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    call, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        call()


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    WeightedAutomaton(*from_pautomac(MODEL)).write(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert (content["kind"], content["states"], content["symbols"]) == ("weighted-automaton", 2, 2)
    assert content["initial"] == ["1/2", "1/2"]


def test_blank_lines_mean_nothing() -> None:
    spaced = MODEL.replace("\n", "\n\n   \n")
    for one, two in zip(from_pautomac(MODEL), from_pautomac(spaced), strict=True):
        assert np.array_equal(one, two)


def test_where_an_automaton_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only under two endings, and no file that could not be read again."""
    automaton = WeightedAutomaton(np.ones(1), np.full((2, 1, 1), 0.25), np.array([0.5]))
    with pytest.raises(OptionError, match=r"path must end in \.json .* or \.safetensors .*; got .*a\.txt"):
        automaton.write(tmp_path / "a.txt")
    automaton.write(tmp_path / "a.json")
    size = (tmp_path / "a.json").stat().st_size
    for limit in (size, size - 1):
        monkeypatch.setattr("engram.convert._automaton_file.LONGEST_TEXT", limit)
        if limit == size:
            automaton.write(tmp_path / "b.json")
            continue
        with pytest.raises(OptionError, match=f"would have {size:,} bytes, and at most {limit:,} can be read again"):
            automaton.write(tmp_path / "c.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_the_most_weights_of_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two transitions of two states are eight weights."""
    WeightedAutomaton(np.ones(2), np.full((2, 2, 2), 0.25), np.ones(2)).write(tmp_path / "a.json")
    monkeypatch.setattr("engram.convert._automaton_file.LARGEST", 8)
    assert WeightedAutomaton.read(tmp_path / "a.json").states == 2
    monkeypatch.setattr("engram.convert._automaton_file.LARGEST", 7)
    with pytest.raises(DataError, match="it has 8 weights, and at most 7 are read"):
        WeightedAutomaton.read(tmp_path / "a.json")

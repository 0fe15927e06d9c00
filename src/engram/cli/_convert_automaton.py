"""``engram convert automaton``."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from engram.cli._console import terminal
from engram.cli._run_words import Allow, check_run
from engram.convert import WeightedAutomaton, word_values
from engram.errors import EngramError, OptionError
from engram.models import Embedding, EveryStep
from engram.train import RunDirectory, load_network

WORDS, LONGEST, EXACT = 256, 20, 40_000_000
"""Random words, their symbols, and the products of exact numbers that they may take: some seconds."""
TOLERANCE = 1e-10
LARGEST = 1e150  # of a state, so that its value is a float64


@dataclass(frozen=True)
class ConvertAutomaton:
    """Turn a weighted automaton into a bilinear network that gives the same values of all words, or back.

    An automaton is read from a PAutomaC model file or from .json; a network from .safetensors, or from a run of a
    linear birnn, cpbirnn, 2rnn or cprnn on symbols. -o FILE.safetensors writes the network, FILE.json the automaton.

    Examples:
        engram convert automaton 1.pautomac_model.txt -o net.safetensors
        engram convert automaton runs/birnn -o automaton.json --minimise
    """

    source: Annotated[Path, Parameter(name="SOURCE", metavar="SOURCE")]
    """A PAutomaC model (plain or .gz), a .json or .safetensors file of this command, or a run directory."""
    _: KW_ONLY
    output: Annotated[Path, Parameter(alias="-o")]
    """.safetensors for the network, .json for the automaton."""
    minimise: bool = False
    """Make an automaton of the fewest states: the rank of the Hankel matrix, exact if the weights are, else up to the
    tolerance."""
    tolerance: float | None = None
    """For --minimise: singular values of the Hankel matrix below this share of the largest count as zero; default:
    1e-10, and none where weights are exact."""
    last: bool = False
    """Of a run: the last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        if self.output.suffix not in (".json", ".safetensors"):
            raise OptionError(f"-o must end in .safetensors (the network) or .json (the automaton), got {self.output}")
        if self.tolerance is not None and not self.minimise:
            raise OptionError("--tolerance is for --minimise")
        if not self.source.exists():
            raise OptionError(
                f"{self.source} is not there: give a PAutomaC model, a .json or .safetensors file, or a run"
            )
        with terminal(stderr=True).status("converting ..."):
            source = self._of_run() if self.source.is_dir() else WeightedAutomaton.read(self.source)
            tolerance = TOLERANCE if self.tolerance is None and not source.exact else self.tolerance
            made = source.minimise(tolerance) if self.minimise else source
            made.write(self.output)
            report: dict[str, Any] = {
                "file": str(self.output),
                "from": str(self.source),
                "states": made.states,
                "states_before": source.states,
                "symbols": made.symbols,
                "outputs": made.final.reshape(made.states, -1).shape[1],
                "exact": made.exact and self.output.suffix == ".json",
                "tolerance": tolerance if self.minimise else None,
                "words": len(words := random_words(source)),
                "difference": difference(source, made, words),
            }
        print(json.dumps(report) if self.json else self._told(report))

    def _of_run(self) -> WeightedAutomaton:
        check_run(self.source)
        run = RunDirectory(self.source, self.allow)
        network = load_network(self.source, best=not self.last, allow=self.allow)
        words = f"{self.source}, a run of {run.settings.model.label} on {run.settings.task.name}"
        if not run.settings.task.vocabulary or not isinstance(network.head, EveryStep):
            raise OptionError(f"{words}: an automaton reads symbols, and the inputs of this run are numbers")
        layer: Any = network.core
        embedding = network.encoder.weight if isinstance(network.encoder, Embedding) else None
        try:
            return WeightedAutomaton.from_network(layer, network.head, embedding)
        except EngramError as error:
            raise OptionError(f"{words}: {error}") from None

    def _told(self, report: dict[str, Any]) -> str:
        how = "exactly" if report["tolerance"] is None else f"with tolerance {report['tolerance']:g}"
        fewest = f", the Hankel rank of {report['states_before']} states, {how}" if self.minimise else ""
        return (
            f"{report['states']} states{fewest}; {report['symbols']} symbols\n"
            f"network and automaton differ by {report['difference']:.2g} (relative) at most, on {report['words']} "
            f"random words\n"
            f"file: {report['file']}"
        )


def difference(source: WeightedAutomaton, made: WeightedAutomaton, words: list[list[int]]) -> float:
    """The largest relative difference between the values of words by the first automaton, by its definition, and by the
    network of the second."""
    expected = np.stack([np.atleast_1d(source.value(word)) for word in words]).astype(np.float64)
    apart = np.abs(word_values(*made.to_network(), words).numpy() - expected).max(1)
    size = np.abs(expected).max(1)
    return float((apart / np.where(size > 0, size, 1.0)).max())


def random_words(automaton: WeightedAutomaton) -> list[list[int]]:
    """Words that the automaton can read: a symbol after which no state is left, or one is beyond all measure, is not
    sampled."""
    random, plain = np.random.default_rng(0), automaton.rounded()
    words: list[list[int]] = []
    count = WORDS if not automaton.exact else max(1, min(WORDS, EXACT // (LONGEST * automaton.states**2)))
    for length in random.integers(LONGEST + 1, size=count):
        state, word = plain.initial, []
        for _ in range(length):
            with np.errstate(over="ignore", invalid="ignore"):
                following = state @ plain.transitions  # (symbols, n)
            size = np.abs(following).max(1)
            alive = np.flatnonzero((size > 0) & (size < LARGEST))
            if not len(alive):
                break
            word.append(int(random.choice(alive)))
            state = following[word[-1]]
        words.append(word)
    return words

"""``engram convert unitary``."""

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from cyclopts import Parameter
from torch import Tensor

from engram.cli._console import terminal
from engram.cli._converted import load_run, settings_of, write_run
from engram.cli._run_words import Allow, Run
from engram.convert import to_orthogonal
from engram.errors import OptionError
from engram.models import Embedding, Network
from engram.nn import RNN
from engram.train import Settings

COMPARED = 64  # sequences of the test that both networks run on


@dataclass(frozen=True)
class ConvertUnitary:
    """Turn a contractive ReLU network into an orthogonal one with the same outputs, of at most twice the units.

    The equality holds for inputs up to a bound; it is checked on the test of the task and on inputs chosen to break it.
    The result is a run of its own: engram evaluate takes it, engram resume --steps trains it further.

    Examples:
        engram convert unitary runs/first
        engram convert unitary runs/first --input-bound 10 --contract -o runs/nearest --json
    """

    folder: Run
    """The run directory; its model is an RNN with activation relu."""
    _: KW_ONLY
    output: Annotated[Path | None, Parameter(alias="-o")] = None
    """The directory of the new run; default: that of the old one with -orthogonal at its end."""
    input_bound: str = "auto"
    """The largest norm of one step of the input; auto takes it from the test, or from the table of symbols."""
    contract: bool = False
    """If the network is not contractive, convert the nearest one that is (another network)."""
    last: bool = False
    """The last weights, not those of the best validation."""
    allow: Allow = ()
    """Packages or files whose code the run may import: of a model or a task of your own."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        output = self.output or self.folder.parent / f"{self.folder.resolve().name}-orthogonal"
        run, network = load_run(self.folder, output, best=not self.last, allow=self.allow)
        layer = network.core
        if not isinstance(layer, RNN):
            raise OptionError(
                f"only a ReLU RNN has an orthogonal twin; {self.folder} has model {run.settings.model.label}"
            )
        with terminal(stderr=True).status("converting ..."), torch.no_grad():
            data, largest = _inputs(run.settings, network)
            bound = largest if self.input_bound == "auto" else _number(self.input_bound)
            twin = to_orthogonal(layer, input_bound=bound, data=data, contract=self.contract)
            settings = settings_of(run.settings, twin.layer)
            settings = settings.replace(options={**settings.model.options, "map": "projected"})
            made = write_run(output, settings, network, twin.layer, twin.selection)
        made.note(conversion=twin.report)
        results = {"before": run.facts.get("results", {}), "after": made.facts["results"]}
        report = {"run": str(output), "from": str(self.folder), **twin.report, "results": results}
        print(json.dumps(report) if self.json else told(report))


def _inputs(settings: Settings, network: Network) -> tuple[Tensor, float]:
    """What the layer reads in the first batch of the longest test ``(T, B, D)``, and the largest norm of a step in all
    tests; of symbols, the largest norm there is."""
    exams = sorted(settings.task.exams().items(), key=lambda exam: -exam[1].steps)
    tests = [settings.batches(name, task) for name, task in exams]
    first = tests[0][0].inputs[:, :COMPARED]
    if network.vocabulary:
        one_hot = torch.eye(network.vocabulary)
        table = network.encoder.weight if isinstance(network.encoder, Embedding) else one_hot
        return F.embedding(first, table).to(network.dtype), _largest(table)
    everything = (batches[k].inputs for batches in tests for k in range(batches.per_epoch))
    return _read(network, first), max(_largest(_read(network, inputs)) for inputs in everything)


def _read(network: Network, inputs: Tensor) -> Tensor:
    """What the layer reads, ``(T, B, D)``."""
    return network.encode(inputs.to(network.dtype) if inputs.is_floating_point() else inputs)


def _largest(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows.double(), dim=-1).max())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--input-bound is auto or a number, got {text!r}") from None


def told(report: dict[str, Any]) -> str:
    """In words: what was made, what it promises, what was measured."""
    cells, apart, used = report["cells"], report["difference"], report["bias_used"]
    norms = ", ".join(f"{cell['norm']:.6g}" for cell in cells)
    if report["contracted"]:
        norms += (
            ": not contractive. Singular values above 1 were set to 1, which moved the outputs of the layer by up to "
            f"{report['moved_by_contraction']:.3g}: this is another network"
        )
    lines = [
        f"norms of W_hh: {norms}",
        f"states:        {report['states']} -> {report['states_used']} per layer "
        f"(rank of I - W'W: {', '.join(str(cell['added']) for cell in cells)}); "
        f"W'W - I is {report['orthogonality_error']:.2g} at most",
        f"promise:       equal outputs for inputs of norm up to {report['input_bound']:.6g}"
        + (f", in sequences of up to {report['steps']} steps" if report["steps"] else "")
        + f"; biases of the added units down to {min(cell['bias_bound'] for cell in cells):.6g}",
        "measured:      largest difference of outputs "
        + ", ".join(f"{value:.2g} ({name})" for name, value in apart.items())
        + f"; outputs are up to {report['largest_output']:.4g}",
        f"room left:     the added units got at most {max(used.values()):.2%} of what would wake them",
    ]
    for name, results in report["results"].items():
        for split, scores in results.items():
            shown = ", ".join(f"{metric} {score:.6g}" for metric, score in scores.items())
            lines.append(f"{split} {name}:".ljust(15) + shown)
    return "\n".join([*lines, f"run: {report['run']} (engram evaluate {quote(report['run'])})"])

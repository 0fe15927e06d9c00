"""``engram certify``."""

import json
from dataclasses import MISSING, dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from engram.certify import (
    CLAIMS,
    DAY,
    PRIME,
    Certificate,
    Claim,
    RACConjectureClaim,
    TTDifferentCoresClaim,
    TTEqualCoresClaim,
    certify,
    duration,
    rac_claim,
    rounded,
)
from engram.cli._atlas import Atlas
from engram.cli._command import Group
from engram.cli._console import terminal
from engram.cli._min_width import MinWidth
from engram.theory.bounds import enough_templates

# In a certificate beside the numbers found; said elsewhere, or not for reading.
HIDDEN = ("version", "claim", "sizes", "prime", "seed", "witness", "matrix", "depth", "statement", "software", "seal")
LABELS = {"rank": "rank found", "bound": "proven bound", "upper": "upper bound", "shallow": "shallow value"}


@dataclass(frozen=True)
class CircuitSizes:
    """A recurrent arithmetic circuit: Theorem 1.1 at depth 1, Theorem 1.2 at depth 2, Conjecture 1 above."""

    modes: int = 3
    """M, the numbers that encode one input."""
    channels: int = 3
    """R, the units per layer."""
    steps: int = 8
    """T, even."""
    depth: int = 2
    """L, the layers."""
    templates: int = 0
    """K, the inputs of the grid; default: as many as modes."""

    def claim(self) -> Claim:
        return rac_claim(self.modes, self.channels, self.steps, self.depth, self.templates)


@dataclass(frozen=True)
class TensorTrainSizes:
    """A tensor train, with different or with equal inner cores: its CP rank."""

    modes: int = 3
    """n, the mode size."""
    rank: int = 3
    """r, the rank of the train."""
    steps: int = 8
    """d, the order of the tensor, even."""
    equal_cores: bool = False
    """The inner cores are one core."""

    def claim(self) -> Claim:
        return (TTEqualCoresClaim if self.equal_cores else TTDifferentCoresClaim)(self.modes, self.rank, self.steps)


@dataclass(frozen=True, kw_only=True)
class Prove:
    """One claim at one size; a subclass for each claim has its sizes too."""

    witness: str = "random"
    """random: weights of the seed; construction: those of the proof."""
    seed: int = 0
    """Random seed of the weights."""
    prime: int = PRIME
    """p, the prime of the field in which ranks are computed."""
    output: Annotated[Path | None, Parameter(alias="-o")] = None
    """Where the certificate goes; default: CLAIM-SIZES.json."""
    max_side: int | None = None
    """Refuse matrices of more rows."""
    max_memory: float | None = None
    """Refuse what is estimated to need more MB; default: what is free."""
    max_seconds: Annotated[float, Parameter(show_default=False)] = DAY
    """Refuse what is estimated to take more seconds; default: a day."""
    json: bool = False
    """Print the certificate as one JSON object."""

    def run(self) -> None:
        sizes: Any = getattr(self, "sizes")  # noqa: B009 - of the subclass
        claim = sizes.claim() if isinstance(sizes, CircuitSizes | TensorTrainSizes) else sizes
        console = terminal(stderr=True)
        cost = claim.check_cost(self.max_side, self.max_memory, self.max_seconds)
        with console.status(f"{claim.name}: about {duration(cost.seconds)}, {rounded(cost.megabytes)} MB ..."):
            found = certify(
                claim,
                witness=self.witness,
                seed=self.seed,
                prime=self.prime,
                max_side=self.max_side,
                max_memory=self.max_memory,
                max_seconds=self.max_seconds,
            )
        name = "-".join([claim.name, *(str(size) for size in claim.sizes().values())])
        path = self.output or Path(f"{name}.json")
        found.write(path)
        print(json.dumps(found.to_dict()) if self.json else told(found))
        console.print(f"certificate: {path} (engram verify {path} checks it again)")


def told(found: Certificate) -> str:
    """Every number of the certificate, and what it proves."""
    labels = LABELS | ({"bound": "conjectured"} if isinstance(found.claim, RACConjectureClaim) else {})
    shown = {name: value for name, value in found.to_dict().items() if name not in HIDDEN}
    lines = [(labels.get(name, name.replace("_", " ")), _text(value)) for name, value in shown.items()]
    width = max(len(name) for name, _ in lines)
    return "\n".join([f"{name:<{width}}  {value}" for name, value in lines] + [found.statement, *_cure(found.claim)])


def _cure(claim: Claim) -> list[str]:
    """What to try where the grid is too small for the conjecture."""
    if not isinstance(claim, RACConjectureClaim) or claim.upper >= claim.bound:
        return []
    enough = enough_templates(claim.modes, claim.channels, claim.steps, claim.depth, max_side=1 << 20)
    return [f"A grid of {claim.templates} templates cannot reach it: --templates {enough} may."]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return str(value) if isinstance(value, str) else json.dumps(value)


def _example(name: str, kind: type[Claim]) -> str:
    """A line that can be typed: falling sizes, the last one even, as every claim allows."""
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    sizes = range(len(needed) + 3, 3, -1)
    words = "".join(f" --{name.replace('_', '-')} {size}" for name, size in zip(needed, sizes, strict=True))
    return f"{name}{words}"


def _prove(kind: type, text: str, example: str) -> type:
    """The command that proves one claim: the sizes of the claim are options too."""
    made = make_dataclass(kind.__name__, [("sizes", kind)], bases=(Prove,), frozen=True, kw_only=True)
    made.__doc__ = f"{text}\n\nExample: engram certify {example}"
    return made


def _text_of(kind: type[Claim]) -> str:
    """The claim in one line. The proofs in the docstrings are for readers of the code."""
    return kind.words[:1].upper() + kind.words[1:].rstrip(".") + "."


CERTIFY = Group(
    """Prove a claim at concrete sizes by exact arithmetic, and write a certificate that anyone can check again.

    Examples:
        engram certify rac --modes 3 --channels 3 --steps 8 --depth 2
        engram certify tt-equal-cores --modes 3 --rank 2 --steps 10 --witness construction
        engram certify min-width --task start-end --channels 4 --depth 2
        engram certify atlas --max-side 256
        engram certify rac-deep --help        (the sizes of one claim)
    """,
    "claim",
    {
        "rac": _prove(CircuitSizes, CircuitSizes.__doc__ or "", "rac --modes 3 --channels 3 --steps 8 --depth 2"),
        "tt": _prove(
            TensorTrainSizes, TensorTrainSizes.__doc__ or "", "tt --equal-cores --modes 3 --rank 2 --steps 10"
        ),
        "atlas": Atlas,
        "min-width": MinWidth,
        **{name: _prove(kind, _text_of(kind), _example(name, kind)) for name, kind in CLAIMS.items()},
    },
)

"""``engram certify`` and ``engram verify``."""

import json
from dataclasses import MISSING, dataclass, fields
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, Union

import tyro

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
    verify,
)
from engram.cli._atlas import Atlas
from engram.cli._console import plain
from engram.cli._min_width import MinWidth
from engram.errors import CertificateError, OptionError
from engram.files import printable
from engram.theory.bounds import enough_templates

# In a certificate beside the numbers found; said elsewhere, or not for reading.
UNTOLD = ("version", "claim", "sizes", "prime", "seed", "witness", "matrix", "depth", "statement", "software", "seal")
LABELS = {"rank": "rank found", "bound": "proven bound", "upper": "upper bound", "shallow": "shallow value"}


@dataclass(frozen=True)
class RAC:
    """A recurrent arithmetic circuit: Theorem 1.1 at depth 1, Theorem 1.2 at depth 2, Conjecture 1 above."""

    modes: int = 3
    """M, the numbers that encode one input."""
    channels: int = 3
    """R, the units of a layer."""
    steps: int = 8
    """T, even."""
    depth: int = 2
    """L, the layers."""
    templates: int = 0
    """K, the inputs of the grid; as many as modes unless given."""

    def claim(self) -> Claim:
        return rac_claim(self.modes, self.channels, self.steps, self.depth, self.templates)


@dataclass(frozen=True)
class TT:
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


Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class Prove(Generic[Sizes]):
    """One claim at one size."""

    sizes: Sizes
    """Of the claim."""
    witness: str = "random"
    """random weights of the seed, or the construction of the proof."""
    seed: int = 0
    """Of the weights."""
    prime: int = PRIME
    """p, of the field."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Where the certificate goes; CLAIM-SIZES.json unless given."""
    max_side: int | None = None
    """Refuse matrices of more rows."""
    max_memory: float | None = None
    """Refuse what is estimated to need more MB; default: what is free."""
    max_seconds: float = DAY
    """Refuse what is estimated to take longer; default: a day."""
    json: bool = False
    """Print the certificate as one JSON object."""

    def run(self) -> None:
        claim: Any = self.sizes.claim() if isinstance(self.sizes, RAC | TT) else self.sizes
        console = plain(stderr=True)
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
        sizes = "-".join(str(size) for size in claim.sizes().values())
        path = self.output or Path(f"{claim.name}-{sizes}.json")
        found.write(path)
        print(json.dumps(found.to_dict()) if self.json else told(found))
        console.print(f"certificate: {path} (engram verify {path} checks it again)")


def told(found: Certificate) -> str:
    """Every number of the certificate, and what it proves."""
    labels = LABELS | ({"bound": "conjectured"} if isinstance(found.claim, RACConjectureClaim) else {})
    shown = {name: value for name, value in found.to_dict().items() if name not in UNTOLD}
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
    return f"Example: engram certify {name}{words}"


SHORT: dict[str, tuple[type, str]] = {
    "rac": (RAC, "Example: engram certify rac --modes 3 --channels 3 --steps 8 --depth 2"),
    "tt": (TT, "Example: engram certify tt --equal-cores --modes 3 --rank 2 --steps 10"),
}
LARGE: dict[str, type] = {"atlas": Atlas, "min-width": MinWidth}
SUBJECTS = (*SHORT, *LARGE, *CLAIMS)
Subject: Any = Union[  # noqa: UP007 - made at run time, one command a claim
    tuple(
        Annotated[kind, tyro.conf.subcommand(name, description=text)]
        for name, kind, text in [
            *((name, Prove[kind], f"{kind.__doc__}\n\n{line}") for name, (kind, line) in SHORT.items()),  # type: ignore[valid-type]
            *((name, kind, cleandoc(kind.__doc__ or "")) for name, kind in LARGE.items()),
            *(
                (name, Prove[kind], f"{cleandoc(kind.__doc__ or '')}\n\n{_example(name, kind)}")  # type: ignore[valid-type]
                for name, kind in CLAIMS.items()
            ),
        ]
    )
]


@dataclass(frozen=True)
class Certify:
    """Prove a claim at concrete sizes by exact arithmetic, and write a certificate that anyone can check again.

    Examples:
        engram certify rac --modes 3 --channels 3 --steps 8 --depth 2
        engram certify tt-equal-cores --modes 3 --rank 2 --steps 10 --witness construction
        engram certify min-width --task start-end --channels 4 --depth 2
        engram certify atlas --max-side 256
        engram certify rac-deep --help        (the sizes of one claim)
    """

    subject: Subject
    """A claim of `engram list claims`; or rac (the claim of its depth), tt, atlas, min-width."""

    def run(self) -> None:
        self.subject.run()


@dataclass(frozen=True)
class Verify:
    """Check certificates again, from their seeds alone. Exit code 0 if all are true, 2 if one is not.

    Example: engram verify rac-deep-3-3-8-3.json
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Certificates."""
    json: bool = False
    """Print a JSON list: file, ok, the numbers found, and what is wrong."""
    max_side: int | None = None
    """Refuse matrices of more rows."""
    max_memory: float | None = None
    """Refuse what is estimated to need more MB; default: 2000, or what is free if that is less."""
    max_seconds: float = 60
    """Refuse what is estimated to take longer; default: a minute."""

    def run(self) -> None:
        if not self.files:
            raise OptionError("engram verify needs at least one certificate file")
        rows: list[dict[str, Any]] = []
        for path in self.files:
            try:
                limits: Any = {"max_side": self.max_side, "max_memory": self.max_memory}
                found = verify(path, **limits, max_seconds=self.max_seconds)
                rows.append({"file": str(path), "ok": True, **found.to_dict()})
            except CertificateError as error:
                rows.append({"file": str(path), "ok": False, "error": str(error)})
            if not self.json:
                row = rows[-1]
                print(f"{printable(str(path))}: {'verified. ' + row['statement'] if row['ok'] else 'NOT VERIFIED'}")
        if self.json:
            print(json.dumps(rows))
        wrong = [row["error"] for row in rows if not row["ok"]]
        if wrong:
            raise CertificateError("; ".join(wrong))

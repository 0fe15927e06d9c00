"""``engram certify`` and ``engram verify``."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from engram.certify import CLAIMS, PRIME, Certificate, Claim, certify, verify
from engram.cli._console import plain
from engram.errors import CertificateError, OptionError, unknown

SHORT = ("rac", "tt")


@dataclass(frozen=True)
class Certify:
    """Prove a claim at concrete sizes by exact arithmetic, and write a certificate that anyone can check again.

    Examples:
        engram certify rac --modes 3 --channels 3 --steps 8 --depth 2
        engram certify tt-equal-cores --modes 3 --rank 2 --steps 10 --witness construction
    """

    what: Annotated[str, tyro.conf.Positional]
    """A claim of `engram list claims`; or rac (the claim of its depth), or tt."""
    modes: int = 3
    """M (or n), the numbers that encode one input."""
    channels: int = 3
    """R, the units of a layer (rac)."""
    rank: int = 3
    """r, the rank of the train (tt)."""
    steps: int = 8
    """T (or d), even."""
    depth: int | None = None
    """L, the layers (rac); 2 unless given."""
    templates: int = 0
    """K, the inputs of the grid (rac); as many as modes unless given."""
    equal_cores: bool = False
    """The inner cores are one core (tt)."""
    witness: str = "random"
    """random weights of the seed, or the construction of the proof."""
    seed: int = 0
    """Of the weights."""
    prime: int = PRIME
    """p, of the field."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Where the certificate goes; CLAIM-SIZES.json unless given."""
    max_side: int | None = None
    """Refuse larger matrices; a day of work unless given."""
    max_memory: float | None = None
    """In MB; what is free unless given."""
    json: bool = False
    """Print the certificate as one JSON object."""

    def run(self) -> None:
        claim = self._claim()
        console = plain(stderr=True)
        with console.status(f"the rank of a matrix of {claim.side:,} rows ..."):
            found = certify(
                claim,
                witness=self.witness,
                seed=self.seed,
                prime=self.prime,
                max_side=self.max_side,
                max_memory=self.max_memory,
            )
        sizes = "-".join(str(size) for size in claim.sizes().values())
        path = self.output or Path(f"{claim.name}-{sizes}.json")
        found.write(path)
        print(json.dumps(found.to_dict()) if self.json else _told(found))
        console.print(f"certificate: {path} (engram verify {path} checks it again)")

    def _claim(self) -> Claim:
        depth = self.depth or 2
        names = {"rac": {1: "rac-shallow", 2: "rac-deep"}.get(depth, "rac-conjecture")}
        names["tt"] = "tt-equal-cores" if self.equal_cores else "tt-different-cores"
        name = names.get(self.what, self.what)
        if name not in CLAIMS:
            raise unknown("claim", self.what, [*CLAIMS, *SHORT])
        kind = CLAIMS[name]
        fixed = getattr(kind, "depth", None)
        if self.depth is not None and isinstance(fixed, int) and "depth" not in _sizes(kind) and fixed != self.depth:
            raise OptionError(f"{name} is about depth {fixed}, got --depth {self.depth}: use rac-conjecture, or rac")
        given = {**{size: getattr(self, size) for size in _sizes(kind)}}
        return kind(**given | ({"depth": self.depth or 3} if "depth" in given else {}))


@dataclass(frozen=True)
class Verify:
    """Check certificates again, from their seeds alone. Exit code 0 if all hold, 2 if one does not.

    Example: engram verify rac-deep-3-3-8-3.json
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Certificates."""
    json: bool = False
    """Print a JSON list: file, ok, and what is wrong."""

    def run(self) -> None:
        if not self.files:
            raise OptionError("engram verify needs at least one certificate file")
        rows: list[dict[str, Any]] = []
        for path in self.files:
            try:
                found = verify(path)
                rows.append(
                    {"file": str(path), "ok": True, "rank": found.rank, "statement": found.claim.statement(found.rank)}
                )
            except CertificateError as error:
                rows.append({"file": str(path), "ok": False, "error": str(error)})
            if not self.json:
                row = rows[-1]
                print(f"{path}: {'verified. ' + row['statement'] if row['ok'] else 'NOT VERIFIED'}")
        if self.json:
            print(json.dumps(rows))
        wrong = [row["error"] for row in rows if not row["ok"]]
        if wrong:
            raise CertificateError("; ".join(wrong))


def _sizes(kind: type[Claim]) -> list[str]:
    return [field.name for field in fields(kind)]


def _told(found: Certificate) -> str:
    claim = found.claim
    lines = [f"rank found   {found.rank}", f"bound        {claim.bound}"]
    lines += [f"{name.replace('_', ' '):<12} {value}" for name, value in claim.more().items() if name != "depth"]
    lines += [
        f"upper bound  {claim.upper}",
        f"holds        {'yes' if found.holds else 'NO'}",
        claim.statement(found.rank),
    ]
    return "\n".join(lines)

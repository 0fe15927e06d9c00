"""Certificates: a claim, a seed and the numbers found, in a file that anyone can check again."""

import hashlib
import json
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flint

from engram import __version__
from engram.certify._claim import Claim, Found, RankClaim
from engram.certify._field import PRIME, check_prime, check_seed
from engram.certify._limits import check_size_of
from engram.certify._registry import CLAIMS
from engram.errors import CertificateError, EngramError, check_choice

VERSION = 1


@dataclass(frozen=True)
class Certificate:
    """What was found for a claim: of a rank, a proof of the lower bound for almost all weights."""

    claim: Claim
    prime: int
    seed: int
    witness: str
    found: Found
    seconds: float

    @property
    def rank(self) -> int:
        """Of a claim about a rank."""
        return int(self.found["rank"])

    @property
    def holds(self) -> bool:
        return self.claim.holds(self.found)

    @property
    def statement(self) -> str:
        return self.claim.statement(self.found)

    def to_dict(self) -> dict[str, Any]:
        """The content of the file, with the hash of all of it."""
        claim = self.claim
        content = {
            "version": VERSION,
            "claim": claim.name,
            "sizes": claim.sizes(),
            "prime": self.prime,
            "seed": self.seed,
            "witness": self.witness,
            **self.found,
            "holds": self.holds,
            **claim.more(),
            "statement": self.statement,
            "software": {"engram": __version__, "flint": flint.__FLINT_VERSION__, "python": platform.python_version()},
            "seconds": round(self.seconds, 3),
        }
        return content | {"seal": _seal(content)}

    def write(self, path: Path) -> None:
        """Beside, to the disk, and then under its name: a reader finds all of it, or what was there before."""
        beside = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("w", encoding="utf-8") as file:
                file.write(json.dumps(self.to_dict(), indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise CertificateError(f"{path} could not be written: {error.strerror}") from error


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def certify(
    claim: Claim,
    *,
    witness: str = "random",
    seed: int = 0,
    prime: int = PRIME,
    max_side: int | None = None,
    max_memory: float | None = None,
) -> Certificate:
    """Do the arithmetic of a claim.

    Args:
        claim: the statement and its sizes.
        witness: ``random`` weights of the seed, or the ``construction`` of the proof, where there is a choice.
        seed: of the weights.
        prime: p, where the arithmetic is that of a field.
        max_side, max_memory: a larger matrix (rows; MB) is refused before it starts; left out, what would not fit into
            the free memory or a day.
    """
    check_prime(prime)
    check_seed(seed)
    check_choice("witness", witness, claim.witnesses)
    if isinstance(claim, RankClaim):
        check_size_of(claim, max_side, max_memory)
    begin = time.perf_counter()
    found = claim.find(witness, prime, seed)
    return Certificate(claim, prime, seed, witness, found, time.perf_counter() - begin)


def verify(path: Path | str, **limits: Any) -> Certificate:
    """Check a certificate again: its seal, and its numbers, found anew from the seed.

    Args:
        path: of the file.
        limits: ``max_side`` and ``max_memory``, as in :func:`certify`.

    Raises :class:`CertificateError` with what is wrong.
    """
    content = _read(Path(path))
    if missing := {"sizes", "prime", "seed", "witness"} - {*content}:
        raise CertificateError(f"{path} is not a certificate: it has no {', '.join(sorted(missing))}")
    try:
        claim = CLAIMS[check_choice("claim", str(content["claim"]), CLAIMS)](**content["sizes"])
        asked = {name: content[name] for name in ("witness", "seed", "prime")}
        found = certify(claim, **asked, **limits)
    except (TypeError, EngramError) as error:
        raise CertificateError(f"{path}: {error}") from None
    for name, value in found.to_dict().items():
        # As JSON has them: to Python 45.0 and 45, or 1 and True, are equal.
        if name not in ("seconds", "software", "seal") and json.dumps(content.get(name)) != json.dumps(value):
            raise CertificateError(f"{path}: {name} is {content.get(name)!r}, found {value!r}")
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        why = "it is empty" if path.stat().st_size == 0 else str(error)
        raise CertificateError(f"{path} is not a certificate: {why}") from None
    if not isinstance(content, dict) or "claim" not in content:
        raise CertificateError(f"{path} is not a certificate: it names no claim")
    if content.get("version") != VERSION or content["version"] is True:
        raise CertificateError(f"{path} is of version {content.get('version')!r}; this engram checks version {VERSION}")
    seal = content.pop("seal", None)
    if seal != _seal(content):
        raise CertificateError(f"{path}: its content does not match its seal, so it was changed")
    return content

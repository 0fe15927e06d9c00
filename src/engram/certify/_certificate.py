"""Certificates: a claim, a seed and the numbers found, in a file that anyone can check again."""

import json
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import flint

from engram import __version__
from engram.certify._claim import Claim, Found
from engram.certify._field import PRIME, check_prime, check_seed
from engram.certify._limits import DAY, check_cost
from engram.certify._registry import CLAIMS
from engram.errors import CertificateError, EngramError, FileError, check_choice
from engram.files import printable, read_json, seal, sealed, unseal, write_whole
from engram.places import free_memory

VERSION = 1
LONGEST = 10_000_000
"""Bytes of a certificate."""
MESSAGE = 500
"""Letters of a message that may quote a file."""
SOFTWARE = {"engram": __version__, "flint": flint.__FLINT_VERSION__, "python": platform.python_version()}


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
            "software": SOFTWARE,
            "seconds": round(self.seconds, 3),
        }
        return content | {"seal": seal(content)}

    def write(self, path: Path) -> None:
        """All of it, or what was there before is left."""
        content = self.to_dict()
        del content["seal"]
        text = sealed(content)
        if len(text) > LONGEST:
            raise CertificateError(
                f"{path} was not written: it has {len(text):,} bytes, and a certificate at most {LONGEST:,}: choose "
                "smaller sizes"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            raise CertificateError(f"{path} could not be written: {error.strerror}") from error
        except FileError as error:
            raise CertificateError(str(error)) from None


def certify(
    claim: Claim,
    *,
    witness: str = "random",
    seed: int = 0,
    prime: int = PRIME,
    max_side: int | None = None,
    max_memory: float | None = None,
    max_seconds: float = DAY,
) -> Certificate:
    """Do the arithmetic of a claim, if its estimate (:meth:`Claim.cost`) is within the limits.

    Args:
        claim: the statement and its sizes.
        witness: ``random`` weights of the seed, or the ``construction`` of the proof, where there is a choice.
        seed: of the weights.
        prime: p, where the arithmetic is that of a field.
        max_side: the most rows of a matrix; default: no limit of its own.
        max_memory: in MB; default: what is free.
        max_seconds: default: a day.
    """
    check_prime(prime)
    check_seed(seed)
    check_choice("witness", witness, claim.witnesses)
    check_cost(claim, max_side, max_memory, max_seconds)
    begin = time.perf_counter()
    found = claim.find(witness, prime, seed)
    return Certificate(claim, prime, seed, witness, found, time.perf_counter() - begin)


def verify(
    path: Path | str, *, max_side: int | None = None, max_memory: float | None = None, max_seconds: float = 60
) -> Certificate:
    """Check a certificate again: its seal, and its numbers, found anew from the seed.

    Args:
        path: of the file, which may come from anyone.
        max_side: as in :func:`certify`.
        max_memory: in MB; default: 2000, or what is free if that is less.
        max_seconds: default: a minute.

    Raises :class:`CertificateError` with what is wrong.
    """
    memory = min(2000, free_memory()) if max_memory is None else max_memory
    try:
        content = _read(Path(path))
        claim = _claim(content)
        asked = {name: content[name] for name in ("witness", "seed", "prime")}
        found = certify(claim, **asked, max_side=max_side, max_memory=memory, max_seconds=max_seconds)
        _compare(content, found.to_dict())
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from None
    except EngramError as error:
        raise CertificateError(f"{path}: {printable(str(error)[:MESSAGE])}") from None
    return found


def _read(path: Path) -> dict[str, Any]:
    """The content without its seal, if it is that of a certificate of this version."""
    try:
        content = read_json(path, LONGEST)
    except FileError as error:
        raise CertificateError(f"it is not a certificate: {error}") from None
    if not isinstance(content, dict) or "claim" not in content:
        raise CertificateError("it is not a certificate: it names no claim")
    if content.get("version") != VERSION or content["version"] is True:
        raise CertificateError(
            f"it is of version {_text(content.get('version'))}; this engram checks version {VERSION}"
        )
    return unseal(content)


def _claim(content: dict[str, Any]) -> Claim:
    """The claim at the sizes of the file, all of them and no others."""
    _check_names("it", content, ("sizes", "prime", "seed", "witness", "software", "seconds"), others=True)
    for name in ("claim", "witness"):
        if not isinstance(content[name], str) or len(content[name]) > 60:
            raise CertificateError(f"{name} must be a short text, got {_text(content[name])}")
    kind = CLAIMS[check_choice("claim", content["claim"], CLAIMS)]
    _check_names("sizes", content["sizes"], [field.name for field in fields(kind)])
    _check_names("software", content["software"], SOFTWARE)
    if not all(isinstance(version, str) for version in content["software"].values()):
        raise CertificateError(f"the versions in software must be texts, got {_text(content['software'])}")
    if type(content["seconds"]) not in (int, float) or content["seconds"] < 0:
        raise CertificateError(f"seconds must be a number of 0 or more, got {_text(content['seconds'])}")
    return kind(**content["sizes"])


def _check_names(what: str, values: Any, names: Iterable[str], others: bool = False) -> None:
    """Refuse what is no object, lacks a name, or has one that is unknown."""
    if not isinstance(values, dict):
        raise CertificateError(f"{what} must be an object with {', '.join(names)}, got {_text(values)}")
    if missing := {*names} - {*values}:
        raise CertificateError(f"{what} has no {', '.join(sorted(missing))}")
    if not others and (unknown := {*values} - {*names}):
        raise CertificateError(f"{what} has an unknown field {_text(min(unknown))}: expected {', '.join(names)}")


def _compare(content: dict[str, Any], found: dict[str, Any]) -> None:
    """Refuse a file that says anything else than what was found."""
    _check_names("it", content | {"seal": ""}, found)
    for name, value in found.items():
        # As JSON has them: to Python 45.0 and 45, or 1 and True, are equal.
        if name not in ("seconds", "software", "seal") and json.dumps(content[name]) != json.dumps(value):
            raise CertificateError(f"{name} is {_text(content[name])}, found {_text(value)}")


def _text(value: Any) -> str:
    """As the file has it, the beginning."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."

"""Certificates: a claim, a seed and the numbers found, in a file that anyone can check again."""

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flint

from engram import __version__
from engram.certify._claim import Claim, Found
from engram.certify._cost import DAY
from engram.errors import CertificateError, FileError, check_choice
from engram.exact import PRIME, check_prime, check_seed
from engram.files import seal, sealed, write_whole

VERSION = 1
"""Of the file format."""
LONGEST = 10_000_000
"""The most bytes of a certificate file."""
SOFTWARE = {"engram": __version__, "flint": flint.__FLINT_VERSION__, "python": platform.python_version()}


@dataclass(frozen=True)
class Certificate:
    """What was found for a claim."""

    claim: Claim
    prime: int
    """p, of the field."""
    seed: int
    """Random seed of the weights."""
    witness: str
    """The kind of weights: ``random`` or ``construction``."""
    found: Found
    """The numbers found."""
    seconds: float
    """How long it took."""

    @property
    def rank(self) -> int:
        """The rank found; for claims about a rank."""
        return int(self.found["rank"])

    @property
    def holds(self) -> bool:
        """Whether the numbers found are those that the claim states."""
        return self.claim.holds(self.found)

    @property
    def statement(self) -> str:
        """What the numbers found prove, in words."""
        return self.claim.statement(self.found)

    def to_dict(self) -> dict[str, Any]:
        """The content of the file, with the hash of all the rest as its ``seal``."""
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
        """Write the file. If that fails, a file that was there before is left as it was."""
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
    """Do the arithmetic of a claim, if its estimated cost (:meth:`Claim.cost`) is within the limits.

    Args:
        claim: the statement and its sizes.
        witness: the kind of weights: ``random`` ones, or the ``construction`` of a proof, where there is one.
        seed: random seed of the weights.
        prime: p, for claims whose arithmetic is modulo a prime.
        max_side: the most rows of a matrix; default: no limit.
        max_memory: in MB; default: the free memory.
        max_seconds: default: a day.
    """
    check_prime(prime)
    check_seed(seed)
    check_choice("witness", witness, claim.witnesses)
    claim.check_cost(max_side, max_memory, max_seconds)
    start = time.perf_counter()
    found = claim.find(witness, prime, seed)
    return Certificate(claim, prime, seed, witness, found, time.perf_counter() - start)

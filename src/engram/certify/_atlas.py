"""Every rank claim at every size up to a limit: which hold, which fail, and what mends those."""

import json
import os
import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from engram.certify._by_depth import enough_templates, rac_claim
from engram.certify._certificate import certify
from engram.certify._claim import RankClaim
from engram.certify._claims import TTDifferentCores, TTEqualCores
from engram.certify._field import PRIME, check_prime, check_seed
from engram.certify._limits import DAY, check_cost, check_large, rounded
from engram.certify._survey import survey
from engram.errors import CertificateError, FileError, OptionError, check_size
from engram.files import open_to_append, parse_json, read_bounded, unseal

FILE = "certificates.jsonl"
MOST, LINE = 20_000, 5000
"""Matrices of an atlas, and bytes of a line of its file."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Range:
    """The sizes of an atlas: M = 2 .. modes, R (or r) = 1 .. channels, L = 1 .. depth, every even T (or d) that fits.

    A circuit is asked on grids of K = M templates; one of two layers or more also of K = M + 1, for M^{T/2} caps only
    grids of M templates, and of as many as the upper bound needs to allow Conjecture 1, for M are too few where R < M
    (spec/arithmetic-circuits.md 4.2, 4.3).
    """

    max_side: int = 1024
    """The most rows of a matrix: K^(T/2)."""
    max_modes: int = 8
    """The largest M (or n)."""
    max_channels: int = 6
    """The largest R (or r)."""
    max_depth: int = 7
    """The largest L."""

    def __post_init__(self) -> None:
        for name in ("max_side", "max_modes"):
            check_size(f"--{name.replace('_', '-')}", getattr(self, name), least=2)
        for name in ("max_channels", "max_depth"):
            check_size(f"--{name.replace('_', '-')}", getattr(self, name))

    def claims(self) -> list[RankClaim]:
        """One a matrix, the cheap ones first. The other claims about a circuit are read off the same rank."""
        check_large("atlas", asdict(self))
        found = [claim for claim in islice(self._all(), MOST + 1) if claim.side <= self.max_side]
        if len(found) > MOST:
            raise OptionError(f"an atlas of these sizes has more than {MOST:,} matrices: choose smaller limits")
        return sorted(found, key=lambda claim: (claim.side, claim.sizes().get("depth", 0)))

    def _all(self) -> Iterator[RankClaim]:
        """Those of K = M templates are within max_side; of those of more templates, some are not."""
        for modes in range(2, min(self.max_modes, self.max_side) + 1):
            steps = 0
            while modes ** ((steps := steps + 2) // 2) <= self.max_side:
                for channels in range(1, self.max_channels + 1):
                    yield TTEqualCores(modes, channels, steps)
                    yield TTDifferentCores(modes, channels, steps)
                    for depth in range(1, self.max_depth + 1):
                        enough = enough_templates(modes, channels, steps, depth, self.max_side)
                        for templates in sorted({modes, modes + 1, enough} if depth > 1 else {modes}):
                            yield rac_claim(modes, channels, steps, depth, templates)


def atlas(
    sizes: Range | None = None,
    folder: Path | str = "atlas",
    *,
    seed: int = 0,
    prime: int = PRIME,
    jobs: int | None = None,
    tell: Callable[[int, int], None] = lambda done, all: None,
) -> dict[str, Any]:
    """Certify all sizes in parallel processes, each with one thread, and say what was found (:func:`survey`).

    Every finished size is one line of ``certificates.jsonl`` in the folder: a whole certificate. A second call goes on
    where the first was stopped.

    Args:
        sizes: the range of sizes.
        folder: where the certificates go.
        seed, prime: of the weights.
        jobs: processes; default: as many as cores.
        tell: called with the number of finished sizes, and of all.
    """
    check_prime(prime)
    check_seed(seed)
    cores = os.cpu_count() or 1
    if jobs is not None and check_size("--jobs", jobs) > 4 * cores:
        raise OptionError(f"--jobs must be at most {4 * cores}, four processes per core; got {rounded(jobs)}")
    sizes = sizes or Range()
    claims = sizes.claims()
    check_cost(claims[-1], sizes.max_side, None, DAY)  # the largest, before the first one starts
    path = Path(folder) / FILE
    try:
        done = _read(path, seed, prime)
    except FileError as error:
        raise CertificateError(f"{path}: {error}") from None
    todo = [claim for claim in claims if _key(claim) not in done]
    tell(len(claims) - len(todo), len(claims))
    path.parent.mkdir(parents=True, exist_ok=True)
    proofs = _prove(todo, seed, prime, cores if jobs is None else jobs)
    with open_to_append(path) as file, closing(proofs):
        for number, line in enumerate(proofs, 1):
            file.write(json.dumps(line).encode() + b"\n")
            done[line["claim"], tuple(line["sizes"].values())] = line
            tell(len(claims) - len(todo) + number, len(claims))
    found = survey([(claim, done[_key(claim)]["rank"]) for claim in claims], prime, seed)
    return {"range": asdict(sizes), **found}


def _prove(claims: list[RankClaim], seed: int, prime: int, jobs: int) -> Generator[dict[str, Any], None, None]:
    """The certificates as they come."""
    if not claims:
        return
    with _one_thread(), ProcessPoolExecutor(jobs, get_context("spawn"), _deaf) as pool:
        try:
            for future in as_completed([pool.submit(_one, claim, seed, prime) for claim in claims]):
                yield future.result()
        except BaseException:  # Ctrl-C: what is done is on disk
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one(claim: RankClaim, seed: int, prime: int) -> dict[str, Any]:
    return certify(claim, seed=seed, prime=prime, max_side=claim.side).to_dict()


def _deaf() -> None:
    """Ctrl-C is for the parent, which sends no more work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started within use one thread each: they read these names when they load numpy."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _key(claim: RankClaim) -> tuple[str, tuple[int, ...]]:
    return claim.name, tuple(claim.sizes().values())


def _read(path: Path, seed: int, prime: int) -> dict[tuple[str, tuple[int, ...]], dict[str, Any]]:
    """What an earlier call has certified. A last line that was cut short is taken out of the file."""
    if not os.path.lexists(path):
        return {}
    whole, _, rest = read_bounded(path, MOST * LINE).rpartition(b"\n")
    if rest:
        with open_to_append(path) as file:
            file.truncate(len(whole) + bool(whole))
    done = {}
    for number, line in enumerate(whole.splitlines(), 1):
        found = _line(line, f"{path}, line {number}")
        if (found["seed"], found["prime"]) != (seed, prime):
            raise CertificateError(f"{path} has another seed or prime: take another --output")
        done[found["claim"], tuple(found["sizes"].values())] = found
    return done


def _line(line: bytes, where: str) -> dict[str, Any]:
    """One certificate, of which no more is asked than the atlas needs."""
    try:
        found = parse_json(line)
        numbers = [found["seed"], found["prime"], found["rank"], *found["sizes"].values()]
        if not (isinstance(found["claim"], str) and all(type(number) is int for number in numbers)):
            raise TypeError
    except (FileError, KeyError, TypeError, AttributeError):
        raise CertificateError(f"{where} is not a certificate: take another --output") from None
    try:
        return unseal(found)
    except FileError:
        raise CertificateError(f"{where} does not match its seal, so it was changed: take it out") from None

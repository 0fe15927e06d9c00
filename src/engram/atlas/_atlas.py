"""Every rank claim at every size up to a limit, certified in parallel processes."""

import json
import os
import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from engram.atlas._range import MOST, Range
from engram.atlas._survey import survey
from engram.certify import RankClaim, certify, rounded
from engram.errors import CertificateError, FileError, OptionError, check_size
from engram.exact import PRIME, check_prime, check_seed
from engram.files import open_to_append, parse_json, read_bounded, unseal

FILE = "certificates.jsonl"
LINE = 5000
"""The most bytes of a line of the file."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def atlas(
    sizes: Range | None = None,
    folder: Path | str = "atlas",
    *,
    seed: int = 0,
    prime: int = PRIME,
    jobs: int | None = None,
    tell: Callable[[int, int], None] = lambda done, all: None,
) -> dict[str, Any]:
    """Certify all sizes, and return what was found as one table (:func:`engram.atlas.survey`).

    Every finished size is one line of ``certificates.jsonl`` in the folder: a whole certificate. After an interruption
    a second call resumes where the first one stopped.

    Args:
        sizes: the range of sizes; default: ``Range()``.
        folder: where the certificates go.
        seed: random seed of the weights.
        prime: p, of the field.
        jobs: processes, with one thread each; default: as many as cores.
        tell: called with the number of finished sizes and the number of all.
    """
    check_prime(prime)
    check_seed(seed)
    cores = os.cpu_count() or 1
    if jobs is not None and check_size("jobs", jobs) > 4 * cores:
        raise OptionError(f"jobs must be at most {4 * cores}, four processes per core; got {rounded(jobs)}")
    sizes = sizes or Range()
    claims = sizes.claims()
    claims[-1].check_cost(sizes.max_side)  # of the largest, before the first one starts
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
    """The certificates, in the order in which they are finished."""
    if not claims:
        return
    with _one_thread(), ProcessPoolExecutor(jobs, get_context("spawn"), _ignore_interrupts) as pool:
        try:
            for future in as_completed([pool.submit(_one, claim, seed, prime) for claim in claims]):
                yield future.result()
        except BaseException:  # such as Ctrl-C; what is done is on disk
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one(claim: RankClaim, seed: int, prime: int) -> dict[str, Any]:
    return certify(claim, seed=seed, prime=prime, max_side=claim.side).to_dict()


def _ignore_interrupts() -> None:
    """Ctrl-C is handled by the parent process, which then sends no more work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started within this block use one thread: numpy reads these variables when it is imported."""
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
    """The certificates of an earlier call. If the last line of the file is incomplete, it is removed."""
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
            raise CertificateError(f"{path} has another seed or prime: choose another folder")
        done[found["claim"], tuple(found["sizes"].values())] = found
    return done


def _line(line: bytes, where: str) -> dict[str, Any]:
    """One certificate; only the fields that the atlas reads are checked, and the seal."""
    try:
        found = parse_json(line)
        numbers = [found["seed"], found["prime"], found["rank"], *found["sizes"].values()]
        if not (isinstance(found["claim"], str) and all(type(number) is int for number in numbers)):
            raise TypeError
    except (FileError, KeyError, TypeError, AttributeError):
        raise CertificateError(f"{where} is not a certificate: choose another folder") from None
    try:
        return unseal(found)
    except FileError:
        raise CertificateError(f"{where} does not match its seal, so it was changed: remove it") from None

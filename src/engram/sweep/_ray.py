"""The engine on a Ray cluster: the same jobs and the same leases, in a folder that all nodes share."""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from engram.errors import OptionError
from engram.files import parse_json
from engram.sweep._job import answer
from engram.sweep._local import Event, open_log

AGAIN = 2.0
"""Seconds between two looks at the cluster and at the progress of its jobs."""
ANSWER = 10.0
"""Seconds that a cluster has to answer."""
TAIL = 2**14
"""Bytes at the end of metrics.jsonl that are read for the progress."""


class Ray:
    """Trains jobs as tasks of a Ray cluster that is running already.

    Ray itself repeats nothing: the controller does, which knows the leases. A worker process that died is a lost
    attempt, as on one machine; a node that died is nobody's fault, and its runs are taken over as soon as their leases
    are known to be dead.

    Args:
        address: of the cluster: ``auto`` for the one that this machine belongs to, or ``HOST:PORT``.
        workers: the most jobs at once; 0: as many as the cluster has processors for.
        threads: processors per job.
        log: where messages of Ray go, which would stand between ours.
    """

    def __init__(self, address: str = "auto", workers: int = 0, threads: int = 1, log: Path | None = None) -> None:
        self.ray, self.own = _connected(address)
        self.most, self.threads = workers, threads
        self.aside: _Aside | None = None
        self.looked = -AGAIN
        self.slots = 0
        self.jobs: dict[Any, tuple[int, Mapping[str, Any]]] = {}  # by the reference of the task
        try:
            self.aside = _Aside(log)
            self._look()
            if not self.slots:
                raise OptionError(f"the Ray cluster at {address} has no node with {threads} processors, as a run needs")
        except BaseException:
            self.close()
            raise

    def submit(self, number: int, job: Mapping[str, Any], stale: Sequence[int]) -> None:
        task = self.ray.remote(_train).options(num_cpus=self.threads, max_retries=0, name="engram run")
        self.jobs[task.remote(job, stale)] = (number, job)

    def events(self, seconds: float) -> list[Event]:
        if self.jobs:
            ready, _ = self.ray.wait(list(self.jobs), num_returns=1, timeout=seconds)
        else:
            ready = []
            time.sleep(seconds)
        found = [self._ended(reference) for reference in ready]
        if time.monotonic() - self.looked >= AGAIN:
            self._look()
            for number, job in self.jobs.values():
                found += [{"number": number, **at} for at in map(_progress, range(len(job["runs"])), job["runs"]) if at]
        return found

    def _ended(self, reference: Any) -> Event:
        """What became of a task."""
        number, _ = self.jobs.pop(reference)
        errors = self.ray.exceptions
        try:
            return {"number": number, **self.ray.get(reference)}
        except errors.TaskCancelledError:
            return {"number": number, "stopped": True}
        except (errors.NodeDiedError, errors.LocalRayletDiedError, errors.TaskUnschedulableError):
            return {"number": number, "held": True}  # the lease of the dead one says when it can be taken over
        except errors.OutOfMemoryError:
            return {"number": number, "failed": "Ray ended it because its node ran out of memory"}
        except errors.RayError as error:
            return {"number": number, "failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"}

    def _look(self) -> None:
        """How many jobs the living nodes have room for."""
        self.looked = time.monotonic()
        nodes = [node["Resources"].get("CPU", 0) for node in self.ray.nodes() if node["Alive"]]
        room = sum(int(processors // self.threads) for processors in nodes)
        self.slots = min(room, self.most) if self.most else room

    def stop(self) -> None:
        for reference in self.jobs:
            self.ray.cancel(reference)  # Ctrl-C in the task: it saves

    def close(self) -> None:
        for reference in self.jobs:
            with suppress(Exception):  # the cluster may be gone
                self.ray.cancel(reference, force=True)
        self.jobs = {}
        if self.own:
            self.ray.shutdown()
        if self.aside is not None:
            self.aside.close()


def _connected(address: str) -> tuple[Any, bool]:
    """The package ray, with a cluster behind it, and whether it was us who connected it: a program may have before."""
    try:
        import ray
    except ImportError:
        raise OptionError("the engine ray needs the package ray: pip install 'engram[ray]'") from None
    if ray.is_initialized():
        return ray, False
    try:
        _check_answers(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, AssertionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OptionError(
            f"no Ray cluster at address {address!r} ({reason}). ray start --head starts one on this machine, and "
            "ray start --address HOST:PORT makes another machine part of it"
        ) from None
    return ray, True


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()


def _train(job: Mapping[str, Any], stale: Sequence[int]) -> Event:
    """A task: one job in this process. Ctrl-C, which a cancelled task gets, and SIGTERM save it."""
    try:
        return answer(job, stale)
    except KeyboardInterrupt:
        return {"held": True}


def _progress(place: int, run: Mapping[str, Any]) -> Event | None:
    """Where a run is, by the last line of its metrics: the folder is shared, and needs no other channel."""
    with suppress(OSError, ValueError, LookupError, TypeError), Path(run["folder"], "metrics.jsonl").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        line = parse_json(file.read().split(b"\n")[-2], finite=False)
        return {"run": place, "step": line["step"], "loss": float(line["loss"])}
    return None


class _Aside:
    """Sends what Ray's own threads print to a log, not to standard output: of a dead node they print fifty lines."""

    def __init__(self, log: Path | None) -> None:
        self.log: IO[bytes] = open_log(log) if log else Path(os.devnull).open("ab")  # noqa: SIM115 - open until close
        self.stream, sys.stdout = sys.stdout, self

    def write(self, text: str) -> int:
        if threading.current_thread().name.startswith("ray_"):
            return self.log.write(text.encode())
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def close(self) -> None:
        if sys.stdout is self:
            sys.stdout = self.stream
        self.log.close()

"""A lock that survives a fork: the child gets a new one, because the thread that held the old one is gone."""

import os
from threading import RLock
from weakref import WeakSet


class ForkLock:
    """Used as ``with lock:``; the thread that holds it may take it again."""

    def __init__(self) -> None:
        self.lock = RLock()
        _every.add(self)

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


_every: WeakSet[ForkLock] = WeakSet()


def _renew() -> None:
    for lock in _every:
        lock.lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)

"""A lock that a signal handler may take again, and that a fork sets free."""

from __future__ import annotations

import os
from threading import RLock

from .. import _core

_forks = 0  # between this process and the one that imported the package


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class ForkableLock:
    """A `threading.RLock` for ``with lock.hold():`` that threads of a parent process do not keep locked."""

    def __init__(self) -> None:
        self._locks = {_forks: RLock()}

    def hold(self) -> _core.Hold:
        lock = self._locks.get(_forks)
        if lock is None:
            lock = self._locks[max(self._locks)]
            if lock.acquire(blocking=False):
                lock.release()
            else:
                lock = RLock()  # the owner is a thread of the parent
            lock = self._locks.setdefault(_forks, lock)
        return _core.Hold(lock)

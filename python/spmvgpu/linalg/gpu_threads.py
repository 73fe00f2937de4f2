"""Threads that wait for GPUs, so that several calls keep them busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .. import _core
from ..devices import CPU

_ResultT = TypeVar("_ResultT")

_MOST_THREADS = 256  # more than there are calls at the same time, so that none waits for another to end


class GpuThreads:
    """Runs calls that work on devices: beside one another on GPUs, if that is worthwhile.

    On a CPU, of which a call takes all cores, one comes after the other. A context, which ends when all calls
    have ended.

    Parameters
    ----------
    ordinals : iterable of int
        The devices.
    is_worthwhile : bool, default True
        Whether a GPU works longer than threads take to begin and to wait for each other.
    """

    def __init__(self, ordinals: Iterable[int], *, is_worthwhile: bool = True) -> None:
        from concurrent.futures import ThreadPoolExecutor  # which takes milliseconds to import

        has_threads = is_worthwhile and CPU not in ordinals
        # The bound of the CPU's threads is that of the calling one.
        limit = _core.set_thread_limit, (_core.max_threads(),)
        self._pool = ThreadPoolExecutor(_MOST_THREADS, "gpu", *limit) if has_threads else None

    def __enter__(self) -> GpuThreads:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def start(self, call: Callable[..., _ResultT], *arguments: Any) -> Callable[[], _ResultT]:
        """A function that waits for the result of a call, and returns it."""
        if self._pool is not None:
            return self._pool.submit(call, *arguments).result
        result = call(*arguments)
        return lambda: result

    def each(self, call: Callable[[int], _ResultT], count: int) -> list[_ResultT]:
        """The results for the numbers below `count`."""
        return [wait() for wait in [self.start(call, number) for number in range(count)]]

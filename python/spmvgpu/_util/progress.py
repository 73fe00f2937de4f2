"""Progress on stderr; of the command line on a terminal only, and only of what takes longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from time import monotonic
from typing import Any

from .steps import listening

# What takes less time shows nothing; after that a line is drawn so often at most.
_DELAY, _INTERVAL = 1.0, 0.1


@contextmanager
def progress() -> Iterator[None]:
    """Show on stderr what the calls in a ``with`` block are doing.

    It tells the steps of long calls: the trials of ``tune="full"``, the levels of `linalg.amg`, factors, and
    the methods and iterations of `linalg.solve`. It is a bar of tqdm where that is installed, and otherwise a
    line. It is for the calls of this thread. The logger "spmvgpu" has the same steps, with their times, at
    the level DEBUG.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> with sg.progress():
    ...     x = sg.linalg.solve(sg.gallery.poisson2d(30), np.ones(900))
    """
    bar = _bar("spmvgpu", "steps", None)

    def show(what: str, is_new: bool) -> None:
        bar.set_postfix_str(what, refresh=is_new)
        bar.update(is_new)

    try:
        with listening(show):
            yield
    finally:
        bar.close()


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[None]:
    """Say what is being done by a call that cannot say how far it is."""
    line = _Line()
    timer = Timer(_DELAY, line.draw, [f"{what} ..."])
    timer.daemon = True
    if not quiet and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        line.clear()


@contextmanager
def counting(what: str, unit: str, total: float | None = None, quiet: bool = False) -> Iterator[Any]:
    """A bar of tqdm, or where that is not installed a line, that counts what was done.

    Its notes are set with ``refresh=False``: tqdm would draw at once, before a second has passed.
    """
    if quiet or not sys.stderr.isatty():
        bar: Any = _Counter(None, what, unit, total)
    else:
        bar = _bar(what, unit, total)
    try:
        yield bar
    finally:
        bar.close()


def _bar(what: str, unit: str, total: float | None) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return _Counter(_Line(), what, unit, total)
    form = None if total is None else "{desc}: {percentage:3.0f}% {bar:30} {elapsed}{postfix}"
    options: dict[str, object] = {"delay": _DELAY, "mininterval": _INTERVAL, "miniters": 0, "leave": False}
    return tqdm(desc=what, unit=f" {unit}", total=total, bar_format=form, file=sys.stderr, **options)


class _Line:
    """A line of stderr that is drawn again in place; nothing is drawn after it was cleared."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._drawn = 0
        self._stream = sys.stderr
        self._open = True

    def draw(self, text: str) -> None:
        with self._lock:
            if self._open:
                print(f"\r{text:<{self._drawn}}", end="", file=self._stream, flush=True)
                self._drawn = len(text)

    def clear(self) -> None:
        with self._lock:
            self._open = False
            if self._drawn:
                print(f"\r{'':<{self._drawn}}\r", end="", file=self._stream, flush=True)


class _Counter:
    """As much of tqdm's bar as is used here, on a line or, without one, unseen."""

    def __init__(self, line: _Line | None, what: str, unit: str, total: float | None) -> None:
        self.n = 0.0
        self._line, self._what, self._unit, self._total = line, what, unit, total
        self._due = monotonic() + _DELAY
        self._note = ""

    def update(self, n: float = 1) -> bool:
        """Count; True where that is drawn."""
        self.n += n
        if self._line is None or monotonic() < self._due:
            return False
        self._due = monotonic() + _INTERVAL
        done = f"{self.n:.0f} {self._unit}" if self._total is None else f"{self.n / self._total:.0%}"
        self._line.draw(f"{self._what}: {done}{self._note}")
        return True

    def set_postfix_str(self, text: str, refresh: bool = False) -> None:
        """Say something beside the count, from the next time that it is counted, or drawn."""
        self._note = f", {text}"
        if refresh:
            self._due = 0.0

    def close(self) -> None:
        if self._line is not None:
            self._line.clear()

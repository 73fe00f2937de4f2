"""The steps of calls that take long: for reports of an operator, a logger, and whoever shows progress."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import NamedTuple
from weakref import ref

from .show import short

_log = logging.getLogger("spmvgpu")


class Step(NamedTuple):
    """One step of making an operator, see `spmvgpu.planning.Tuning`.

    Attributes
    ----------
    name : str
        "upload", "checks", "transpose", "order", "cache", "profile", "features", "plan", "convert" or
        "trial"; "other" is the rest.
    of : str
        The format, with its options, of "plan", "convert" and "trial"; otherwise empty.
    seconds : float

    Examples
    --------
    >>> import spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> "convert" in [step.name for step in op.tuning.steps]
    True
    """

    name: str
    of: str
    seconds: float

    def __repr__(self) -> str:
        return f"Step(name={self.name!r}, of={self.of!r}, seconds={short(self.seconds)})"


class Recording:
    """Records the steps that a thread takes within its ``with`` block."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._start = perf_counter()
        self.is_in_step = False

    def __enter__(self) -> Recording:
        self._before = _recording.set(ref(self))
        return self

    def __exit__(self, *raised: object) -> None:
        _recording.reset(self._before)

    def add(self, step: Step) -> None:
        self._steps.append(step)

    def steps(self) -> list[Step]:
        """Those so far, and the time of what is none of them."""
        rest = perf_counter() - self._start - sum(step.seconds for step in self._steps)
        return [*self._steps, Step("other", "", max(rest, 0.0))]


# A weak reference: a recording whose block never began, because of an interrupt, is forgotten with its owner.
_recording: ContextVar[ref[Recording] | None] = ContextVar("recording", default=None)


# Gets what is done, and whether it is a step that begins.
_listener: ContextVar[Callable[[str, bool], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[str, bool], None]) -> Iterator[None]:
    """Tell a function the steps that this thread begins in the block, and how far they are."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(what: str, *values: object, is_new: bool = False) -> None:
    """Say how far a step is, by a text with places for values."""
    listener = _listener.get()
    if listener is not None:
        listener(what % values, is_new)


def current() -> Recording | None:
    """The recording that goes on in this thread, if there is one and it is not within a step."""
    reference = _recording.get()
    recording = None if reference is None else reference()
    return None if recording is None or recording.is_in_step else recording


def step(name: str, of: str = "") -> _Timed:
    """A context that tells a step and its time, and records them unless it is a part of another step."""
    return _Timed(name, of)


def took(steps: Iterable[tuple[str, str, float]]) -> None:
    """Record steps that the core took: their names, formats and seconds."""
    recording = current()
    for taken in map(Step._make, steps):
        _log_of(taken)
        if recording is not None:
            recording.add(taken)


def _log_of(taken: Step) -> None:
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s took %.3g ms", f"{taken.name} {taken.of}".rstrip(), 1e3 * taken.seconds)


class _Timed:
    """No generator, which takes longer to start than some steps do to run."""

    __slots__ = ("_name", "_of", "_recording", "_start")

    def __init__(self, name: str, of: str) -> None:
        self._name, self._of = name, of

    def __enter__(self) -> None:
        self._recording = current()
        if self._recording is not None:
            # An interrupt between here and the block ends the recording too.
            self._recording.is_in_step = True
        self._start = perf_counter()
        tell("%s %s", self._name, self._of, is_new=True)

    def __exit__(self, *raised: object) -> None:
        taken = Step(self._name, self._of, perf_counter() - self._start)
        if self._recording is not None:
            self._recording.add(taken)
            self._recording.is_in_step = False
        _log_of(taken)


def in_words(steps: list[Step]) -> str:
    """Their milliseconds by names and formats: ``5.1 ms: upload 3.0, plan 2.1 (csr 0.4, sell 1.7)``."""
    by_name: dict[str, dict[str, float]] = {}
    for taken in steps:
        of_formats = by_name.setdefault(taken.name, {})
        format = taken.of.partition(" ")[0]  # of a variant
        of_formats[format] = of_formats.get(format, 0.0) + 1e3 * taken.seconds
    words = []
    for name, of_formats in by_name.items():
        of = ", ".join(f"{format} {time:.1f}" for format, time in of_formats.items() if format)
        words.append(f"{name} {sum(of_formats.values()):.1f}{f' ({of})' if of else ''}")
    return f"{1e3 * sum(taken.seconds for taken in steps):.1f} ms: {', '.join(words)}"

"""What the making of an operator spends its time on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import NamedTuple


class Step(NamedTuple):
    """Something that was done while an operator was made.

    Attributes
    ----------
    name : str
        What was done: "upload", "checks", "transpose", "order", "cache", "profile", "features", "plan",
        "convert" or "trial"; "other" is the rest.
    of : str
        Which format or variant, of the last three.
    seconds : float
    """

    name: str
    of: str
    seconds: float


_recording: ContextVar[list[Step] | None] = ContextVar("recording", default=None)
_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def recorded() -> Iterator[list[Step]]:
    """The steps of the calling thread within it, and at its end the time of what is none of them."""
    steps: list[Step] = []
    token = _recording.set(steps)
    start = perf_counter()
    try:
        yield steps
    finally:
        _recording.reset(token)
        rest = perf_counter() - start - sum(step.seconds for step in steps)
        steps.append(Step("other", "", max(rest, 0.0)))


def step(name: str, of: str = "") -> _Timed:
    """A context that records the time within it as a step, unless it is a part of one."""
    return _Timed(name, of)


class _Timed:
    """No generator, which takes longer to start than some steps do to run."""

    __slots__ = ("_name", "_of", "_start", "_steps", "_token")

    def __init__(self, name: str, of: str) -> None:
        self._name, self._of = name, of

    def __enter__(self) -> None:
        self._steps = None if _inside.get() else _recording.get()
        if self._steps is not None:
            self._token = _inside.set(True)
            self._start = perf_counter()

    def __exit__(self, *raised: object) -> None:
        if self._steps is not None:
            seconds = perf_counter() - self._start
            _inside.reset(self._token)
            self._steps.append(Step(self._name, self._of, seconds))


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

"""What the jobs of one run have in common: the clock, the time budget, and what is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import numpy as np

from ..records import Recorder

Key = TypeVar("Key")
Result = TypeVar("Result")
Nothing = Callable[[], object]


@dataclass
class Run:
    """One run; `deadline` is that of the job which runs now."""

    gpu: bool
    quick: bool
    record: Recorder
    started: float
    deadline: float = float("inf")

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", flush=True)

    def add(self, times_us: list[float], **row: Any) -> None:
        """Record the median of some measurements, and say it."""
        us = median(times_us)
        self.record.add(**row, time_us=round(us, 2), least_us=round(min(times_us), 2), samples=len(times_us))
        names = (row[key] for key in ("job", "variant", "matrix", "library", "device") if row.get(key))
        self.say(f"{' '.join(map(str, names))}: {us:.1f} us")

    def fits(self, seconds: float, **what: Any) -> bool:
        """Whether so many seconds are left; it is noted where they are not."""
        left = self.deadline - time.perf_counter()
        if seconds < left:
            return True
        if left <= 0:
            reason = "the time budget was spent"
        else:
            reason = f"about {seconds:.0f} s needed, {left:.0f} s left of the time budget"
        self.record.skip(reason, **what)
        self.say(f"skipped: {' '.join(map(str, what.values()))}: {reason}")
        return False

    @contextmanager
    def noted(self, **what: Any) -> Iterator[None]:
        """Turn a failure into an entry of what was skipped, so that it does not cost the other results."""
        try:
            yield
        except Exception as error:
            self.record.skip(f"{type(error).__name__}: {error}"[:400], **what)
            self.say(f"failed: {' '.join(map(str, what.values()))}: {type(error).__name__}: {error}"[:300])


class WrongResultError(Exception):
    """A result is not what SciPy says, so its time says nothing."""


def timed(call: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def in_turns(
    calls: Mapping[Key, Nothing],
    seconds: float,
    *,
    least: int = 2,
    most: int = 15,
    before: Nothing = lambda: None,
) -> dict[Key, list[float]]:
    """Wall time of calls in microseconds, about so many seconds of each.

    They take turns, so that whatever else the machine does meets all alike, after one round that is not
    counted. `before` is called ahead of each, outside its time.
    """
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        before()
        call()
    spent = {key: 0.0 for key in calls}
    for turn in range(most):
        for key, call in calls.items():
            if turn < least or spent[key] < seconds:
                before()
                took, _ = timed(call)
                spent[key] += took
                samples[key].append(took * 1e6)
    return samples


def check_product(A: Any, X: np.ndarray, Y: np.ndarray) -> None:
    """Raise unless ``Y`` is ``A @ X`` but for one rounding for every entry of a row, and a few more."""
    roundings = np.diff(A.indptr) + 8
    bound = np.finfo(np.float64).eps * (roundings * (abs(A) @ abs(X)).T).T
    if Y.shape != bound.shape or not (abs(Y - A @ X) <= bound).all():
        raise WrongResultError("the product is not that of SciPy")

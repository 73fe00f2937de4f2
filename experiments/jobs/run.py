"""What the jobs of one run have in common: the time budget, and what is recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from experiments.peers.problem import WrongResultError, rounding_bound
from experiments.records import Recorder


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


def check_product(A: Any, X: np.ndarray, Y: np.ndarray) -> None:
    """Raise unless ``Y`` is ``A @ X``, of one column or several, within the bound that `Problem` has, too."""
    bound = rounding_bound(A.indptr, abs(A) @ abs(X), np.dtype(np.float64))
    if Y.shape != bound.shape or not (abs(Y - A @ X) <= bound).all():
        raise WrongResultError("the product is not that of SciPy")

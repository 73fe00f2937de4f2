"""What every peer offers: named ways to compute one product, built one by one so that each can fail alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class NotApplicableError(Exception):
    """A variant that does not fit this matrix; the text says why."""


@dataclass
class Variant:
    """One way to compute ``y = A @ x``, ready to run.

    Exactly one of `launch` and `call` is set. `launch(stream)` enqueues a product on a CUDA stream (a handle;
    it is also CuPy's current stream), so that it can be captured in a graph and timed on the device. `call()`
    is what a user writes in Python, timed by the wall clock. `result()` computes the product once more, from
    a poisoned y where the caller gives one, and returns it as a NumPy or CuPy array.
    """

    library: str
    name: str
    nbytes: int  # of the matrix as stored
    result: Callable[[], Any]
    launch: Callable[[int], object] | None = None
    call: Callable[[], object] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    setup_seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A variant to be built; an optional one is left out when the time for its matrix is spent."""

    name: str
    build: Callable[[], Variant]
    optional: bool = False


def device_result(launch: Callable[[int], object], y: Any) -> Callable[[], Any]:
    """`Variant.result` of a launch that writes the CuPy array `y`."""

    def result() -> Any:
        import cupy

        stream = cupy.cuda.Stream(non_blocking=True)
        y.fill(np.nan)
        cupy.cuda.runtime.deviceSynchronize()
        with stream:
            launch(stream.ptr)
        stream.synchronize()
        return y

    return result

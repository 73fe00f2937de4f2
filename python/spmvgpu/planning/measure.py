"""Timing samples on a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import Matrix
from .._util.types import Options
from ..devices import CPU
from ..inputs.csr import CanonicalCsr
from .profile import DTYPES

Variant = tuple[str, Options]  # a format and its options


def time_variants(
    name: str,
    matrix: sp.csr_array,
    variants: Iterable[Variant],
    dtype: str,
    ordinal: int,
) -> Iterator[dict[str, Any]]:
    """A record per variant that holds the matrix: its plan, features, bytes, microseconds a product."""
    data = matrix.data.astype(DTYPES[dtype], copy=False)
    csr = CanonicalCsr(data, matrix.indices, matrix.indptr, matrix.shape)
    for format, options in variants:
        try:
            plan = csr.plan(format, ordinal, options)
            built = csr.build(format, options, ordinal)
        except (_core.FormatError, MemoryError):
            continue
        yield {
            "matrix": name,
            "rows": matrix.shape[0],
            "cols": matrix.shape[1],
            "nnz": matrix.nnz,
            "dtype": dtype,
            "format": format,
            "options": options,
            "plan": plan,
            "features": csr.features,
            "item_bytes": data.itemsize,
            "bytes": built.nbytes,
            "time_us": round(_time(built, ordinal), 4),
        }


def _time(matrix: Matrix, ordinal: int) -> float:
    """Microseconds of a product."""
    if ordinal == CPU:
        # Whatever else runs on a CPU makes a series slower, never faster.
        repeats = int(np.clip(10_000_000 // max(matrix.nnz, 1), 3, 30))
        return min(matrix.time_products(repeats) for _ in range(4))
    return matrix.time_products(50 if matrix.nnz < 1_000_000 else 30)


def bus_bandwidth(ordinal: int, megabytes: int = 256) -> dict[str, float]:
    """Bytes per second between NumPy arrays and a GPU, "up" and "down"; the CPU needs no bus."""
    if ordinal == CPU:
        return {}
    host = np.ones(megabytes << 17)
    vector = _core.DeviceArray(host.shape, host.dtype, ordinal)
    best = {"up": np.inf, "down": np.inf}
    for _ in range(4):
        for way, move in (("up", vector.upload), ("down", vector.download)):
            start = perf_counter()
            move(host)
            _core.synchronize(0, ordinal)
            best[way] = min(best[way], perf_counter() - start)
    return {way: host.nbytes / seconds for way, seconds in best.items()}

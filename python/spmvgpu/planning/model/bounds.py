"""What a product takes at least, which says of many formats that they need not be planned.

Plans count what a format stores of the matrix at hand, which takes passes over it. A format that is predicted
to be slow even if the matrix suited it perfectly needs none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from ... import _core
from ...formats import plan_csr
from . import roofline

# A band, which every format stores with hardly any padding. Of long rows it takes less, as what it keeps of
# every row weighs little there.
_ROWS, _DIAGONALS, _LESS = 8192, 8, 0.85


def least_time_us(
    format: str,
    options: Mapping[str, Any],
    fit: roofline.Fit,
    correction: float,
    features: Mapping[str, Any],
    dtype: np.dtype[Any],
    machine: roofline.Machine,
    ordinal: int,
) -> float:
    """Microseconds predicted of a variant if the matrix suits it; 0 if only its plan can say that."""
    nnz = features["nnz"]
    stored = _LESS * nnz * _least_bytes(format, dtype, ordinal, machine.processors)
    plan = {"slots": nnz, "bytes": stored, "padding": 1.0, "options": {}, "counts": defaultdict(float)}
    work = roofline.Work(features, dtype.itemsize, plan, machine)
    try:
        terms = roofline.terms_of(roofline.variant_name(format, options), work)
    except KeyError:  # one of the options that the plan chooses
        return 0.0
    return fit.time(terms, correction)


@lru_cache(maxsize=256)
def _least_bytes(format: str, dtype: np.dtype[Any], ordinal: int, processors: int) -> float:
    """Bytes per entry; 0 of a format that does not hold every matrix."""
    offsets = np.arange(_DIAGONALS) - _DIAGONALS // 2
    band = sp.diags_array(np.ones((_DIAGONALS, _ROWS), dtype), offsets=offsets, shape=(_ROWS, _ROWS)).tocsr()
    try:
        plan = plan_csr(band, format, ordinal, {}, processors)
    except _core.FormatError:
        return 0.0
    return float(plan["bytes"]) / int(band.nnz)

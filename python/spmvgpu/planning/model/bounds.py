"""What a product takes at least, which says of many formats that they need not be planned.

Plans count what a format stores of the matrix at hand, which takes passes over it. A format that is predicted
to be slow even if the matrix suited it as well as its features allow needs none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ... import _core
from ...formats import format_options, plan_csr
from . import roofline

# A symmetric band, which every format stores with hardly any padding. Of long rows it takes less, as what it
# keeps of every row, or of the diagonal, weighs little there.
_ROWS, _DIAGONALS, _LESS = 8192, 9, 0.85

# With so many times more slots than entries a format is beaten by those that store none but entries; where
# there are few slots, all of them take no time.
_MOST_SLOTS, _FEW_SLOTS = 8, 1 << 20

# They store as many slots of every row as the longest one needs, or as there are diagonals, some of which may
# be mirror images of others.
_AS_LONG_AS_THE_LONGEST = {"ellpack", "ellpack_r", "ellr_t"}
_A_SLOT_FOR_EACH_DIAGONAL = {"dia", "sdia"}

# Many rows of few kinds lie on few diagonals: with so many times more of these than a row has entries, hardly
# two rows are the same.
_STENCIL, _MANY_ROWS, _MOST_STENCILS = "stencil", 8192, 8

# The least and the largest values of the options that a plan chooses and a time depends on.
_SLICES = {"warps_per_slice": 1, "sigma": 1}, {"warps_per_slice": 32, "sigma": 16384}
_EXTREMES: dict[str, tuple[dict[str, int], ...]] = {
    "csr kernel=shuffle": ({"lanes_per_row": 1}, {"lanes_per_row": 32}),
    "ellr_t": ({"threads_per_row": 1}, {"threads_per_row": 32}),
    "sell": _SLICES,
    "bsell": ({"warps_per_slice": 1, "sigma": 1}, {"warps_per_slice": 8, "sigma": 16384}),
    "packed_sell": _SLICES,
}


class _Stored(NamedTuple):
    """What a format stores of a band, per entry."""

    slots: float
    bytes: float
    counts: Mapping[str, float]


def at_best(features: Mapping[str, Any]) -> dict[str, Any]:
    """Features of which those that depend on how many lanes a row gets are the least of all."""
    return {
        name: [min(value)] * len(value) if isinstance(value, list) else value
        for name, value in features.items()
    }


def least_time_us(
    format: str,
    options: Mapping[str, Any],
    fit: roofline.Fit,
    correction: float,
    case: roofline.Case,
    dtype: np.dtype[Any],
    ordinal: int,
) -> float:
    """Microseconds predicted of a variant if the matrix, whose features are `at_best`, suits it."""
    features = case.features
    entries = features["nnz"]
    if format in _AS_LONG_AS_THE_LONGEST:
        entries = max(entries, features["rows"] * features["longest"])
    elif format in _A_SLOT_FOR_EACH_DIAGONAL:
        entries = max(entries, features["rows"] * max(features["longest"], features["diagonals"]))
    if entries > max(_MOST_SLOTS * features["nnz"], _FEW_SLOTS) or (
        format == _STENCIL and _rows_differ(features)
    ):
        return float("inf")
    block = _largest_block(features) if format == "bsell" else 1
    stored = _stored_of_a_band(format, dtype, ordinal, case.machine.processors, block)
    plan = {
        "slots": entries if stored.slots >= 1 else _LESS * entries * stored.slots,
        "bytes": _LESS * entries * stored.bytes,
        "padding": 1.0,
        "counts": defaultdict(float, stored.counts if format == "bsell" else {}),
    }
    name = roofline.variant_name(format, options)
    found = [
        roofline.terms_of(name, roofline.Work(case, plan | {"options": extreme}))
        for extreme in _EXTREMES.get(name, ({},))
    ]
    terms = found[0] if len(found) == 1 else {term: min(some[term] for some in found) for term in found[0]}
    return fit.time(terms, correction)


def _rows_differ(features: Mapping[str, Any]) -> bool:
    many = features["rows"] > _MANY_ROWS
    mean = max(features["nnz"] / max(features["rows"], 1), 1.0)
    return many and bool(features["diagonals"] > _MOST_STENCILS * mean)


def _largest_block(features: Mapping[str, Any]) -> int:
    """The largest block that a matrix of so many rows, columns and entries can consist of."""
    return max(
        block
        for block in _block_sizes()
        if features["nnz"] % block**2 == 0 and features["rows"] % block == features["cols"] % block == 0
    )


@lru_cache(maxsize=1)
def _block_sizes() -> list[int]:
    allowed: list[int] = next(o["allowed"] for o in format_options("bsell") if o["name"] == "max_block")
    return allowed


@lru_cache(maxsize=256)
def _stored_of_a_band(
    format: str, dtype: np.dtype[Any], ordinal: int, processors: int, block: int
) -> _Stored:
    """Of a band of entries, or of blocks. Nothing of a format that does not hold it."""
    offsets, rows = np.arange(_DIAGONALS) - _DIAGONALS // 2, _ROWS // block
    band = sp.diags_array(np.ones((_DIAGONALS, rows), dtype), offsets=offsets, shape=(rows, rows)).tocsr()
    if block > 1:
        band = sp.kron(band, np.ones((block, block), dtype), format="csr")
    try:
        plan = plan_csr(band, format, ordinal, {}, processors)
    except _core.FormatError:
        return _Stored(0.0, 0.0, {})
    return _Stored(float(plan["slots"]) / int(band.nnz), float(plan["bytes"]) / int(band.nnz), plan["counts"])

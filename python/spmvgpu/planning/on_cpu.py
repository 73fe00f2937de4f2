"""What a CPU's operator is where nothing was timed before: chosen by a look at some rows, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..formats import Choice, formats, traits

#: Why the CPU has csr where nothing was timed before.
CSR_ON_CPU = (
    "on a CPU, csr needs no conversion; tune='full' also times the other formats, once for all matrices like "
    "this one"
)

#: Why it has a format that needs rows that repeat.
RUNS_ON_CPU = (
    "most sampled rows have the same values as the next row, so the CPU multiplies runs of rows without "
    "reading the matrix"
)

# Below so many entries a product takes less time than the look at the rows.
_LEAST_NNZ = 100_000
_SAMPLE = 512
# Runs of eight rows are multiplied side by side, shorter ones row by row.
_LEAST_ALIKE = 7 / 8


def choices_on_cpu(csr: Any) -> Iterator[Choice]:
    """The formats to build a matrix in, the second if the first refuses it.

    Parameters
    ----------
    csr : csr_array
        Canonical, in host memory.
    """
    if csr.nnz >= _LEAST_NNZ and share_like_next(csr) >= _LEAST_ALIKE:
        for name in formats():
            if traits(name).needs_rows_that_repeat:
                yield Choice(name, {}, RUNS_ON_CPU)
    yield Choice("csr", {}, CSR_ON_CPU)


def share_like_next(csr: Any) -> float:
    """How many rows of a sample are like the next one: the same distances from the diagonal and values.

    As a part of 1; 0 of a matrix of one row.
    """
    if csr.shape[0] < 2:
        return 0.0
    rows = np.unique(np.linspace(0, csr.shape[0] - 2, _SAMPLE, dtype=np.int64))
    begin, middle, end = (csr.indptr[rows + k].astype(np.int64) for k in range(3))
    lengths = middle - begin
    same_length = lengths == end - middle
    # First the first entries, for long rows are seldom alike: then all those of rows in which these are.
    alike = same_length & (lengths > 0)
    alike[alike] = _are_alike(csr, begin[alike], middle[alike])
    compared = np.where(alike, lengths, 0)
    before = np.concatenate(([0], np.cumsum(compared)))
    entries = np.arange(before[-1]) + np.repeat(begin - before[:-1], compared)
    differ = ~_are_alike(csr, entries, entries + np.repeat(compared, compared))
    different = np.add.reduceat(np.append(differ, False), before[:-1], dtype=np.int64)
    alike &= different == 0
    return float(np.mean(alike | (same_length & (lengths == 0))))


def _are_alike(csr: Any, entries: Any, others: Any) -> Any:
    """Whether entries of rows are like those of the next ones at these places."""
    is_beside = csr.indices[others] == csr.indices[entries] + 1
    return is_beside & (csr.data[others] == csr.data[entries])
